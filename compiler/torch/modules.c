/* modules: the layers of a program, as a tree of modules with their inputs and outputs.
 *
 *     root: x = embedding[tokens]         root: [x, repeat [block], final_norm, logits]
 *     repeat i < 4 { norm: y = ... }  --> block.{i}: inputs x (version 0), outputs x (version 1)
 *     final_norm: y = ...                 block.{i}.norm: inputs x, outputs y
 */
#include "passes.h"
#include "torch/torch.h"

#include "analysis/access.h"

#include <ctype.h>
#include <string.h>

bool is_weight_or_state(const Tensor *tensor) {
    return tensor->role == ROLE_PARAMETER || tensor->role == ROLE_STATE;
}

int first_axis(const Tensor *tensor) {
    return tensor->rank && tensor->axes[0]->kind == AXIS_REPEAT;
}

int position_count(const Tensor *tensor) {
    int count = 0;
    for (int i = 0; i < tensor->rank; i++) count += tensor->axes[i]->kind == AXIS_SEQUENCE;
    return count;
}

bool is_stacked(const Tensor *tensor) {
    return tensor->role == ROLE_TEMP && first_axis(tensor);
}

int version_of(const Expr *read) {
    if (!is_stacked(read->tensor)) return 0;
    return read->args[0]->kind == EXPR_APPLY;
}

/* ---- equations with an effect ---- */

static bool has_effect(const Torch *torch, const Statement *statement) {
    if (statement->once) return false;
    if (statement->kind == STATEMENT_LOOP) return torch->live[statement->target->tensor->id];
    if (statement->kind == STATEMENT_REPEAT) return true;
    for (int i = 0; i < statement->outputs.count; i++)
        if (torch->live[((Expr *)statement->outputs.items[i])->tensor->id]) return true;
    return false;
}

/* The outputs without probes; the first output alone. */
static void mark_live(Torch *torch) {
    Program *program = torch->program;
    const size_t count = (size_t)program->tensors.count;
    bool *outputs = arena_alloc(torch->arena, count), *first = arena_alloc(torch->arena, count);
    for (int i = 0; i < program->outputs.count; i++) {
        const Tensor *output = program->outputs.items[i];
        if (!output->probe) outputs[output->id] = true;
        if (i == 0) first[output->id] = true;
    }
    torch->live = live_tensors(program, outputs);
    torch->needed = live_tensors(program, first);
}

/* Tensors computed from positions, integers and numbers alone keep double precision. */
static void mark_table(Statement *statement, void *data) {
    Torch *torch = data;
    if (statement->kind != STATEMENT_LOOP) return;
    List reads = {0};
    reads_of(torch->arena, statement, &reads);
    bool table = true;
    for (int i = 0; i < reads.count && table; i++) {
        const Tensor *read = ((Expr *)reads.items[i])->tensor;
        table = torch->table[read->id] || read->type == TYPE_INT;
    }
    torch->table[statement->target->tensor->id] = table && !is_stacked(statement->target->tensor);
}

/* ---- the tree ---- */

static TorchModule *module_new(Torch *torch, const char *name, const char *path) {
    TorchModule *module = arena_alloc(torch->arena, sizeof *module);
    *module = (TorchModule){.name = name, .path = path};
    list_push(torch->arena, &torch->modules, module);
    return module;
}

/* The path without its last name and the number of an iteration; *name is that name. */
static const char *outer_path(Torch *torch, const char *path, const char **name) {
    const char *dot = strrchr(path, '.'), *last = dot ? dot + 1 : path,
               *outer = arena_copy(torch->arena, path, dot ? (size_t)(dot - path) : 0);
    if (*last == '{' || isdigit((unsigned char)*last)) return outer_path(torch, outer, name);
    *name = last;
    return outer;
}

TorchModule *module_at(Torch *torch, const char *path) {
    TorchModule *module = list_named(&torch->modules, offsetof(TorchModule, path), path);
    if (module) return module;
    const char *name;
    TorchModule *outer = module_at(torch, outer_path(torch, path, &name));
    module = module_new(torch, name, path);
    list_push(torch->arena, &outer->children, module);
    return module;
}

/* The application that `caller` makes and that leads to `inner`, or NULL. */
static const Application *called_by(const Application *inner, const Application *caller) {
    while (inner && inner->caller != caller) inner = inner->caller;
    return inner;
}

/* The same of statement i. One that a pass has added between two of a layer belongs to it. */
static const Application *inner_of(const List *statements, int i, const Application *caller) {
    const Statement *statement = statements->items[i];
    if (statement->application) return called_by(statement->application, caller);
    const Statement *before = i ? statements->items[i - 1] : NULL, *after = NULL;
    for (int j = i + 1; j < statements->count && !after; j++)
        if (((Statement *)statements->items[j])->application) after = statements->items[j];
    if (!before || !after) return NULL;
    const Application *inner = called_by(after->application, caller);
    return i && inner_of(statements, i - 1, caller) == inner ? inner : NULL;
}

static List parts_of(Torch *torch, TorchModule *module, const List *statements);

static void find_run(Expr *expr, void *data) {
    const TorchNumber *number = expr->kind == EXPR_NUMBER ? torch_number(data, expr) : NULL;
    if (depends_on_run(number)) ((Torch *)data)->sees_run = true;
}

/* Adds the accesses of a statement and of its body. */
static void add_accesses(Torch *torch, TorchPart *part, const Statement *statement) {
    reads_of(torch->arena, statement, &part->reads);
    writes_of(torch->arena, statement, &part->writes);
    torch->sees_run = false;
    if (statement->value) expr_walk(statement->value, find_run, torch);
    part->sees_positions |= torch->sees_run;
    for (int i = 0; i < statement->loop_count; i++)
        part->sees_positions |= statement->loops[i]->axis->kind == AXIS_SEQUENCE;
    for (int i = 0; i < statement->body.statements.count; i++)
        add_accesses(torch, part, statement->body.statements.items[i]);
}

static TorchPart *part_with(Torch *torch, const List *parts) {
    TorchPart *part = arena_alloc(torch->arena, sizeof *part);
    LIST_EACH(const TorchPart, inner, parts) {
        list_append(torch->arena, &part->reads, &inner->reads);
        list_append(torch->arena, &part->writes, &inner->writes);
        list_append(torch->arena, &part->repeated, &inner->repeated);
        part->sees_positions |= inner->sees_positions;
    }
    return part;
}

static TorchPart *part_new(Torch *torch, TorchModule *module, Statement *statement) {
    List body = {0};
    const bool repeats = statement->kind == STATEMENT_REPEAT;
    if (repeats) body = parts_of(torch, module, &statement->body.statements);
    TorchPart *part = part_with(torch, &body);
    part->statement = statement;
    part->body = body;
    if (repeats)
        part->repeated = part->writes;
    else
        add_accesses(torch, part, statement);
    LIST_EACH(const TorchPart, inner, &body)
        if (inner->child) inner->child->steps = statement->index->axis;
    return part;
}

static TorchPart *application_part(Torch *torch, TorchModule *module,
                                   const Application *application, const List *statements) {
    module->application = application;
    module->parts = parts_of(torch, module, statements);
    module->whole = part_with(torch, &module->parts);
    module->whole->child = module;
    return module->whole;
}

static List parts_of(Torch *torch, TorchModule *module, const List *statements) {
    List parts = {0};
    for (int i = 0; i < statements->count; i++) {
        Statement *statement = statements->items[i];
        const Application *inner = inner_of(statements, i, module->application);
        if (!inner) {
            if (has_effect(torch, statement))
                list_push(torch->arena, &parts, part_new(torch, module, statement));
            continue;
        }
        List own = {0};
        bool any = false;
        int end = i;
        for (; end < statements->count; end++) {
            Statement *next = statements->items[end];
            if (inner_of(statements, end, module->application) != inner) break;
            list_push(torch->arena, &own, next);
            any |= has_effect(torch, next);
        }
        i = end - 1;
        if (!any) continue;
        TorchModule *child = module_at(torch, inner->path);
        if (child->application) child = module_new(torch, inner->name, inner->path);
        child->name = inner->name;
        list_push(torch->arena, &parts, application_part(torch, child, inner, &own));
    }
    return parts;
}

/* ---- inputs and outputs ---- */

static bool has_item(const List *items, const Tensor *tensor, int version) {
    LIST_EACH(const TorchItem, item, items)
        if (item->tensor == tensor && item->version == version) return true;
    return false;
}

static void add_item(Torch *torch, List *items, Tensor *tensor, int version) {
    if (has_item(items, tensor, version)) return;
    list_copy(torch->arena, items, &(TorchItem){tensor, version}, sizeof(TorchItem));
}

/* Whether one of the accesses is of this version of the tensor. */
static bool has_access(const List *accesses, const Tensor *tensor, int version) {
    LIST_EACH(const Expr, access, accesses)
        if (access->tensor == tensor && version_of(access) == version) return true;
    return false;
}

int access_count(const List *accesses, const Tensor *tensor) {
    int count = 0;
    for (int i = 0; i < accesses->count; i++)
        count += ((Expr *)accesses->items[i])->tensor == tensor;
    return count;
}

bool read_later(const Printer *printer, const Tensor *tensor, int version) {
    const TorchModule *module = printer->module;
    const List *parts = printer->parts;
    /* At the root, nothing reads it after its parts; in a repeat, the next iteration may. */
    bool last = module == printer->torch->root && parts == &module->parts;
    bool outside = !last && is_stacked(tensor) && !version && !has_item(&module->inputs, tensor, 0);
    if (outside || has_item(&module->outputs, tensor, version)) return true;
    for (int i = printer->at + 1; i < parts->count; i++)
        if (has_access(&((TorchPart *)parts->items[i])->reads, tensor, version)) return true;
    return false;
}

static void find_inputs(Torch *torch, TorchModule *module) {
    const List *reads = &module->whole->reads;
    LIST_EACH(const Expr, read, reads) {
        Tensor *tensor = read->tensor;
        if (is_weight_or_state(tensor) && path_is_within(tensor->path, module->path)) continue;
        if (!has_access(&module->whole->writes, tensor, version_of(read)))
            add_item(torch, &module->inputs, tensor, version_of(read));
    }
}

/* A result is read outside of the module, is a stacked tensor after the iteration that the module
 * is part of, or an output. After a repeat of the module, a stacked tensor has version 0. */
static void find_outputs(Torch *torch, TorchModule *module) {
    const TorchPart *whole = module->whole;
    LIST_EACH(const Expr, write, &whole->writes) {
        Tensor *tensor = write->tensor;
        if (!torch->live[tensor->id]) continue;
        bool outside =
            access_count(&torch->root->whole->reads, tensor) > access_count(&whole->reads, tensor);
        int version = version_of(write);
        if (has_access(&whole->repeated, tensor, version)) version = 0;
        if (outside || tensor->role == ROLE_OUTPUT || version)
            add_item(torch, &module->outputs, tensor, version);
    }
}

/* find_modules: the tree of modules; also marks the tensors that have an effect. */
void find_modules(Torch *torch) {
    const Program *program = torch->program;
    mark_live(torch);
    torch->table = arena_alloc(torch->arena, (size_t)program->tensors.count);
    block_walk(&torch->program->body, mark_table, torch);
    const Statement *first = program->body.statements.items[0];
    const Application *outermost = first->application;
    while (outermost && outermost->caller) outermost = outermost->caller;
    torch->root = module_new(torch, program->name, "");
    application_part(torch, torch->root, outermost, &program->body.statements);
    LIST_EACH(TorchModule, module, &torch->modules) {
        if (!module->whole) continue;
        if (module != torch->root) find_inputs(torch, module);
        find_outputs(torch, module);
    }
    LIST_EACH(Tensor, tensor, &program->tensors) {
        if (!is_weight_or_state(tensor)) continue;
        const char *dot = strrchr(tensor->path, '.');
        TorchModule *owner = module_at(
            torch, arena_copy(torch->arena, tensor->path, dot ? (size_t)(dot - tensor->path) : 0));
        list_push(torch->arena, &owner->stored, tensor);
    }
}
