/* layout: the mapping between the tensors and options of moec and the files of a model family.
 *
 *     layout llama for decoder {
 *       from model_type = "llama"
 *       from hidden_size = dim
 *       "model.layers.{i}.self_attn.q_proj.weight"[(h,e), d] = block[i].attention.query[d,h,e]
 *     }
 *
 * The left side names keys and tensors of the files, the right side options and parameters of moec.
 * The same text serves import and export. In this folder, `theirs` refers to the files and `ours`
 * to moec.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include "moec.h"
#include "passes.h"

enum { LAYOUT_RANK = 8, LAYOUT_INDICES = 16, LAYOUT_PARTS = 8 };

/* One parameter of a line: "block[i].attention.query[d,h,e]". */
typedef struct LayoutPart {
    const Node *node;
    const char *path;     /* "block.{i}.attention.query" */
    const Node *subs;     /* NODE_SUBS or NULL */
    double factor, shift; /* theirs is factor * ours + shift */
} LayoutPart;

/* "NAME"[subs] = part, or [part, part, ...][k]. Without parts the file tensor is neither read nor
 * written. */
typedef struct LayoutLine {
    const Node *node;
    int part_count;
    LayoutPart parts[LAYOUT_PARTS];
    const char *choice; /* the index that numbers the parts, or NULL */
} LayoutLine;

/* The statements of a base come first; a repeated statement replaces the earlier one. */
typedef struct Layout {
    const Node *node;
    const char *name, *base; /* base: the layer of the models */
    List entries;            /* Node * NODE_ENTRY: options that all of them have */
    List rules;              /* Node * NODE_RULE; the first one identifies the family */
    List unread;             /* Node * NODE_NAME: keys without effect on the model */
    List lines;              /* LayoutLine * */
    List axes;               /* Node * NODE_AXIS */
    List uses;               /* Node * NODE_USE: additional files that the spec uses */
    List files;              /* const char *: all files that the spec uses, without ".moe" */
} Layout;

/* mapping.c: maps the elements of `tensors`, of a model, to file tensors, MoecFileTensor *. Errors
 * point into the layout. */
List layout_tensors(Unit *unit, const Layout *layout, MoecCompiler *model,
                    const MoecNamedTensor *tensors, int count);

/* config.c: the number of keys with a rule if the first rule holds; else 0. */
int layout_recognises(Unit *unit, const Layout *layout, const MoecPair *pairs, int count);
/* The options of the pairs: LayoutOption *, in the order of the layout. `others` receives the keys
 * without a rule, const char *. */
typedef struct LayoutOption {
    const char *path, *text;
    bool kept; /* written even if it equals the default */
} LayoutOption;
List layout_options(Unit *unit, const Layout *layout, const MoecPair *pairs, int count,
                    List *others);
/* Whether a key, or a key that contains it, is declared to have no effect on the model. */
bool layout_unread(const Layout *layout, const char *key);
/* The text of a model with these options. */
char *layout_spec(Arena *arena, const Layout *layout, const char *name, const List *options);
/* The inverse: MoecPair *, the values of the options of a model. */
List layout_pairs(Unit *unit, const Layout *layout, MoecCompiler *model);

/* Whether a value is a constant, which every model of the family has. */
bool layout_constant(const Node *value);

/* words.c: translate by `in { theirs = ours }` of a rule. NULL for an unknown word. Without such a
 * record, words are equal on both sides. */
const char *layout_our_word(const Node *rule, const char *theirs);
const char *layout_their_word(Arena *arena, const Node *rule, const char *ours);
char *layout_known_words(Arena *arena, const Node *rule);
/* A list of words in source form: [a, b]; NULL for another value. */
const char *layout_word_list(Arena *arena, const Node *list);
/* Of `repeat(pattern, layers)`: pattern, and layers; NULL for another value. */
const Node *layout_repeated(const Node *value, const Node **count);
/* layout_pattern translates their words, one per line, to the shortest "[a, b]" whose repetition is
 * the list. It returns NULL and sets `unknown` for an unknown word. layout_lines is the inverse; it
 * returns `count` lines. */
char *layout_pattern(Arena *arena, const Node *rule, const char *lines, const char **unknown);
char *layout_lines(Arena *arena, const Node *rule, const char *list, long count);

/* The value of arithmetic over numbers and options; false for other expressions. `find` returns the
 * value of an option by its path. */
typedef bool (*FindOption)(void *context, const char *path, double *value);
bool layout_number(Arena *arena, const Node *node, FindOption find, void *context, double *value);
/* A FindOption whose context is a MoecCompiler *. */
bool layout_option_number(void *context, const char *path, double *value);
/* The indices of one subscript: h and e of (h,e). NULL: not an index; reversed: -h, counted from
 * the end. */
int layout_indices(const Node *sub);
const Node *layout_index(const Node *sub, int i, bool *reversed);
/* The dotted path of names, or NULL. */
const char *layout_path(Arena *arena, const Node *node);

#endif
