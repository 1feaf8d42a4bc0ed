/* torch: declarations that the printer of PyTorch models shares. README.md lists its parts. */
#ifndef TORCH_H
#define TORCH_H

#include "passes.h"

#include "abi/step_path.h"
#include "ir/ir.h"

/* The number of sequences or positions of a run (no path), or a free option of the spec: its value
 * in the model and the one in the program that is compared. */
typedef struct TorchVariable {
    const char *path;
    double written, now;
    bool real; /* not only integers */
} TorchVariable;

/* A power of a variable. */
typedef struct TorchTerm {
    const TorchVariable *variable;
    double power;
} TorchTerm;

/* A number of the program that depends on variables: factor times its terms, or `added` plus the
 * factor. */
typedef struct TorchNumber {
    const void *key; /* the expression or field with the number */
    double factor;
    List terms; /* TorchTerm * */
    const TorchVariable *added;
    bool lost; /* no such number: it depends on sizes in another way */
} TorchNumber;

/* The model with some values of sizes and options. */
typedef struct TorchView {
    const Program *program;
    const List *settings; /* Setting * */
    List decisions;       /* double[3]: see Unit */
    void *owner;
} TorchView;

/* Opens the model with the current values of the variables; other options keep their values. */
typedef struct TorchReader {
    void *data;
    bool (*open)(void *data, long batch, long context, const List *variables, TorchView *view);
    void (*close)(TorchView *view);
} TorchReader;

/* A tensor that a layer reads from outside or returns. A tensor stacked over a repeat has version 0
 * before an iteration and version 1 after it. */
typedef struct TorchItem {
    Tensor *tensor;
    int version;
} TorchItem;

typedef struct TorchModule TorchModule;

/* One part of a forward pass: a statement, with the parts of its body if it is a repeat, or an
 * applied layer. */
typedef struct TorchPart {
    Statement *statement;
    TorchModule *child;
    List body;           /* TorchPart * */
    List reads, writes;  /* Expr *: all accesses of the statement or layer */
    List repeated;       /* Expr *: its writes in repeats */
    bool sees_positions; /* it depends on positions or on their number */
} TorchPart;

/* One application of a layer. Applications of one path share the weights and the attribute. */
struct TorchModule {
    const char *name, *path; /* of the layer; "block.{i}.attention" */
    const Application *application;
    TorchPart *whole;     /* the application; NULL: only weights and layers */
    List parts;           /* TorchPart * */
    List inputs, outputs; /* TorchItem * */
    List children;        /* TorchModule *, one of each path */
    List stored;          /* Tensor *: its parameters and states */
    List options;         /* TorchVariable *: those that its equations read */
    const Axis *steps;    /* of the repeat that it is an iteration of, or NULL */
    List results;         /* PyVariable *: the outputs, in their order */
    const char *class_name, *forward;
    bool uses_cache, uses_fixed, uses_config;
};

typedef enum PyKind { PY_BOOL, PY_INT, PY_TABLE, PY_REAL } PyKind;

/* A Python variable with the value of a tensor. Dimensions along which it is constant are absent.
 * A sequence dimension covers the current positions or, if `full`, all positions so far. */
typedef struct PyVariable {
    const Tensor *tensor;
    int version;
    const char *name;
    PyKind kind;
    bool absent[MAX_RANK], full[MAX_RANK];
} PyVariable;

typedef enum PyLevel {
    PY_CHOICE,
    PY_CONDITION,
    PY_COMPARISON,
    PY_SUM,
    PY_PRODUCT,
    PY_NEGATION,
    PY_POWER,
    PY_ATOM
} PyLevel;

/* An expression as Python text. dims: the indices of the dimensions of its tensor, in the order of
 * the loops of the equation. A number is no tensor. */
typedef struct Py {
    const char *text;
    PyLevel level;
    PyKind kind;
    bool number;
    int rank;
    Index *dims[MAX_LOOPS];
} Py;

/* The Python variable of the iteration of a repeat. */
typedef struct TorchLoop {
    const char *index, *name;
} TorchLoop;

/* The whole text being printed. */
typedef struct Torch {
    Arena *arena;
    Program *program;
    bool decays_all; /* weight decay of all parameters, not only of matrices */
    List variables;  /* TorchVariable *: the two sizes of a run, then free options */
    List numbers;    /* TorchNumber * */
    bool *live;      /* by tensor: it has an effect on an output */
    bool *needed;    /* by tensor: it has an effect on the first output */
    List inputs;     /* Tensor *: those that are neither tokens nor their targets */
    bool *table;     /* by tensor: it depends on positions and integers only */
    bool sees_run;   /* of the last search: it found the number of positions */
    TorchModule *root;
    List modules; /* TorchModule * */
    List classes; /* ClassText * */
    List loops;   /* TorchLoop *: the repeats around the current part */
} Torch;

/* The forward pass of one layer being printed. */
typedef struct Printer {
    Torch *torch;
    Arena *arena; /* of torch */
    TorchModule *module;
    Text text;
    int depth;
    List variables;      /* PyVariable * */
    List names;          /* const char *: in use */
    const char *like;    /* a tensor of the type of the weights, or NULL */
    bool any_order;      /* of the dimensions of the next read */
    const List *parts;   /* TorchPart * */
    int at;              /* the current part */
    int loops;           /* repeats around it */
    const char *comment; /* the last one */
    /* of the current statement */
    Statement *statement;
    Index *order[MAX_LOOPS];
    int order_count;
    Index *now; /* the sequence index of the current positions, or NULL */
    /* of a layer that a loop applies: the axis of the loop, whose index is an argument */
    const Axis *fixed;
    const char *fixed_name;
    const Axis *routing; /* of the layer that is printed next */
    /* of the current scan */
    Statement *scan;
    const char *position; /* the loop variable */
    Text before;          /* lines before the loop */
} Printer;

/* ---- modules.c ---- */
bool is_weight_or_state(const Tensor *tensor); /* a parameter or state */
/* The number of the first dimension in Python: 1 if the tensor has one for the iterations of a
 * repeat, which is none there. */
int first_axis(const Tensor *tensor);
/* The number of its dimensions along the sequence. */
int position_count(const Tensor *tensor);
void find_modules(Torch *torch);
/* The module of a path; created without parts if there is none. */
TorchModule *module_at(Torch *torch, const char *path);
/* The version of a stacked tensor at a subscript of its first dimension; 0 for other tensors. */
int version_of(const Expr *read);
bool is_stacked(const Tensor *tensor);
/* The number of accesses of the tensor. */
int access_count(const List *accesses, const Tensor *tensor);
/* Whether a later part reads the tensor, or the module returns it. */
bool read_later(const Printer *printer, const Tensor *tensor, int version);

/* ---- numbers.c ---- */
/* Finds the free options and the numbers that depend on them or on the sizes of a run. `view`: the
 * model itself. */
void find_numbers(Torch *torch, const TorchReader *reader, const TorchView *view);
const TorchNumber *torch_number(const Torch *torch, const void *key);
bool depends_on_run(const TorchNumber *number);
/* Settings of training and of moec itself are no part of the equations. */
bool is_equation_option(const char *path);

/* ---- torch_names.c ---- */
const char *python_name(const Torch *torch, const char *name);
/* "query" of "block.{i}.attention.query". */
const char *last_name(const char *path);
const char *local_stem(Printer *printer, const Tensor *tensor);
/* The name of the only result of an application in the source, "q" of "q = norm@n(q)"; or NULL. */
const char *result_stem(Printer *printer, const TorchModule *child);
const char *new_name(Printer *printer, const char *stem);
/* The longest line of a formatter; longer ones are split or marked. */
enum { LINE_LENGTH = 120 };
#define FORMAT_SKIP "  # fmt: skip"
bool name_taken(const Printer *printer, const char *name);
PyVariable *variable_of(Printer *printer, const Tensor *tensor, int version);
/* A variable of real numbers with all dimensions. */
PyVariable *python_variable(Printer *printer, const Tensor *tensor, int version, const char *name);
/* Copies its dimensions and kind from another variable. */
void copy_dims(PyVariable *variable, const PyVariable *from);
/* The variable of a parameter or state of the module; made when it is read first. */
PyVariable *stored_variable(Printer *printer, const Tensor *tensor);
/* The size of a dimension: "cache.length", "48". full: all positions so far. */
const char *python_size(Printer *printer, const Axis *axis, bool full);
/* The attribute of a layer or weight at `path` as seen from the module: "self.block[i].ffn". */
const char *attribute(Torch *torch, const TorchModule *from, const char *path, bool layer);
/* The end of the name of a list of layers, whose path up to an iteration is given: "_steps" if a
 * layer of the same name has the weights that they share, or "". */
const char *list_suffix(Torch *torch, const char *path, size_t length);
const char *class_name_of(Torch *torch, const char *name);
/* The argument of an input that is neither tokens nor targets. */
const char *input_name(const Torch *torch, const Tensor *input);
/* The attribute at a path; one that nn.Module or Python has another use for ends with "_". */
const char *attribute_name(Torch *torch, const char *path);
/* The attribute of the module with the value of an option: "eps" of "norm.eps". */
const char *option_attribute(Torch *torch, TorchModule *module, const TorchVariable *option);

/* ---- torch_express.c ---- */
Py python(Printer *printer, const Expr *expr);
/* The expression with dimensions of size 1 for those of `dims` that it lacks. */
const char *aligned(Printer *printer, Py value, Index *const *dims, int count, PyLevel least);
/* A value of the type of the weights. */
Py operand(Printer *printer, Py value);
/* The same, unless it is a number or an integer. */
Py as_real(Printer *printer, Py value);
const char *in_parentheses(Printer *printer, Py value, PyLevel least);
/* The shortest text with the same value. */
const char *shortest(Arena *arena, double number);
/* The number of an expression or field. */
Py python_number(Printer *printer, const void *key, double number);
bool is_full(const Printer *printer, const Index *index);
Index *order_find(const Printer *printer, const Index *index);
Py apply_python(Printer *printer, OpCode op, const Py *args);
void union_dims(Printer *printer, const Py *values, int count, Py *into);

/* ---- read.c ---- */
Py read_python(Printer *printer, const Expr *read);
/* The version that a read inside the current scan refers to; -1: of no tensor of the scan.
 * *dimension: the one of the position. */
int scan_version(Printer *printer, const Expr *read, int *dimension);
/* The dimension of a write inside a scan that is the position; -1: none. */
int position_dim(const Statement *scan, const Expr *write);
/* The dimension of an axis in Python. */
int dim_of(const PyVariable *variable, int axis);
/* The tensor at all positions so far along a sequence dimension. */
PyVariable *kept(Printer *printer, PyVariable *variable, int dim);

/* ---- equations.c ---- */
void print_equation(Printer *printer, Statement *statement);
/* The texts with commas between them. */
const char *comma_list(Arena *arena, const List *texts);
void python_line(Printer *printer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether the text has the word outside of comments, strings and attributes. */
bool code_has(const char *code, const char *word);
/* The source of an equation, of an application, as a comment. */
void print_comment(Printer *printer, const Statement *statement);
void print_source(Printer *printer, Span span);
void begin_statement(Printer *printer, Statement *statement);
Py equation_value(Printer *printer, const Statement *statement);
void set_dims(Printer *printer, PyVariable *variable, const Expr *target, const Py *value);
/* A new variable for the result; reuses the name of one that is not read later. */
PyVariable *define_variable(Printer *printer, const Tensor *tensor, int version);
/* The same with a stem. */
PyVariable *define_named(Printer *printer, const char *stem, const Tensor *tensor, int version);
_Noreturn void refuse(Torch *torch, Span span, const char *what);

enum { MAX_FACTORS = 12 };
/* Adds the factors of a product except for one number; returns their count, which may exceed
 * MAX_FACTORS. */
int factors_of(const Expr *expr, const Expr **factors, int count, const Expr **number);

/* ---- routed.c ---- */
/* A sum over the applications of a layer that tokens select. */
typedef struct Routed {
    Statement *statement;
    Index *index;
    TorchModule *layer;
    const Expr *mask, *output, *factors[MAX_FACTORS];
    int count;
} Routed;

/* Whether the part at `at` is such a sum. */
bool find_routed(Printer *printer, int at, Routed *routed);
/* Whether the current part is a layer that a later sum applies. */
bool is_routed(Printer *printer);
void print_routed(Printer *printer, const Routed *routed);

/* ---- torch_calls.c ---- */
/* Versions of a tensor inside a scan: at the previous and at the current position. */
enum { SCAN_BEFORE = 2, SCAN_CURRENT = 3 };
/* A variable with all dimensions of its tensor; those along which it is constant are expanded. */
const char *expanded(Printer *printer, const PyVariable *variable);
void python_call(Printer *printer, Statement *statement);

/* ---- classes.c ---- */
/* The class of a layer as the current module applies it. */
void print_layer(Printer *printer, TorchModule *layer);
/* The parts from `first` to before `end`. */
void print_parts(Printer *printer, const List *parts, int first, int end);
/* The classes of all layers and that of the model, in this order. */
const char *print_classes(Torch *torch);

#endif
