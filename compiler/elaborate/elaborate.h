/* elaborate.h: what the files of the elaborator share. The pass itself is elaborate.c; its parts,
 * in the order they are used, are in README.md. */
#ifndef ELABORATE_H
#define ELABORATE_H

#include "passes.h"

typedef enum Kind {
    KIND_ERROR, /* already reported */
    KIND_NONE,
    KIND_NUMBER,
    KIND_FLAG,
    KIND_WORD, /* a bare name; with a record: NAME { ... }, a layer not looked up yet */
    KIND_LIST,
    KIND_RECORD,
    KIND_LAYER,
    KIND_AXIS,
    KIND_TENSOR
} Kind;

typedef struct Record Record;

/* An option of a layer, in all its applications: does anything read it? */
typedef struct Watch {
    Span span; /* where it is given, or declared */
    const char *name;
    const Node *layer;
    bool given; /* it does not have its default */
    bool read;
    Setting *setting; /* of the model, or NULL */
} Watch;

/* What an expression or an option stands for. */
typedef struct Value {
    Kind kind;
    Span span;
    double number;       /* number, flag (0 or 1) */
    const char *word;    /* word */
    const char *written; /* the bare name that it was read by, or NULL */
    List list;           /* list: Value * */
    Record *record;      /* record; word and layer: the options given */
    const Node *layer;   /* layer, optimizer or schedule */
    Span changed;        /* record, word and layer: where a later model set its options, or none */
    const char *option;  /* layer: of which option of the model it is the value, or NULL */
    Axis *axis;
    /* tensor: `expr` for every value of `dims`, in order. Indices of expr that are not in dims are
     * bound further out. */
    Expr *expr;
    int rank;
    Index *dims[MAX_RANK];
    List results; /* Binding *: further results: `lse` of an attend, those of a layer */
    Watch *watch; /* the value of an option that is given, or NULL */
} Value;

typedef struct Entry {
    const char *name;
    Value *value;
    Span span;
    int order; /* of the model that set it: the base first */
} Entry;

struct Record {
    List entries; /* Entry * */
};

typedef struct Binding {
    const char *name;
    Value *value;
    Span span;
} Binding;

typedef struct Scope {
    struct Scope *parent;
    List bindings;    /* Binding *; of one name, the last counts */
    Table names;      /* the same by name, once they are many */
    bool transparent; /* of an `if` or `match`: new names belong to the block around it */
} Scope;

/* A path segment that is taken by a layer. */
typedef struct Instance {
    const char *name;
    int again; /* the number to try when the name is wanted again */
    const Node *layer;
    Span call;
} Instance;

/* One application of a layer. */
typedef struct Frame {
    const Node *layer;
    const char *path; /* public path of what it defines, "block.{i}.attention"; "" at the root */
    struct Frame *caller;
    const char *option; /* of the model, whose value the layer is: "attention"; NULL: none */
    Span call;
    Span chosen;   /* where the layer was chosen as an option; none: it was applied by its name */
    Record *given; /* its options */
    bool refused;  /* by a requirement, or for sizes that do not divide */
    int depth;
    int repeats; /* iterations of the repeats around it; 0: none */
    int ambient_count;
    Index *ambient[MAX_RANK]; /* indices the layer is mapped over: batch first, then those it was
                                 applied under */
    Table instances;          /* Instance *: path segments taken by the layers it applied */
    bool shared; /* applied before under this path: what it declares is there already */
} Frame;

/* A named term of the loss that sums over depth. */
typedef struct Term {
    const char *name;
    Expr *sum; /* so far, in the block being built */
    Tensor *carried;
    Span span;
} Term;

/* The repeat being built. */
typedef struct Region {
    Index *index; /* NULL: an inlined step */
    long steps;
    List terms; /* Term *: those met inside */
    struct Region *outer;
} Region;

/* While a step of a repeat is read: which others go the same way (repeat.c). */
typedef struct Alike {
    Value *index; /* which step it is; watched */
    long first, count;
    bool *same; /* [count] */
} Alike;

/* Indices of the equation being read. */
typedef struct EquationIndex {
    const char *name;
    Index *index;
    Span span; /* where it was met first */
    bool reduced;
} EquationIndex;

typedef struct Equation {
    const Node *node; /* as it was written; NULL for a loss, a term, a probe or an update */
    List indices;     /* EquationIndex *, innermost last */
    bool has_left;
    int left_count;
    Index *left[MAX_RANK];
} Equation;

/* A parameter whose initialisation waits for its fan-in. */
typedef struct Stored {
    Tensor *tensor;
    const Node *init; /* NULL: the default */
    Scope *scope;
    bool known; /* of a shared layer: declared before */
} Stored;

typedef struct Elaborator {
    Arena *arena;
    Reports *reports;
    Unit *unit;
    Program *program;
    Block *block;
    Scope *scope;
    Frame *frame;
    Region *region;
    Alike *alike; /* NULL: nobody asks */
    Equation *equation;
    Index *scanned; /* the place of the scan whose body is being read, or NULL */
    Index *batch;
    List terms;   /* Term *, of the whole program */
    List probed;  /* Tensor *: probes, and what a GRAPH_GATHER gives */
    List once;    /* Statement *: updates of states, run last */
    List stored;  /* Stored * */
    List named;   /* Binding *: outputs asked for */
    List aliases; /* Axis *, Axis *: an axis under another name, and the axis */
    List axes;    /* Binding *: axes that layers declared, by their paths */
    Value *loss;
    Value *attributes; /* `parameters` of the model, or NULL */
    List *settings;
    List watches;   /* Watch * */
    double average; /* memory of the mean of the weights, 0: there is none (optimizer.c) */
    int random_places;
    int order;  /* models whose options were set so far */
    long steps; /* statements and expressions read so far */
} Elaborator;

enum { MAX_APPLICATIONS = 64, MAX_EXPANSION = 4096, MAX_STEPS = 400000, MAX_TENSORS = 10000 };
enum { MAX_SIZE = 2147483647 }; /* of an axis: places are ints in generated code */
/* A layer that applies itself twice, loops within loops: small texts say as much as they like, so
 * what they say is counted. Gives up where it is too much. */
void count_step(Elaborator *e, Span span);

/* ---- values ---- */
Value *value_new(Elaborator *e, Kind kind, Span span);
Value *value_number(Elaborator *e, double number, Span span);
Value *value_error(Elaborator *e, Span span);
Value *value_tensor(Elaborator *e, Expr *expr, Index *const *dims, int rank, Span span);
/* A further result of a value, by name; NULL: it has none. */
Value *value_result(const Value *value, const char *name);
void value_add_result(Elaborator *e, Value *value, const char *name, Value *result);
const char *value_kind_text(const Value *value);
char *value_text(Elaborator *e, const Value *value);
bool value_equal(const Value *a, const Value *b);

/* ---- scopes ---- */
Binding *scope_find(const Scope *scope, const char *name);
Binding *scope_own(const Scope *scope, const char *name); /* not of those around it */
void scope_add(Elaborator *e, Scope *scope, Binding *binding);
Binding *scope_bind(Elaborator *e, Scope *scope, const char *name, Value *value, Span span);
Scope *scope_opaque(Scope *scope); /* the scope that new names go to */
Scope *scope_push(Elaborator *e);
void scope_pop(Elaborator *e);

/* ---- elaborate.c ---- */
Elaborator *elaborator_new(Unit *unit);
const Node *find_model(Unit *unit, const char *name);
void report_unknown_model(Unit *unit, Span span, const char *name);
/* The layer of a model and the options it was given, base first; NULL after a report. */
const Node *model_options(Elaborator *e, const Node *model, Record *record, int depth);
/* What was set from outside. */
void override_options(Elaborator *e, Record *record);
/* The value that option `train` of the outermost layer will have; an option of it that is a layer,
 * a number. */
Value *train_group(Elaborator *e, const Node *layer, Record *record);
Value *group_layer(Elaborator *e, const Value *train, const char *name);
/* span: receives the place where it was written; may be NULL. */
double group_number(Elaborator *e, const Value *group, const char *name, double otherwise,
                    Span *span);

const char *short_name(const char *path); /* its last part */
Tensor *output_scalar(Elaborator *e, const char *name, Expr *value, Span span);

/* ---- optimizer.c ---- */
void update_program(Elaborator *e, const Node *layer, Record *record);
void step_program(Elaborator *e, const Node *layer, Record *record);

/* ---- attributes.c ---- */
void set_own(Arena *arena, Tensor *tensor, const char *name, double value);
void declared_attributes(Elaborator *e, const Node *record, Tensor *tensor);
/* `parameters` of the model's own record, taken out of it; NULL: none. */
Value *take_attributes(const Node *layer, Record *record);
void outside_attributes(Elaborator *e, const Value *list);

/* ---- records.c ---- */
Record *record_new(Elaborator *e);
Entry *record_find(const Record *record, const char *name);
Entry *given_entry(const Record *given, const char *path); /* "heads.q", or NULL */
void record_set(Elaborator *e, Record *record, const char *path, Value *value, Span span);
Record *record_copy(Elaborator *e, const Record *record);
/* Options of a group that a model has although its outermost layer, with an option `train`, does
 * not declare it; taken out of the record. */
void standard_group(Elaborator *e, const Node *layer, Record *record, const char *name);
/* A record as written: values of entries are read in the current scope. */
Record *record_evaluate(Elaborator *e, const Node *node);
const Node *find_layer(Elaborator *e, const char *name);
/* Suggests a name that is near, or lists all names of a kind where they are few. */
void help_with_kinds(Elaborator *e, NodeKind kind, const char *word);
const Node *layer_body(const Node *layer);
/* The layer that an option has by default, or NULL. */
const Node *option_layer(Elaborator *e, const Node *option);
/* Binds every option the layer declares, in the current scope, to what `given` says or to its
 * default. `prefix` is the path of the instance's options for settings, or NULL. */
void bind_option(Elaborator *e, const Node *option, Record *given, const char *prefix);
bool check_limits(Elaborator *e, const Node *option, Value *value);
void check_unknown_options(Elaborator *e, const Node *layer, Record *given);
Value *layer_option(Elaborator *e, const Value *layer, const char *name, Span span);
/* Where a word is wanted: a bare name means itself, whatever else is called so here, unless that is
 * a word. */
Value *evaluate_word(Elaborator *e, const Node *node);

/* ---- aliases.c ---- */
/* The alias of an option or a layer: a former name or value, or a suggested one; or NULL. */
const Node *alias_find(const Node *declared, const char *name, bool suggested);
const Node *option_called(const Node *layer, const char *name);
bool option_was(const Node *option, const char *name); /* a former name of it */
Span option_span(const Node *option);                  /* of the declaration without its aliases */
/* The same by its current or a deprecated name, with a note at `span` for the latter. */
const Node *option_named(Elaborator *e, const Node *layer, const char *name, Span span);
/* Replaces deprecated names in the options that a layer is given. */
void adopt_names(Elaborator *e, const Node *layer, Record *given);
/* Moves options of a model to the group that has them now: inference.weight_dtype to
 * inference.weight_dtype. */
void record_remove(Record *record, const Entry *entry);
void adopt_moves(Elaborator *e, const Node *layer, Record *record);
/* The current value for a deprecated one of an enum. */
Value *renamed_value(Elaborator *e, const Node *option, Value *value);
/* The layer, optimizer or schedule that had this name, with a note; or NULL. */
const Node *layer_formerly(Elaborator *e, const char *name);

/* Suggests an option for an unknown one at `path`: of a layer further in, of a similar meaning, or
 * of a similar name. NULL: none. */
const char *near_option(Elaborator *e, const Node *layer, const Record *given, const Entry *entry,
                        const char *path, const List *names);
const char *suggested_value(Elaborator *e, const Node *option, const char *word);
const char *suggested_layer(Elaborator *e, const char *name);

/* ---- express.c ---- */
Value *evaluate(Elaborator *e, const Node *node);
/* repeat.c: `value` is what `node` came to, and depends on the step. */
void compare_steps(Elaborator *e, const Node *node, const Value *value);
void report_unknown_name(Elaborator *e, const Value *value);
bool evaluate_number(Elaborator *e, const Node *node, const char *what, double *number);
bool evaluate_flag(Elaborator *e, const Node *node, bool *flag);
Value *apply_op(Elaborator *e, OpCode op, Value *a, Value *b, Value *c, Span span);
Expr *value_expr(Elaborator *e, Value *value);
/* An index of a reduction's own, which hides that of the same name; the end of such. */
Index *bind_reduced(Elaborator *e, const char *name, Axis *axis, Span span);
void release(Elaborator *e, Index *const *indices, int count);
Value *read_value(Elaborator *e, Value *value,
                  Span span); /* subscript-free: names do the matching */

/* ---- subscript.c ---- */
/* The dimensions of an operand among those of a result, in order, each once. */
void add_dims(Elaborator *e, Value *into, const Value *from);
/* The one axis that `name` runs over wherever it subscripts in the equation at hand or, where it
 * subscripts nothing, that of the indices it is compared with; or NULL. */
Axis *axis_subscripted(Elaborator *e, const char *name);
Value *subscript(Elaborator *e, Value *value, const Node *subs, Span span);

/* ---- apply.c ---- */
Value *call_expression(Elaborator *e, const Node *node);

/* ---- equation.c ---- */
bool axes_match(Elaborator *e, Axis *a, Axis *b);
EquationIndex *equation_find(Elaborator *e, const char *name);
Index *equation_index(Elaborator *e, const char *name, Axis *axis,
                      Span span); /* the index of that name over that axis */
Index *equation_canonical(Elaborator *e, Axis *axis,
                          Span span); /* the index that stands for an axis */
/* The place that the scan at hand stands at; a report that it is no index. */
bool names_place(const Elaborator *e, const Binding *binding);
void report_place(Elaborator *e, const char *name, Span span);
/* The axes of a list that stands where subscripts do. NULL when the name is none; `fine` becomes
 * false, after a report, when the list holds anything but axes. */
const List *axis_list(Elaborator *e, const Node *sub, bool *fine);
/* May a tensor have that many dimensions? Reports when not. */
bool fits_rank(Elaborator *e, const char *name, int rank, Span span);
int free_indices(Elaborator *e, Expr *expr,
                 Index **indices); /* those that are neither ambient nor of the repeat, in order */
int ambient_used(Elaborator *e, Expr *expr, Index **indices);
/* What a tensor of the layer at hand is called. */
const char *temporary_name(Elaborator *e, const char *name);
/* A new tensor over ambient indices used, then `dims`; the statement that defines it; its value.
 * name: NULL for a part of an equation. */
Value *define(Elaborator *e, const char *name, Index *const *dims, int rank, Reduction reduction,
              Index *const *reduced, int reduced_count, Expr *value, Span span);
bool is_plain_read(Elaborator *e, Expr *expr);
Value *materialise(Elaborator *e, const char *name, Value *value);
void equation(Elaborator *e, const Node *node);

/* ---- builtin.c ---- */
/* The call of a builtin function, or NULL when the name is none. */
bool is_function(const char *name, int arguments); /* a call that builtin_call knows */
Value *builtin_call(Elaborator *e, const Node *call, const char *name, const Node *subs);
Value *reduce(Elaborator *e, const char *kind, Index *const *indices, int count, Value *value,
              Span span);
/* The same over what a relation chooses: sum[n in c] e is sum[n] c * e; the others are those of the
 * chosen entries. */
Value *reduce_chosen(Elaborator *e, const char *kind, Index *const *indices, int count, Value *mask,
                     Value *value, Span span);

/* ---- attend_call.c ---- */
Value *attend(Elaborator *e, const Node *call, const Node *subs);

/* ---- layer.c ---- */
/* With `labelled` the label was written (norm@query): two applications of one label share what
 * they declare. */
Value *apply_layer(Elaborator *e, Value *layer, const char *label, bool labelled,
                   Index *const *under, int under_count, Value **arguments, int count,
                   Record *options, Span span);

/* Where the user asked for what the layer at hand does: the nearest call, or choice of a layer,
 * that is not the standard library's; else the nearest call. */
Span asked_here(const Elaborator *e);
bool is_written(Span span); /* by a user: it is in no standard layer */
/* A layer of the standard library that was refused: the rest of its body has no more to say. */
bool is_abandoned(const Elaborator *e);
/* An error there; the line of the standard library is a note. */
void report_asked(Elaborator *e, Span span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same at `blamed`, unless that is none. */
void report_blamed(Elaborator *e, Span blamed, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- blame.c ---- */
/* The given option that the expression, or the size of one of two axes, depends on; no source: none
 * was given by the user. */
Span blamed_here(const Elaborator *e, const Node *node);
Span blamed_axes(const Elaborator *e, const Axis *a, const Axis *b);

/* ---- statement.c ---- */
/* A model reads one text, place by place, or examples, where tokens are classes like others. */
void decide_inputs(Elaborator *e);
/* Is it a size that an axis can have? Reports when it is none. */
bool axis_can_have(Elaborator *e, const char *name, double size, Span span);
void block_statements(Elaborator *e, const Node *block);
/* The dimensions of a declared tensor: names of axes, and axis lists. */
bool declared_dims(Elaborator *e, const char *name, const Node *subs, Index **dims, int *rank);
bool evaluate_init(Elaborator *e, const Stored *stored, double fan_in, double fan_out, Init *init);
void loss_statement(Elaborator *e, const Node *node);
void metric_statement(Elaborator *e, const Node *node); /* aux and probe */

/* ---- unread.c ---- */
/* Warns of names in the layers of the user's files that nothing reads. */
void warn_unused(Unit *unit);
void warn_of_functions(Unit *unit); /* layers of the user's that have the name of one */
/* What is known of the option of a layer that is given at `span`, wherever that is applied. */
Watch *watch_option(Elaborator *e, const Node *layer, const char *name, Span span);
/* A value is read. */
void watch_read(const Value *value);
/* Warns of options that are given and that nothing has read. */
void warn_idle(Elaborator *e);
/* Marks the settings that nothing has read. */
void mark_unread(const Elaborator *e);
/* Warns of a size that is rounded where it does not divide: head_dim = floor(64 / 5). */
void warn_rounded(Elaborator *e, const Node *given);

/* ---- scan.c ---- */
void scan_statement(Elaborator *e, const Node *node);
/* Reports what cannot. */
bool may_stand_in_scan(Elaborator *e, const Node *node);

/* ---- repeat.c ---- */
void repeat_statement(Elaborator *e, const Node *node);
void add_term(Elaborator *e, const char *name, Expr *value, Span span);

/* ---- integers.c ---- */

/* Named whole numbers that subscripts, remainders and comparisons read stay exact. */
void keep_integers(Program *program);

#endif
