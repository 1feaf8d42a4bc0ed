/* programs: the graphs of a model from its spec, with hand-written kernels that were compared with
 * their equations. */
#include "base/message.h"
#include "model/internal.h"

#include <stdlib.h>
#include <string.h>

/* The shapes to compile. If a state is a mean over a step, the gather graph of each trained
 * shape is added. */
int shapes_of(MoecCompiler *compiler, const GraphShape *shapes, int count, GraphShape *all) {
    int total = count;
    memcpy(all, shapes, sizeof *all * (size_t)count);
    for (int i = 0; i < count; i++) {
        if (shapes[i].graph != MOEC_TRAIN) continue;
        moec_trains(compiler);
        if (!moec_gathers(compiler)) continue;
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

bool model_use_externs(const Device *device, MoecCompiler *compiler) {
    static bool noted;
    if (!moec_use_externs(compiler, device->apart ? "cuda" : "c")) return false;
    if (extern_comparison && externs_are_trusted(compiler)) return true;
    moec_use_externs(compiler, NULL);
    if (extern_comparison) return false;
    if (!noted)
        note_message("the library does not call the hand-written kernels of %s; the equations run "
                     "instead",
                     moec_model(compiler));
    noted = true;
    return false;
}

bool compile_with_externs(Device *device, MoecCompiler *compiler, const GraphShape *shapes,
                          int count, MoecProgram **programs) {
    ExternCheck check;
    do {
        const bool calls = model_use_externs(device, compiler);
        const bool good = compile_graphs(compiler, shapes, count, programs);
        moec_use_externs(compiler, NULL);
        if (!good || !calls) return good;
        check = extern_comparison(device, compiler, programs, count);
    } while (check == EXTERNS_REFUSED);
    return check == EXTERNS_AGREE;
}
