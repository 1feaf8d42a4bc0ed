/* cases: the shapes and values at which foreign code is compared with its definition.
 *
 *     random     normal numbers
 *     positive   numbers in 0.5..0.75: long sums do not cancel
 *     large      256 times as large: exponentials without a maximum overflow
 *     tiny       2^-20 times as large: constants such as eps dominate
 *     ties       -1, 0 and 1: equal scores, the kinks of activation functions
 *     rows       every position has the same row: some experts receive all tokens, others none
 *     zeros      zeros
 */
#include "tools/against/against.h"

#include "base/memory.h"
#include "base/message.h"
#include "data/random.h"
#include "model/interpreted.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const against_kind_names[AGAINST_KINDS] = {"random", "positive", "large", "tiny",
                                                       "ties",   "rows",     "zeros"};

/* Limits of the interpreter for the cases of one shape, in seconds; of a kernel of a spec, which is
 * compared when a program starts. */
static const double shape_seconds = 20, extern_seconds = 1;

/* Shapes: one position, odd lengths, a block of 16 or 64, one more, and a long sum. */
enum { ALL_KINDS = (1 << AGAINST_KINDS) - 1, RANDOM = 1 << KIND_RANDOM };
static const struct {
    long batch, context;
    int kinds, seeds; /* seeds: of the random kind */
} table[] = {
    {2, 17, ALL_KINDS, 3},
    {1, 1, RANDOM, 1},
    {3, 5, RANDOM, 1},
    {2, 16, RANDOM, 1},
    {1, 64, RANDOM, 1},
    {1, 65, RANDOM | 1 << KIND_ROWS, 1},
    {1, 300, 1 << KIND_POSITIVE, 1},
};
enum { TABLE = sizeof table / sizeof table[0] };

/* ---- numbers ---- */

double against_roundoff(AgainstType type) {
    static const double units[] = {0x1p-24, 0x1p-8, 0x1p-53};
    return units[type];
}

static double against_round(AgainstType type, double value) {
    if (type == AGAINST_F64) return value;
    const float single = (float)value;
    if (type == AGAINST_F32 || !isfinite(single)) return (double)single;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    bits = (bits + 0x7FFFu + (bits >> 16 & 1)) & 0xFFFF0000u;
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    return (double)rounded;
}

/* False after a message for a domain of an unknown input. */
static bool check_domains(const AgainstPlan *plan, const AgainstShape *shape) {
    for (int i = 0; i < plan->domain_count; i++) {
        bool known = false;
        for (int j = 0; j < shape->count; j++)
            known |= shape->tensors[j].role == AGAINST_ARGUMENT &&
                     !strcmp(shape->tensors[j].name, plan->domains[i].name);
        if (!known)
            return error_message("use the name of an argument of the layer or of an input",
                                 "--inputs: '%s' is not an input", plan->domains[i].name);
    }
    return true;
}

/* ---- values ---- */

static double kind_factor(AgainstKind kind) {
    return kind == KIND_LARGE ? 256 : kind == KIND_TINY ? 0x1p-20 : 1;
}

/* A real of a kind; element j of its tensor. */
static double real_of_kind(AgainstKind kind, uint64_t seed, size_t j) {
    switch (kind) {
    case KIND_POSITIVE:
        return 0.5 + 0.25 * random_uniform(seed, j);
    case KIND_TIES:
        return (double)(random_bits(seed, j) % 3) - 1;
    case KIND_ZEROS:
        return 0;
    default:
        return kind_factor(kind) * random_normal(seed, j);
    }
}

/* The same within an interval: its ends are large, its middle is a tie. */
static double real_within(const AgainstDomain *domain, AgainstKind kind, uint64_t seed, size_t j) {
    const double share = random_uniform(seed, j), wide = domain->high - domain->low;
    switch (kind) {
    case KIND_LARGE:
        return share < 0.5 ? domain->low : domain->high;
    case KIND_TINY:
        return domain->low + 0x1p-10 * share * wide;
    case KIND_TIES:
        return domain->low + 0.5 * wide * floor(3 * share);
    case KIND_ZEROS:
        return fmin(fmax(0, domain->low), domain->high);
    default:
        return domain->low + share * wide;
    }
}

static double integer_of_kind(const AgainstDomain *domain, const AgainstTensor *tensor,
                              AgainstKind kind, uint64_t seed, size_t j) {
    const long limit = domain && domain->integers ? domain->integers
                       : tensor->limit            ? tensor->limit
                                                  : 8;
    if (domain && domain->documents) {
        const size_t length = tensor->rank > 1 ? (size_t)tensor->shape[1] : tensor->count;
        double starts = 0;
        for (size_t i = j / length * length + 1; i <= j; i++)
            starts += random_bits(seed, i) % 4 == 0;
        return kind == KIND_ROWS || kind == KIND_ZEROS ? 0 : starts;
    }
    if (kind == KIND_ZEROS || kind == KIND_ROWS) return 0;
    return (double)(random_bits(seed, j) % (uint64_t)limit);
}

/* Elements of one position; of a tensor without positions, all. */
static size_t tensor_row(const AgainstShape *shape, const AgainstTensor *tensor) {
    const bool has_rows =
        tensor->rank > 1 && tensor->shape[0] == shape->batch && tensor->shape[1] == shape->context;
    return has_rows ? tensor->count / (size_t)(tensor->shape[0] * tensor->shape[1]) : tensor->count;
}

static void fill_argument(const AgainstPlan *plan, const AgainstCase *one,
                          const AgainstTensor *tensor, double *values) {
    const AgainstDomain *domain = plan_domain(plan, tensor->name);
    const uint64_t seed = random_seed_for(one->seed, tensor->name);
    const size_t row = tensor_row(one->shape, tensor);
    for (size_t j = 0; j < tensor->count; j++) {
        const size_t at = one->kind == KIND_ROWS ? j % row : j;
        values[j] = tensor->integer ? integer_of_kind(domain, tensor, one->kind, seed, j)
                    : domain        ? real_within(domain, one->kind, seed, at)
                                    : real_of_kind(one->kind, seed, at);
    }
}

/* Constants are spread: at 0 or 1 much stays unseen. States keep their first values. */
static void fill_parameter(const AgainstCase *one, const AgainstTensor *tensor, double *values) {
    const uint64_t seed = random_seed_for(one->seed, tensor->name);
    for (size_t j = 0; j < tensor->count; j++) {
        const double uniform = random_uniform(seed, j);
        if (tensor->init == MOEC_INIT_CONSTANT)
            values[j] = tensor->a + (tensor->role == AGAINST_STATE ? 0 : 0.2 * uniform - 0.1);
        else if (one->kind == KIND_POSITIVE && tensor->init == MOEC_INIT_NORMAL)
            values[j] = tensor->a + tensor->b * (1 + 0.25 * uniform);
        else if (tensor->init == MOEC_INIT_NORMAL)
            values[j] = tensor->a + tensor->b * random_normal(seed, j);
        else
            values[j] = tensor->a + (tensor->b - tensor->a) * uniform;
    }
}

static void fill_cotangent(const AgainstCase *one, const AgainstTensor *tensor, double *values) {
    const uint64_t seed = random_seed_for(one->seed + 1, tensor->name);
    const AgainstKind kind = one->kind == KIND_POSITIVE ? KIND_POSITIVE : KIND_RANDOM;
    for (size_t j = 0; j < tensor->count; j++) values[j] = real_of_kind(kind, seed, j);
}

/* Targets follow their tokens by one position, as in training. */
static void case_fill(const AgainstPlan *plan, AgainstCase *one) {
    const AgainstShape *shape = one->shape;
    one->values = memory_new(sizeof *one->values * (size_t)(shape->count + 1));
    for (int i = 0; i < shape->count; i++) {
        const AgainstTensor *tensor = &shape->tensors[i];
        if (tensor->role == AGAINST_TERM || (tensor->role == AGAINST_RESULT && shape->forward))
            continue;
        double *values = one->values[i] = memory_new(sizeof *values * (tensor->count + 1));
        if (tensor->role == AGAINST_ARGUMENT)
            fill_argument(plan, one, tensor, values);
        else if (tensor->role == AGAINST_RESULT)
            fill_cotangent(one, tensor, values);
        else
            fill_parameter(one, tensor, values);
        for (size_t j = 0; j < tensor->count && !tensor->integer; j++)
            values[j] = against_round(one->type, values[j]);
    }
}

/* ---- the plan ---- */

static void add_case(AgainstPlan *plan, AgainstShape *shape, AgainstType type, AgainstKind kind,
                     long seed) {
    const size_t count = (size_t)plan->case_count + 1;
    plan->cases = memory_grow(plan->cases, sizeof *plan->cases * count);
    plan->cases[plan->case_count++] =
        (AgainstCase){.shape = shape, .type = type, .kind = kind, .seed = (uint64_t)seed};
}

static void add_cases(AgainstPlan *plan, AgainstShape *shape, int kinds, int seeds, long seed) {
    for (int type = 0; type < AGAINST_TYPES; type++) {
        if (!plan->types[type]) continue;
        for (int kind = 0; kind < AGAINST_KINDS; kind++)
            for (int i = 0; kinds >> kind & 1 && i < (kind == KIND_RANDOM ? seeds : 1); i++)
                add_case(plan, shape, (AgainstType)type, (AgainstKind)kind, seed + i);
    }
}

/* Whether the interpreter can run all cases of a shape. */
static bool affordable(const AgainstShape *shape, int cases, double seconds) {
    enum { RUNS = 9 };
    return interpreted_seconds(shape->train) * RUNS * cases < seconds &&
           interpreted_has_room(moec_interpreter_cost(shape->train).bytes);
}

static int kinds_counted(int kinds, int seeds) {
    int count = kinds & 1 ? seeds - 1 : 0;
    for (; kinds; kinds &= kinds - 1) count++;
    return count;
}

/* The shape of a kernel of a spec; with fewer sequences and positions if it costs too much. */
static bool extern_shape(const AgainstSubject *subject, AgainstShape *shape) {
    long batch = subject->options->batch, context = subject->options->context;
    for (;;) {
        if (!subject_shape(subject, batch, context, shape)) return false;
        const int cases = kinds_counted(table[0].kinds, table[0].seeds);
        if (affordable(shape, cases, extern_seconds) || (batch == 1 && context == 1)) return true;
        subject_shape_free(shape);
        if (batch > 1)
            batch /= 2;
        else
            context /= 2;
    }
}

static bool plan_shapes(AgainstPlan *plan, const AgainstSubject *subject) {
    const AgainstOptions *options = subject->options;
    const bool asked = options->batch > 0 || options->context > 0;
    for (int i = 0; i < (asked ? 1 : TABLE); i++) {
        AgainstShape *shape = &plan->shapes[plan->shape_count];
        const long batch = options->batch > 0 ? options->batch : table[i].batch,
                   context = options->context > 0 ? options->context : table[i].context;
        if (options->external ? !extern_shape(subject, shape)
                              : !subject_shape(subject, batch, context, shape)) {
            subject_shape_free(shape);
            return false;
        }
        int types = 0;
        for (int type = 0; type < AGAINST_TYPES; type++) types += plan->types[type];
        if (!asked && !affordable(shape, types * kinds_counted(table[i].kinds, table[i].seeds),
                                  shape_seconds)) {
            subject_shape_free(shape);
            plan->skipped++;
            continue;
        }
        plan->shape_count++;
        add_cases(plan, shape, table[i].kinds, table[i].seeds, options->seed);
    }
    return plan->shape_count ||
           error_message("use -b 1 -c 16, and smaller sizes", "%s is too large for the interpreter",
                         subject->title);
}

bool plan_make(AgainstPlan *plan, const AgainstSubject *subject) {
    plan->shapes = memory_new(sizeof *plan->shapes * TABLE);
    if (!plan_shapes(plan, subject) || !check_domains(plan, &plan->shapes[0])) return false;
    for (int i = 0; i < plan->case_count; i++) case_fill(plan, &plan->cases[i]);
    return true;
}

void plan_free(AgainstPlan *plan) {
    for (int i = 0; i < plan->case_count; i++) {
        AgainstCase *one = &plan->cases[i];
        const int count = one->shape->count;
        for (int j = 0; one->values && j < count; j++) free(one->values[j]);
        free(one->values);
        answer_free(&one->first, count);
        answer_free(&one->second, count);
    }
    for (int i = 0; i < plan->shape_count; i++) subject_shape_free(&plan->shapes[i]);
    free(plan->cases);
    free(plan->shapes);
}
