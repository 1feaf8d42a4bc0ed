/* attend_lower: attention as calls of the host's kernels; its operations. */
#include "analysis/attend.h"
#include "calls/attend/attend_row.h"
#include "lower/lower_entry.h"

long attend_positions(const Program *program, const Statement *statement) {
    const CallShape k = call_shape(call_input(statement, 1));
    return statement->attention.position ? program->context : size_at(&k, 3);
}

/* The number of query-key pairs. */
static double pairs_seen(const AttendOptions *options, double queries, double positions) {
    const double most = queries * attended_keys(options, positions);
    if (options->mask == MASK_NONE) return most;
    double full = options->position ? queries * positions / 2 : queries * (queries + 1) / 2;
    return most < full ? most : full;
}

static void count_attend(EntryLowering *lowering, const Statement *statement) {
    const CallShape q = call_shape(call_input(statement, 0)),
                    v = call_shape(call_input(statement, 2));
    long batch = leading_size(&q, 3);
    double pairs = pairs_seen(&statement->attention, (double)size_at(&q, 3),
                              (double)attend_positions(lowering->lower.program, statement));
    double flops = 2 * pairs * (double)(batch * size_at(&q, 2) * (size_at(&q, 1) + size_at(&v, 1)));
    lowering->entry->flops +=
        lowering->repeats * flops * (statement->call == CALL_ATTEND_GRAD ? 2.5 : 1);
}

/* ---- options ---- */

const char *mask_name(const AttendOptions *options) {
    static const char *const masks[] = {"MOEC_MASK_CAUSAL", "MOEC_MASK_NONE", "MOEC_MASK_WINDOW"};
    return masks[options->mask];
}

/* The storage types of the operands: bf16 or bytes. */
static void add_attended_types(Arena *arena, List *values, const Statement *statement) {
    static const char *const fields[] = {"q_type", "k_type", "v_type", "o_type", "grad_type"};
    const bool grad = statement->call == CALL_ATTEND_GRAD;
    const int own = attend_operands(&statement->attention);
    const Expr *const stored[] = {call_input(statement, 0), call_input(statement, 1),
                                  call_input(statement, 2),
                                  grad ? call_input(statement, own) : call_output(statement, 0),
                                  grad ? call_input(statement, own + 2) : NULL};
    for (int i = 0; i < 4 + grad; i++) {
        const Type type = stored[i]->tensor->type;
        if (type == TYPE_BF16) add_name(arena, values, fields[i], "MOEC_BF16");
        if (type == TYPE_BYTE) add_name(arena, values, fields[i], "MOEC_BYTE");
    }
}

static void add_attend_options(Arena *arena, List *values, const Program *program,
                               const Statement *statement) {
    const AttendOptions *options = &statement->attention;
    const CallShape q = call_shape(call_input(statement, 0)),
                    k = call_shape(call_input(statement, 1)),
                    v = call_shape(call_input(statement, 2));
    add_number(arena, values, "batch", leading_size(&q, 3))->line = true;
    add_number(arena, values, "queries", size_at(&q, 3));
    add_number(arena, values, "keys", size_at(&k, 3));
    add_number(arena, values, "places", attend_positions(program, statement));
    add_name(arena, values, "mask", mask_name(options))->line = true;
    add_number(arena, values, "window", options->window);
    add_number(arena, values, "heads", size_at(&q, 2));
    add_number(arena, values, "key_heads", size_at(&k, 2));
    add_number(arena, values, "value_heads", size_at(&v, 2))->line = true;
    add_number(arena, values, "width", size_at(&q, 1));
    add_number(arena, values, "value_width", size_at(&v, 1));
    add_real(arena, values, "scale", options->scale)->line = true;
    add_real(arena, values, "cap", options->cap);
    add_number(arena, values, "best", options->best);
    if (options->chosen) {
        const CallShape chosen = call_shape(call_input(statement, attend_chosen(options)));
        add_numbers(arena, values, "chosen_block", options->block, 3);
        if (chosen.rank == 3) add_number(arena, values, "chosen_all", 1);
        if (options->words) add_number(arena, values, "chosen_words", 1);
    }
    if (options->bias && call_shape(call_input(statement, attend_bias(options))).rank == 2)
        add_number(arena, values, "bias_all", 1);
    const int before = values->count;
    if (attend_rounds(program, statement)) add_number(arena, values, "rounded", 1);
    add_attended_types(arena, values, statement);
    if (values->count > before) ((HostValue *)values->items[before])->line = true;
}

/* ---- calls ---- */

/* The numbers of optional inputs. */
static int sink_of(const AttendOptions *options) {
    return options->sink ? 3 : -1;
}

static int documents_of(const AttendOptions *options) {
    return options->documents ? attend_document(options) : -1;
}

static int chosen_of(const AttendOptions *options) {
    return options->chosen ? attend_chosen(options) : -1;
}

static int bias_input(const AttendOptions *options) {
    return options->bias ? attend_bias(options) : -1;
}

/* New tokens against a cache, chosen pairs, or a bias. */
static void call_work(Arena *arena, HostStep *step, const Statement *statement) {
    static const char *const scales[] = {"k_scale", "v_scale"};
    const AttendOptions *options = &statement->attention;
    const int outputs = statement->inputs.count;
    List *values = &step->call.values;
    step->call.function = options->position ? "moec_attend_step"
                          : options->chosen ? "moec_attend_chosen"
                                            : "moec_attend_biased";
    if (options->position) add_operand(arena, values, NULL, step, attend_operands(options));
    HostValue *work = add_array(arena, values, NULL, "const MoecAttendWork");
    work->address = true;
    values = &work->values;
    add_operand(arena, values, "q", step, 0);
    add_operand(arena, values, "k", step, 1);
    add_operand(arena, values, "v", step, 2);
    if (options->sink) add_operand(arena, values, "sink", step, sink_of(options));
    if (options->documents) add_operand(arena, values, "documents", step, documents_of(options));
    if (options->chosen) add_operand(arena, values, "chosen", step, chosen_of(options));
    if (options->bias) add_operand(arena, values, "bias", step, bias_input(options));
    for (int i = 0; i < 2; i++)
        if (options->scaled[i])
            add_operand(arena, values, scales[i], step, attend_scale(options, i));
    add_operand(arena, values, "o", step, outputs);
    add_operand(arena, values, "lse", step, outputs + 1);
}

static void call_whole(Arena *arena, HostStep *step, const Statement *statement) {
    const AttendOptions *options = &statement->attention;
    const int outputs = statement->inputs.count;
    const int operands[] = {0, 1, 2, sink_of(options), documents_of(options), outputs, outputs + 1};
    step->call.function = "moec_attend";
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        add_operand(arena, &step->call.values, NULL, step, operands[i]);
}

static void call_gradient(Arena *arena, HostStep *step, const Statement *statement) {
    const AttendOptions *options = &statement->attention;
    const int own = attend_operands(options), outputs = statement->inputs.count;
    const struct {
        const char *field;
        int operand;
    } fields[] = {{"q", 0},
                  {"k", 1},
                  {"v", 2},
                  {"sink", sink_of(options)},
                  {"o", own},
                  {"lse", own + 1},
                  {"documents", documents_of(options)},
                  {"output_grad", own + 2}};
    List *values = &step->call.values;
    step->call.function = options->chosen ? "moec_attend_chosen_grad" : "moec_attend_grad";
    HostValue *saved = add_array(arena, values, NULL, "const MoecAttendSaved");
    saved->address = saved->line = true;
    for (int i = 0; i < 8; i++)
        add_operand(arena, &saved->values, fields[i].field, step, fields[i].operand)->line = i == 6;
    if (options->chosen) add_operand(arena, &saved->values, "chosen", step, chosen_of(options));
    if (options->bias) add_operand(arena, &saved->values, "bias", step, bias_input(options));
    const int sink = options->sink ? 3 : -1, bias = options->sink ? 4 : 3,
              gradients[] = {0, 1, 2, sink, bias < statement->outputs.count ? bias : -1};
    for (int i = 0; i < 5; i++)
        add_operand(arena, values, NULL, step, gradients[i] < 0 ? -1 : outputs + gradients[i])
            ->line = i == 0;
}

/* Epilogues are for GPUs only. */
void lower_attend(EntryLowering *lowering, const ScheduleUnit *unit) {
    const Statement *statement = unit->statement;
    Arena *arena = lowering->lower.arena;
    const bool gradient = statement->call == CALL_ATTEND_GRAD,
               position = !gradient && statement->attention.position;
    add_equation(lowering, statement);
    count_attend(lowering, statement);
    if (lowering->target->apart) {
        lower_device_attend(lowering, unit);
        return;
    }
    HostStep *step = add_call(lowering, statement, STEP_CALL, gradient || position);
    add_attend_options(arena, add_options(lowering, step, "MoecAttend"), lowering->lower.program,
                       statement);
    const bool work = position || statement->attention.chosen || statement->attention.bias;
    (gradient ? call_gradient : work ? call_work : call_whole)(arena, step, statement);
}
