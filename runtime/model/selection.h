/* selection: tensors of a spec that a command line names, as outputs of a program. Programs of
 * other commands are unchanged. */
#ifndef SELECTION_H
#define SELECTION_H

#include "base/text_list.h"
#include "model/model.h"

/* One name with text after it:
 *
 *     block.0.ffn.level          a tensor of the first block
 *     block.*.ffn.level          of all blocks; * matches any text
 *     ffn.level                  the end of names, if no name is equal to it
 *     block.0.ffn.level[0,3:5]   `rest` is "0,3:5]"
 *     block.0.ffn.level=1e4      `rest` is "1e4"
 */
typedef struct SelectedName {
    char *name;
    const char *rest; /* text after [ or =, or NULL */
    bool anywhere;    /* the name is the end of names */
    bool used;
} SelectedName;

typedef struct SelectedNames {
    SelectedName *items;
    int count;
    const char *prefix; /* of the names of the outputs, or NULL: "gradient:" */
} SelectedNames;

/* Splits the texts at the first `mark`, which is [ or =. */
SelectedNames selections_read(const TextList *texts, char mark);
void selections_free(SelectedNames *names);
/* Makes later programs of the compiler return the named tensors of the spec. described: a graph
 * whose weights and outputs can be named, too; NULL: none. False after a message about a name that
 * no tensor has. */
bool selections_observe(SelectedNames *names, MoecCompiler *compiler, const MoecSpecTensor *tensors,
                        int tensor_count, const Model *described);
/* Whether each name is one of the tensors, whose names may be stacked; false after a message. */
bool selections_name(SelectedNames *names, const MoecTensor *tensors, int count);
/* The entry that a public name, "block.0.ffn.level", belongs to, or NULL. */
const SelectedName *selection_of(const SelectedNames *names, const char *name);

#endif
