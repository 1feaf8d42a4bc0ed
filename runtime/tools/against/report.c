/* report: the report of `moec verify --against`: one line per precision and, of the first case that
 * differs, the first index of each tensor with both values and the equation. */
#include "tools/against/against.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* All cases of one precision. */
typedef struct PrecisionSummary {
    int cases, differ, repeat_differs;
    const AgainstCase *first; /* that differs */
    const AgainstVerdict *first_verdict;
    double worst;
    const AgainstCase *worst_case;
    const AgainstVerdict *worst_verdict;
    size_t elements, undecided;
    bool gradients;
    const char *note;
} PrecisionSummary;

static PrecisionSummary summarize(const AgainstReport *report, int type) {
    PrecisionSummary sum = {0};
    for (int i = 0; i < report->plan->case_count; i++) {
        const AgainstCase *one = &report->plan->cases[i];
        const AgainstVerdict *verdict = &report->verdicts[i];
        if ((int)one->type != type) continue;
        sum.cases++;
        sum.differ += verdict->difference_count > 0;
        sum.repeat_differs += !one->repeats;
        sum.elements += verdict->elements;
        sum.undecided += verdict->undecided;
        sum.gradients |= verdict->gradients;
        if (one->first.note) sum.note = one->first.note;
        if (verdict->difference_count && !sum.first) sum.first = one, sum.first_verdict = verdict;
        if (verdict->worst > sum.worst)
            sum.worst = verdict->worst, sum.worst_case = one, sum.worst_verdict = verdict;
    }
    return sum;
}

static bool agrees(const PrecisionSummary *sum) {
    return !sum->differ && sum->undecided < sum->elements;
}

char *element_index_text(const AgainstTensor *tensor, size_t element) {
    char *text = memory_format("%s", "");
    size_t stride = tensor->count;
    for (int i = 0; i < tensor->rank; i++) {
        stride /= (size_t)tensor->shape[i];
        text =
            memory_append(text, "%s%zu", i ? "," : "", element / stride % (size_t)tensor->shape[i]);
    }
    return text;
}

/* ---- text ---- */

static void print_case(const AgainstCase *one) {
    printf("batch %ld, context %ld, %s values, seed %llu", one->shape->batch, one->shape->context,
           against_kind_names[one->kind], (unsigned long long)one->seed);
}

static void print_foreign_difference(const AgainstReport *report, const AgainstCase *one,
                                     const AgainstDifference *difference) {
    AgainstTensor located = *difference->tensor;
    subject_locate(report->subject, one->shape, &located);
    AUTO_FREE char *element = element_index_text(&located, difference->first);
    printf("    %s%s", difference->gradient ? "gradient of " : "", located.name);
    if (*element) printf("[%s]", element);
    if (isnan(difference->given))
        printf(" is not a number instead of %.9g", difference->exact);
    else
        printf(" is %.9g instead of %.9g: off by %.1e, bound %.1e", difference->given,
               difference->exact, fabs(difference->given - difference->exact), difference->bound);
    if (located.count > 1) printf("; %zu of %zu elements differ", difference->count, located.count);
    puts(difference->again ? " (in a second call)" : "");
    if (difference->missing) puts("      the code returns no gradient for it");
    if (located.file)
        printf("      %s %s:%d\n", difference->gradient ? "first read in" : "computed in",
               located.file, located.line);
    else if (report->subject->line)
        printf("      layer %s, %s:%d\n", report->subject->title, report->subject->path,
               report->subject->line);
}

static void print_kinds(const AgainstReport *report, int type) {
    bool seen[AGAINST_KINDS] = {0};
    const char *separator = " ";
    for (int i = 0; i < report->plan->case_count; i++) {
        const AgainstCase *one = &report->plan->cases[i];
        if ((int)one->type != type || !report->verdicts[i].difference_count || seen[one->kind])
            continue;
        seen[one->kind] = true;
        printf("%s%s", separator, against_kind_names[one->kind]);
        separator = ", ";
    }
}

static void print_summary(const AgainstReport *report, int type, const PrecisionSummary *sum) {
    printf("  %-5s %d cases: ", against_type_names[type], sum->cases);
    if (sum->differ) {
        printf("DISAGREES in %d, with values:", sum->differ);
        print_kinds(report, type);
        printf("\n    first: ");
        print_case(sum->first);
        puts("");
        for (int i = 0; i < sum->first_verdict->difference_count; i++)
            print_foreign_difference(report, sum->first, &sum->first_verdict->differences[i]);
    } else {
        printf("results%s agree", sum->gradients ? " and gradients" : "");
        if (sum->worst_case) {
            printf("; the worst is off by %.2f of its bound: %s%s, ", sum->worst,
                   sum->worst_verdict->worst_gradient ? "gradient of " : "",
                   sum->worst_verdict->worst_tensor->name);
            print_case(sum->worst_case);
        }
        puts("");
    }
    if (sum->note) printf("    gradients are not compared: %s\n", sum->note);
    if (sum->undecided == sum->elements)
        puts("    DISAGREES: rounding alone changes every element; use smaller values or f32");
    else if (sum->undecided)
        printf("    undecided: %.2g %% of the elements, which rounding alone moves by more than a "
               "quarter of their size\n",
               100 * (double)sum->undecided / (double)sum->elements);
    if (sum->repeat_differs)
        printf("    not deterministic: two calls with equal values differ in %d cases%s\n",
               sum->repeat_differs, sum->differ ? "" : ", within the bound");
}

/* ---- JSON ---- */

static json_t *difference_described(const AgainstReport *report, const AgainstCase *one,
                                    const AgainstDifference *difference) {
    AgainstTensor located = *difference->tensor;
    subject_locate(report->subject, one->shape, &located);
    AUTO_FREE char *element = element_index_text(&located, difference->first);
    return json_make("{s:s, s:b, s:b, s:b, s:s, s:f, s:f, s:f, s:I, s:I, s:s, s:i}", "name",
                     located.name, "gradient", difference->gradient, "missing", difference->missing,
                     "second_call", difference->again, "element", element, "given",
                     difference->given, "exact", difference->exact, "bound", difference->bound,
                     "differ", (json_int_t)difference->count, "elements", (json_int_t)located.count,
                     "file", located.file, "line", located.line);
}

static json_t *cases_json(const AgainstReport *report, int type) {
    json_t *cases = json_array();
    for (int i = 0; i < report->plan->case_count; i++) {
        const AgainstCase *one = &report->plan->cases[i];
        const AgainstVerdict *verdict = &report->verdicts[i];
        if ((int)one->type != type) continue;
        json_t *differences = json_array();
        for (int j = 0; j < verdict->difference_count; j++)
            json_array_append_new(differences,
                                  difference_described(report, one, &verdict->differences[j]));
        json_array_append_new(
            cases,
            json_make("{s:I, s:I, s:s, s:I, s:f, s:I, s:I, s:b, s:o}", "batch",
                      (json_int_t)one->shape->batch, "context", (json_int_t)one->shape->context,
                      "values", against_kind_names[one->kind], "seed", (json_int_t)one->seed,
                      "worst", verdict->worst, "elements", (json_int_t)verdict->elements,
                      "undecided", (json_int_t)verdict->undecided, "deterministic", one->repeats,
                      "differences", differences));
    }
    return cases;
}

bool report_print(const AgainstReport *report, json_t *json) {
    bool good = true;
    json_auto_t *precisions = json_object();
    if (!json)
        printf("%s against %s on %s, %d shapes\n", report->subject->title, report->options->code,
               report->options->device, report->plan->shape_count);
    for (int type = 0; type < AGAINST_TYPES; type++) {
        if (!report->plan->types[type]) continue;
        const PrecisionSummary sum = summarize(report, type);
        good = good && agrees(&sum);
        if (json)
            json_object_set_new(
                precisions, against_type_names[type],
                json_make("{s:b, s:o}", "agrees", agrees(&sum), "cases", cases_json(report, type)));
        else
            print_summary(report, type, &sum);
    }
    if (json) {
        json_object_update_new(
            json,
            json_make("{s:s, s:s, s:s, s:I, s:b, s:O}", "layer", report->subject->title, "against",
                      report->options->code, "device", report->options->device, "skipped_shapes",
                      (json_int_t)report->plan->skipped, "agrees", good, "precisions", precisions));
    } else if (report->plan->skipped)
        printf("  %d larger shapes are left out: the interpreter is too slow for them; use smaller "
               "--sizes\n",
               report->plan->skipped);
    fflush(stdout);
    return good;
}
