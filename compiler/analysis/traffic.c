/* traffic: bytes of weights that one run of a program reads.
 *
 * Every element counts once, in its stored size: two bytes for a matrix of a bf16 product, else
 * four. Of a lookup table only the rows read count, and of grouped matrices only the groups with
 * rows.
 *
 *     x[b,s,d] = embedding[tokens[b,s],d]     |b| |s| rows of |d|
 *     h[r,f] = sum[d] x[r,d] * up[n[r],d,f]   |d| |f| of each of |r| groups, at most all
 */
#include "analysis/access.h"
#include "ir/weight_type.h"
#include "passes.h"
#include "base/must.h"

#include <string.h>

typedef struct Traffic {
    const Program *program;
    double *read; /* by tensor->id: elements */
} Traffic;

/* The indices from which the subscripts of a read are computed. */
typedef struct Lookup {
    const Index *indices[MAX_LOOPS];
    int count;
} Lookup;

static void find_index(Expr *expr, void *data) {
    Lookup *lookup = data;
    if (expr->kind != EXPR_INDEX) return;
    for (int i = 0; i < lookup->count; i++)
        if (lookup->indices[i] == expr->index) return;
    if (lookup->count < MAX_LOOPS) lookup->indices[lookup->count++] = expr->index;
}

double access_elements(const Expr *read, bool one_step) {
    MUST(read->kind == EXPR_READ);
    double plain = 1, entries = 1, all = 1;
    Lookup lookup = {.count = 0};
    for (int i = 0; i < read->count; i++) {
        const Index *index = read->args[i]->kind == EXPR_INDEX ? read->args[i]->index : NULL;
        const Index *step;
        double offset;
        if (one_step && step_and_offset(read->args[i], &step, &offset)) continue;
        if (index) {
            plain *= axis_expected(index->axis);
        } else {
            const Placement *keys = &read->tensor->placed[MESH_EXPERT];
            all *= (double)read->tensor->axes[i]->size;
            if (keys->kind == PLACED_DIVIDED && keys->dimension == i) all /= (double)keys->parts;
            expr_walk(read->args[i], find_index, &lookup);
        }
    }
    for (int i = 0; i < lookup.count; i++) entries *= axis_expected(lookup.indices[i]->axis);
    return plain * (entries < all ? entries : all);
}

static void visit_traffic(Statement *statement, void *data) {
    Traffic *traffic = data;
    List reads = {0};
    reads_of(traffic->program->arena, statement, &reads);
    LIST_EACH(const Expr, read, &reads) {
        double elements = access_elements(read, false), *most = &traffic->read[read->tensor->id];
        if (elements > *most) *most = elements;
    }
}

/* True if prepared tensors are computed from the parameter. */
static bool is_source(const Program *program, const Tensor *parameter) {
    if (!program->prepare || program->rounded) return false;
    LIST_EACH(const Tensor, tensor, &program->prepare->tensors)
        if (tensor->path && !strcmp(tensor->path, parameter->path)) return true;
    return false;
}

/* The f32 weights of a parameter are released after the copy is made, unless they are read. */
WeightMemory weight_memory(Program *program) {
    WeightMemory memory = {.full = 0};
    const int *touches = touches_of(program);
    bool *packed =
        arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *packed);
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_ROUNDED || !touches[i] || !reads_copies(program)) continue;
        const double bytes = element_bytes(tensor->type) * (double)tensor_elements(tensor);
        memory.smaller += bytes;
        if (tensor->of->prepared) memory.prepared += bytes;
        memory.by_type[tensor->type] += bytes;
        packed[tensor->of->id] = true;
    }
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_PARAMETER) continue;
        if (tensor->prepared) list_push(program->arena, &memory.prepares, tensor);
        if (!touches[i] && (packed[i] || is_source(program, tensor))) continue;
        if (tensor->prepared)
            memory.prepared += element_bytes(TYPE_REAL) * (double)tensor_elements(tensor);
        memory.full += element_bytes(TYPE_REAL) * (double)tensor_elements(tensor);
        if (touches[i] && tensor->rank - tensor->lead > 1)
            list_push(program->arena, &memory.wide, tensor);
    }
    return memory;
}

double traffic(Program *program) {
    Traffic traffic = {.program = program};
    double bytes = 0;
    traffic.read =
        arena_alloc(program->arena, ((size_t)program->tensors.count + 1) * sizeof *traffic.read);
    block_walk(&program->body, visit_traffic, &traffic);
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role == ROLE_PARAMETER || tensor->role == ROLE_ROUNDED)
            bytes += element_bytes(tensor->type) * traffic.read[i];
    }
    return bytes;
}
