/* nest: functions that build loop nests for fuse. */
#ifndef NEST_H
#define NEST_H

#include "analysis/access.h"
#include "analysis/range.h"
#include "schedule/kernel.h"

/* ---- loop_order.c ---- */

/* A statement with its loops in execution order. */
Member *order_loops(Program *program, Statement *statement);
/* The number of operations of a statement. */
double statement_work(const Statement *statement);
/* Kernels with fewer operations are small: see Target. */
double small_work(const Program *program);

/* ---- nest.c ---- */

/* nest_add: adds a statement to the kernel if that is allowed and useful; `fresh`: always, in its
 * own nest. */
bool nest_add(Program *program, Kernel *kernel, Statement *statement, bool fresh);

/* ---- sharing.c ---- */

/* Loops of a nest: members inside; level: its index among the loops of its members. */
bool is_inside(const Member *member, const Nest *nest);
bool reduces_at(const Member *member, const Nest *nest);
bool is_innermost(const Nest *nest);
/* True for a tensor that is in a variable alone. */
bool is_register(const Kernel *kernel, const Tensor *tensor);
/* Iterations of the longest inner loops. */
long iterations_inside(const Nest *nest);
/* The chain of a nest: its outer loops, in which each member has its own element per iteration. */
typedef struct Chain {
    int length;
    Nest *last; /* of these loops */
    long iterations;
    LoopBy by; /* BY_ALL, BY_COLUMNS or BY_BLOCKS; an empty chain is a single block */
} Chain;
Chain chain_from(const Kernel *kernel, Nest *nest);
/* True if threads may share an inner loop: each owns its elements or its partial sum. */
bool threads_may_share(const Kernel *kernel, const Nest *nest, int level);
/* The number of loops from `nest` inwards that can be shared as one. */
int shared_chain(const Kernel *kernel, const Nest *nest, int level);
/* The number of GPU threads among which the iterations of a statement are distributed. */
double statement_threads(const Kernel *kernel, const Member *member);

/* The last of the joined loops; the iterations of all of them. */
Nest *last_joined(Nest *nest);
long joined_iterations(const Nest *nest);

/* ---- vector_access.c ---- */

/* The index of the loop in an expression, or NULL. */
const Index *index_of_loop(const Kernel *kernel, const Nest *nest, const Expr *expr);
/* True if `width` adjacent iterations of a loop access adjacent elements. */
bool lies_along(const Kernel *kernel, const Nest *nest, const Expr *access, int width);
/* Iterations of an innermost loop that a thread runs together; 0 if one at a time is faster. alone:
 * no other loop is shared with it; the last iterations may then be fewer. */
int vector_width(Arena *arena, const Kernel *kernel, const Nest *nest, bool alone);
/* The same of a loop that contains others. */
int vector_width_around(Arena *arena, const Kernel *kernel, const Nest *nest);

/* ---- map.c, map_scatter.c, map_scan.c ---- */

/* Sets the maps of a kernel; root: NULL without statements. */
void map_kernel(const Program *program, Kernel *kernel);
/* Sets the map of a nest that is one scatter of rows, or returns false. */
bool map_scatter(const Program *program, const Kernel *kernel, Nest *nest, LaunchMap *map);
/* The only member of a nest, or NULL; iterations of its loops. */
Member *scatter_member(const Kernel *kernel, const Nest *nest);
long scatter_iterations(const Member *member, int from, int to);
ScanMap *map_scan(const Program *program, const Statement *scan);

/* ---- epilogue.c ---- */

/* Sets the epilogues of the products and attentions of a block; units: by index in its statements,
 * NULL for loops that are no product. Sets `when` to the index of each statement, or of the product
 * that computes it in its store or directly before. */
void epilogue(Program *program, const List *statements, ScheduleUnit *const *units, int *touched,
              int *when);

/* ---- gemm_epilogue.c ---- */

/* Adds the next statement after a dense product to its epilogue if possible. first, next: the
 * product and that statement, with corresponding loops; kept: the result has other readers. */
/* Copies a unit of a product and the contraction in it. */
void copy_product(ScheduleUnit *to, const ScheduleUnit *from);
bool gemm_epilogue(ScheduleUnit *unit, const Member *first, const Member *next, bool kept);

/* ---- dual_gemm.c ---- */

/* True if two statements read the same element in the same iterations of their loops. */
bool same_address(const Expr *one, const Expr *other);

/* The index of an earlier product that can use the tiles of the one at `position`, or -1. */
int find_pair(Program *program, const List *statements, ScheduleUnit *const *units, const int *when,
              int position);

/* ---- first_sums.c ---- */

/* Sets overwrites_gradient of the units. */
void first_sums(Schedule *schedule);

/* ---- unit_accesses.c ---- */

/* writer: the statement that writes the element; NULL: it is read. */
typedef struct UnitAccess {
    const Expr *access;
    const Statement *writer;
} UnitAccess;

/* UnitAccess *: of a unit, without the body of a repeat and without tensors in variables. */
List unit_accesses(Arena *arena, const Program *program, const ScheduleUnit *unit);

/* ---- moves.c ---- */

/* True if a kernel cannot move past a unit: one of them writes a tensor that the other accesses,
 * and that is none of `except`. */
bool kernel_meets_unit(Arena *arena, const Kernel *kernel, const ScheduleUnit *unit,
                       const Tensor *const *except, int count);
void remove_unit(List *units, int at);

/* ---- row_prologue.c, step_operands.c ---- */

/* Moves small kernels into the launches of the rows that they make. */
void row_prologue(Schedule *schedule);
/* Moves kernels into the attention that reads their results. */
void step_operands(Schedule *schedule);

/* ---- locals.c ---- */

/* Selects tensors of a kernel that live in variables. users[tensor->id] is the only kernel that
 * accesses it, or NULL. */
void choose_locals(Program *program, Kernel *kernel, Kernel *const *users);

/* ---- online_softmax.c ---- */

/* Moves sums of exponentials minus their maximum into the loop of the maximum. True if there are
 * any: more tensors may then live in variables. */
bool online_softmax(Program *program, const Kernel *kernel);

#endif
