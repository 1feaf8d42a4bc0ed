/* bisect: the first equation whose result differs on the device. Every tensor that the spec names
 * is an output of the compared programs. They are compared in the order of computation: those
 * before a repeat, then iteration by iteration.
 */
#include "verify.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* An output in the order of computation: outputs of one repeat are a run of stacked outputs. */
typedef struct OrderedOutput {
    const PublicTensor *tensor;
    int run, slot;
    size_t iteration;
} OrderedOutput;

static int compare_order(const void *a, const void *b) {
    const OrderedOutput *one = a, *other = b;
    if (one->run != other->run) return one->run < other->run ? -1 : 1;
    if (one->iteration != other->iteration) return one->iteration < other->iteration ? -1 : 1;
    return one->slot < other->slot ? -1 : one->slot > other->slot;
}

static OrderedOutput *ordered_outputs(const Call *call, const PublicTensor *outputs, int count) {
    OrderedOutput *list = memory_new(sizeof *list * (size_t)(count + 1));
    for (int i = 0, run = 0; i < count; i++) {
        const MoecTensor *tensor = outputs[i].tensor;
        const bool stacked = outputs[i].rank < tensor->rank,
                   before = i && outputs[i - 1].rank < outputs[i - 1].tensor->rank;
        run += !(stacked && before);
        list[i] =
            (OrderedOutput){.tensor = &outputs[i],
                            .run = run,
                            .slot = (int)(tensor - call->graph->outputs),
                            .iteration = (outputs[i].offset - tensor->offset) / sizeof(float) /
                                         (outputs[i].count + !outputs[i].count)};
    }
    qsort(list, (size_t)count, sizeof *list, compare_order);
    return list;
}

/* The element that differs most. */
static void note_element(Comparison *comparison, const Sample *sample, const PublicTensor *tensor) {
    FirstDifference *first = &comparison->first;
    double *exact = memory_new(sizeof *exact * (sample->count + 1)), most = -1;
    size_t worst = 0;
    moec_interpreter_get(comparison->exact, sample->of, exact, sample->count);
    for (size_t i = 0; i < sample->count; i++) {
        const double away = fabs((double)sample->given[i] - exact[i]);
        if (away <= most) continue;
        most = isnan(away) ? INFINITY : away;
        worst = i;
    }
    first->given = (double)sample->given[worst];
    first->exact = exact[worst];
    int length = 0;
    size_t stride = sample->count;
    for (int i = 0; i < tensor->rank; i++) {
        stride /= (size_t)tensor->shape[i];
        length += snprintf(first->element + length, sizeof first->element - (size_t)length, "%s%zu",
                           i ? "," : "", worst / stride % (size_t)tensor->shape[i]);
    }
    free(exact);
}

static void note_equation(Comparison *comparison) {
    int count;
    const MoecSpecTensor *tensors = moec_spec_tensors(comparison->compiler, comparison->shape.batch,
                                                      comparison->context, &count);
    for (int i = 0; i < count; i++)
        if (has_public_name(tensors[i].name, comparison->first.worst.name)) {
            comparison->first.file = tensors[i].file;
            comparison->first.line = tensors[i].line;
        }
}

void bisect_outputs(Comparison *comparison, const Call *call) {
    int count;
    PublicTensor *outputs = public_tensors(call->graph->outputs, call->graph->output_count, &count);
    AUTO_FREE OrderedOutput *list = ordered_outputs(call, outputs, count);
    comparison->scale = 1e-3;
    for (int i = 0; i < count && !*comparison->first.worst.name; i++) {
        const PublicTensor *tensor = list[i].tensor;
        AUTO_FREE char *of = memory_format("output:%s", tensor->name);
        const float *values = call->outputs[list[i].slot] + list[i].iteration * tensor->count;
        const Sample sample = {tensor->name, of, tensor->count, tensor->count, values};
        if (verify_differs(comparison, OUTPUTS, &sample, &comparison->first.worst)) {
            note_element(comparison, &sample, tensor);
            note_equation(comparison);
        }
    }
    public_free(outputs, count);
}

/* ---- the report ---- */

void bisect_print(const Comparison *comparison) {
    const FirstDifference *first = &comparison->first;
    const Worst *worst = &first->worst;
    if (!*worst->name) {
        puts("  bisect    every equation agrees while each tensor is stored");
        return;
    }
    printf("  bisect    the first difference is in %s", worst->name);
    if (first->file) printf(", %s:%d", first->file, first->line);
    printf("\n            off by %.1e of %.1e; [%s] is %.6g instead of %.6g\n", worst->error,
           worst->limit, first->element, first->given, first->exact);
}

json_t *bisect_json(const Comparison *comparison) {
    const FirstDifference *first = &comparison->first;
    if (!*first->worst.name) return json_null();
    json_t *object = json_make("{s:s, s:f, s:f, s:s, s:f, s:f}", "name", first->worst.name, "error",
                               first->worst.error, "limit", first->worst.limit, "element",
                               first->element, "given", first->given, "exact", first->exact);
    if (first->file) {
        json_object_set_new(object, "file", json_text(first->file));
        json_object_set_new(object, "line", json_integer(first->line));
    }
    return object;
}
