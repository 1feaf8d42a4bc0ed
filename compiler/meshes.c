/* meshes: the public interface of meshes of processes. */
#include "describe/describe.h"
#include "driver/driver.h"
#include "mesh/mesh_plan.h"

bool moec_set_mesh(MoecCompiler *compiler, const char *text, long data) {
    return mesh_sizes_read(&compiler->reports, &compiler->mesh, text, data);
}

MoecMesh moec_mesh(MoecCompiler *compiler) {
    const long *size = compiler->mesh.size;
    return (MoecMesh){size[MESH_DATA], size[MESH_EXPERT]};
}

void moec_divide(MoecCompiler *compiler, long sharing) {
    const long data = compiler->mesh.size[MESH_DATA],
               parts = (long)moec_option_number(compiler, "train.gradient_accumulation_steps", 1);
    if (!sharing) sharing = moec_sharing(parts, data);
    if (!sharing) sharing = data;
    compiler->mesh.micro_batches = data / sharing;
    compiler->mesh.size[MESH_DATA] = sharing;
    compiler->divides = true;
}

/* sharing: see moec_divide. */
static Program *compile_shared(MoecCompiler *compiler, MoecGraph graph, long batch, long context,
                               long sharing) {
    const long data = compiler->mesh.size[MESH_DATA];
    moec_divide(compiler, sharing);
    Program *local = moec_compile(compiler, graph, batch, context, 0);
    compiler->mesh.size[MESH_DATA] = data;
    compiler->mesh.micro_batches = 0;
    compiler->divides = false;
    return local;
}

Program *moec_compile_local(MoecCompiler *compiler, MoecGraph graph, long batch, long context) {
    return compile_shared(compiler, graph, batch, context, compiler->mesh.size[MESH_DATA]);
}

const MoecMeshReport *moec_mesh_verify(MoecCompiler *compiler, MoecGraph graph, long batch,
                                       long context, bool apart, uint64_t seed) {
    const long sharing = apart ? 1 : compiler->mesh.size[MESH_DATA];
    Program *whole = moec_compile(compiler, graph, batch, context, 0),
            *local = whole ? compile_shared(compiler, graph, batch, context, sharing) : NULL;
    return local ? mesh_compare(whole, local, seed) : NULL;
}

long moec_sharing(long parts, long processes) {
    if (parts % processes == 0) return 1;
    return processes % parts ? 0 : processes / parts;
}

const char *moec_mesh_explain(MoecCompiler *compiler, MoecGraph graph, const char *machine) {
    const long data = compiler->mesh.size[MESH_DATA];
    const MachineRecord *record =
        machine ? machine_find(moec_unit(compiler), machine, (Span){0}, &compiler->reports) : NULL;
    if (machine && (!record || !machine_connects(moec_unit(compiler), record, data))) return NULL;
    Program *local = compile_shared(compiler, graph, 0, 0, 0);
    const Schedule *schedule = local && record ? moec_schedule(compiler, local) : NULL;
    return local && !moec_failed(compiler) ? mesh_text(local, data, record, schedule) : NULL;
}

/* ---- plans ---- */

/* The first report of an attempt, which is withdrawn. */
static const char *withdrawn_report(MoecCompiler *compiler, int errors, int count) {
    Reports *reports = &compiler->reports;
    const char *message = report_message(reports, count);
    reports->errors = errors;
    reports->list.count = count;
    return message;
}

static PlannedMesh *plan_mesh(MoecCompiler *compiler, MeshPlan *plan, long keys, long batch) {
    PlannedMesh *mesh = arena_alloc(plan->arena, sizeof *mesh);
    *mesh = (PlannedMesh){.size = {[MESH_DATA] = plan->processes, [MESH_EXPERT] = keys},
                          .batch = batch,
                          .micro_batches = plan->sequences / plan->processes / batch};
    const int errors = compiler->reports.errors, count = compiler->reports.list.count;
    for (int i = 0; i < MESH_AXES; i++) compiler->mesh.size[i] = mesh->size[i];
    Program *local = moec_compile_local(compiler, MOEC_TRAIN, batch * plan->processes, 0);
    if (local) {
        moec_lower(compiler, local, &target_device);
        const Schedule *schedule = moec_schedule(compiler, local);
        if (!moec_failed(compiler)) mesh_predict(plan, mesh, schedule);
    }
    if (!local || moec_failed(compiler)) mesh->refused = withdrawn_report(compiler, errors, count);
    const double limit = plan->machine->value[MACHINE_MEMORY] * 1e9;
    if (!mesh->refused && mesh->memory > limit)
        mesh->refused = arena_format(plan->arena, "needs %.3g GB, %.3g more than a process has",
                                     mesh->memory / 1e9, (mesh->memory - limit) / 1e9);
    return mesh;
}

/* All batches of a process up to the first that does not fit. */
static void plan_batches(MoecCompiler *compiler, MeshPlan *plan, long keys) {
    const long sequences = plan->sequences / plan->processes;
    for (long batch = 1; batch <= sequences; batch++) {
        if (sequences % batch) continue;
        PlannedMesh *mesh = plan_mesh(compiler, plan, keys, batch);
        list_push(plan->arena, &plan->meshes, mesh);
        if (mesh->refused) return;
    }
}

static bool has_sequences(MoecCompiler *compiler, const MeshPlan *plan) {
    if (plan->sequences % plan->processes == 0) return true;
    Reports *reports = &compiler->reports;
    const long fewer = plan->sequences / plan->processes * plan->processes;
    report_error(reports, (Span){0}, "%ld sequences of a step are not divisible by %ld processes",
                 plan->sequences, plan->processes);
    return report_help(
        reports,
        "the product of train.batch_size and train.gradient_accumulation_steps can be %ld, "
        "for example with --set "
        "train.gradient_accumulation_steps=%ld --set train.batch_size=%ld",
        fewer + plan->processes, fewer / plan->processes + 1, plan->processes);
}

/* The state of optimizers of whole matrices is not divided. A process keeps that before the step,
 * too. */
static void add_matrix_step(MoecCompiler *compiler, MeshPlan *plan) {
    Program *step = moec_compile(compiler, MOEC_STEP, 0, 0, 0);
    plan->zero = false;
    if (!step) return;
    plan->step_states = role_bytes(step, ROLE_STATE);
    moec_lower(compiler, step, &target_device);
    plan->step_temporaries = (double)moec_schedule(compiler, step)->arena_bytes;
}

const char *moec_plan(MoecCompiler *compiler, long processes, const char *machine, bool json) {
    const MeshSizes before = compiler->mesh;
    const Program *program = moec_compile(compiler, MOEC_TRAIN, 0, 0, 0);
    MeshPlan plan = {
        .arena = moec_arena(compiler), .model = moec_model(compiler), .processes = processes};
    plan.machine = machine_find(moec_unit(compiler), machine, (Span){0}, &compiler->reports);
    if (!program || !plan.machine ||
        !machine_connects(moec_unit(compiler), plan.machine, processes))
        return NULL;
    plan.context = (long)moec_option_number(compiler, "train.context_length", 1);
    plan.sequences = (long)(moec_option_number(compiler, "train.batch_size", 1) *
                            moec_option_number(compiler, "train.gradient_accumulation_steps", 1));
    const double trained = role_bytes(program, ROLE_GRADIENT);
    plan.copies = trained > 0 ? optimizer_bytes(compiler, trained) / trained : 0;
    plan.lanes = (long)moec_option_number(compiler, "train.reduction_lanes", 0);
    plan.zero = moec_option_number(compiler, "train.zero", 1) > 0;
    if (moec_unit(compiler)->whole.count) add_matrix_step(compiler, &plan);
    if (!has_sequences(compiler, &plan)) return NULL;
    Program *forward = moec_compile(compiler, MOEC_FORWARD, 0, 0, 0);
    if (!forward) return NULL;
    plan.flops = training_flops(compiler, forward) * (double)(plan.sequences * plan.context);
    const long most = program->relations.count ? processes : 1; /* only rows divide weights */
    for (long keys = 1; keys <= most; keys++)
        if (processes % keys == 0) plan_batches(compiler, &plan, keys);
    compiler->mesh = before;
    mesh_plan_sort(&plan);
    return json ? mesh_plan_json(&plan) : mesh_plan_text(&plan);
}
