/* mesh_verify: compares the local programs of all processes of a mesh with the global program, both
 * in the interpreter. */
#include "moec.h"

#include "passes.h"

#include "base/must.h"
#include "ir/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Results agree if they differ by this share of their norm, or by twice as much as rounding errors
 * of this size in every value move them. Gradients much smaller than the largest are compared with
 * a share of it. */
static const double mesh_limit = 1e-12, mesh_noise = 8 * 0x1p-53, noise_factor = 2,
                    least_gradient = 1e-3;
enum { MESH_NOISES = 4 };

/* ---- values ---- */

static uint64_t mix_seed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* In 0 .. 1, by tensor name and element. */
static double value_draw(uint64_t seed, const char *name, long element) {
    for (; *name; name++) seed = (seed ^ (unsigned char)*name) * 0x100000001B3u;
    return (double)(mix_seed(mix_seed(seed + 0x9E3779B97F4A7C15u * ((uint64_t)element + 1))) >>
                    11) *
           0x1p-53;
}

/* Constants are spread, so that factors of 0 or 1 hide nothing. */
static double drawn_element(const Tensor *tensor, uint64_t seed, long element, long vocabulary) {
    const double draw = value_draw(seed, tensor->name, element);
    const Init *init = &tensor->init;
    if (tensor->role == ROLE_INPUT) {
        if (tensor->input == MOEC_INPUT_SCALAR) return 1;
        const long most = tensor->vocabulary ? tensor->vocabulary : vocabulary ? vocabulary : 8;
        return tensor->type == TYPE_INT ? floor(draw * (double)most) : 2 * draw - 1;
    }
    if (init->kind == MOEC_INIT_UNIFORM) return init->a + (init->b - init->a) * draw;
    if (init->kind == MOEC_INIT_CONSTANT) return init->a + 0.2 * draw - 0.1;
    return init->a + init->b * sqrt(12.0) * (draw - 0.5);
}

static bool mesh_gives(const Tensor *tensor) {
    return tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE ||
           tensor->role == ROLE_INPUT;
}

static void put_element(Interpreter *interpreter, const Tensor *tensor, long element,
                        double value) {
    if (tensor->type == TYPE_INT)
        interpreter_int(interpreter, tensor)[element] = (long)value;
    else
        interpreter_real(interpreter, tensor)[element] = value;
}

static double read_element(Interpreter *interpreter, const Tensor *tensor, long element) {
    return tensor->type == TYPE_INT ? (double)interpreter_int(interpreter, tensor)[element]
                                    : interpreter_real(interpreter, tensor)[element];
}

/* ---- comparison ---- */

typedef struct MeshTest {
    Program *whole, *local;
    int ranks, parts; /* parts: micro-batches, 1 or one for each process */
    Interpreter **globals, **noisy[MESH_NOISES]; /* by part */
    MeshInterpreter *mesh;
    uint64_t seed;
    double largest; /* norm of a gradient */
    MoecMeshReport *report;
} MeshTest;

static Tensor *tensor_named(const Program *program, const char *name) {
    return list_named(&program->tensors, offsetof(Tensor, name), name);
}

/* The number in the global tensor of an element of a process. */
static long global_element(const MeshTest *test, const Tensor *local, int rank, long element) {
    long global = 0, stride = 1;
    for (int i = local->rank - 1; i >= 0; i--) {
        const long size = local->axes[i]->size;
        long at = element % size, parts = 1;
        element /= size;
        for (int axis = 0; axis < MESH_AXES; axis++) {
            const Placement *placed = &local->placed[axis];
            const long processes = test->local->mesh[axis];
            if (placed->kind != PLACED_DIVIDED || placed->dimension != i) continue;
            if (axis == MESH_DATA) {
                at += rank * size;
                parts = processes;
            } else if (local->role == ROLE_GRADIENT) { /* slots of own keys and processes */
                at = rank % processes * (size / processes) + at / processes;
            }
        }
        global += stride * at;
        stride *= size * parts;
    }
    return global;
}

/* The number of tokens: inputs without one draw from as many values. */
static long most_tokens(const Program *whole) {
    long most = 0;
    LIST_EACH(const Tensor, tensor, &whole->tensors)
        if (tensor->role == ROLE_INPUT && tensor->vocabulary > most) most = tensor->vocabulary;
    return most;
}

/* An interpreter of the global program with the values of the seed. part: of its inputs. */
static Interpreter *open_whole(const MeshTest *test, int part) {
    Interpreter *interpreter = interpreter_new(test->whole);
    const long vocabulary = most_tokens(test->whole);
    LIST_EACH(const Tensor, tensor, &test->whole->tensors)
        for (long j = 0; mesh_gives(tensor) && j < tensor_elements(tensor); j++)
            put_element(interpreter, tensor, j,
                        drawn_element(
                            tensor, test->seed + (tensor->role == ROLE_INPUT ? (uint64_t)part : 0),
                            j, vocabulary));
    return interpreter;
}

/* The values of the global program, or the part of each process. */
static void divide_values(const MeshTest *test) {
    LIST_EACH(const Tensor, tensor, &test->whole->tensors) {
        const Tensor *local = mesh_gives(tensor) ? tensor_named(test->local, tensor->name) : NULL;
        for (int rank = 0; local && rank < test->ranks; rank++)
            for (long j = 0; j < tensor_elements(local); j++)
                put_element(mesh_interpreter_rank(test->mesh, rank), local, j,
                            read_element(test->globals[rank % test->parts], tensor,
                                         global_element(test, local, rank, j)));
    }
}

static double norm_of(const double *values, long count) {
    double squares = 0;
    for (long i = 0; i < count; i++) squares += values[i] * values[i];
    return sqrt(squares);
}

/* The values of a tensor in the global program: of a part, or the sum of a gradient over all. */
static double *global_values(const MeshTest *test, Interpreter *const *globals,
                             const Tensor *tensor, int part) {
    const long count = tensor_elements(tensor);
    double *values = calloc((size_t)count + 1, sizeof *values);
    if (!values) abort();
    for (int i = 0; i < test->parts; i++)
        for (long j = 0; j < count && (i == part || tensor->role == ROLE_GRADIENT); j++)
            values[j] += read_element(globals[i], tensor, j);
    return values;
}

/* The largest distance of the processes of a part from the global values: of the sum of their
 * terms, or of each of their copies. */
static double mesh_distance(const MeshTest *test, const Tensor *local, const double *expected,
                            long count, int part) {
    const bool terms = local->placed[MESH_DATA].kind == PLACED_TERMS ||
                       (test->parts > 1 && local->role == ROLE_GRADIENT);
    double *sum = calloc((size_t)count + 1, sizeof *sum), most = 0;
    if (!sum) abort();
    for (int rank = 0; rank < test->ranks; rank++) {
        double squares = 0;
        if (!terms && rank % test->parts != part) continue;
        for (long j = 0; j < tensor_elements(local); j++) {
            const long at = global_element(test, local, rank, j);
            const double value = read_element(mesh_interpreter_rank(test->mesh, rank), local, j);
            MUST(at < count);
            sum[at] += value;
            squares += (value - expected[at]) * (value - expected[at]);
        }
        if (!terms && !(sqrt(squares) <= most)) most = sqrt(squares);
    }
    for (long j = 0; j < count; j++) sum[j] -= expected[j];
    if (terms) most = norm_of(sum, count);
    free(sum);
    return most;
}

/* The global programs with rounding errors. */
static void open_noisy(MeshTest *test, int number) {
    Interpreter **all = arena_alloc(test->whole->arena, (size_t)test->parts * sizeof *all);
    for (int part = 0; part < test->parts; part++) {
        all[part] = open_whole(test, part);
        interpreter_noise(all[part], mesh_noise, (uint64_t)number + 1);
        interpreter_follow(all[part], test->globals[part]);
        interpreter_run(all[part], test->seed + (uint64_t)part, true);
    }
    test->noisy[number] = all;
    test->report->noise_runs++;
}

/* True if rounding errors can move the tensor that far. */
static bool noise_moves(MeshTest *test, const Tensor *tensor, const double *expected, long count,
                        int part, double distance) {
    double most = 0;
    for (int i = 0; i < MESH_NOISES && distance > noise_factor * most; i++) {
        if (!test->noisy[i]) open_noisy(test, i);
        double *moved = global_values(test, test->noisy[i], tensor, part);
        for (long j = 0; j < count; j++) moved[j] -= expected[j];
        most = fmax(most, norm_of(moved, count));
        free(moved);
    }
    return distance <= noise_factor * most;
}

static bool mesh_compares(const Tensor *tensor) {
    return tensor->role == ROLE_OUTPUT || tensor->role == ROLE_GRADIENT ||
           tensor->role == ROLE_STATE;
}

static void compare_part(MeshTest *test, const Tensor *tensor, const Tensor *local, int part) {
    MoecMeshReport *report = test->report;
    const long count = tensor_elements(tensor);
    double *expected = global_values(test, test->globals, tensor, part);
    double norm = norm_of(expected, count);
    if (tensor->role == ROLE_GRADIENT) norm = fmax(norm, least_gradient * test->largest);
    if (norm == 0) norm = 1;
    const double distance = mesh_distance(test, local, expected, count, part);
    double error = distance / norm;
    bool good = error <= mesh_limit;
    if (!good && noise_moves(test, tensor, expected, count, part, distance)) {
        report->amplified++;
        good = true;
    } else if (!(error <= report->error)) {
        report->error = error;
        report->worst = arena_format(
            test->whole->arena, "%s%s", tensor->role == ROLE_GRADIENT ? "gradient of " : "",
            tensor->role == ROLE_GRADIENT ? tensor->of->path : tensor->name);
    }
    report->agrees &= good;
    free(expected);
}

static void compare_tensor(MeshTest *test, const Tensor *tensor) {
    const Tensor *local = tensor_named(test->local, tensor->name);
    const int parts = tensor->role == ROLE_GRADIENT ? 1 : test->parts;
    MUST(local);
    for (int part = 0; part < parts; part++) compare_part(test, tensor, local, part);
    test->report->compared++;
}

static void compare_results(MeshTest *test) {
    const Program *whole = test->whole;
    for (int pass = 0; pass < 2; pass++)
        LIST_EACH(const Tensor, tensor, &whole->tensors) {
            if (!mesh_compares(tensor)) continue;
            if (pass) {
                compare_tensor(test, tensor);
            } else if (tensor->role == ROLE_GRADIENT) {
                double *values = global_values(test, test->globals, tensor, 0);
                test->largest = fmax(test->largest, norm_of(values, tensor_elements(tensor)));
                free(values);
            }
        }
}

static bool is_exchange(const Statement *statement) {
    return statement->row && statement->row->exchanges;
}

static void count_exchange(Statement *statement, void *data) {
    *(int *)data += is_exchange(statement);
}

/* Runs the global programs, then the local one. NULL, or a message. */
static const char *run_programs(MeshTest *test) {
    const char *message = NULL;
    for (int part = 0; part < test->parts; part++) test->globals[part] = open_whole(test, part);
    test->mesh = mesh_interpreter_new(test->local);
    divide_values(test);
    for (int part = 0; part < test->parts && !message; part++)
        message = interpreter_run(test->globals[part], test->seed + (uint64_t)part, true);
    return message ? message
                   : mesh_interpreter_run(test->mesh, test->seed, true,
                                          (const Interpreter *const *)test->globals, test->parts);
}

const MoecMeshReport *mesh_compare(Program *whole, Program *local, uint64_t seed) {
    MeshTest test = {.whole = whole, .local = local, .seed = seed};
    Arena *arena = whole->arena;
    MoecMeshReport *report = arena_alloc(arena, sizeof *report);
    test.ranks = mesh_interpreter_count(local);
    test.parts = local->mesh[MESH_DATA] == 1 ? test.ranks : 1;
    test.globals = arena_alloc(arena, (size_t)test.parts * sizeof *test.globals);
    *report = (MoecMeshReport){.agrees = true, .processes = test.ranks};
    block_walk(&test.local->body, count_exchange, &report->collectives);
    test.report = report;
    report->message = run_programs(&test);
    if (!report->message) compare_results(&test);
    if (report->message)
        report->message = arena_format(arena, "%s", report->message), report->agrees = false;
    mesh_interpreter_free(test.mesh);
    for (int part = 0; part < test.parts; part++) {
        for (int i = 0; i < MESH_NOISES; i++)
            if (test.noisy[i]) interpreter_free(test.noisy[i][part]);
        interpreter_free(test.globals[part]);
    }
    return report;
}
