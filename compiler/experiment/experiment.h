/* experiment: expansion of an experiment into variants. */
#ifndef EXPANSION_H
#define EXPANSION_H

#include "moec.h"
#include "passes.h"
#include "elaborate/elaborate.h"

typedef struct Expansion {
    MoecCompiler *compiler;
    Arena *arena;
    Reports *reports;
    const Experiment *asked;
    MoecVariant *variants;
    int count;
} Expansion;

/* Computes the size and cost of the model with these overrides; false if the model is invalid. */
bool variant_describe(const Expansion *expansion, const List *overrides, bool tell,
                      MoecVariant *variant);
/* The override PATH = number, with the location of `path`. */
Node *number_entry(Arena *arena, const Node *path, double number);
/* Whether no option must be solved: the experiment matches no size, or both sizes are equal. */
bool variant_same_size(const Expansion *expansion, const MoecVariant *a, const MoecVariant *b);
/* Whether the variant has the options that are set for equal sizes; reports the first missing
 * one. */
bool variant_has_solved(const Expansion *expansion, const List *overrides, const char *name);
/* Adds the options that make the variant as large as the base, and describes them and the remaining
 * difference in variant->solved; false after an error. */
bool variant_equalise(const Expansion *expansion, List *overrides, MoecVariant *variant);
/* Whether every --set of the command line has an effect; false after an error. */
bool sets_allowed(const Expansion *expansion);
/* The options that the experiment sets for all variants, then those of --set that change the same
 * options: the command line wins. Node * NODE_ENTRY. */
List sets_after(const Expansion *expansion);

/* Number of the dimension of `vary` that the ladder names; -1: none. */
int experiment_ladder(Arena *arena, const Experiment *experiment);

/* asked: state of reading an experiment from its tree. */

/* An experiment while it is read. */
typedef struct Asking {
    Elaborator *e;
    Experiment *experiment;
    List paths; /* Node *: every option that something changes */
} Asking;

/* Reads one entry of a record of numbers. Returns false after a report of an unknown name or an
 * invalid number. */
bool read_named_numbers(Asking *asking, const Node *entry, const char *const *names, int count,
                        double *numbers);
/* The choices of `vary` or `tune`; false after a report. */
bool choices_read(Asking *asking, const Node *node, List *dimensions);
/* Those of `variants = { NAME = { ... } }`. */
bool variants_read(Asking *asking, const Node *entry);
/* Help with the names of these declarations, Node *: the nearest, or all. */
void help_with_names(Reports *reports, const List *nodes, const char *name, const char *what);
/* Evaluates numbers outside of models. */
Elaborator *constant_elaborator(Unit *unit, const char *name);
/* Registers an option that the experiment changes. Returns false after a report if it is already
 * registered. */
bool path_claim(Asking *asking, const Node *node);

#endif
