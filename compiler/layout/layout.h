/* layout: how files of others lay out the tensors of a model, and how they name its options.
 *
 *     layout llama for decoder {
 *       from model_type = "llama"
 *       from hidden_size = dim
 *       "model.layers.{i}.self_attn.q_proj.weight"[(h,e), d] = block[i].attention.query[d,h,e]
 *     }
 *
 * On the left stands what is theirs, on the right what is ours, and one text serves both ways.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include "moec.h"
#include "passes.h"

enum { LAYOUT_RANK = 8, LAYOUT_INDICES = 16, LAYOUT_PARTS = 8 };

/* One place of ours that a line speaks of: "block[i].attention.query[d,h,e]". */
typedef struct LayoutPart {
    const Node *node;
    const char *path;     /* "block.{i}.attention.query" */
    const Node *subs;     /* NODE_SUBS or NULL */
    double factor, shift; /* theirs is factor * ours + shift */
} LayoutPart;

/* "NAME"[subs] = part, or [part, part, ...][k]; no part: theirs is not read, and not written. */
typedef struct LayoutLine {
    const Node *node;
    int part_count;
    LayoutPart parts[LAYOUT_PARTS];
    const char *choice; /* the index that numbers the parts, or NULL */
} LayoutLine;

/* What belongs to a base comes first; what is said again takes its place. */
typedef struct Layout {
    const Node *node;
    const char *name, *base; /* base: the layer of the models */
    List entries;            /* Node * NODE_ENTRY: options that all of them have */
    List rules;              /* Node * NODE_RULE; the first one recognises */
    List unread;             /* Node * NODE_NAME: keys that say nothing of the model */
    List lines;              /* LayoutLine * */
    List axes;               /* Node * NODE_AXIS */
    List uses;               /* Node * NODE_USE: files that the spec uses besides */
    List files;              /* const char *: all files that the spec uses, without ".moe" */
} Layout;

/* mapping.c: which elements of `tensors`, of a model, make up which tensor of theirs,
 * MoecFileTensor *. Errors point into the layout. */
List layout_tensors(Unit *unit, const Layout *layout, MoecCompiler *model,
                    const MoecNamedTensor *tensors, int count);

/* config.c: how many of the keys have a rule where the first rule holds; else 0. */
int layout_recognises(Unit *unit, const Layout *layout, const MoecPair *pairs, int count);
/* The options that the pairs give: LayoutOption *, in the order of the layout. `others` receives
 * the keys that no rule knows, const char *. */
typedef struct LayoutOption {
    const char *path, *text;
    bool kept; /* said even where it is the default */
} LayoutOption;
List layout_options(Unit *unit, const Layout *layout, const MoecPair *pairs, int count,
                    List *others);
/* Whether a key, or the one that it stands below, says nothing of the model. */
bool layout_unread(const Layout *layout, const char *key);
/* The text of a model with these options. */
char *layout_spec(Arena *arena, const Layout *layout, const char *name, const List *options);
/* The other way: MoecPair *, the values that the options of a model have. */
List layout_pairs(Unit *unit, const Layout *layout, MoecCompiler *model);

/* Whether a value is what every model of the family has. */
bool layout_constant(const Node *value);

/* words.c: `in { theirs = ours }` of a rule. NULL where there is none for it; without words every
 * word is the same on both sides. */
const char *layout_our_word(const Node *rule, const char *theirs);
const char *layout_their_word(Arena *arena, const Node *rule, const char *ours);
char *layout_known_words(Arena *arena, const Node *rule);
/* Of `repeat(pattern, layers)`: pattern, and layers; NULL for another value. */
const Node *layout_repeated(const Node *value, const Node **count);
/* A list of their words, one a line, as our shortest "[a, b]" that gives it when it is repeated;
 * NULL with a word that is not known. And back, `count` lines. */
char *layout_pattern(Arena *arena, const Node *rule, const char *lines, const char **unknown);
char *layout_lines(Arena *arena, const Node *rule, const char *list, long count);

/* The value of arithmetic over numbers and options; false when it has something else in it. `find`
 * gives the value of an option by its path. */
typedef bool (*FindOption)(void *context, const char *path, double *value);
bool layout_number(Arena *arena, const Node *node, FindOption find, void *context, double *value);
/* A FindOption whose context is a MoecCompiler *. */
bool layout_option_number(void *context, const char *path, double *value);
/* The indices of one subscript: h and e of (h,e). NULL: it is none; reversed: -h, from the end. */
int layout_indices(const Node *sub);
const Node *layout_index(const Node *sub, int i, bool *reversed);
/* The dotted path of names, or NULL. */
const char *layout_path(Arena *arena, const Node *node);

#endif
