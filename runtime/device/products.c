#include "device/device.h"

#include "prelude.h"

#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* True if the own kernels multiply bf16 faster than f32, by AMX or by vector instructions. */
static bool ours_of_bf16(void) {
#ifdef __x86_64__
    const unsigned features = 7, amx_bf16 = 1u << 22;
    unsigned a, b, c, d;
    if (__get_cpuid_count(features, 0, &a, &b, &c, &d) && (d & amx_bf16)) return true;
#endif
    return moec_fast_pairs();
}

#ifdef HAVE_DNNL

#include "base/lazy_library.h"
#include "base/message.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

/* ---- the library ----
 *
 * The oneDNN functions that matrix products use. The library is loaded at the first product: it
 * depends on the C++ and OpenCL libraries, which would add 5 ms to the start of every other
 * command. */
#if DNNL_VERSION_MAJOR >= 3
#define DNNL_OWN_FUNCTIONS(F)                                                                      \
    F(matmul_primitive_desc_create)                                                                \
    F(memory_desc_create_with_strides)                                                             \
    F(memory_desc_destroy)
#else
#define DNNL_OWN_FUNCTIONS(F)                                                                      \
    F(matmul_desc_init)                                                                            \
    F(memory_desc_init_by_strides)                                                                 \
    F(primitive_desc_create)
#endif

#define DNNL_FUNCTIONS(F)                                                                          \
    DNNL_OWN_FUNCTIONS(F)                                                                          \
    F(engine_create)                                                                               \
    F(engine_destroy)                                                                              \
    F(get_effective_cpu_isa)                                                                       \
    F(memory_create)                                                                               \
    F(memory_desc_get_size)                                                                        \
    F(memory_destroy)                                                                              \
    F(memory_set_data_handle)                                                                      \
    F(post_ops_append_sum)                                                                         \
    F(post_ops_create)                                                                             \
    F(post_ops_destroy)                                                                            \
    F(primitive_attr_create)                                                                       \
    F(primitive_attr_destroy)                                                                      \
    F(primitive_attr_set_post_ops)                                                                 \
    F(primitive_attr_set_scratchpad_mode)                                                          \
    F(primitive_create)                                                                            \
    F(primitive_desc_destroy)                                                                      \
    F(primitive_desc_query)                                                                        \
    F(primitive_desc_query_md)                                                                     \
    F(primitive_destroy)                                                                           \
    F(primitive_execute)                                                                           \
    F(stream_create)                                                                               \
    F(stream_destroy)                                                                              \
    F(stream_wait)

typedef struct DnnlLibrary {
#define DNNL_MEMBER(name) __typeof__(dnnl_##name) *name;
    DNNL_FUNCTIONS(DNNL_MEMBER)
#undef DNNL_MEMBER
} DnnlLibrary;

/* The API differs between major versions: only the version of the build is loaded. Debian 13 and
 * later have no name with the major version alone. */
#define TEXT(number) #number
#define NAME_OF_MAJOR(major) "libdnnl.so." TEXT(major)
#define NAME_OF_MINOR(major, minor) NAME_OF_MAJOR(major) "." TEXT(minor)
static const char *const library_names[] = {
    NAME_OF_MAJOR(DNNL_VERSION_MAJOR), NAME_OF_MINOR(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR), NULL};

static DnnlLibrary dnnl;

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static bool is_open;

static void open_library(void) {
    const LibrarySymbol functions[] = {
#define DNNL_SYMBOL(name) {&dnnl.name, "dnnl_" #name},
        DNNL_FUNCTIONS(DNNL_SYMBOL)
#undef DNNL_SYMBOL
    };
    void *handle = lazy_library_open("", library_names);
    const char *problem = handle ? NULL : dlerror();
    if (handle && lazy_library_take(handle, functions, sizeof functions / sizeof *functions))
        problem = "a function is missing";
    if (problem)
        note_message("matrix products run without oneDNN (%s): %s", library_names[0], problem);
    is_open = !problem;
}

/* Fills `dnnl` once: several threads can load models at the same time. Returns false if the version
 * of the build is not installed; the first failure prints a note. */
static bool dnnl_library_open(void) {
    pthread_once(&opened, open_library);
    return is_open;
}

/* ---- products ---- */

enum { OPERANDS = 3, DIMENSIONS = 4 }; /* a, b, c; two batch dimensions, rows, columns */
enum { SCRATCH = OPERANDS, MEMORIES, SCRATCH_ALIGNMENT = 4096 };

typedef enum EntryState { ENTRY_NEW, ENTRY_READY, ENTRY_DECLINED } EntryState;

/* One product; its primitive is created at first use. */
typedef struct DnnlProduct {
    EntryState state;
    /* a batch is computed one matrix at a time, because oneDNN is slow for its memory layout */
    bool apart;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[MEMORIES];
} DnnlProduct;

struct Products {
    const MoecProduct *products;
    int count;
    bool rounded; /* some product has bf16 operands */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    void *scratch; /* workspace shared by all products, as large as the largest request */
    size_t scratch_bytes;
    DnnlProduct entries[];
};

static bool library_has(dnnl_cpu_isa_t instructions) {
    return (~dnnl.get_effective_cpu_isa() & instructions) == 0;
}

/* True if oneDNN uses AMX tiles for bf16 products. */
static bool library_has_amx(void) {
#ifdef __x86_64__
    return library_has(dnnl_cpu_isa_avx512_core_amx);
#else
    return false;
#endif
}

static bool has_bf16_operands(const MoecProduct *product) {
    return product->a_type == MOEC_BF16 || product->b_type == MOEC_BF16;
}

/* True if rows of b evict each other from the second-level cache and oneDNN does not copy them: it
 * copies b only if the row stride is a power of two. */
static bool rows_collide(const MoecProduct *product) {
    const long stride = product->b_k * 4, apart = stride & -stride;
    return product->b_n == 1 && apart >= 2048 && apart != stride && product->k * apart >= 1 << 20;
}

/* True if the program's own kernel is faster. This holds for few rows (limited by memory reads) and
 * below a size where the call overhead of oneDNN dominates. Without AMX, oneDNN accumulates into c
 * in a separate pass. It transposes a bf16 operand `a` slowly, as weight gradients require; in f32
 * it is no faster and needs compilation. Some strides run at half speed. Measured with
 * tests/bench/kernels.c. The few f32 products of a bf16 program, such as those of routers, use the
 * own kernel, because the results of oneDNN in f32 depend on the number of threads. */
static bool is_ours(const Products *products, const MoecProduct *product) {
    if (product->b_type != MOEC_F32 && product->b_type != MOEC_BF16) return true;
    const bool rounded = has_bf16_operands(product);
    if (rounded && !products_of_bf16()) return true;
    if (!rounded && products->rounded) return true;
    bool columns = product->a_k != 1;
    if ((product->accumulate || columns) && !(rounded && library_has_amx())) return true;
    if (!rounded && rows_collide(product)) return true;
    double multiplies = (double)product->m * (double)product->n * (double)product->k;
    /* oneDNN is slow for many small products */
    bool batched = product->batch[0] * product->batch[1] > 1;
    return product->m <= 4 || multiplies < (batched ? 65536 : 8192);
}

/* ---- differences between versions 2 and 3 ---- */

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t Layout;
typedef const_dnnl_memory_desc_t SpaceLayout;

static bool layout_make(Layout *layout, const dnnl_dims_t sizes, const dnnl_dims_t strides,
                        dnnl_data_type_t type) {
    return dnnl.memory_desc_create_with_strides(layout, DIMENSIONS, sizes, type, strides) ==
           dnnl_success;
}

static void layout_free(Layout *layout) {
    if (*layout) dnnl.memory_desc_destroy(*layout);
}

static dnnl_status_t memory_make(dnnl_memory_t *memory, Layout *layout, dnnl_engine_t engine) {
    return dnnl.memory_create(memory, *layout, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t append_sum(dnnl_post_ops_t operations) {
    return dnnl.post_ops_append_sum(operations, 1.0f, 0, dnnl_f32);
}

static dnnl_status_t describe_operand(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                      Layout *layouts, dnnl_primitive_attr_t attributes) {
    return dnnl.matmul_primitive_desc_create(description, engine, layouts[0], layouts[1], NULL,
                                             layouts[2], attributes);
}

#else

typedef dnnl_memory_desc_t Layout;
typedef const dnnl_memory_desc_t *SpaceLayout;

static bool layout_make(Layout *layout, const dnnl_dims_t sizes, const dnnl_dims_t strides,
                        dnnl_data_type_t type) {
    return dnnl.memory_desc_init_by_strides(layout, DIMENSIONS, sizes, type, strides) ==
           dnnl_success;
}

static void layout_free(Layout *layout) {
    (void)layout;
}

static dnnl_status_t memory_make(dnnl_memory_t *memory, Layout *layout, dnnl_engine_t engine) {
    return dnnl.memory_create(memory, layout, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t append_sum(dnnl_post_ops_t operations) {
    return dnnl.post_ops_append_sum(operations, 1.0f);
}

static dnnl_status_t describe_operand(dnnl_primitive_desc_t *description, dnnl_engine_t engine,
                                      Layout *layouts, dnnl_primitive_attr_t attributes) {
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status =
        dnnl.matmul_desc_init(&matmul, &layouts[0], &layouts[1], NULL, &layouts[2]);
    if (status != dnnl_success) return status;
    return dnnl.primitive_desc_create(description, &matmul, attributes, engine, NULL);
}

#endif

/* ---- creation of primitives ---- */

/* Batch strides of a dimension of size 1 are arbitrary here, but oneDNN requires them to be nonzero
 * and without overlap. */
static bool operand_layout(Layout *layout, const MoecProduct *product, const long *batch_strides,
                           const long inner[4], MoecType type) {
    dnnl_dims_t sizes = {product->batch[0], product->batch[1], inner[0], inner[1]};
    long whole =
        inner[0] * inner[2] > inner[1] * inner[3] ? inner[0] * inner[2] : inner[1] * inner[3];
    dnnl_dims_t strides = {batch_strides[0], batch_strides[1], inner[2], inner[3]};
    if (product->batch[1] == 1) strides[1] = whole;
    if (product->batch[0] == 1) strides[0] = strides[1] * product->batch[1];
    return layout_make(layout, sizes, strides, type == MOEC_BF16 ? dnnl_bf16 : dnnl_f32);
}

static bool all_layouts(Layout layouts[OPERANDS], const MoecProduct *product) {
    const long a[] = {product->m, product->k, product->a_m, product->a_k};
    const long b[] = {product->k, product->n, product->b_k, product->b_n};
    const long c[] = {product->m, product->n, product->c_m, 1};
    return operand_layout(&layouts[0], product, product->a_batch, a, product->a_type) &&
           operand_layout(&layouts[1], product, product->b_batch, b, product->b_type) &&
           operand_layout(&layouts[2], product, product->c_batch, c, product->c_type);
}

static bool reserve_scratch(Products *products, size_t bytes) {
    if (bytes <= products->scratch_bytes) return true;
    free(products->scratch);
    products->scratch_bytes =
        (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    products->scratch = aligned_alloc(SCRATCH_ALIGNMENT, products->scratch_bytes);
    if (!products->scratch) products->scratch_bytes = 0;
    return products->scratch != NULL;
}

static bool make_scratch(Products *products, DnnlProduct *entry,
                         const_dnnl_primitive_desc_t description) {
    SpaceLayout layout = dnnl.primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    return dnnl.memory_create(&entry->memory[SCRATCH], layout, products->engine,
                              DNNL_MEMORY_NONE) == dnnl_success &&
           reserve_scratch(products, dnnl.memory_desc_get_size(layout));
}

/* True for the reference implementation of oneDNN: plain loops, up to a thousand times slower. */
static bool is_reference(const_dnnl_primitive_desc_t description) {
    const char *name = NULL;
    return dnnl.primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name) ==
               dnnl_success &&
           name && strncmp(name, "ref", 3) == 0;
}

static bool make_primitive(Products *products, DnnlProduct *entry, Layout layouts[OPERANDS],
                           bool accumulate) {
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t operations = NULL;
    dnnl_primitive_desc_t description = NULL;
    bool made = dnnl.primitive_attr_create(&attributes) == dnnl_success &&
                dnnl.primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user) ==
                    dnnl_success &&
                dnnl.post_ops_create(&operations) == dnnl_success;
    if (made && accumulate)
        made = append_sum(operations) == dnnl_success &&
               dnnl.primitive_attr_set_post_ops(attributes, operations) == dnnl_success;
    made = made &&
           describe_operand(&description, products->engine, layouts, attributes) == dnnl_success &&
           !is_reference(description) &&
           dnnl.primitive_create(&entry->primitive, description) == dnnl_success &&
           make_scratch(products, entry, description);
    if (description) dnnl.primitive_desc_destroy(description);
    if (operations) dnnl.post_ops_destroy(operations);
    if (attributes) dnnl.primitive_attr_destroy(attributes);
    return made;
}

static void entry_free(DnnlProduct *entry) {
    if (entry->primitive) dnnl.primitive_destroy(entry->primitive);
    for (int i = 0; i < MEMORIES; i++)
        if (entry->memory[i]) dnnl.memory_destroy(entry->memory[i]);
    *entry = (DnnlProduct){.state = ENTRY_DECLINED};
}

static bool entry_fill(Products *products, DnnlProduct *entry, const MoecProduct *product) {
    Layout layouts[OPERANDS] = {0};
    bool made = all_layouts(layouts, product) &&
                make_primitive(products, entry, layouts, product->accumulate);
    for (int i = 0; i < OPERANDS && made; i++)
        made = memory_make(&entry->memory[i], &layouts[i], products->engine) == dnnl_success;
    for (int i = 0; i < OPERANDS; i++) layout_free(&layouts[i]);
    return made;
}

/* A batch without a fast implementation is computed one matrix at a time. A product without any
 * fast implementation uses the program's own kernel. */
static void entry_make(Products *products, DnnlProduct *entry, const MoecProduct *product) {
    MoecProduct single = *product;
    single.batch[0] = single.batch[1] = 1;
    const bool ours = is_ours(products, product);
    bool made = !ours && entry_fill(products, entry, product);
    if (!made && !ours && product->batch[0] * product->batch[1] > 1) {
        entry_free(entry);
        made = entry->apart = entry_fill(products, entry, &single);
    }
    if (made)
        entry->state = ENTRY_READY;
    else
        entry_free(entry);
}

/* ---- public functions ---- */

bool products_of_bf16(void) {
    if (!dnnl_library_open()) return ours_of_bf16();
    return library_has_amx() || (moec_fast_pairs() && library_has(dnnl_cpu_isa_avx512_core_bf16));
}

Products *products_new(const MoecTable *table) {
    if (!dnnl_library_open()) return NULL;
    size_t count = (size_t)table->product_count;
    Products *products = calloc(1, sizeof *products + count * sizeof *products->entries);
    if (!products) return NULL;
    products->products = table->products;
    products->count = table->product_count;
    for (int i = 0; i < products->count; i++)
        products->rounded |= has_bf16_operands(&table->products[i]);
    if (dnnl.engine_create(&products->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl.stream_create(&products->stream, products->engine, dnnl_stream_default_flags) !=
            dnnl_success) {
        products_free(products);
        return NULL;
    }
    return products;
}

size_t products_prepare(Products *products) {
    if (!products) return 0;
    for (int i = 0; i < products->count; i++)
        if (products->entries[i].state == ENTRY_NEW)
            entry_make(products, &products->entries[i], &products->products[i]);
    return products->scratch_bytes;
}

void products_free(Products *products) {
    if (!products) return;
    for (int i = 0; i < products->count; i++) entry_free(&products->entries[i]);
    if (products->stream) dnnl.stream_destroy(products->stream);
    if (products->engine) dnnl.engine_destroy(products->engine);
    free(products->scratch);
    free(products);
}

static size_t offset_of(const long strides[2], long i, long j, MoecType type) {
    return (size_t)(i * strides[0] + j * strides[1]) * (type == MOEC_BF16 ? 2 : 4);
}

static bool run_primitive(Products *products, DnnlProduct *entry, const void *a, const void *b,
                          void *c) {
    /* the API requires writable pointers even for operands that are only read */
    void *handles[MEMORIES] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, c, products->scratch};
    for (int i = 0; i < MEMORIES; i++)
        if (dnnl.memory_set_data_handle(entry->memory[i], handles[i]) != dnnl_success) return false;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, entry->memory[0]},
                                         {DNNL_ARG_WEIGHTS, entry->memory[1]},
                                         {DNNL_ARG_DST, entry->memory[2]},
                                         {DNNL_ARG_SCRATCHPAD, entry->memory[SCRATCH]}};
    return dnnl.primitive_execute(entry->primitive, products->stream, MEMORIES, arguments) ==
               dnnl_success &&
           dnnl.stream_wait(products->stream) == dnnl_success;
}

int products_run(void *self, int index, const void *a, const void *b, void *c,
                 const MoecEpilogue *epilogue) {
    (void)epilogue; /* CPU programs have no epilogues */
    Products *products = self;
    DnnlProduct *entry = &products->entries[index];
    if (entry->state == ENTRY_NEW) entry_make(products, entry, &products->products[index]);
    if (entry->state != ENTRY_READY) return 1;
    const MoecProduct *product = &products->products[index];
    if (!entry->apart) return !run_primitive(products, entry, a, b, c);
    for (long i = 0; i < product->batch[0]; i++)
        for (long j = 0; j < product->batch[1]; j++) {
            const char *one = (const char *)a + offset_of(product->a_batch, i, j, product->a_type),
                       *other =
                           (const char *)b + offset_of(product->b_batch, i, j, product->b_type);
            char *sum = (char *)c + offset_of(product->c_batch, i, j, product->c_type);
            if (!run_primitive(products, entry, one, other, sum)) return 1;
        }
    return 0;
}

#else /* without oneDNN */

bool products_of_bf16(void) {
    return ours_of_bf16();
}

Products *products_new(const MoecTable *table) {
    (void)table;
    return NULL;
}

size_t products_prepare(Products *products) {
    (void)products;
    return 0;
}

void products_free(Products *products) {
    (void)products;
}

int products_run(void *self, int index, const void *a, const void *b, void *c,
                 const MoecEpilogue *epilogue) {
    (void)epilogue; /* CPU programs have no epilogues */
    (void)self, (void)index, (void)a, (void)b, (void)c;
    return 1;
}

#endif

MoecProduct plain_product(long m, long n, long k) {
    return (MoecProduct){
        .m = m, .n = n, .k = k, .a_m = k, .a_k = 1, .b_k = n, .b_n = 1, .c_m = n, .batch = {1, 1}};
}
