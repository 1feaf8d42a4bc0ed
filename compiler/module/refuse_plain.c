/* refuse_plain: reports the functions and types that freestanding C does not support. */
#include "ir/call.h"
#include "module/lowered.h"

/* The location that the user can change: of a layer of the standard library where it was chosen. */
static Span refused_span(const Statement *statement) {
    return span_line(statement->asked) ? statement->asked : statement->span;
}

/* The kernels that the headers of a freestanding program have: plain.h, packing.h. */
static bool has_plain_kernel(const char *function) {
    static const char *const functions[] = {"moec_attend_step", "moec_pack", "moec_top"};
    return text_find(functions, sizeof functions / sizeof *functions, function) >= 0;
}

static void refuse_call(Reports *reports, const HostStep *step) {
    const Statement *statement = step->statements.items[0];
    if (!has_plain_kernel(step->call.function)) {
        report_invalid(reports, refused_span(statement),
                       "write other equations, or leave out --profile",
                       "the profile freestanding does not support '%s'", statement->row->name);
    } else if (statement->attention.best)
        report_invalid(reports, refused_span(statement),
                       "add --set attention.best=0, or leave out --profile",
                       "the profile freestanding does not support attention.best");
}

static void refuse_steps(Reports *reports, const List *steps) {
    LIST_EACH(const HostStep, step, steps) {
        if (step->kind == STEP_CALL) refuse_call(reports, step);
        refuse_steps(reports, &step->body);
    }
}

void refuse_freestanding(const Module *module, Reports *reports) {
    const Entry *entry = module->entries.items[0];
    refuse_steps(reports, &entry->steps);
    if (module->rounded && !module->packed.tensors.count) {
        report_invalid(reports, (Span){0},
                       "add --precision f32; --weight-dtype bf16 halves the weights",
                       "the profile freestanding does not support train.precision = bf16");
        return;
    }
    for (int i = 0; i < entry->program->tensors.count; i++) {
        const Tensor *tensor = entry->program->tensors.items[i];
        if (!entry->buffers[i].used || tensor->type == TYPE_REAL || tensor->type == TYPE_INT ||
            weight_type(tensor->type) || tensor->type == TYPE_BYTE || tensor->type == TYPE_DOUBLE)
            continue;
        report_invalid(reports, (Span){0},
                       "add --set inference.weight_dtype=int8 --set inference.kv_cache_dtype=int8",
                       "the profile freestanding does not support the type of '%s'", tensor->name);
        return;
    }
}
