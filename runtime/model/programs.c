/* programs: the graphs of a model from its spec, with hand-written kernels that were compared with
 * their equations. */
#include "model/internal.h"

#include <string.h>

/* The shapes to compile. If a state is a mean over a step, the gather graph of the trained shape is
 * added. */
int shapes_of(MoecCompiler *compiler, const GraphShape *shapes, int count, GraphShape *all) {
    int total = count;
    memcpy(all, shapes, sizeof *all * (size_t)count);
    for (int i = 0; i < count; i++) {
        if (shapes[i].graph != MOEC_TRAIN) continue;
        moec_trains(compiler);
        if (total > count || !moec_gathers(compiler)) continue;
        all[total] = shapes[i];
        all[total++].graph = MOEC_GATHER;
    }
    return total;
}

/* False after the diagnostics were printed. */
bool compile_graphs(MoecCompiler *compiler, const GraphShape *shapes, int count,
                    MoecProgram **programs) {
    for (int i = 0; i < count; i++) {
        const GraphShape one = shapes[i];
        programs[i] = moec_compile(compiler, one.graph, one.batch, one.context, one.tokens);
        if (!programs[i]) return reports_good(compiler);
    }
    return true;
}

static ExternComparison *extern_comparison;

void model_compare_externs(ExternComparison *comparison) {
    extern_comparison = comparison;
}

bool compile_with_externs(Device *device, MoecCompiler *compiler, const GraphShape *shapes,
                          int count, MoecProgram **programs) {
    bool good = true, again = false;
    do {
        const bool calls =
            extern_comparison && moec_use_externs(compiler, device->apart ? "cuda" : "c");
        good = compile_graphs(compiler, shapes, count, programs);
        moec_use_externs(compiler, NULL);
        again = false;
        if (!good || !calls) break;
        const ExternCheck check = extern_comparison(device, compiler, programs, count);
        good = check != EXTERNS_FAIL;
        again = check == EXTERNS_REFUSED;
    } while (again);
    return good;
}
