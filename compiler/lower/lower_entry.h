/* lower_entry: lowers the units of a program to kernels and host steps; declarations shared by its
 * files and by the hooks of calls. */
#ifndef LOWER_ENTRY_H
#define LOWER_ENTRY_H

#include "ir/call.h"
#include "lower/lower.h"
#include "module/lowered.h"

/* Differences between targets in the units of a schedule. */
typedef struct LowerTarget {
    /* Adds the function of a kernel and the step that runs it. */
    void (*kernel)(EntryLowering *lowering, Kernel *kernel);
    /* Completes the step of a dense product; NULL: a library or the host computes it. */
    void (*product)(EntryLowering *lowering, const ScheduleUnit *unit, HostStep *step);
    void (*grouped)(EntryLowering *lowering, const ScheduleUnit *unit);
    /* `count` units from `first` on that share a launch; GPUs only. */
    void (*rows)(EntryLowering *lowering, const List *units, int first, int count);
    /* The loops of the optimizer kernel. */
    Launch (*nests)(EntryLowering *lowering, const Kernel *kernel);
    bool apart; /* kernels are in a separate text */
} LowerTarget;

extern const LowerTarget lower_host;

/* lower_module for any target. */
Module *module_for(Arena *arena, Schedule *const *schedules, int count, const LowerTarget *target,
                   Hosting hosting, bool plain);

struct EntryLowering {
    Lowering lower; /* of the current kernel, and its input */
    Module *module;
    const LowerTarget *target; /* of the module; for the learning rate, the host */
    Entry *entry;              /* counts its kernels, products and operations */
    bool *declared;            /* by tensor->id: the run function needs a pointer */
    double repeats;            /* number of executions of the current steps */
    int bindings;              /* before the current kernel */
    List *steps;               /* receives steps */
    List equations;            /* const Statement *: of the next step */
    List begun;                /* HostStep *: exchanges; the first `ended` ones have an end */
    int ended;
    List counters; /* Param *: pointers to counters, after the scratch memory */
    size_t counter_bytes;
};

/* ---- lower_kernel.c ---- */

/* The units of a schedule for a host: see LowerTarget. */
void lower_kernel(EntryLowering *lowering, Kernel *kernel);
void lower_grouped(EntryLowering *lowering, const ScheduleUnit *unit);
void add_param(Arena *arena, List *params, Param param);
/* An argument: the element of an access where all loops are 0. */
void add_operand_param(EntryLowering *lowering, List *params, const Expr *access, bool written);
/* Adds parameters for everything that the current kernel uses, after existing ones. */
void add_params(EntryLowering *lowering, List *params);
/* Adds the statements of a kernel: those in a nest, or all (NULL). */
void add_statements(Arena *arena, const Kernel *kernel, const Nest *nest, List *statements);
/* Adds the members and locals of a kernel to those of kernels that share a launch. */
void merge_kernel(Arena *arena, Kernel *all, const Kernel *kernel);
/* Adds loops to the module, completely lowered. */
void add_loops(EntryLowering *lowering, LoopKernel *loops, const char *name);
/* Between these two calls a separate kernel is lowered. nest: the part of the schedule's kernel in
 * it, or NULL. Adds a step that launches it. */
LoopKernel *open_kernel(EntryLowering *lowering, Kernel *kernel);
void launch_kernel(EntryLowering *lowering, LoopKernel *loops, const Nest *nest);
Section *add_section(Arena *arena, List *sections, Section section);
Launch lower_update_nests(EntryLowering *lowering, const Kernel *kernel);

/* ---- lower_calls.c, lower_units.c ---- */

/* Adds a step, with the equations since the last one. */
HostStep *add_step(EntryLowering *lowering, HostStepKind kind);
/* Adds the launch of a kernel. */
LaunchStep *add_launch(EntryLowering *lowering, const char *kernel, Launch launch,
                       const List *arguments);
/* Adds a step with all operands of a call: inputs, then outputs. Sizes get their constants in this
 * order, or backwards. */
HostStep *add_call(EntryLowering *lowering, const Statement *statement, HostStepKind kind,
                   bool backwards);
/* Adds a value to the arguments of a call or to the fields of a record (field: NULL in arguments
 * and arrays): the name of a constant; numbers; an array or record that is filled later; an operand
 * of the step, -1: NULL. */
HostValue *add_name(Arena *arena, List *values, const char *field, const char *name);
HostValue *add_number(Arena *arena, List *values, const char *field, long number);
HostValue *add_real(Arena *arena, List *values, const char *field, double number);
void add_numbers(Arena *arena, List *values, const char *field, const long *numbers, int count);
HostValue *add_array(Arena *arena, List *values, const char *field, const char *type);
HostValue *add_operand(Arena *arena, List *values, const char *field, const HostStep *step,
                       int number);
/* Adds a constant of this type as an argument of a call. Returns its fields. */
List *add_options(EntryLowering *lowering, HostStep *step, const char *type);
/* Adds room for operands of a step; sets one to a tensor from the element where all loops are 0
 * (NULL: absent), or to the value of an integer. */
void add_operands(EntryLowering *lowering, HostStep *step, int count);
void set_access(EntryLowering *lowering, HostStep *step, int number, const Expr *access,
                Access kind);
void set_value(EntryLowering *lowering, HostStep *step, int number, const Expr *read);
/* Adds an equation to the next step. */
void add_equation(EntryLowering *lowering, const Statement *statement);
void lower_units(EntryLowering *lowering, const List *units);

/* ---- lower_entry.c, lower_update.c ---- */

void lower_program(Module *module, const LowerTarget *target, Schedule *schedule,
                   const char *prefix);
void lower_update(Module *module, const LowerTarget *target, Program *program);
/* A parameter points to this many counters of a GPU: zero at the start of a run, and after each
 * launch. */
void add_counters(EntryLowering *lowering, Param *param, long count);
/* ---- lower_device_*.c ---- */

void lower_device_kernel(EntryLowering *lowering, Kernel *kernel);
void lower_device_dense(EntryLowering *lowering, const ScheduleUnit *unit, HostStep *step);
void lower_device_grouped(EntryLowering *lowering, const ScheduleUnit *unit);
void lower_device_rows(EntryLowering *lowering, const List *units, int first, int count);
/* The template of a tile, the part of a kernel name, its launch bounds, its size; the same for
 * warpgroups, and a larger one for these, or NULL. */
typedef struct Tile {
    const TemplateInstance *template;
    const char *name, *bounds;
    long height, breadth;
    const TemplateInstance *wgmma, *wide;
    bool single; /* passes single results */
    int threads;
} Tile;
/* A tile of one row, as wide as possible with enough of them for a whole GPU; columns: of the whole
 * launch. */
Tile row_tile(EntryLowering *lowering, const ScheduleUnit *unit, long columns);

/* ---- lower_device_templates.c ---- */

/* A template with arguments of these kinds: a number (long), a truth value (int), a class (const
 * TemplateInstance *), the type of the elements of a tensor: "nbct". */
const TemplateInstance *template_of(Arena *arena, const char *name, const char *kinds, ...);
void add_template_argument(Arena *arena, List *arguments, const Term *argument);
void add_params_as_arguments(Arena *arena, const List *params, List *arguments);
/* A kernel with a number; its variants; their calls. */
TemplateKernel *add_template_kernel(EntryLowering *lowering, TemplateKernel kernel);
void add_variant(Arena *arena, TemplateKernel *kernel, TemplateVariant variant);
void add_template_call(Arena *arena, TemplateVariant *variant, TemplateCall call);
/* A store that computes an epilogue, whose first `rows` target loops are in the row, and the
 * parameters of everything that it uses. Several stores of one kernel: add_store for each between
 * begin_kernel and end_stores; dual: the statement of a dual product, or NULL. */
TemplateStore *store_of(EntryLowering *lowering, Kernel *epilogue, int rows, int width,
                        List *params);
TemplateStore *add_store(EntryLowering *lowering, Kernel *epilogue, int rows, int width,
                         const Statement *dual);
/* A function of a row and a column that computes the elements of a kernel there, without a sum;
 * returns: the result is the value of the last member. */
TemplateStore *add_element(EntryLowering *lowering, const Kernel *kernel, int rows, bool returns);
void end_stores(EntryLowering *lowering, List *params, int bindings);
/* An object of a class of the type of the target. */
TemplateStore *plain_store(EntryLowering *lowering, const char *object, const Expr *target,
                           const Term *first, const Term *second);
/* An object of a class without fields. */
TemplateStore *no_store(Arena *arena, const char *object);
Launch lower_device_update_nests(EntryLowering *lowering, const Kernel *kernel);
void lower_shares(Module *module, Update *update);
/* Assigns a number to a kernel; the number has the same name. */
const char *device_kernel(EntryLowering *lowering, const char *name);
/* Ends a piece: the text since the last piece is a kernel or one of its variants; NULL: shared by
 * several kernels. */
void end_piece(Module *module, const char *kernel);
/* Adds a variant to a launch. */
void add_launch_variant(EntryLowering *lowering, LaunchStep *step, Launch launch, long shared);
/* Adds Written * for the launch of a kernel with several variants: `count` elements
 * from the target on; after the kernel of an epilogue, all elements that it stores, or returns
 * false. */
void put_written(EntryLowering *lowering, const Expr *target, long count, bool rounded,
                 List *written);
bool put_targets(EntryLowering *lowering, const Kernel *epilogue, bool rounded, List *written);

#endif
