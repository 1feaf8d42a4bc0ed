/* mesh_plan_text: a plan as text and as JSON. */
#include "mesh/mesh_plan.h"

#include "abi/json_make.h"

#include <stdlib.h>

enum { SHOWN = 5, SHOWN_REFUSED = 8 };

static const char *planned_name(Arena *arena, const PlannedMesh *mesh) {
    return arena_format(arena, "%s=%ld,%s=%ld", mesh_axis_name(MESH_DATA), mesh->size[MESH_DATA],
                        mesh_axis_name(MESH_EXPERT), mesh->size[MESH_EXPERT]);
}

static double tokens_per_second(const MeshPlan *plan, const PlannedMesh *mesh) {
    return (double)(plan->sequences * plan->context) / planned_seconds(mesh);
}

/* The fraction of the peak of all processes that the products of the model reach. */
static double share_of_peak(const MeshPlan *plan, const PlannedMesh *mesh) {
    return plan->flops / planned_seconds(mesh) / (double)plan->processes /
           (plan->machine->value[MACHINE_GFLOPS] * 1e9);
}

static void add_mesh_row(Text *text, const MeshPlan *plan, const PlannedMesh *mesh) {
    text_add(text, "  %-20s %6ld %8ld %10.4g %9.4g %9.4g %9.4g %9.4g %8.4g %9.4g %11.5g %4.0f%%\n",
             planned_name(plan->arena, mesh), mesh->batch, mesh->micro_batches,
             1e3 * planned_seconds(mesh), 1e3 * mesh->compute, 1e3 * mesh->exchanges,
             1e3 * mesh->gradients, 1e3 * mesh->hidden, 1e3 * mesh->update, mesh->memory / 1e9,
             tokens_per_second(plan, mesh), 100 * share_of_peak(plan, mesh));
}

const char *mesh_plan_text(const MeshPlan *plan) {
    Text text = {.arena = plan->arena};
    int usable = 0, refused = 0;
    text_add(&text,
             "%s on %ld processes of %s, %g per node; %ld sequences of %ld tokens per step\n",
             plan->model, plan->processes, plan->machine->name,
             plan->machine->value[MACHINE_PROCESSES], plan->sequences, plan->context);
    for (int i = 0; i < plan->meshes.count; i++) {
        const PlannedMesh *mesh = plan->meshes.items[i];
        if (mesh->refused || usable++ == SHOWN) break;
        if (i == 0)
            text_add(&text, "  %-20s %6s %8s %10s %9s %9s %9s %9s %8s %9s %11s %5s\n", "mesh",
                     "batch", "micro", "ms/step", "compute", "exchanges", "gradients", "hideable",
                     "update", "memory GB", "tokens/s", "peak");
        add_mesh_row(&text, plan, mesh);
    }
    if (!usable) text_add(&text, "  no mesh can be used\n");
    LIST_EACH(const PlannedMesh, mesh, &plan->meshes) {
        if (!mesh->refused || refused++ == SHOWN_REFUSED) continue;
        if (refused == 1) text_add(&text, "not usable:\n");
        text_add(&text, "  %-20s %6ld %s\n", planned_name(plan->arena, mesh), mesh->batch,
                 mesh->refused);
    }
    return text.text;
}

static json_t *mesh_json(const MeshPlan *plan, const PlannedMesh *mesh) {
    json_t *row =
        json_make("{s:I, s:I, s:I, s:I}", "data", (json_int_t)mesh->size[MESH_DATA],
                  mesh_axis_name(MESH_EXPERT), (json_int_t)mesh->size[MESH_EXPERT], "batch",
                  (json_int_t)mesh->batch, "micro_batches", (json_int_t)mesh->micro_batches);
    if (mesh->refused) json_object_update_new(row, json_make("{s:s}", "refused", mesh->refused));
    if (mesh->memory == 0) return row;
    json_object_update_new(
        row, json_make("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "seconds",
                       planned_seconds(mesh), "compute", mesh->compute, "exchanges",
                       mesh->exchanges, "gradients", mesh->gradients, "hideable", mesh->hidden,
                       "update", mesh->update, "memory_bytes", mesh->memory, "tokens_per_second",
                       tokens_per_second(plan, mesh), "share_of_peak", share_of_peak(plan, mesh)));
    return row;
}

const char *mesh_plan_json(const MeshPlan *plan) {
    json_t *meshes = json_array();
    for (int i = 0; i < plan->meshes.count; i++)
        json_array_append_new(meshes, mesh_json(plan, plan->meshes.items[i]));
    json_t *all = json_make("{s:s, s:s, s:I, s:I, s:I, s:o}", "model", plan->model, "machine",
                            plan->machine->name, "processes", (json_int_t)plan->processes,
                            "sequences", (json_int_t)plan->sequences, "context_length",
                            (json_int_t)plan->context, "meshes", meshes);
    char *dumped = json_write_new(all, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    const char *text = arena_format(plan->arena, "%s\n", dumped);
    free(dumped);
    return text;
}
