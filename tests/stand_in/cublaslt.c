/* cublaslt: a replacement for cuBLASLt without a GPU: the functions that the runtime calls, as loops over the memory of the
 * simulated device. Like the library, it checks layouts, alignments, workspaces and algorithms.
 *
 * Every product has two algorithms; the first is much slower. STAND_IN_LOG names a log file with one line per product: the
 * numbers of the algorithm and of the epilogue, "added" if the addend is not the result matrix, "scaled" if there is a factor.
 * With STAND_IN_FAILS it accepts every product and fails to compute it; with STAND_IN_FAILS=captured only during a stream
 * capture.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { F32 = 0, BF16 = 14, COMPUTE_F32 = 68, COMPUTE_BF16 = 75 };
enum { GOOD = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { NONE = 1, BIAS = 4, GELU = 32, KEEP = 128, GELU_BACK = 192 }; /* epilogues */
enum { MARK = 0x5ea1, SLOW_NANOSECONDS = 4000000 };

typedef struct Product {
    int compute, scale;
    int32_t transposed[2];
    uint32_t epilogue;
    const char *bias;
    char *kept;
    int64_t kept_leading;
} Product;

typedef struct Layout {
    int type;
    uint64_t rows, columns;
    int64_t leading, step;
    int batch;
} Layout;

typedef struct Preference {
    uint64_t workspace;
    uint32_t alignment[4];
} Preference;

typedef struct Choice {
    uint64_t algorithm[8]; /* magic number, number, alignment */
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} Choice;

/* One product on its way through the stream. */
typedef struct Job {
    Product product;
    Layout a, b, c, d;
    const char *a_data, *b_data, *c_data;
    char *d_data;
    float alpha, beta;
    uint64_t number;
    struct Job *before;
} Job;

static Job *jobs; /* all jobs; graphs may use them until the library is unloaded */

/* ---- descriptions ---- */

int cublasLtCreate(void **handle) {
    *handle = malloc(1);
    return GOOD;
}

int cublasLtDestroy(void *handle) {
    free(handle);
    for (Job *before; jobs; jobs = before) {
        before = jobs->before;
        free(jobs);
    }
    return GOOD;
}

int cublasLtGetProperty(int part, int *value) {
    *value = part + 1;
    return GOOD;
}

int cublasLtMatmulDescCreate(Product **product, int compute, int scale) {
    *product = calloc(1, sizeof **product);
    (*product)->compute = compute;
    (*product)->scale = scale;
    (*product)->epilogue = NONE;
    return (compute == COMPUTE_F32 || compute == COMPUTE_BF16) && scale == F32 ? GOOD : NOT_SUPPORTED;
}

int cublasLtMatmulDescSetAttribute(Product *product, int attribute, const void *value, size_t bytes) {
    void *places[] = {[3] = &product->transposed[0], [4] = &product->transposed[1], [7] = &product->epilogue,
                      [8] = &product->bias,          [11] = &product->kept,         [12] = &product->kept_leading};
    if (attribute < 3 || attribute > 12 || !places[attribute] || bytes != (attribute < 8 ? 4u : 8u)) return INVALID_VALUE;
    memcpy(places[attribute], value, bytes);
    return GOOD;
}

int cublasLtMatmulDescDestroy(Product *product) {
    free(product);
    return GOOD;
}

int cublasLtMatrixLayoutCreate(Layout **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    *layout = calloc(1, sizeof **layout);
    **layout = (Layout){.type = type, .rows = rows, .columns = columns, .leading = leading, .batch = 1};
    return (type == F32 || type == BF16) && (uint64_t)leading >= rows ? GOOD : INVALID_VALUE;
}

int cublasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const void *value, size_t bytes) {
    if (attribute == 5 && bytes == 4)
        memcpy(&layout->batch, value, bytes);
    else if (attribute == 6 && bytes == 8)
        memcpy(&layout->step, value, bytes);
    else
        return INVALID_VALUE;
    return GOOD;
}

int cublasLtMatrixLayoutDestroy(Layout *layout) {
    free(layout);
    return GOOD;
}

int cublasLtMatmulPreferenceCreate(Preference **preference) {
    *preference = calloc(1, sizeof **preference);
    return GOOD;
}

int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, size_t bytes) {
    if (attribute == 1 && bytes == 8)
        memcpy(&preference->workspace, value, bytes);
    else if (attribute >= 5 && attribute <= 8 && bytes == 4)
        memcpy(&preference->alignment[attribute - 5], value, bytes);
    else
        return INVALID_VALUE;
    return GOOD;
}

int cublasLtMatmulPreferenceDestroy(Preference *preference) {
    free(preference);
    return GOOD;
}

/* ---- algorithms ---- */

/* True for a supported epilogue with all its operands. The lines of saved matrices start at multiples of 16 bytes. */
static int can_end(const Product *product, const Layout *d) {
    uint32_t epilogue = product->epilogue;
    int known = epilogue == NONE || epilogue == BIAS || epilogue == GELU_BACK || (epilogue & ~(uint32_t)(BIAS | KEEP)) == GELU;
    int bias = !(epilogue & BIAS) || product->bias;
    int kept = !(epilogue & KEEP) || (product->kept && (uintptr_t)product->kept % 16 == 0 &&
                                      product->kept_leading % 8 == 0 && product->kept_leading >= (int64_t)d->rows);
    return known && bias && kept && (epilogue == NONE || d->batch == 1);
}

/* True if the shapes match. */
static int fits(const Product *product, const Layout *a, const Layout *b, const Layout *c, const Layout *d) {
    uint64_t m = product->transposed[0] ? a->columns : a->rows, k = product->transposed[0] ? a->rows : a->columns;
    uint64_t inner = product->transposed[1] ? b->columns : b->rows, n = product->transposed[1] ? b->rows : b->columns;
    return k == inner && m == c->rows && n == c->columns && a->batch == b->batch && b->batch == c->batch &&
           a->type == b->type && c->rows == d->rows && c->columns == d->columns && c->type == d->type &&
           c->batch == d->batch && can_end(product, d);
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const Product *product, const Layout *a, const Layout *b, const Layout *c,
                                   const Layout *d, const Preference *preference, int wanted, Choice *choices, int *found) {
    *found = 0;
    if (!handle || !fits(product, a, b, c, d) || preference->workspace < 1024) return INVALID_VALUE;
    for (int i = 0; i < wanted && i < 2; i++)
        choices[(*found)++] = (Choice){.algorithm = {MARK, (uint64_t)i, preference->alignment[0]}, .workspace = 1024};
    return GOOD;
}

int cublasLtMatmulAlgoCheck(void *handle, const Product *product, const Layout *a, const Layout *b, const Layout *c,
                            const Layout *d, const uint64_t *algorithm, Choice *checked) {
    if (!handle || !fits(product, a, b, c, d) || algorithm[0] != MARK || algorithm[1] > 1) return NOT_SUPPORTED;
    *checked = (Choice){.workspace = 1024};
    memcpy(checked->algorithm, algorithm, sizeof checked->algorithm);
    return GOOD;
}

/* ---- work ---- */

static float rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&value, &bits, 4);
    return value;
}

static float element(const char *data, int type, int64_t at) {
    float value;
    if (type == F32) {
        memcpy(&value, data + 4 * at, 4);
        return value;
    }
    uint16_t half;
    memcpy(&half, data + 2 * at, 2);
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, 4);
    return value;
}

static void put_element(char *data, int type, int64_t at, float value) {
    uint32_t bits;
    float stored = type == F32 ? value : rounded(value);
    memcpy(&bits, &stored, 4);
    uint16_t half = (uint16_t)(bits >> 16);
    if (type == F32)
        memcpy(data + 4 * at, &value, 4);
    else
        memcpy(data + 2 * at, &half, 2);
}

static float operand(const Job *job, const Layout *layout, const char *data, int transposed, int64_t row, int64_t column,
                     int64_t first) {
    int64_t at = transposed ? column + row * layout->leading : row + column * layout->leading;
    float value = element(data, layout->type, first + at);
    return job->product.compute == COMPUTE_BF16 ? rounded(value) : value;
}

/* Applies the epilogue to a sum. */
static float ended(const Job *job, int64_t row, int64_t column, float x) {
    const Product *product = &job->product;
    if (product->epilogue & BIAS) x += element(product->bias, job->d.type, row);
    int64_t place = row + column * product->kept_leading;
    if (product->epilogue == GELU_BACK) {
        float y = element(product->kept, job->d.type, place), t = tanhf(0.7978845608f * (y + 0.044715f * y * y * y));
        return x * (0.5f * (1 + t) + 0.5f * y * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * y * y));
    }
    if (product->epilogue & KEEP) put_element(product->kept, job->d.type, place, x);
    if (product->epilogue & GELU) x = 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    return x;
}

static void multiply(const Job *job, int64_t batch) {
    const int32_t *transposed = job->product.transposed;
    int64_t inner = (int64_t)(transposed[0] ? job->a.rows : job->a.columns);
    for (int64_t column = 0; column < (int64_t)job->c.columns; column++)
        for (int64_t row = 0; row < (int64_t)job->c.rows; row++) {
            int64_t at = batch * job->c.step + row + column * job->c.leading;
            int64_t to = batch * job->d.step + row + column * job->d.leading;
            double sum = 0;
            for (int64_t k = 0; k < inner; k++)
                sum += (double)operand(job, &job->a, job->a_data, transposed[0], row, k, batch * job->a.step) *
                       (double)operand(job, &job->b, job->b_data, transposed[1], k, column, batch * job->b.step);
            float before = job->beta != 0 ? job->beta * element(job->c_data, job->c.type, at) : 0;
            put_element(job->d_data, job->d.type, to, ended(job, row, column, job->alpha * (float)sum + before));
        }
}

static void run(void *data) {
    const Job *job = data;
    const char *path = getenv("STAND_IN_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fprintf(log, "%d %d%s%s\n", (int)job->number, (int)job->product.epilogue,
                job->beta != 0 && job->c_data != job->d_data ? " added" : "", job->alpha != 1 ? " scaled" : "");
        fclose(log);
    }
    if (job->number == 0) nanosleep(&(struct timespec){.tv_nsec = SLOW_NANOSECONDS}, NULL);
    for (int batch = 0; batch < job->c.batch; batch++) multiply(job, batch);
}

/* A function of the driver next to this library. */
static void *driver_function(const char *name) {
    static void *driver;
    char path[4096];
    snprintf(path, sizeof path, "%s/libcuda.so.1", getenv("MOEC_CUDA"));
    if (!driver) driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return driver ? dlsym(driver, name) : NULL;
}

/* Runs the job in the stream of the driver, where it can be captured. */
static int in_stream(void *stream, Job *job) {
    int (*launch)(void *, void (*)(void *), void *);
    void *symbol = driver_function("cuLaunchHostFunc");
    memcpy(&launch, &symbol, sizeof launch);
    return launch ? launch(stream, run, job) : NOT_SUPPORTED;
}

/* True if a product is to fail now. */
static int fails(void *stream) {
    const char *wanted = getenv("STAND_IN_FAILS");
    int (*query)(void *, int *), status = 0;
    void *symbol = driver_function("cuStreamIsCapturing");
    memcpy(&query, &symbol, sizeof query);
    return wanted && (strcmp(wanted, "captured") != 0 || (!query(stream, &status) && status));
}

int cublasLtMatmul(void *handle, const Product *product, const float *alpha, const char *a, const Layout *a_layout,
                   const char *b, const Layout *b_layout, const float *beta, char *c, const Layout *c_layout, char *d,
                   const Layout *d_layout, const uint64_t *algorithm, const char *workspace, size_t workspace_bytes,
                   void *stream) {
    if (!handle || !fits(product, a_layout, b_layout, c_layout, d_layout)) return INVALID_VALUE;
    if (c == d && (c_layout->leading != d_layout->leading || c_layout->step != d_layout->step)) return INVALID_VALUE;
    if (algorithm[0] != MARK || !workspace || workspace_bytes < 1024) return NOT_SUPPORTED;
    if (fails(stream)) return NOT_SUPPORTED;
    if (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % algorithm[2]) return INVALID_VALUE;
    Job *job = malloc(sizeof *job);
    *job = (Job){*product, *a_layout, *b_layout, *c_layout, *d_layout, a, b, c, d, *alpha, *beta, algorithm[1], jobs};
    jobs = job;
    return in_stream(stream, job);
}
