/* print_templates: kernels that call templates as text.
 *
 *     extern "C" __global__ void __launch_bounds__(MOEC_STORED_BOUNDS) product_train_3(...)
 *     {
 *         moec_begin();
 *         moec_by_weight<MoecTileRounded>(grouped, ..., [&](long row, long column, float sum) {
 *             h[row * 64 + column] = sum;
 *         });
 *     }
 */
#include "print/print.h"

static void add_store_object(Text *text, const TemplateStore *store) {
    add_template_text(text, store->object);
    text_add(text, "{");
    for (int i = 0; i < store->fields.count; i++)
        text_add(text, "%s%s", i ? ", " : "", term_text(text->arena, store->fields.items[i]));
    text_add(text, "}");
}

static void add_lambda(Text *text, const TemplateStore *store, int indent) {
    Arena *arena = text->arena;
    if (store->object) add_template_text(text, store->object);
    text_add(text, "%s[&](long %s, long %s", store->object ? "(" : "", term_text(arena, store->row),
             term_text(arena, store->column));
    if (store->sum)
        text_add(text, store->width > 1 ? ", const float (&%s)[%d]" : ", float %s",
                 term_text(arena, store->sum), store->width);
    if (store->other) text_add(text, ", float %s", term_text(arena, store->other));
    text_add(text, ") {\n");
    print_block(text, &store->loops->form.block, indent + 1);
    if (store->result)
        print_format(text, indent + 1, "return %s;", term_text(arena, store->result));
    text_add(text, "%*s}%s", 4 * indent, "", store->object ? ")" : "");
}

static void print_template_call(Text *text, const TemplateCall *call, int indent) {
    text_add(text, "%*s", 4 * indent, "");
    int stores = 0;
    add_template_text(text, call->function);
    for (int i = 0; i < call->arguments.count; i++) {
        text_add(text, "%s", i ? ", " : "(");
        if (call->arguments.items[i]) {
            text_add(text, "%s", term_text(text->arena, call->arguments.items[i]));
            continue;
        }
        const TemplateStore *store = call->stores.items[stores++];
        if (store->loops)
            add_lambda(text, store, indent);
        else
            add_store_object(text, store);
    }
    text_add(text, ");\n");
}

static void print_prologue(Text *text, const TemplateVariant *variant) {
    if (!variant->prologue) return;
    print_format(text, 1, "const auto %s = [&] {", term_text(text->arena, variant->make_row));
    print_block(text, &variant->prologue->form.block, 2);
    print_format(text, 2, "return %s;", term_text(text->arena, variant->row));
    print_line(text, 1, "};");
}

/* Each block executes the first call whose condition is true. */
static void print_calls(Text *text, const List *calls) {
    for (int i = 0; i < calls->count; i++) {
        const TemplateCall *call = calls->items[i];
        if (calls->count > 1)
            text_add(text, "    %s", i && call->blocks ? "else " : i ? "else" : "");
        if (call->blocks) text_add(text, "if (%s)", term_text(text->arena, call->blocks));
        if (calls->count > 1) text_add(text, "\n");
        print_template_call(text, call, calls->count > 1 ? 2 : 1);
    }
}

static void print_template_head(Text *text, const TemplateKernel *kernel,
                                const TemplateVariant *variant, const PrintStyle *style) {
    Arena *arena = text->arena;
    const char *bounds =
        variant->bounds ? variant->bounds : arena_format(arena, "%d, 1", variant->threads);
    const List *all = &variant->params;
    const int first = kernel->first_line ? kernel->first_line : all->count;
    const List line = {.items = all->items, .count = first},
               rest = {.items = all->items + first, .count = all->count - first};
    const char *head =
        arena_format(arena, "%s __launch_bounds__(%s) %s%s(%s", style->function, bounds,
                     kernel->name, variant->ending, params_text(arena, style, &line));
    if (rest.count)
        text_add(text, "%s,\n        %s)\n", head, params_text(arena, style, &rest));
    else
        print_line(text, 0, arena_format(arena, "%s)", head));
}

void print_template_variant(Text *text, const TemplateKernel *kernel, int number,
                            const PrintStyle *style) {
    const TemplateVariant *variant = kernel->variants.items[number];
    if (number && kernel->joined) text_add(text, "\n");
    if (number) text_add(text, "#ifdef MOEC_WGMMA\n");
    print_template_head(text, kernel, variant, style);
    text_add(text, "{\n%s", kernel->signals ? style->begin : "");
    print_prologue(text, variant);
    print_calls(text, &variant->calls);
    text_add(text, "}\n%s%s", number ? "#endif\n" : "", kernel->joined ? "" : "\n");
}

/* Lets in one declaration stay in one line. */
void print_constants(Text *text, const TemplateOptions *options) {
    text_add(text, "struct %s {\n", options->name);
    for (const FormNode *node = options->constants.first; node; node = node->next)
        if (!node->joined) text_add(text, "    static constexpr %s\n", let_text(text->arena, node));
    text_add(text, "};\n");
}
