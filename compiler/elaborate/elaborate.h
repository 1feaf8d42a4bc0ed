/* elaborate: declarations that the files of the elaborator share. The pass itself is elaborate.c;
 * README.md lists its parts. */
#ifndef ELABORATE_H
#define ELABORATE_H

#include "passes.h"

typedef enum Kind {
    KIND_ERROR, /* already reported */
    KIND_NONE,
    KIND_NUMBER,
    KIND_FLAG,
    KIND_WORD, /* a bare name; with a record: NAME { ... }, a layer that is not looked up yet */
    KIND_LIST,
    KIND_RECORD,
    KIND_LAYER,
    KIND_AXIS,
    KIND_TENSOR
} Kind;

typedef struct Record Record;

/* Tracks whether an option of a layer is read in any of its applications. */
typedef struct Watch {
    Span span; /* where it is set, or declared */
    const char *name;
    const Node *layer;
    bool given; /* it is set explicitly */
    bool read;
    Setting *setting; /* of the model, or NULL */
} Watch;

/* The value of an expression or an option. */
typedef struct Value {
    Kind kind;
    Span span;
    double number;       /* number, flag (0 or 1) */
    const char *word;    /* word */
    const char *written; /* the bare name in the source, or NULL */
    List list;           /* list: Value * */
    Record *record;      /* record; word and layer: the explicit options */
    const Node *layer;   /* layer, optimizer or schedule */
    Span changed;        /* record, word and layer: where a later model sets its options, or none */
    const char *option;  /* layer: the option of the model with this value, or NULL */
    Axis *axis;
    /* tensor: `expr` for every value of `dims`, in order. Indices of expr that are not in dims are
     * bound further out. */
    Expr *expr;
    int rank;
    Index *dims[MAX_RANK];
    List results; /* Binding *: additional results: `lse` of an attend, results of a layer */
    Watch *watch; /* of an option that is set, or NULL */
} Value;

typedef struct RecordField {
    const char *name;
    Value *value;
    Span span;
    int order; /* of the model that sets it: the base first */
} RecordField;

struct Record {
    List entries; /* RecordField * */
};

typedef struct Binding {
    const char *name;
    Value *value;
    Span span;
} Binding;

typedef struct Scope {
    struct Scope *parent;
    List bindings;    /* Binding *; of one name, the last counts */
    Table names;      /* the same by name, in large scopes */
    bool transparent; /* of an `if` or `match`: new names belong to the block around it */
} Scope;

/* A path segment in use by a layer. */
typedef struct Instance {
    const char *name;
    int again;         /* the next number if the name is used again */
    const Node *layer; /* NULL: a repeat or a declaration */
    Span call;
} Instance;

/* An option that a layer of the standard library sets and a user layer does not declare: the layers
 * that it applies receive it. */
typedef struct Passed {
    const char *path;
    const RecordField *entry;
    bool received;
} Passed;

/* One application of a layer. */
typedef struct Frame {
    const Node *layer;
    const char
        *path; /* public path prefix of its definitions, "block.{i}.attention"; "" at the root */
    const char
        *stored; /* the same for parameters and states: without iterations of shared repeats */
    struct Frame *caller;
    Application *application;
    const char
        *option; /* the option of the model with this layer as its value: "attention"; or NULL */
    Span call;
    Span chosen;   /* the option value that selects the layer; none: it is applied by its name */
    Record *given; /* its options */
    List passed;   /* Passed *: options that it does not declare, for the layers that it applies */
    bool refused;  /* rejected by a requirement or by sizes that do not divide */
    int depth;
    int repeats;        /* iterations of the repeats around it; 0: none */
    const char *repeat; /* path segment of the repeat whose iterations are read */
    int ambient_count;
    Index *ambient[MAX_RANK]; /* indices that the layer is mapped over, batch first */
    List externs;             /* ExternChoice *: see extern_layer.c */
    Table instances;          /* Instance *: path segments of its calls and shared repeats */
    Table repeated, declared; /* Instance *: those of other repeats, "block.0", of declarations */
    bool shared;              /* already applied under this path: its declarations exist */
    bool looped; /* in a shared repeat: repeats in it have one parameter per iteration */
} Frame;

/* A named term of the loss that sums over depth. */
typedef struct LossTerm {
    const char *name;
    Expr *sum; /* so far, in the block being built */
    Tensor *carried;
    Span span;
} LossTerm;

/* The repeat being built. */
typedef struct RepeatBuild {
    Index *index; /* NULL: an inlined step */
    long steps;
    bool shared; /* all iterations have the same parameters */
    List terms;  /* LossTerm *: of the repeat */
    struct RepeatBuild *outer;
} RepeatBuild;

/* A repeat that has been built. */
typedef struct BuiltRepeat {
    Statement *statement;
    Block *around; /* that it is in */
    Axis *stacked; /* its iterations and one more */
    long steps;
} BuiltRepeat;

/* A value that a layer provides (provide.c). */
typedef struct Provided {
    Binding binding;
    const RepeatBuild *region; /* in which it is provided */
    const BuiltRepeat *ended;  /* the same after its end, until the value is kept */
    bool iteration;            /* the number of the iteration, which compare_steps compares */
} Provided;

/* Names that an iteration of a repeat provides, and those that it requests before. */
typedef struct Effects {
    List made, needed; /* const char * */
} Effects;

/* While an iteration of a repeat is read: the iterations with the same result (repeat.c). */
typedef struct Alike {
    Value *index; /* the iteration; watched */
    long first, count;
    bool *same; /* [count] */
} Alike;

/* Indices of the equation being read. */
typedef struct EquationIndex {
    const char *name;
    Index *index;
    Span span; /* its first use */
    bool reduced;
} EquationIndex;

typedef struct Equation {
    const Node *node; /* in the source; NULL for a loss, a term, a probe or an update */
    List indices;     /* EquationIndex *, innermost last */
    bool has_left;
    int left_count;
    Index *left[MAX_RANK];
} Equation;

/* A parameter whose initialization requires its fan-in. */
typedef struct Stored {
    Tensor *tensor;
    const Node *init; /* NULL: the default */
    Scope *scope;
    bool known; /* of a shared layer: already declared */
} Stored;

typedef struct ParameterMatrix ParameterMatrix;

typedef struct Elaborator {
    Arena *arena;
    Reports *reports;
    Unit *unit;
    Program *program;
    Block *block;
    Scope *scope;
    Frame *frame;
    RepeatBuild *region;
    Alike *alike;     /* NULL: not requested */
    List provided;    /* Provided *, in the order of the statements */
    Effects *effects; /* of the iteration that is tried; NULL: it is not tried */
    Equation *equation;
    Index *scanned; /* the position of the scan whose body is being read, or NULL */
    Index *batch;
    List terms;                /* LossTerm *, of the whole program */
    List probed;               /* Tensor *: probes, and the outputs of a GRAPH_GATHER */
    List refined, refinements; /* inputs with a starting value (refine.c); their next values,
                                  outputs */
    List once;                 /* Statement *: updates of states, run last */
    List stored;               /* Stored * */
    List named;                /* Binding *: requested outputs */
    List aliases;              /* Axis *, Axis *: an alias, and its axis */
    List axes;                 /* Binding *: declared axes, by their paths */
    Value *loss;
    Value *attributes; /* `parameters` of the model, or NULL */
    List *settings;
    List watches;            /* Watch * */
    ParameterMatrix *matrix; /* the parameter whose step is read (parameter_step.c), or NULL */
    /* Reads a statement that has another meaning than in a layer; false: none. NULL: no step is
     * read. */
    bool (*own_statement)(struct Elaborator *e, const Node *node);
    double average; /* EMA decay of the weights; 0: no EMA (optimizer.c) */
    int random_count;
    int clip_groups; /* entries of `parameters` with grad_clip so far */
    int order;       /* number of models whose options are set */
    long steps;      /* number of statements and expressions read */
} Elaborator;

/* One attend in the source. */
typedef struct Attending {
    const Node *node;
    Value *query, *keys, *values; /* [position, heads, width] */
    Index *key;                   /* the position of a key, `t` of attend[t](...) */
    bool named;
    AttendOptions options;
    Value *mask;      /* an expression over query position, query head and key position, or NULL */
    Value *bias;      /* the same, added to the scores */
    Value *sink;      /* over query position and query head */
    Value *documents; /* over query position */
    Value *chosen;    /* over blocks of query positions, query heads and key positions */
    Value *table;     /* bias of the call: over query heads and distances */
} Attending;

enum { MAX_APPLICATIONS = 64, MAX_EXPANSION = 4096, MAX_STEPS = 400000, MAX_TENSORS = 10000 };
enum { MAX_SIZE = 2147483647 }; /* of an axis: positions are ints in generated code */
/* Bounds the expansion of small specs with recursive layers or nested loops. Calls report_give_up
 * above the limit. */
void count_step(Elaborator *e, Span span);

/* ---- values ---- */
Value *value_new(Elaborator *e, Kind kind, Span span);
Value *value_number(Elaborator *e, double number, Span span);
Value *value_error(Elaborator *e, Span span);
/* The same after a report, see report_invalid. */
Value *value_invalid(Elaborator *e, Span span, const char *help, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
Value *value_tensor(Elaborator *e, Expr *expr, Index *const *dims, int rank, Span span);
/* An additional result of a value by name, or NULL. */
Value *value_result(const Value *value, const char *name);
void value_add_result(Elaborator *e, Value *value, const char *name, Value *result);
const char *value_kind_text(const Value *value);
/* A value in a message, "got 'yes'": a short text, or its kind. */
const char *value_shown(Elaborator *e, const Value *value);
char *value_text(Elaborator *e, const Value *value);
bool value_equal(const Value *a, const Value *b);

/* A scalar input of the program, shared by all its readers. */
Tensor *scalar_tensor(Elaborator *e, const char *name, MoecScalar kind);
/* Whether the program is that of one refinement. */
bool is_refining(const Elaborator *e);
/* `step`, `steps` or `temperature` in that program; else NULL. */
Expr *refining_scalar(Elaborator *e, const char *name);

/* Marks a value as read. */
void watch_read(const Value *value);

/* ---- scopes ---- */
Binding *scope_find(const Scope *scope, const char *name);
Binding *scope_own(const Scope *scope, const char *name);     /* without the outer scopes */
Binding *scope_binding(const Scope *scope, const char *name); /* not a read of the value */
void scope_add(Elaborator *e, Scope *scope, Binding *binding);
Binding *scope_bind(Elaborator *e, Scope *scope, const char *name, Value *value, Span span);
Scope *scope_opaque(Scope *scope); /* the scope of new names */
Application *application_new(Elaborator *e, const char *name, const char *path, Span call);
Scope *scope_push(Elaborator *e);
void scope_pop(Elaborator *e);

/* ---- elaborate.c ---- */
Elaborator *elaborator_new(Unit *unit);
const Node *find_model(Unit *unit, const char *name);
void report_unknown_model(Unit *unit, Span span, const char *name);
/* The layer of a model; `record` receives the options of the chain of models, base first. NULL
 * after a report. */
const Node *model_options(Elaborator *e, const Node *model, Record *record, int depth);
/* Applies the overrides of the command line. */
void override_options(Elaborator *e, Record *record);
/* The value of option `train` of the outermost layer; one of its options as a layer or a number. */
Value *train_group(Elaborator *e, const Node *layer, Record *record);
Value *group_layer(Elaborator *e, const Value *train, const char *name);
/* span: receives its location in the source; may be NULL. */
double group_number(Elaborator *e, const Value *group, const char *name, double otherwise,
                    Span *span);

const char *short_name(const char *path); /* the last segment */
Tensor *output_scalar(Elaborator *e, const char *name, Expr *value, Span span);

/* ---- optimizer.c ---- */
void update_program(Elaborator *e, const Node *layer, Record *record);
void step_program(Elaborator *e, const Node *layer, Record *record);

/* ---- attributes.c ---- */
void set_own(Arena *arena, Tensor *tensor, const char *name, double value);
void declared_attributes(Elaborator *e, const Node *record, Tensor *tensor);
/* Removes `parameters` from the record of the model and returns it, or NULL. */
Value *take_attributes(const Node *layer, Record *record);
/* Sets one attribute; value NULL means true; outside: in the model. False after a report. */
bool set_attribute(Elaborator *e, Tensor *tensor, const char *name, Span span, Value *value,
                   bool outside);

/* ---- parameters.c ---- */
/* Initial values of the parameters and states from `first` on. */
void initialise(Elaborator *e, int first);
void outside_attributes(Elaborator *e, const Value *list);

/* ---- training_stages.c ---- */
/* Sets the stages of the unit, after the parameters are known. */
void training_stages(Elaborator *e, const Value *train);
/* Tokens of so many steps. */
double training_tokens(Elaborator *e, const Value *train, double steps);

/* ---- record_set.c ---- */
Record *record_new(Elaborator *e);
RecordField *record_find(const Record *record, const char *name);
RecordField *given_entry(const Record *given, const char *path); /* "heads.q", or NULL */
bool is_index(const char *name); /* of an element of a list: digits */
void record_set(Elaborator *e, Record *record, const char *path, Value *value, Span span);
Value *value_copy(Elaborator *e, const Value *value); /* with a copy of its record */
Record *record_copy(Elaborator *e, const Record *record);
/* Sets the entries of `from` (NULL: none). */
void record_merge(Elaborator *e, Record *into, const Record *from);
/* A record of the source; its values are evaluated in the current scope. */
Record *record_evaluate(Elaborator *e, const Node *node);

/* ---- records.c ---- */
/* Removes the options of the group `name` from `record` and binds them, for a model whose outermost
 * layer has an option `train` but does not declare the group. */
void standard_group(Elaborator *e, const Node *layer, Record *record, const char *name);
const Node *find_layer(Elaborator *e, const char *name);
const Node *layer_body(const Node *layer);
/* The default layer of an option, or NULL. */
const Node *option_layer(Elaborator *e, const Node *option);
/* Binds an option in the current scope to its value in `given` or to its default. `prefix` is the
 * path of the options of the instance for settings, or NULL. */
void bind_option(Elaborator *e, const Node *option, Record *given, const char *prefix);
bool check_limits(Elaborator *e, const Node *option, Value *value);
/* The layer that a word names, with its options; option: of messages. */
Value *layer_named_by_value(Elaborator *e, const Node *option, Value *value);
/* A help line with the names of the kind similar to `word`, else with all of them. */
void help_with_kinds(Elaborator *e, NodeKind kind, const char *word);
void check_unknown_options(Elaborator *e, const Node *layer, Record *given);
Value *layer_option(Elaborator *e, const Value *layer, const char *name, Span span);
/* Evaluates a word: a bare name denotes itself, unless it is bound to a word. */
Value *evaluate_word(Elaborator *e, const Node *node);

/* ---- aliases.c ---- */
/* The alias of an option or a layer: a former or a suggested name or value; or NULL. */
const Node *alias_find(const Node *declared, const char *name, bool suggested);
const Node *option_called(const Node *layer, const char *name);
bool option_was(const Node *option, const char *name); /* a former name of it */
Span option_span(const Node *option);                  /* of the declaration without its aliases */
/* The option with this current or deprecated name; notes a deprecated name at `span`. */
const Node *option_named(Elaborator *e, const Node *layer, const char *name, Span span);
/* Replaces deprecated names in the options given to a layer. */
void adopt_names(Elaborator *e, const Node *layer, Record *given);
/* Moves options of a model to their new group: train.weights to inference.weight_dtype. */
void adopt_moves(Elaborator *e, const Node *layer, Record *record);
/* The current value for a deprecated value of an enum. */
Value *renamed_value(Elaborator *e, const Node *option, Value *value);
/* The layer, optimizer or schedule with this former name, with a note; or NULL. */
const Node *layer_formerly(Elaborator *e, const char *name);

/* ---- suggest.c ---- */
/* The help line of an unknown option, an entry of `given`; `names` are the options of the layer. */
void suggest_option(Elaborator *e, const Node *layer, const Record *given, const RecordField *entry,
                    const char *path, const List *names);
const char *suggested_value(Elaborator *e, const Node *option, const char *word);
/* The help line of a layer that was chosen in a user file and lacks an option: the first layers
 * with that option. */
void help_with_layers(Elaborator *e, const char *option);
const char *suggested_layer(Elaborator *e, NodeKind kind, const char *name);
/* The help line for a function of one argument where a layer is expected; false: it is none. */
bool help_with_function(Elaborator *e, const char *name);

/* ---- express.c ---- */
Value *evaluate(Elaborator *e, const Node *node);
/* repeat.c: `value` is the value of `node` and depends on the iteration. */
void compare_steps(Elaborator *e, const Node *node, const Value *value);
void report_unknown_name(Elaborator *e, const Value *value);
bool evaluate_number(Elaborator *e, const Node *node, const char *what, double *number);
bool evaluate_flag(Elaborator *e, const Node *node, bool *flag);
Value *apply_op(Elaborator *e, OpCode op, Value *a, Value *b, Value *c, Span span);
Expr *value_expr(Elaborator *e, Value *value);
/* Begins the scope of an index of a reduction, which hides an index of the same name; `release`
 * ends it. */
Index *bind_reduced(Elaborator *e, const char *name, Axis *axis, Span span);
void release(Elaborator *e, Index *const *indices, int count);
Value *read_value(Elaborator *e, Value *value, Span span); /* without subscripts: matched by axes */

/* ---- subscript.c ---- */
/* Adds the dimensions of an operand to those of a result, in order and without duplicates. */
void add_dims(Elaborator *e, Value *into, const Value *from);
/* The axis of index `name` from its subscripts in the current equation, or else from the indices
 * that it is compared with. NULL if it is unknown or ambiguous. */
Axis *axis_subscripted(Elaborator *e, const char *name);
Value *subscript(Elaborator *e, Value *value, const Node *subs, Span span);

/* ---- apply.c ---- */
Value *call_expression(Elaborator *e, const Node *node);

/* ---- refine.c ---- */
/* The value of an input with a starting value, which is declared with `value`. */
Value *starting_input(Elaborator *e, const Node *node, Value *value);
void refine_statement(Elaborator *e, const Node *node);
/* Reports inputs with a starting value that no statement refines. */
void check_refined(Elaborator *e);

/* ---- equation.c ---- */
bool axes_match(Elaborator *e, Axis *a, Axis *b);
EquationIndex *equation_find(Elaborator *e, const char *name);
Index *equation_index(Elaborator *e, const char *name, Axis *axis,
                      Span span); /* the index of that name over that axis */
Index *equation_canonical(Elaborator *e, Axis *axis,
                          Span span); /* the index that represents an axis */
/* Whether the binding is the current position of a scan; the report that it is not an index. */
bool names_position(const Elaborator *e, const Binding *binding);
void report_position(Elaborator *e, const char *name, Span span);
/* The axes of a list in subscripts. NULL if the name is not a list. `fine` is set to false, after a
 * report, if the list contains other values. */
const List *axis_list(Elaborator *e, const Node *sub, bool *fine);
/* Checks the rank of a tensor; false after a report. */
bool fits_rank(Elaborator *e, const char *name, int rank, Span span);
/* Checks that an equation is being read; false after a report. */
bool needs_equation(Elaborator *e, Span span, const char *construct);
/* Reports a name that is bound to another value than an axis. */
void report_no_index(Elaborator *e, const Binding *binding, Span span);
/* Reports an index without an axis. */
void report_no_axis(Elaborator *e, Span span, const char *index);
int free_indices(Elaborator *e, Expr *expr,
                 Index **indices); /* those that are neither ambient nor of the repeat, in order */
int ambient_used(Elaborator *e, Expr *expr, Index **indices);
/* The name of a tensor in the current layer. */
const char *temporary_name(Elaborator *e, const char *name);
/* Sets spec_name of a tensor of the current layer. */
void name_in_spec(Elaborator *e, Tensor *tensor, const char *name);
/* Creates a tensor over the used ambient indices and `dims`, and the statement that defines it;
 * returns its value. name: NULL for a subexpression. */
Value *define(Elaborator *e, const char *name, Index *const *dims, int rank, Reduction reduction,
              Index *const *reduced, int reduced_count, Expr *value, Span span);
bool is_plain_read(Elaborator *e, Expr *expr);
Value *materialise(Elaborator *e, const char *name, Value *value);
void equation(Elaborator *e, const Node *node);
/* The value of NAME[subs] = expr, without the name. */
Value *value_of_equation(Elaborator *e, const Node *node);

/* ---- builtin.c ---- */
/* The result of a builtin function, or NULL for another name. */
/* A call that builtin_call knows; the names of all such functions. */
bool is_function(const Unit *unit, const char *name, int arguments);
void function_names(const Unit *unit, List *names);
Value *builtin_call(Elaborator *e, const Node *call, const char *name, const Node *subs);
Value *reduce(Elaborator *e, const char *kind, Index *const *indices, int count, Value *value,
              Span span);
/* A reduction over the entries that a relation selects: sum[n in c] e is sum[n] c * e. */
Value *reduce_chosen(Elaborator *e, const char *kind, Index *const *indices, int count, Value *mask,
                     Value *value, Span span);

/* The value as a tensor over all its indices. Elements along this one are adjacent in memory. */
Value *held_along(Elaborator *e, Value *value, Index *index);
/* Without an expression: the dimensions of the value, except for these indices. */
Value *without_indices(Elaborator *e, const Value *value, Index *const *indices, int count);
/* The indices in the brackets of the function `name`: names of indices of the value, and lists of
 * axes. Returns their number, 0 after an error. */
int kept_indices(Elaborator *e, const Node *subs, const Value *value, Span span, const char *name,
                 Index **kept);

/* ---- attend/attend_call.c ---- */
Value *attend(Elaborator *e, const Node *call, const Node *subs);

/* ---- layer.c ---- */
/* The path segment of a repeat or a declaration. One that is read again, in a `for` or under the
 * same name, has a number: up, up_2. */
const char *name_of_its_own(Elaborator *e, Table *names, const Node *node);
/* With `labelled` the label is explicit (norm@query): applications with the same label share their
 * parameters. */
Value *apply_layer(Elaborator *e, Value *layer, const char *label, bool labelled,
                   Index *const *under, int under_count, Value **arguments, int count,
                   Record *options, Span span);

/* The location in a user file that causes the current layer: the nearest call or selection of a
 * layer outside of the standard library; else the nearest call. */
Span asked_here(const Elaborator *e);
/* Whether a layer of the standard library is rejected: the rest of its body is not read. */
bool is_abandoned(const Elaborator *e);
/* asked_here for Reports.cause; `data`: the Elaborator. */
Span cause_of_error(void *data, Span span, const char **layer);
/* An error in the standard library whose cause is `blamed`, if that has a location. */
void report_blamed(Elaborator *e, Span blamed, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- extern_layer.c ---- */
void extern_statement(Elaborator *e, const Node *node);
/* At the end of a layer: calls its kernel for the target of the program, if it has one, and
 * replaces the results. first: the first statement of its equations in the block. */
void extern_result(Elaborator *e, Value *const *arguments, Value *result, int first);

/* ---- blame.c ---- */
/* The option that the user set and on which the expression, or the size of one of two axes,
 * depends. No source: the user set none. */
Span blamed_here(const Elaborator *e, const Node *node);
Span blamed_axes(const Elaborator *e, const Axis *a, const Axis *b);

/* ---- statement.c ---- */
/* Decides whether a model reads one sequence of tokens or examples, where token inputs are
 * classes. */
void decide_inputs(Elaborator *e);
/* Checks the size of an axis; false after a report. */
bool axis_can_have(Elaborator *e, const char *name, double size, Span span);
void block_statements(Elaborator *e, const Node *block);
/* The dimensions of a declared tensor: names of axes and lists of axes. */
bool declared_dims(Elaborator *e, const char *name, const Node *subs, Index **dims, int *rank);
bool evaluate_init(Elaborator *e, const Stored *stored, double fan_in, double fan_out, Init *init);
void loss_statement(Elaborator *e, const Node *node);
/* Logs the share of elements of the mask that are not 0, and the stated share. */
void probe_density(Elaborator *e, Tensor *mask, double share, Span span);
void metric_statement(Elaborator *e, const Node *node); /* aux and probe */

/* ---- unread.c ---- */
/* Warns about unread names in the layers of user files. */
void warn_unused(Unit *unit);
void warn_of_functions(Unit *unit); /* user layers with the name of a function */
/* The watch of an option of a layer that is set at `span`, shared by all applications. */
Watch *watch_option(Elaborator *e, const Node *layer, const char *name, Span span);
/* Warns about options that are set but not read. */
void warn_idle(Elaborator *e);
/* Marks the unread settings. */
void mark_unread(const Elaborator *e);
/* Warns about a size that does not divide and is rounded: head_dim = floor(64 / 5). */
void warn_rounded(Elaborator *e, const Node *given);

/* ---- scan.c ---- */
void scan_statement(Elaborator *e, const Node *node);
/* False after a report. */
bool may_stand_in_scan(Elaborator *e, const Node *node);

/* ---- provide.c ---- */
void provided_statement(Elaborator *e, const Node *node); /* provide and request */
Provided *provided_find(const List *provided, const char *name);
Provided *provided_set(Elaborator *e, const char *name, Value *value, Span span);
/* Whether two lists have the same names, tensors of any value, and otherwise equal values. */
bool provided_alike(const List *a, const List *b);
/* Marks the values of a repeat that has ended. */
void provided_end(Elaborator *e, const RepeatBuild *region, const BuiltRepeat *built);
/* Keeps a value of the last iteration of its repeat, which has ended. */
void keep_provided(Elaborator *e, Provided *entry);
/* An undeclared option for the layers that the current layer applies. */
void pass_on(Elaborator *e, const RecordField *entry, const char *path);
/* Reports options that neither the current layer nor a layer that it applies declares. */
void check_passed_on(Elaborator *e);
/* The options of the current layer, with one that the layers around it pass on. */
Record *with_passed(Elaborator *e, const Node *option, Record *given);

/* ---- repeat.c ---- */
void repeat_statement(Elaborator *e, const Node *node);
void add_term(Elaborator *e, const char *name, Expr *value, Span span);

/* ---- integers.c ---- */
/* Keeps named integers exact that subscripts, remainders and comparisons read. */
void keep_integers(Program *program);

/* ---- attend/attend_mask.c, attend/attend_bias.c, attend/attend_scores.c ---- */
/* Converts the mask to options and operands of the call. */
void take_mask_terms(Elaborator *e, Attending *attending);
/* True if the bias depends on the distance of the positions only. Reports the first part that does
 * not. */
bool is_bias_by_distance(Elaborator *e, const Attending *attending);
/* Converts such a bias to an operand of the call. The options of the mask are complete. */
void take_bias(Elaborator *e, Attending *attending);
/* The result of the attention as equations. */
Value *attend_scores(Elaborator *e, Attending *attending);

/* ---- parameter_layer.c ---- */
/* The layer is applied to the parameter, and its result replaces the parameter in all equations.
 * Needs parameter_facts. False after a report. */
bool apply_to_parameter(Elaborator *e, Tensor *parameter, Value *layer);
/* Whether the layer can be applied to it: one with an option rows or columns needs a matrix. */
bool fits_parameter(const Tensor *parameter, const Value *layer);

/* ---- parameter_step.c ---- */
/* Whether an optimizer reads properties of a parameter, or its rows and columns. */
bool sees_parameters(const Node *optimizer);
/* Appends the step of one parameter of the model to the current block. Returns NULL, or the
 * optimizer that it delegates the parameter to. A parameter of a repeat is processed layer by
 * layer. */
const Value *parameter_step(Elaborator *e, const Tensor *parameter, const Value *optimizer);

/* Scalar inputs of a step: lr, step, steps, clip; for elements also matrix, whether they belong to
 * one. */
void step_scalars(Elaborator *e, Scope *scope, const Tensor *parameter);
/* The weight of the current parameters in their EMA, with bias correction. */
Expr *newest_share(Elaborator *e, const Scope *scope);
/* True if train.ema_decay keeps an EMA; reports an optimizer that keeps one, too. */
bool keeps_average(Elaborator *e, const Scope *scope, const Node *optimizer);
/* Enters the body of an optimizer or a schedule. */
void enter_body(Elaborator *e, Frame *frame, Scope *scope, const Node *layer, Record *given);

#endif
