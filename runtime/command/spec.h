/* spec: opening what the user named on the command line. */
#ifndef SPEC_H
#define SPEC_H

#include "command/arguments.h"
#include "model/reports.h"

/* FILE, FILE:MODEL, or what a run has left: its folder or a checkpoint; with --set texts.
 * NULL after the reports were printed. */
MoecCompiler *spec_open(const char *operand, const TextList *sets);
/* The same without printing reports; NULL, after a message, when a run holds no spec. */
MoecCompiler *spec_open_quietly(const char *operand, const TextList *sets);
/* FILE or FILE:EXPERIMENT, without printing reports; *file receives a new string, the FILE. */
MoecCompiler *spec_open_experiment(const char *operand, const TextList *sets, char **file);
/* Whether that is the folder of a run, or a checkpoint. */
bool spec_is_run(const char *operand);

/* The set that makes a model of velocities (stdlib/diffusion.moe) give them for what it sees. */
#define SPEC_DRAWS "draws=none"
/* True when it is such a model, else false after a message. */
bool spec_draws(MoecCompiler *compiler);
/* The reverse: false after a message about a model that draws, so generates no text. */
bool spec_generates(MoecCompiler *compiler);

/* Whether a text of so many tokens can be read; false after a message. The time of a prompt grows
 * with the square of its length: far beyond what a model was trained on it is hours for nothing. */
bool spec_length_fits(MoecCompiler *compiler, long length);

/* The graph by its name; false when there is none of that name. */
bool graph_named(const char *name, MoecGraph *graph);

#endif
