/* emit_c: programs as one C text.
 *
 * Needs:   simplified programs, routed where there is anything to route.
 * Leaves:  a text that includes kernels.h and exports `const MoecTable moec_table` (runtime/abi.h).
 * It is the same for both targets: a stand-alone folder carries the kernels' files beside it, the
 * host finds them in its own folder.
 */
#include "emit.h"
#include "passes.h"

#include <string.h>

static void add_strides(Text *text, const char *name, const long strides[2]) {
    if (strides[0] || strides[1])
        text_add(text, ", .%s = {%ld, %ld}", name, strides[0], strides[1]);
}

static void add_products(Text *text, const List *products) {
    if (!products->count) return;
    text_add(text, "/* Matrix products of fixed shape: see MoecProduct in abi.h. */\n");
    text_add(text, "static const MoecProduct moec_products[] = {\n");
    for (int i = 0; i < products->count; i++) {
        const Product *p = products->items[i];
        text_add(text,
                 "    {.m = %ld, .n = %ld, .k = %ld, .a_m = %ld, .a_k = %ld, .b_k = %ld, .b_n = "
                 "%ld, .c_m = %ld,\n",
                 p->m, p->n, p->k, p->a_m, p->a_k, p->b_k, p->b_n, p->c_m);
        text_add(text, "     .batch = {%ld, %ld}", p->batch[0], p->batch[1]);
        add_strides(text, "a_batch", p->a_batch);
        add_strides(text, "b_batch", p->b_batch);
        add_strides(text, "c_batch", p->c_batch);
        text_add(text, ", .accumulate = %d}, /* %d */\n", p->accumulate, i);
    }
    text_add(text, "};\n\n");
}

/* "train", or "decode_2" when there are two of a kind. */
static const char *prefix_of(Arena *arena, Program *const *programs, int place) {
    static const char *const names[] = {"forward", "train", "decode", "update"};
    int before = 0;
    for (int i = 0; i < place; i++) before += programs[i]->graph == programs[place]->graph;
    const char *name = names[programs[place]->graph];
    return before ? arena_format(arena, "%s_%d", name, before + 1) : name;
}

char *emit_c(Arena *arena, Program *const *programs, int count, Target target) {
    Text functions = {.arena = arena}, text = {.arena = arena};
    List products = {0}, emitted = {0};
    bool update = false;
    Layout weights = layout_of(arena, programs, count, ROLE_PARAMETER);
    Layout states = layout_of(arena, programs, count, ROLE_STATE);
    text_add(&functions, "%s", "");
    for (int i = 0; i < count; i++) {
        if (programs[i]->graph == GRAPH_UPDATE) {
            emit_update(arena, &functions, programs[i]);
            update = true;
            continue;
        }
        const char *prefix = prefix_of(arena, programs, i);
        list_push(
            arena, &emitted,
            emit_program(arena, &functions, programs[i], prefix, &weights, &states, &products));
    }
    const char *model = count ? programs[0]->name : "";
    text_add(&text, "/* Written by moec%s. Comments hold the equations and where they stand. */\n",
             target == TARGET_STANDALONE ? " to stand alone" : "");
    text_add(&text, "#include \"kernels.h\"\n\n");
    add_products(&text, &products);
    text_add_bytes(&text, functions.text, functions.length);
    emit_table(arena, &text, model, &emitted, update, &weights, &states, &products);
    return text.text;
}
