/* program_forms: the forms of a compiled program, for the public interface. The passes note most of
 * them in Program.has. Those of products, calls and kernels are found in the schedule. */
#include "driver.h"

#include "analysis/access.h"
#include "analysis/contraction.h"
#include "ir/call.h"
#include "module/lowered.h"

#include <string.h>

static const char *const form_names[PROGRAM_FORMS] = {
#define PROGRAM_FORM(name, text) text,
#include "ir/program_form.def"
#include "base/must.h"
#undef PROGRAM_FORM
};

const char *const *moec_form_names(int *count) {
    *count = PROGRAM_FORMS;
    return form_names;
}

/* ---- statements ---- */

/* The scans of a chunked form run over its chunks or within one of them. */
static void note_statement(const Statement *statement, bool *has) {
    bool scan = statement_is_scan(statement);
    has[HAS_SCAN] |= scan && !has[HAS_CHUNKED_SCAN];
    has[HAS_REVERSE_SCAN] |= scan && statement->reverse;
    has[HAS_SCATTER] |= statement->kind == STATEMENT_LOOP && statement_is_scatter(statement);
}

static void note_small_product(const Statement *statement, bool *has) {
    Expr *a, *b;
    if (statement->reduction == REDUCE_SUM && product_of_reads(statement, &a, &b))
        has[HAS_LOOPS_PRODUCT] = true;
}

/* ---- products ---- */

static bool is_shifted(const Expr *read) {
    MUST(read->kind == EXPR_READ);
    for (int i = 0; i < read->count; i++)
        if (read->args[i]->kind == EXPR_APPLY) return true;
    return false;
}

static void note_dense(const ScheduleUnit *unit, bool *has) {
    const Contraction *product = unit->contraction;
    const Product *sizes = &product->product;
    has[HAS_PRODUCT] = true;
    has[HAS_BATCHED_PRODUCT] |= sizes->batch[0] * sizes->batch[1] > 1;
    for (int i = 0; i < product->outer_count; i++)
        has[product->outer[i].summed ? HAS_SUMMED_PRODUCT : HAS_LOOPED_PRODUCT] = true;
    has[HAS_SHIFTED_OPERAND] |= is_shifted(product->a) || is_shifted(product->b);
    has[HAS_LIBRARY_EPILOGUE] |= sizes->epilogue_ops != 0;
    has[HAS_ROW_PRODUCT] |= unit->row;
    has[HAS_PAIRED_ROWS] |= unit->paired_row != NULL;
}

static void note_product(const ScheduleUnit *unit, bool *has) {
    const Contraction *product = unit->contraction;
    if (product->kind == CONTRACTION_PRODUCT) note_dense(unit, has);
    has[HAS_GROUPED_BY_WEIGHT] |= product->kind == CONTRACTION_ROWS_BY_WEIGHT;
    has[HAS_GROUPED_BY_ROWS] |= product->kind == CONTRACTION_ROWS_BY_ROWS;
    has[HAS_GATHERED_OPERAND] |= product->gather || product->gather_b;
    has[HAS_TWO_GATHERED_OPERANDS] |= product->gather && product->gather_b;
    has[HAS_ADDED_PRODUCT] |= product->product.accumulate;
    has[HAS_BEGUN_GRADIENT] |= unit->overwrites_gradient;
    has[HAS_DUAL_PRODUCT] |= unit->accumulated_product != NULL;
    has[HAS_SHARED_LAUNCH] |= unit->beside;
    has[HAS_PRODUCT_EPILOGUE] |=
        unit->epilogue && unit->epilogue->members.count > 1 && !product->product.epilogue_ops;
}

/* ---- calls and kernels ---- */

static void note_call(const ScheduleUnit *unit, bool *has) {
    const ProgramForm form = unit->statement->row->form;
    if (form < PROGRAM_FORMS) has[form] = true;
    has[HAS_STEP_QUERIES] |= unit->elements[0] != NULL;
    has[HAS_STEP_CACHES] |= unit->elements[1] || unit->elements[2];
    has[HAS_ATTENTION_EPILOGUE] |= unit->epilogue && unit->epilogue->members.count > 1;
}

static void note_kernel(const Kernel *kernel, bool *has) {
    has[HAS_FUSED_KERNEL] |= kernel->members.count > 1;
    for (int i = 0; i < kernel->members.count; i++) {
        const Member *member = kernel->members.items[i];
        has[HAS_ONLINE_SOFTMAX] |= member->is_online_max;
        note_statement(member->statement, has);
        note_small_product(member->statement, has);
    }
    for (int i = 0; i < kernel->locals.count; i++)
        has[HAS_LOCAL_ROW] |= ((const Local *)kernel->locals.items[i])->kind == LOCAL_ROW;
}

static void note_prologue(const Kernel *kernel, bool *has) {
    has[HAS_ROW_PROLOGUE] = true;
    note_kernel(kernel, has);
    for (int i = 0; i < kernel->locals.count; i++) {
        const Local *local = kernel->locals.items[i];
        has[HAS_STORED_ROW] |= local->operand && local->stored;
    }
}

static void note_units(const List *units, bool *has) {
    for (int i = 0; i < units->count; i++) {
        const ScheduleUnit *unit = units->items[i];
        if (unit->kind == UNIT_REPEAT) note_units(&unit->body, has);
        if (unit->kind == UNIT_CONTRACTION) note_product(unit, has);
        if (unit->kind == UNIT_CALL) note_call(unit, has);
        if (unit->kind == UNIT_KERNEL) note_kernel(unit->kernel, has);
        if (unit->prologue) note_prologue(unit->prologue, has);
        if (unit->statement) note_statement(unit->statement, has);
    }
}

static void note_buffers(const Schedule *schedule, bool *has) {
    for (int i = 0; schedule->allocations && i < schedule->program->tensors.count; i++)
        has[HAS_REUSED_BUFFER] |= schedule->allocations[i].over != NULL;
}

const bool *moec_forms(MoecCompiler *compiler, MoecProgram *program) {
    const Schedule *schedule = moec_schedule(compiler, program);
    bool *has = program->has;
    if (moec_failed(compiler)) return NULL;
    has[HAS_DISPATCHED] |= program->relations.count > 0;
    for (int i = 0; i < program->relations.count; i++) {
        const Relation *relation = program->relations.items[i];
        has[HAS_NESTED_DISPATCH] |= relation->outer != NULL;
        has[HAS_COUNTED_DISPATCH] |= relation->rows->expected > 0;
    }
    note_units(&schedule->units, has);
    note_buffers(schedule, has);
    return has;
}

long moec_scan_chunk(const MoecProgram *program) {
    long chunk = 0;
    for (int i = 0; i < program->scans.count; i++) {
        const ScanForm *form = program->scans.items[i];
        if (form->chunk_size > chunk) chunk = form->chunk_size;
    }
    return chunk;
}

MoecThresholds moec_thresholds(void) {
    return (MoecThresholds){.scan_positions = SCAN_MIN_POSITIONS, .strip_rows = STRIP_MIN_ROWS};
}

/* ---- tensors ---- */

const MoecTable *moec_table(MoecCompiler *compiler, const MoecProgram *program) {
    Arena *arena = moec_arena(compiler);
    Program *only = (Program *)(uintptr_t)program;
    const BlockLayout weights = layout_of(arena, &only, 1, ROLE_PARAMETER),
                      states = layout_of(arena, &only, 1, ROLE_STATE);
    return tensors_table(arena, &only, 1, &weights, &states);
}

const char *moec_weight_type(MoecProgram *program, const char *name) {
    const int *touches = touches_of(program);
    const char *type = NULL;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (!touches[i] || !tensor->path || strcmp(tensor->path, name) != 0) continue;
        if (tensor->role == ROLE_PARAMETER) return NULL;
        if (tensor->role == ROLE_ROUNDED) type = weight_type_name(tensor->type);
    }
    return type;
}
