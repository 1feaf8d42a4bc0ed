/* verify_mesh: moec verify --mesh: the local programs of all processes of a mesh against the global
 * program, both in the reference interpreter. */
#include "verify.h"

#include "abi/json_make.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdio.h>
#include <stdlib.h>

static bool print_graph(const char *name, const MoecMeshReport *report, json_t *json) {
    if (report->message) return error_message(NULL, "%s: %s", name, report->message);
    if (json) {
        json_object_set_new(json, name,
                            json_make("{s:b, s:f, s:s, s:i, s:i, s:i}", "agrees", report->agrees,
                                      "error", report->error, "worst",
                                      report->worst ? report->worst : "", "tensors",
                                      report->compared, "amplified", report->amplified,
                                      "collectives", report->collectives));
        return report->agrees;
    }
    printf("  %-8s %d tensors, %d collectives, largest error %.1e", name, report->compared,
           report->collectives, report->error);
    if (report->worst) printf(" (%s)", report->worst);
    if (report->amplified) printf(", %d ill-conditioned", report->amplified);
    printf("%s\n", report->agrees ? "" : "  DIFFERS");
    return report->agrees;
}

/* Whether the interpreter can run the global program and those of the processes; else an error. */
static bool mesh_has_room(const Comparison *comparison) {
    AUTO_FREE char *problem = NULL, *help = NULL;
    const bool fits = verify_fits(comparison, &problem, &help);
    if (!fits)
        error_message(
            "use a shorter context, -c N, or a smaller model, --set layers=2 --set dim=64",
            "the mesh with batch %ld, context %ld %s", comparison->shape.batch,
            comparison->shape.context, problem);
    return fits;
}

bool verify_mesh(const Comparison *comparison, const char *mesh, long seed, json_t *json) {
    static const struct {
        MoecGraph graph;
        bool apart;
        const char *name;
    } graphs[] = {{MOEC_FORWARD, false, "forward"},
                  {MOEC_TRAIN, false, "train"},
                  {MOEC_TRAIN, true, "experts"}};
    MoecCompiler *compiler = comparison->compiler;
    const VerifyShape shape = comparison->shape;
    if (!moec_set_mesh(compiler, mesh, 0)) return reports_good(compiler);
    if (!mesh_has_room(comparison)) return false;
    json_t *results = json ? json_object() : NULL;
    bool good = true;
    for (int i = 0; i < 2 + (moec_mesh(compiler).keys > 1); i++) {
        const MoecMeshReport *report = moec_mesh_verify(
            compiler, graphs[i].graph, shape.batch, shape.context, graphs[i].apart, (uint64_t)seed);
        if (!report) {
            json_decref(results);
            return reports_good(compiler);
        }
        if (!json && i == 0)
            printf("%s: mesh %s, %d processes; batch %ld, context %ld%s\n", moec_model(compiler),
                   mesh, report->processes, shape.batch, shape.context, shape.source);
        good &= print_graph(graphs[i].name, report, results);
    }
    if (json) json_array_append_new(json, results);
    return good;
}
