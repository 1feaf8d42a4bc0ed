/* internal: declarations that only files of this folder use. */
#ifndef COMMAND_INTERNAL_H
#define COMMAND_INTERNAL_H

#include "model/decoder.h"
#include "model/generate/speech.h"
#include "tools/command/line/arguments.h"
#include "training/checkpoint.h"

#include <stdio.h>

/* sampling: inputs of a refinement. */

/* Whether they are refined numbers and class labels alone; false after a message. */
bool sample_inputs_fit(const MoecGraphEntry *graph);

/* coordcheck: declarations of the files of the command. */

enum { CHECK_SIZES = 16 };

/* One activation in one layer, at every size of the model: RMS after the last step and RMS of its
 * change, averaged over the random initializations. */
typedef struct Coordinate {
    char *name; /* "block.3.ffn.down" */
    double size[CHECK_SIZES], change[CHECK_SIZES];
} Coordinate;

typedef struct CoordinateCheck {
    const char *model, *over; /* "dim=64,128" */
    const char *labels[CHECK_SIZES];
    int sizes, count;
    long steps, draws, drawn;
    double within; /* the largest ratio that passes */
    Coordinate *all;
} CoordinateCheck;

/* Ratio of the largest to the smallest number. */
double spread_of(const double *numbers, int count);
/* Draws both as SVG, one line per activation. */
void coordcheck_picture(const CoordinateCheck *check, FILE *file);

/* tokenize_chats: conversations as training examples with weights. */

typedef struct ChatOptions {
    const char *template, *tokenizer, *out; /* paths */
    long context;                           /* targets per example */
    bool json;
} ChatOptions;

/* Writes the examples of files with a conversation per line. False after a message. */
bool tokenize_chats(const ChatOptions *options, const Tokenizer *tokenizer, const Paths *paths);

/* prompt: prompts from the command line, stdin or the lines of a file, as text and tokens. */

typedef struct Prompt {
    char *text;
    TokenList tokens;
} Prompt;

typedef struct PromptList {
    Prompt *items;
    int count;
} PromptList;

/* text: one prompt, "-" for stdin; or path: a file with a prompt per line. Exactly one of them is
 * not NULL. False after a message. */
bool prompts_read(PromptList *prompts, const char *text, const char *path);
/* Converts them to tokens. False after a message. */
bool prompts_encode(PromptList *prompts, Writing writing, const Tokenizer *tokenizer);
/* Whether all tokens are in the vocabulary; false after a message. */
bool prompts_fit(const PromptList *prompts, Writing writing, long vocabulary);
/* Tokens of the longest prompt. */
long prompts_length(const PromptList *prompts);
void prompts_free(PromptList *prompts);

/* draft: the model that proposes tokens in speculative decoding. */

typedef struct Draft {
    Safetensors *file;
    Decoder *decoder; /* NULL: none, or the model itself proposes */
} Draft;

#define DRAFT_OPTION(run)                                                                          \
    {                                                                                              \
        OPTION_TEXT, "--draft", "RUN", run,                                                        \
            "smaller model with the same tokenizer that proposes tokens, or self for the "         \
            "predictions of `predict_ahead`; the text does not change"                             \
    }
#define DRAFT_TOKENS_OPTION(count)                                                                 \
    {                                                                                              \
        OPTION_COUNT, "--draft-tokens", "N", count,                                                \
            "maximum number of tokens that the draft proposes per step, 1 to 7 (default 3)"        \
    }

/* run: the value of --draft, or NULL. Prepares the spec of the model, before it is compiled; false
 * after a message. */
bool draft_prepare(const char *run, MoecCompiler *compiler);
/* Opens the draft of a model whose weights are in the file, for texts of that length; no draft
 * without a run. sets: --set of the model, of which those of `inference` apply to the draft as
 * well. False after a message. */
bool draft_open(Draft *draft, const char *run, const TextList *sets, const Model *model,
                const Safetensors *file, long length);
void draft_close(Draft *draft);
/* Checks --draft-tokens: -1, or the exit code. */
int draft_check(const Command *command, long proposals);

/* quantize: declarations of the files of the command. */

/* The smaller copy of a parameter, or NULL. */
const MoecWeightCopy *weight_copy(const Model *model, const PublicTensor *one);

typedef struct Calibration {
    Model *model; /* with int4 weights */
    MoecProgram *program;
    Call *inputs; /* a forward program in f32 that returns the inputs of products */
    const char *data;
    const Tokenizer *tokenizer;
} Calibration;

/* Rounds matrices of the model for the data; experts stay as they are. *calibrated receives the
 * number of matrices. False after a message. */
bool calibrate_int4(const Calibration *calibration, int *calibrated);

#endif
