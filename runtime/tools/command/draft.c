/* draft: the model that proposes tokens in speculative decoding: of another run, or the model. */
#include "tools/command/internal.h"

#include "base/message.h"
#include "model/generate/speculate.h"
#include "training/spec.h"

#include <string.h>

static bool is_self(const char *run) {
    return strcmp(run, "self") == 0;
}

bool draft_prepare(const char *run, MoecCompiler *compiler) {
    if (run && is_self(run)) moec_speculate(compiler);
    return !run || speculation_possible(compiler);
}

/* Whether the draft has the tokens of the model; false after a message. */
static bool same_tokens(const Draft *draft, const Model *model, const Safetensors *file) {
    const char *tokenizer = safetensors_note(file, "tokenizer"),
               *other = safetensors_note(draft->file, "tokenizer");
    const long own = decoder_model_width(model, "logits"),
               drafts = decoder_vocabulary(draft->decoder);
    static const char help[] = "train the draft with the tokenizer and the vocab_size of the model";
    if (own != drafts)
        return error_message(help,
                             "--draft: %s has a vocabulary of %ld tokens, but the model %s of %ld",
                             draft->file->path, drafts, file->path, own);
    return (!tokenizer && !other) || (tokenizer && other && strcmp(tokenizer, other) == 0) ||
           error_message(help, "--draft: %s has another tokenizer than the model %s",
                         draft->file->path, file->path);
}

/* The spec of the draft with the options of `inference`, such as the type of weights. */
static MoecCompiler *draft_spec(const Safetensors *file, const TextList *sets) {
    static const char prefix[] = "inference.";
    TextList own = {0};
    for (int i = 0; i < sets->count; i++)
        if (!strncmp(sets->items[i], prefix, strlen(prefix)))
            own.items[own.count++] = sets->items[i];
    return checkpoint_spec(file, own.items, own.count);
}

static bool open_draft_model(Draft *draft, const char *run, const TextList *sets,
                             const Model *model, const Safetensors *file, long length) {
    draft->file = checkpoint_open(run);
    MoecCompiler *compiler = draft->file ? draft_spec(draft->file, sets) : NULL;
    Model *drafting = compiler && spec_generates(compiler) && speculation_possible(compiler)
                          ? decoder_model(model->device, compiler, 1, length)
                          : NULL;
    moec_close(compiler);
    draft->decoder = drafting ? decoder_over(drafting, length) : NULL;
    if (draft->decoder)
        draft->decoder->owns_model = true;
    else
        model_close(drafting);
    if (!draft->decoder || !same_tokens(draft, model, file) ||
        !model_read(drafting, draft->file, false))
        return false;
    model_release_weights(drafting);
    return true;
}

bool draft_open(Draft *draft, const char *run, const TextList *sets, const Model *model,
                const Safetensors *file, long length) {
    *draft = (Draft){0};
    if (!run) return true;
    if (model->device->apart)
        return error_message("omit one of them", "--draft is available on the CPU only");
    if (!is_self(run)) return open_draft_model(draft, run, sets, model, file, length);
    return decoder_model_width(model, "proposals") > 0 ||
           error_message("train the model with predict_ahead = 1, or name the run of a smaller "
                         "model; write ./self for a run with the name self",
                         "--draft self: the model predicts no further tokens");
}

void draft_close(Draft *draft) {
    decoder_close(draft->decoder);
    safetensors_close(draft->file);
}

int draft_check(const Command *command, long proposals) {
    return proposals >= 1 && proposals <= SPECULATE_MOST
               ? -1
               : arguments_wrong(command, "for example --draft-tokens 3",
                                 "--draft-tokens must be from 1 to %d", SPECULATE_MOST);
}
