/* unit_accesses: the memory that a unit of a schedule reads and writes. */
#include "schedule/nest.h"

typedef struct UnitAccesses {
    Arena *arena;
    const Program *program;
    List *list;
} UnitAccesses;

static void add_unit_access(const UnitAccesses *all, const Expr *access, const Statement *writer) {
    list_copy(all->arena, all->list, &(UnitAccess){access, writer}, sizeof(UnitAccess));
}

static void add_table_access(const UnitAccesses *all, Tensor *table) {
    if (!table) return;
    Expr *access = arena_alloc(all->arena, sizeof *access);
    *access = (Expr){.kind = EXPR_READ, .tensor = table};
    add_unit_access(all, access, NULL);
}

static void add_statement_accesses(const UnitAccesses *all, const Statement *statement,
                                   const Kernel *kernel) {
    List reads = {0}, writes = {0};
    reads_of(all->arena, statement, &reads);
    writes_of(all->arena, statement, &writes);
    for (int pass = 0; pass < 2; pass++) {
        const List *list = pass ? &writes : &reads;
        LIST_EACH(const Expr, access, list) {
            const Local *local = kernel ? local_in(kernel, access->tensor) : NULL;
            if (!local || local->stored) add_unit_access(all, access, pass ? statement : NULL);
        }
    }
}

/* A scatter reads the lists of its rows: on a GPU always, elsewhere if the kernel has `listed`. */
static void add_member_accesses(const UnitAccesses *all, const Kernel *kernel,
                                const Member *member) {
    const Relation *relation = all->program->target->launches
                                   ? listed_rows(all->program, member->statement)
                                   : member->listed;
    add_statement_accesses(all, member->statement, kernel);
    if (!relation) return;
    add_table_access(all, relation->start);
    add_table_access(all, relation->list);
}

static void add_kernel_accesses(const UnitAccesses *all, const Kernel *kernel) {
    for (int i = 0; kernel && i < kernel->members.count; i++)
        add_member_accesses(all, kernel, kernel->members.items[i]);
}

static void add_tables(const UnitAccesses *all, const Contraction *contraction) {
    add_table_access(all, contraction->gather);
    add_table_access(all, contraction->gather_b);
    add_table_access(all, contraction->relation ? contraction->relation->group : NULL);
}

List unit_accesses(Arena *arena, const Program *program, const ScheduleUnit *unit) {
    List list = {0};
    const UnitAccesses all = {arena, program, &list};
    const Kernel *kernel = unit->kernel ? unit->kernel : unit->epilogue;
    add_kernel_accesses(&all, unit->prologue);
    for (int i = 0; i < STEP_OPERANDS; i++) add_kernel_accesses(&all, unit->elements[i]);
    if (kernel)
        add_kernel_accesses(&all, kernel);
    else if (unit->kind != UNIT_REPEAT)
        add_statement_accesses(&all, unit->statement, unit->elements[0]);
    if (unit->accumulated_product) {
        const Contraction *second = unit->accumulated_product->contraction;
        add_unit_access(&all, second->a, NULL);
        add_unit_access(&all, second->b, NULL);
        add_table_access(&all, second->gather);
    }
    if (unit->contraction) add_tables(&all, unit->contraction);
    return list;
}
