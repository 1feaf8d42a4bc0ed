/* refuse_plain: reports the functions and types that freestanding C does not support. */
#include "ir/call.h"
#include "module/lowered.h"

#include <string.h>

/* The location that the user can change: of a layer of the standard library where it was chosen. */
static Span refused_span(const Statement *statement) {
    return span_line(statement->asked) ? statement->asked : statement->span;
}

/* The kernels that the headers of a freestanding program have: plain.h, packing.h. */
static bool has_plain_kernel(const char *function) {
    static const char *const functions[] = {"moec_attend_step", "moec_pack", "moec_top"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(function, functions[i])) return true;
    return false;
}

static void refuse_call(Reports *reports, const HostStep *step) {
    const Statement *statement = step->statements.items[0];
    if (!has_plain_kernel(step->call.function)) {
        report_error(reports, refused_span(statement),
                     "the profile freestanding does not support '%s'", statement->row->name);
        report_help(reports, "write other equations, or leave out --profile");
    } else if (statement->attention.best) {
        report_error(reports, refused_span(statement),
                     "the profile freestanding does not support attention.best");
        report_help(reports, "add --set attention.best=0, or leave out --profile");
    }
}

static void refuse_steps(Reports *reports, const List *steps) {
    for (int i = 0; i < steps->count; i++) {
        const HostStep *step = steps->items[i];
        if (step->kind == STEP_CALL) refuse_call(reports, step);
        refuse_steps(reports, &step->body);
    }
}

void refuse_freestanding(const Module *module, Reports *reports) {
    const Entry *entry = module->entries.items[0];
    refuse_steps(reports, &entry->steps);
    if (module->rounded && !module->packed.tensors.count) {
        report_error(reports, (Span){0},
                     "the profile freestanding does not support train.precision = bf16");
        report_help(reports, "add --precision f32; --weight-dtype bf16 halves the weights");
        return;
    }
    for (int i = 0; i < entry->program->tensors.count; i++) {
        const Tensor *tensor = entry->program->tensors.items[i];
        if (!entry->buffers[i].used || tensor->type == TYPE_REAL || tensor->type == TYPE_INT ||
            tensor->type == TYPE_BF16 || tensor->type == TYPE_INT8 || tensor->type == TYPE_INT4 ||
            tensor->type == TYPE_BYTE || tensor->type == TYPE_DOUBLE)
            continue;
        report_error(reports, (Span){0},
                     "the profile freestanding does not support the type of '%s'", tensor->name);
        report_help(reports,
                    "add --set inference.weight_dtype=int8 --set inference.kv_cache_dtype=int8");
        return;
    }
}
