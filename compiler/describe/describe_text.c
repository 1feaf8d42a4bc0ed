/* describe_text: cost of a model as a table. Equal layers share a row:
 *
 *     block.0.ffn  4.1 k                 layer          count  parameters
 *     block.1.ffn  4.1 k        -->      block.0-1.ffn      2       8.2 k
 */
#include "describe/describe.h"

#include "abi/quantity.h"
#include "analysis/access.h"
#include "analysis/def_use.h"
#include "ir/weight_type.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBERS = 12, MIN_WIDTH = 27, MAX_MODELS = 20, MAX_WIDE = 6 };

/* ---- folding ---- */

/* Layers that differ only in the first number of their path. */
typedef struct FoldedLayer {
    const LayerCost *first;
    int before, after; /* bytes of the path before the number, with it; equal without a number */
    List numbers;      /* const char * into paths */
} FoldedLayer;

/* Sets before and after to the first part of the path that is a number. */
static void find_layer_number(const char *path, FoldedLayer *layer) {
    for (const char *part = path; *part; part += *part == '.') {
        int length = (int)strcspn(part, ".");
        if (length && (int)strspn(part, "0123456789") >= length) {
            layer->before = (int)(part - path);
            layer->after = layer->before + length;
            return;
        }
        part += length;
    }
}

static bool nearly(double a, double b) {
    return fabs(a - b) <= 1e-9 * fabs(a);
}

static bool folds_into(const FoldedLayer *one, const FoldedLayer *other) {
    const LayerCost *a = one->first, *b = other->first;
    return one->after > one->before && other->after > other->before &&
           one->before == other->before && !strncmp(a->path, b->path, (size_t)one->before) &&
           !strcmp(a->path + one->after, b->path + other->after) &&
           nearly(a->parameters, b->parameters) && nearly(a->active, b->active) &&
           nearly(a->flops, b->flops);
}

/* FoldedLayer *, in the order of their first layers. */
static List fold_layers(Arena *arena, const List *layers) {
    List rows = {0};
    for (int i = 0; i < layers->count; i++) {
        FoldedLayer *layer = arena_alloc(arena, sizeof *layer), *row = NULL;
        *layer = (FoldedLayer){.first = layers->items[i]};
        find_layer_number(layer->first->path, layer);
        for (int k = rows.count - 1; k >= 0 && !row; k--)
            if (folds_into(rows.items[k], layer)) row = rows.items[k];
        if (!row) list_push(arena, &rows, row = layer);
        list_push(arena, &row->numbers, (void *)(layer->first->path + layer->before));
    }
    return rows;
}

/* "0-3", "0-2,4-6", "1,3,..,23" where a step repeats; shortened to its ends when it is long. */
static const char *layer_numbers_text(Arena *arena, const List *numbers) {
    Text text = {.arena = arena};
    int count = numbers->count;
    for (int i = 0, next; i < count; i = next) {
        long first = atol(numbers->items[i]), last = first,
             step = i + 1 < count ? atol(numbers->items[i + 1]) - first : 1;
        for (next = i + 1; next < count && atol(numbers->items[next]) == last + step; next++)
            last += step;
        if (step != 1 && next - i < 4) {
            next = i + 1;
            last = first;
        }
        text_add(&text, "%s%ld", i ? "," : "", first);
        if (last > first && step == 1) text_add(&text, "-%ld", last);
        if (last > first && step != 1) text_add(&text, ",%ld,..,%ld", first + step, last);
        if (text.length > MAX_NUMBERS && next < count) {
            text_add(&text, ",..,%ld", atol(numbers->items[count - 1]));
            break;
        }
    }
    return text.text;
}

static const char *row_name(Arena *arena, const FoldedLayer *row) {
    const char *path = row->first->path;
    if (row->numbers.count == 1) return path;
    return arena_format(arena, "%.*s%s%s", row->before, path,
                        layer_numbers_text(arena, &row->numbers), path + row->after);
}

static void add_layer_table(Text *text, const List *layers) {
    Arena *arena = text->arena;
    List rows = fold_layers(arena, layers);
    double parameters = 0, flops = 0;
    int width = MIN_WIDTH;
    LIST_EACH(const FoldedLayer, row, &rows) {
        parameters = fmax(parameters, row->first->parameters * row->numbers.count);
        flops = fmax(flops, row->first->flops * row->numbers.count);
        width = (int)fmax(width, (double)strlen(row_name(arena, row)));
    }
    const QuantityScale sizes = quantity_counts(quantity_column(parameters)),
                        work = quantity_column(flops);
    text_add(text, "  %-*s  %5s  %10s  %9s  %11s\n", width, "layer", "count", "parameters",
             "activated", arena_format(arena, "%sFLOP/token", work.prefix));
    LIST_EACH(const FoldedLayer, row, &rows) {
        double count = row->numbers.count;
        text_add(text, "  %-*s  %5.0f  %10s  %9s  %11s\n", width, row_name(arena, row), count,
                 quantity_prefixed(count * row->first->parameters, sizes).text,
                 quantity_prefixed(count * row->first->active, sizes).text,
                 quantity_in(count * row->first->flops, work).text);
    }
}

/* ---- the model as a whole ---- */

static void add_parameter_counts(Text *text, const Cost *cost) {
    const QuantityScale scale = quantity_counts(quantity_line(cost->parameters, 4));
    text_add(text, "  parameters       %s total, %s activated, %s embedding\n",
             quantity_prefixed(cost->parameters, scale).text,
             quantity_prefixed(cost->active, scale).text,
             quantity_prefixed(cost->embedding, scale).text);
}

static void add_computation(Text *text, const Summary *summary) {
    text_add(text, "  computation      %s forward",
             quantity(summary->cost->flops_forward, "FLOP/token").text);
    if (summary->trains)
        text_add(text, ", %s training", quantity(summary->flops_train, "FLOP/token").text);
    if (!summary->decoding.hindrance)
        text_add(text, ", %s decoding", quantity(summary->decoding.flops, "FLOP/token").text);
    text_add(text, "\n");
}

static void add_decoding(Text *text, const Decoding *decoding) {
    if (decoding->hindrance) {
        text_add(text, "  decoding         not possible: %s\n", decoding->hindrance);
        if (decoding->equation) text_add(text, "                     %s\n", decoding->equation);
        return;
    }
    double bytes = (double)decoding->bytes_per_token, fixed = (double)decoding->constant_bytes;
    if (bytes > 0)
        text_add(text, "  KV cache         %s, %s at context length %ld\n",
                 quantity(bytes, "B/token").text,
                 quantity(bytes * (double)decoding->positions, "B").text, decoding->positions);
    else
        text_add(text, "  KV cache         none\n");
    if (fixed > 0)
        text_add(text, "  decoding state   %s per sequence at any context length\n",
                 quantity(fixed, "B").text);
}

static const char *wide_name(const Tensor *tensor) {
    return tensor->prepared ? tensor->spec_name : tensor->path;
}

/* Of smaller weights: the bytes of both types, and the matrices that stay f32. */
/* Of a model that refines inputs, instead of decoding: the command for them. */
static void add_refinement(Text *text, const Program *forward) {
    bool tokens = false;
    LIST_EACH(const Tensor, tensor, &forward->tensors)
        tokens |= tensor->role == ROLE_INPUT && tensor->declared == MOEC_INPUT_TOKEN;
    text_add(text, "  refinement       one program run per step; %s\n",
             tokens ? "moec generate writes text" : "moec sample writes samples");
}

static void add_weights(Text *text, const Decoding *decoding) {
    const WeightMemory *weights = &decoding->weights;
    if (decoding->hindrance || weights->smaller == 0) return;
    text_add(text, "  decoding weights %s:", quantity(weights->smaller + weights->full, "B").text);
    for (int i = 0; i < weight_type_count; i++)
        if (weights->by_type[weight_types[i].type] > 0)
            text_add(text, " %s %s,", weight_types[i].name,
                     quantity(weights->by_type[weight_types[i].type], "B").text);
    text_add(text, " f32 %s", quantity(weights->full, "B").text);
    for (int i = 0; i < weights->wide.count && i <= MAX_WIDE; i++)
        text_add(text, "%s%s", i ? ", " : " with ",
                 i < MAX_WIDE ? wide_name(weights->wide.items[i]) : "...");
    text_add(text, "\n");
}

/* Tensors that are computed once after the weights are read, instead of by each step. */
static void add_prepared(Text *text, const Decoding *decoding) {
    const WeightMemory *weights = &decoding->weights;
    if (decoding->hindrance || !weights->prepares.count) return;
    text_add(text, "  prepared weights %s, computed once instead of per token:",
             quantity(weights->prepared, "B").text);
    for (int i = 0; i < weights->prepares.count && i <= MAX_WIDE; i++)
        text_add(text, "%s%s", i ? ", " : " ",
                 i < MAX_WIDE ? ((const Tensor *)weights->prepares.items[i])->spec_name : "...");
    text_add(text, "\n");
}

static bool same_location(Span a, Span b) {
    return a.source == b.source && a.start == b.start;
}

/* Attention without a kernel stores all its scores; each equation once. */
static void add_scores(Text *text, const List *all) {
    for (int i = 0; i < all->count; i++) {
        const Tensor *scores = all->items[i];
        bool listed = !scores->span.source;
        for (int j = 0; j < i; j++)
            listed |= same_location(((Tensor *)all->items[j])->span, scores->span);
        if (listed) continue;
        text_add(text,
                 "  attention scores all %ld x %ld are computed and stored, %s per layer: the bias "
                 "contains more than the distance of the positions (%s:%d:%d)\n",
                 scores->axes[scores->rank - 2]->size, scores->axes[scores->rank - 1]->size,
                 quantity(4 * (double)tensor_elements(scores), "B").text, scores->span.source->path,
                 span_line(scores->span), span_column(scores->span));
    }
}

static const Relation *relation_of(const Program *program, const Tensor *mask) {
    return list_find_by(&program->relations, offsetof(Relation, mask), mask);
}

/* A masked reduction on rows whose number depends on the data. */
static void add_expected_rows(Text *text, const MaskedReduction *masked, const Relation *relation) {
    const Axis *rows = relation->rows;
    double entries = 1, all = 1;
    for (int i = 0; i < relation->mask->rank; i++) {
        const Axis *axis = relation->mask->axes[i];
        if (axis->kind == AXIS_REPEAT) continue;
        all *= (double)axis->size;
        entries *= axis->expected > 0 ? axis->expected : (double)axis->size;
    }
    text_add(text, "  expected rows    %.3g %% of the %ld entries of axis '%s', at most %.3g %%%s",
             100 * axis_expected(rows) / entries, masked->entries, masked->axis->name,
             100 * fmin((double)rows->size / all, 1),
             relation->assumed ? ": assumed, density(mask, share) states another share" : "");
    if (relation->mask->dense) text_add(text, "; all entries of %s", relation->mask->dense);
}

/* Each masked reduction once: the reason for a dense one, the expectation of one whose rows depend
 * on the data. */
static void add_masked(Text *text, Program *program) {
    for (int i = 0; i < program->masked.count; i++) {
        const MaskedReduction *masked = program->masked.items[i];
        const Tensor *mask = masked->mask->kind == EXPR_READ ? masked->mask->tensor : NULL;
        const Relation *relation = relation_of(program, mask);
        Span span = masked->asked.source ? masked->asked : masked->span;
        bool fixed = relation && !relation->mask->dense &&
                     !(relation->rows->expected < (double)relation->rows->size &&
                       relation->rows->expected > 0);
        bool listed = !span.source || fixed;
        for (int j = 0; j < i; j++)
            listed |=
                same_location(((MaskedReduction *)program->masked.items[j])->span, masked->span);
        if (listed) continue;
        if (relation)
            add_expected_rows(text, masked, relation);
        else
            text_add(text, "  dense %s  all %ld entries of axis '%s' are computed: %s",
                     masked->axis->kind == AXIS_PLAIN ? "reduction" : "selection", masked->entries,
                     masked->axis->name,
                     mask && mask->dense
                         ? mask->dense
                         : "the mask is no tensor of an equation; define it by one: "
                           "on[s,n] = e != 0");
        text_add(text, " (%s:%d:%d)\n", span.source->path, span_line(span), span_column(span));
    }
}

static const Tensor *dense_tensor_at(const List *tensors, Span span) {
    LIST_EACH(const Tensor, tensor, tensors)
        if (tensor->dense && same_location(tensor->span, span)) return tensor;
    return NULL;
}

/* True if the equation of the mask reads a tensor of that location: the mask is a part of it. */
static bool is_part_of(const DefUse *def_use, const Tensor *mask, Span span) {
    const List *writes = &def_use->writes[mask->id];
    LIST_EACH(const TensorAccess, write, writes) {
        List reads = {0};
        reads_of(def_use->program->arena, def_use->points[write->position].statement, &reads);
        LIST_EACH(const Expr, read, &reads)
            if (same_location(read->tensor->span, span)) return true;
    }
    return false;
}

/* Each choice whose entries are on rows in the forward pass, but not in training. */
static void add_dense_training(Text *text, Program *train, const Program *forward) {
    const DefUse *def_use = def_use_new(train);
    for (int i = 0; i < forward->relations.count; i++) {
        const Tensor *mask = ((Relation *)forward->relations.items[i])->mask;
        bool on_rows = !mask->span.source;
        LIST_EACH(const Relation, relation, &train->relations)
            on_rows |= same_location(relation->mask->span, mask->span) ||
                       is_part_of(def_use, relation->mask, mask->span);
        if (on_rows) continue;
        const Tensor *dense = dense_tensor_at(&train->tensors, mask->span);
        text_add(text,
                 "  dense training   all entries of '%s' are computed in training%s%s (%s:%d:%d)\n",
                 mask->stem, dense ? ": " : "", dense ? dense->dense : "", mask->span.source->path,
                 span_line(mask->span), span_column(mask->span));
    }
}

static void add_memory_parts(Text *text, const Summary *summary) {
    const struct {
        const char *name;
        double bytes;
    } parts[] = {{"weights", summary->weights},     {"bf16 weights", summary->compute_weights},
                 {"gradients", summary->gradients}, {"optimizer", summary->optimizer},
                 {"layer states", summary->states}, {"activations", summary->activations}};
    QuantityScale scale = quantity_line(summary->total, 3);
    if (*scale.prefix && !scale.decimals) scale.decimals = 1;
    text_add(text, "  %-15s  %s %sB", summary->trains ? "training memory" : "forward memory",
             quantity_in(summary->total, scale).text, scale.prefix);
    const char *separator = ": ";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].bytes == 0) continue;
        text_add(text, "%s%s %s", separator, parts[i].name,
                 quantity_in(parts[i].bytes, scale).text);
        separator = ", ";
    }
    text_add(text, "\n");
}

/* "200 steps of 32 x 256, then 8 x 1024 tokens; 1.64 M tokens in total". */
static void add_stages(Text *text, const List *stages) {
    const Stage *last = stages->items[stages->count - 1];
    double steps = (double)last->steps, tokens = 0;
    for (int i = 0; i + 1 < stages->count; i++) {
        const Stage *one = stages->items[i];
        const double own = fmin((double)one->steps, steps);
        tokens += own * (double)(one->batch * one->accumulate * one->context);
        steps -= own;
        text_add(text, "%s%ld steps of %ld x %ld", i ? ", " : "  training stages  ", one->steps,
                 one->batch * one->accumulate, one->context);
    }
    tokens += steps * (double)(last->batch * last->accumulate * last->context);
    text_add(text, ", then %ld x %ld tokens; %s tokens in total\n", last->batch * last->accumulate,
             last->context, quantity_count(tokens).text);
}

static void add_other_models(Text *text, MoecCompiler *compiler) {
    int count, others = 0;
    const char *const *names = moec_models(compiler, &count);
    for (int i = 0; i < count; i++) {
        if (!strcmp(names[i], moec_model(compiler))) continue;
        if (others++ < MAX_MODELS)
            text_add(text, "%s%s", others == 1 ? "  other models     " : ", ", names[i]);
    }
    if (others > MAX_MODELS) text_add(text, ", ... and %d more", others - MAX_MODELS);
    if (others) text_add(text, "\n");
}

const char *moec_cost_text(MoecCompiler *compiler) {
    Summary summary = {0};
    if (moec_failed(compiler) || !describe(compiler, &summary)) return NULL;
    Text text = {.arena = moec_arena(compiler)};
    text_add(&text, "model %s\n", moec_model(compiler));
    add_parameter_counts(&text, summary.cost);
    add_computation(&text, &summary);
    if (moec_refines(compiler))
        add_refinement(&text, summary.forward);
    else
        add_decoding(&text, &summary.decoding);
    add_weights(&text, &summary.decoding);
    add_prepared(&text, &summary.decoding);
    add_scores(&text, &summary.forward->scores);
    add_masked(&text, summary.forward);
    add_dense_training(&text, summary.train, summary.forward);
    add_memory_parts(&text, &summary);
    if (summary.trains && summary.stages->count > 1) add_stages(&text, summary.stages);
    add_other_models(&text, compiler);
    text_add(&text, "\n");
    add_layer_table(&text, &summary.cost->layers);
    return text.text;
}
