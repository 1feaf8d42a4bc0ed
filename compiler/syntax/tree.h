/* tree: the syntax tree of a .moe file. Built by the parser, read by fmt and by the elaborator.
 *
 * There is one node type. `kind` is the grammar rule, `name` and `number` hold a token, `kids` are the parts in the order of
 * the rule. An omitted part is NULL. The comment of each kind contains its rule; (x)* is a list of kids.
 */
#ifndef TREE_H
#define TREE_H

#include "base/diagnostics.h"

typedef enum NodeKind {
    /* items of a file */
    NODE_FILE, /* (item)* */
    NODE_USE,  /* use NAME                                  name */
    NODE_LAYER, /* layer NAME(formals) -> formal { body }    name; kids: FORMALS, FORMAL or NULL, BLOCK */
    NODE_OPTIMIZER,       /* optimizer NAME { body }                   name; kids: BLOCK */
    NODE_SCHEDULE,        /* schedule NAME { body }                    name; kids: BLOCK */
    NODE_PARAMETRIZATION, /* parametrization NAME { body }        name; kids: BLOCK */
    NODE_MODEL, /* model NAME = NAME { record }              name; kids: NAME, RECORD or NULL; with `transfer NAME { record }
                        from NAME` also MADE (with a record or NULL), NAME */
    NODE_EXPERIMENT, /* experiment NAME [= BASE] { plan }         name; kids: RECORD, of ENTRY, VARY, TUNE and EQUALISE; BASE */

    NODE_MACHINE, /* machine NAME record                  name; kids: RECORD */
    NODE_LAYOUT, /* layout NAME for NAME { rows }            name; kids: NAME, BLOCK of ENTRY, RULE, UNREAD, AXIS, TENSOR;
                    layout NAME = NAME { rows }: number == 1 */

    /* layers */
    NODE_FORMALS, /* (FORMAL)* */
    NODE_FORMAL, /* NAME or NAME[subs]      name; kids: SUBS or NULL.  x[..., d] has an ELLIPSIS as its first sub */
    NODE_BLOCK, /* (statement)* */

    /* statements */
    NODE_OPTION, /* option PATH: type in limits = default "text"   name ("heads.q"); kids: TYPE, LIMITS or NULL, value or NULL,
                      STRING or NULL */
    NODE_ALIASES, /* was [a, b => c] suggest [d]   (ALIAS)*, in Node.aliases */
    NODE_ALIAS,   /* NAME or NAME => value   name (a path); number == 1: only suggested;
                     kids: the new value, or none */
    NODE_TYPE,    /* int float bool enum list record axes layer any  name */
    NODE_LIMITS, /* in [a, b, c] (words, numbers) or in a..b       kids: LIST, or RANGE (kids: value or NULL, value or NULL) */
    NODE_AXIS,   /* axis NAME = expr         name; kids: expr */
    NODE_SEQUENCE, /* sequence NAME = expr     name; kids: expr */
    NODE_PARAM, /* param NAME[subs] ~ expr { freeze, lr = expr }  name; kids: SUBS, expr or NULL, RECORD or NULL (of ENTRY,
                      whose value may be NULL).  param a[..], b[..] makes one node each */
    NODE_STATE, /* state NAME[subs] = expr  name; kids: SUBS or NULL, expr */
    NODE_INPUT, /* input NAME[subs]: KIND = expr   name; kids: SUBS or NULL, NAME (token, next_token, float, class),
                      expr or NULL */
    NODE_EQUATION, /* NAME[subs] = expr        name; kids: SUBS or NULL, expr */
    NODE_UPDATE,   /* update NAME[subs] = expr name; kids: SUBS or NULL, expr */
    NODE_REFINE,   /* refine NAME[subs] = expr name; kids: SUBS or NULL, expr */
    NODE_LOSS,     /* loss = expr              kids: expr */
    NODE_AUX,      /* aux NAME = expr          name; kids: expr */
    NODE_PROBE,    /* probe NAME[subs] = expr was [a]   name; kids: SUBS or NULL, expr */
    NODE_OUTPUT,   /* output NAME              name */
    NODE_CACHE,    /* cache NAME               name */
    NODE_PROVIDE,  /* provide NAME[subs] = expr   name; kids: SUBS or NULL, expr */
    NODE_REQUEST,  /* request NAME[subs] = expr   name; kids: SUBS or NULL, expr or NULL */
    NODE_REPEAT, /* repeat NAME[i < expr] shared { }   name; number: shared; kids: NAME (i), expr, BLOCK */
    NODE_SCAN, /* scan (NAME[subs] from expr)* over NAME reversed { }   name (the axis); kids: LIST of STATE (kids: SUBS or
                      NULL, expr or NULL), NAME (reversed) or NULL, BLOCK */
    NODE_IF,   /* if expr { } else { }     kids: expr, BLOCK, BLOCK or NODE_IF or NULL */
    NODE_MATCH, /* match expr { (case)* }   kids: expr, (CASE)* */
    NODE_CASE, /* word, word => { }        kids: LIST of NAME/NUMBER (empty list for `else`), BLOCK */
    NODE_FOR, /* for NAME in expr { }     name; kids: expr (a list, or RANGE 0..n, end exclusive), BLOCK */
    NODE_REQUIRE, /* require expr "text"      kids: expr, STRING */
    NODE_EXTERN, /* extern NAME "FILE:FUNCTION" { gradient, blocks = expr }   name (the target); kids: STRING, RECORD or
                    NULL (of ENTRY, whose value may be NULL) */
    NODE_KIND,   /* kind NAME if expr { }    name; kids: expr or NULL, BLOCK */

    /* layouts */
    NODE_RULE, /* from PATH = value in limits else value if PATH == NAME   name; kids: value, LIMITS or NULL, value or NULL,
                  BINARY or NULL */
    NODE_UNREAD, /* from PATH, PATH                          kids: (NAME)* */
    NODE_TENSOR, /* "NAME"[subs] = expr                      name; kids: SUBS or NULL, expr */

    /* records and their values (also option defaults) */
    NODE_RECORD, /* { (ENTRY)* }             commas between entries are optional */
    NODE_ENTRY,  /* PATH = value             name ("attention.heads.q"); kids: value */
    NODE_VARY, /* vary PATH = value       name ("attention.heads.q"); kids: value.  vary { record } has no name, "" */
    NODE_TUNE, /* tune PATH = value       name ("train.lr"); kids: value */
    NODE_EQUALISE, /* match WORD by PATH      name ("params"); kids: NAME (the path), or LIST of them with [PATH, PATH] */
    NODE_MADE,     /* NAME { record }          name; kids: RECORD       a layer with its options */

    /* expressions */
    NODE_NUMBER,   /* number, name = its text */
    NODE_STRING,   /* name = its text without quotes */
    NODE_NAME,     /* name */
    NODE_LABELLED, /* NAME@LABEL               name; kids: NAME (label) */
    NODE_LIST,     /* [a, b, c]                (expr)* */
    NODE_RANGE,    /* a..b                     kids: expr or NULL, expr or NULL */
    NODE_FIELD,    /* e.NAME                   name; kids: e */
    NODE_INDEXED,  /* e[subs]                  kids: e, SUBS */
    NODE_CALL,     /* e(args; options)         kids: e, LIST of expr, RECORD or NULL */
    NODE_SUBS,     /* (expr | ELLIPSIS)* */
    NODE_ELLIPSIS, /* ... */
    NODE_TUPLE,    /* (a, b), of indices      (NAME)* */
    NODE_REDUCE,  /* sum[i, j in t] e         name (sum mean max min logsumexp); kids: BINDERS, e */
    NODE_BINDERS, /* (NAME)*, then `in` relation or NULL as number==1: kids: (NAME)*, relation expr last when number == 1 */
    NODE_UNARY,   /* -e, not e                name ("-", "not"); kids: e */
    NODE_BINARY, /* a + b                    name (+ - * / % ^ == != < <= > >= and or); kids: a, b */
    NODE_KIND_COUNT
} NodeKind;

typedef struct Node {
    NodeKind kind;
    Span span;      /* the whole construct */
    Span name_span; /* location of `name`, for carets */
    const char *name;
    double number;
    struct Node **kids;
    const struct Node *aliases; /* former and similar names: ALIASES or NULL */
    int count;
    int depth; /* of the tree below; the parser rejects trees deeper than 200, so walks can recurse */
} Node;

Node *node_new(Arena *arena, NodeKind kind, Span span);
Node *node_named(Arena *arena, NodeKind kind, Span span, const char *name, Span name_span);
void node_add(Arena *arena, Node *node, Node *kid);           /* kid may be NULL */
const Node *node_called(const List *nodes, const char *name); /* the first, or NULL */
const char *node_kind_name(NodeKind kind);
/* True if the node is a statement list or contains one. The node may be NULL. */
bool node_holds_statements(const Node *node);
bool node_mentions(const Node *node, const char *name); /* it contains a NODE_NAME with that name */

/* parse: a source to its tree. Reports several syntax errors; returns NULL only if the source is unreadable. */
Node *parse(Arena *arena, Reports *reports, const Source *source);
/* Parses one record entry, `path = value`, from --set; returns a NODE_ENTRY or NULL. */
Node *parse_entry(Arena *arena, Reports *reports, const Source *source);

/* fmt: a tree to text in the canonical format; comments are kept. */
char *format_tree(Arena *arena, const Source *source, const Node *file);

#endif
