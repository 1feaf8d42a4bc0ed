/* interpret_mesh: runs the local program of a mesh for all its processes, statement by statement:
 * each statement for one process after the other, each collective once for all of them. The order
 * of statements and the number of iterations are the same in every process. */
#include "interpret/interpreter.h"

#include "base/must.h"
#include "ir/call.h"

#include <stdlib.h>
#include <string.h>

struct MeshInterpreter {
    Program *program;
    int count;
    Interpreter **ranks;
    const Interpreter *const *whole; /* of the global program, whose selections are repeated */
    int parts;                       /* of them: 1, or one for each process */
    size_t selections;               /* so far in this run */
    Choices *own;                    /* by process: the part of those selections */
};

int mesh_interpreter_count(const Program *program) {
    const long *size = program->mesh;
    return (int)(size[MESH_DATA] > size[MESH_EXPERT] ? size[MESH_DATA] : size[MESH_EXPERT]);
}

MeshInterpreter *mesh_interpreter_new(Program *program) {
    MeshInterpreter *mesh = arena_alloc(program->arena, sizeof *mesh);
    mesh->program = program;
    mesh->count = mesh_interpreter_count(program);
    MUST(mesh->count > 0);
    mesh->ranks = arena_alloc(program->arena, (size_t)mesh->count * sizeof *mesh->ranks);
    mesh->own = arena_alloc(program->arena, (size_t)mesh->count * sizeof *mesh->own);
    for (int i = 0; i < mesh->count; i++) {
        mesh->ranks[i] = interpreter_new(program);
        mesh->ranks[i]->ranks = mesh->ranks;
        mesh->ranks[i]->rank_count = mesh->count;
        for (int axis = 0; axis < MESH_AXES; axis++)
            if (program->mesh_index[axis])
                *interpreter_int(mesh->ranks[i], program->mesh_index[axis]) =
                    i % program->mesh[axis];
    }
    return mesh;
}

Interpreter *mesh_interpreter_rank(const MeshInterpreter *mesh, int rank) {
    MUST(rank >= 0 && rank < mesh->count);
    return mesh->ranks[rank];
}

void mesh_interpreter_free(MeshInterpreter *mesh) {
    if (!mesh) return;
    for (int i = 0; i < mesh->count; i++) {
        free(mesh->own[i].chosen);
        interpreter_free(mesh->ranks[i]);
    }
}

/* ---- selections ---- */

static bool is_over_rows(const Expr *operand) {
    for (int i = 0; i < operand->count; i++)
        if (operand->tensor->axes[i]->kind == AXIS_ROWS) return true;
    return false;
}

/* The number of the row in the whole selection, from its number in the part of a process. */
static size_t whole_row(const MeshInterpreter *mesh, int rank, const Statement *top, size_t row) {
    const Expr *operand = call_input(top, 0);
    const Placement *placed = &operand->tensor->placed[MESH_DATA];
    const int along = top_dimension(top, operand);
    size_t whole = 0, stride = 1;
    for (int i = operand->count - 1; i >= 0; i--) {
        const Expr *sub = operand->args[i];
        if (i == along || sub->kind != EXPR_INDEX || sub->index->of_repeat) continue;
        const size_t size = (size_t)operand->tensor->axes[i]->size;
        const bool divided = placed->kind == PLACED_DIVIDED && placed->dimension == i;
        whole += stride * (row % size + (divided ? (size_t)rank * size : 0));
        stride *= size * (size_t)(divided ? mesh->count : 1);
        row /= size;
    }
    return whole;
}

/* Makes each process repeat its part of the selection. Dispatched rows have another order in
 * every process and select themselves. */
static void follow_selection(MeshInterpreter *mesh, const Statement *top) {
    const Expr *operand = call_input(top, 0);
    const size_t number = mesh->selections++;
    const bool follows = number < mesh->whole[0]->choices.start_count && !is_over_rows(operand);
    for (int rank = 0; rank < mesh->count; rank++) {
        Interpreter *interpreter = mesh->ranks[rank];
        Choices *own = &mesh->own[rank];
        interpreter->followed = follows ? own : NULL;
        if (!follows) continue;
        const size_t n = (size_t)operand->tensor->axes[top_dimension(top, operand)]->size;
        const CallShape shape = call_shape(operand);
        size_t rows = 1, done = interpreter->choices.chosen_count;
        for (int i = 0; i < shape.rank; i++) rows *= (size_t)shape.size[i];
        rows /= n;
        own->chosen_count = done + rows * n;
        own->chosen = realloc(own->chosen, own->chosen_count + 1);
        if (!own->chosen) abort();
        const Choices *whole = &mesh->whole[rank % mesh->parts]->choices;
        const bool *from = whole->chosen + whole->starts[number];
        for (size_t row = 0; row < rows; row++)
            memcpy(own->chosen + done + row * n, from + whole_row(mesh, rank, top, row) * n,
                   n * sizeof *from);
    }
}

/* ---- running ---- */

static void run_together(MeshInterpreter *mesh, PreparedStatement *const *steps);

static bool has_message(const MeshInterpreter *mesh) {
    for (int i = 0; i < mesh->count; i++)
        if (mesh->ranks[i]->message) return true;
    return false;
}

static void repeat_together(MeshInterpreter *mesh, PreparedStatement *const *steps) {
    const Statement *statement = steps[0]->statement;
    PreparedStatement **bodies = malloc((size_t)mesh->count * sizeof *bodies);
    if (!bodies) abort();
    const long iterations = statement->index->axis->size;
    for (int i = 0; i < mesh->count; i++) {
        bodies[i] = steps[i]->body;
        mesh->ranks[i]->slots[mesh->ranks[i]->slot_count++] = statement->index;
    }
    for (long iteration = 0; iteration < iterations && !has_message(mesh); iteration++) {
        for (int i = 0; i < mesh->count; i++)
            mesh->ranks[i]->at[steps[i]->first_slot] =
                statement->reverse ? iterations - 1 - iteration : iteration;
        run_together(mesh, bodies);
    }
    for (int i = 0; i < mesh->count; i++) mesh->ranks[i]->slot_count--;
    free(bodies);
}

static void run_together(MeshInterpreter *mesh, PreparedStatement *const *steps) {
    PreparedStatement **at = malloc((size_t)mesh->count * sizeof *at);
    if (!at) abort();
    memcpy(at, steps, (size_t)mesh->count * sizeof *at);
    while (at[0] && !has_message(mesh)) {
        const Statement *statement = at[0]->statement;
        if (statement_selects(statement)) follow_selection(mesh, statement);
        if (statement->row && statement->row->exchanges)
            interpreter_step(mesh->ranks[0], at[0]);
        else if (statement->kind == STATEMENT_REPEAT)
            repeat_together(mesh, at);
        else
            for (int i = 0; i < mesh->count; i++) interpreter_step(mesh->ranks[i], at[i]);
        for (int i = 0; i < mesh->count; i++) at[i] = at[i]->next;
    }
    free(at);
}

const char *mesh_interpreter_run(MeshInterpreter *mesh, uint64_t seed, bool last_micro_batch,
                                 const Interpreter *const *whole, int parts) {
    mesh->whole = whole;
    mesh->parts = parts;
    mesh->selections = 0;
    for (int i = 0; i < mesh->count; i++)
        if (!interpreter_begin(mesh->ranks[i], seed + (uint64_t)(i % parts), last_micro_batch))
            return mesh->ranks[i]->message;
    PreparedStatement **steps =
        arena_alloc(mesh->program->arena, (size_t)mesh->count * sizeof *steps);
    for (int i = 0; i < mesh->count; i++) steps[i] = mesh->ranks[i]->steps;
    run_together(mesh, steps);
    for (int i = 0; i < mesh->count; i++)
        if (mesh->ranks[i]->message) return mesh->ranks[i]->message;
    return NULL;
}
