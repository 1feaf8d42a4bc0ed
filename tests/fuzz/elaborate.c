/* A fuzz target from text to program: the input is any bytes as a spec, and every model of it is
 * elaborated. A result without an error must be a well-formed program. See tests/README.md. */
#include "passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_model(Unit *unit, const char *name, Graph graph) {
    Program *program = elaborate(unit, name, graph, 0, 0, NULL);
    if (!program || unit->reports->errors) return;
    const char *wrong = well_formed(unit->arena, program);
    if (!wrong) return;
    fprintf(stderr, "model %s: %s\n", name, wrong);
    abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static const Graph graphs[] = {GRAPH_FORWARD, GRAPH_UPDATE};
    Arena *arena = arena_new();
    const Source source = {.path = "fuzz.moe",
                           .text = arena_copy(arena, (const char *)data, size),
                           .length = size};
    const Source *sources[] = {&source};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        Reports reports = {.arena = arena};
        Unit *unit = resolve_sources(arena, &reports, sources, 1, NULL, 0);
        for (int k = 0; k < unit->models.count && reports.errors == 0; k++)
            check_model(unit, ((const Node *)unit->models.items[k])->name, graphs[i]);
        reports_text(&reports, arena);
    }
    arena_free(arena);
    return 0;
}
