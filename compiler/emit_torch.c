/* emit_torch: a model as the text of a PyTorch module that the transformers library loads. The text
 * around the equations is in torch/text/. */
#include "driver/driver.h"

#include "torch/torch.h"
#include "torch/torch_text.h"

#include <string.h>

/* Functions of the printed file that only some models need. */
static bool wants(const Torch *torch, const char *name) {
    if (!strcmp(name, "attend.py")) return torch->uses_attend;
    if (!strcmp(name, "top_k.py")) return torch->uses_top;
    if (!strcmp(name, "take.py")) return torch->uses_take;
    if (!strcmp(name, "gather.py")) return torch->uses_gather;
    return false;
}

/* The text with @WORD@ replaced by values, pairs of a word and its value that end with NULL. */
static void add_template(Text *text, const char *template, const char *const *values) {
    while (*template) {
        size_t plain = strcspn(template, "@");
        text_add_bytes(text, template, plain);
        template += plain;
        if (!*template) break;
        bool found = false;
        for (int i = 0; values[i] && !found; i += 2) {
            size_t length = strlen(values[i]);
            if (strncmp(template + 1, values[i], length) != 0 || template[1 + length] != '@')
                continue;
            text_add(text, "%s", values[i + 1]);
            template += length + 2;
            found = true;
        }
        if (!found) text_add_bytes(text, template ++, 1);
    }
}

static const char *text_called(const char *name) {
    for (const EmbeddedFile *file = torch_files; file->name; file++)
        if (!strcmp(file->name, name)) return file->text;
    return "";
}

typedef struct Emission {
    MoecCompiler *compiler;
    Torch torch;
    MoecTorch result;
} Emission;

static void check_model(const Torch *torch) {
    const Program *program = torch->program;
    const Tensor *logits = program->outputs.count ? program->outputs.items[0] : NULL;
    Reports *reports = program->reports;
    int tokens = 0;
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_INPUT) continue;
        bool token = tensor->input == MOEC_INPUT_TOKEN && tensor->rank == 2;
        tokens += token;
        if (token || tensor->input == MOEC_INPUT_NEXT) continue;
        report_error(reports, tensor->span,
                     "PyTorch target: input '%s' is not a sequence of tokens", tensor->path);
        report_help(reports, "use --target c for models of other inputs");
        report_give_up(reports);
    }
    if (tokens == 1 && program->sequence && logits && logits->rank == 3 &&
        logits->axes[1]->kind == AXIS_SEQUENCE)
        return;
    report_error(reports, (Span){0}, "PyTorch target: model '%s' does not predict tokens",
                 program->name);
    report_help(reports, "use a model with one input of tokens and an output logits[s, v]");
    report_give_up(reports);
}

static void emit(void *data) {
    Emission *emission = data;
    MoecCompiler *compiler = emission->compiler;
    Torch *torch = &emission->torch;
    Program *program = elaborated(compiler, GRAPH_FORWARD, 0, 0);
    if (!program) return;
    torch->arena = compiler->arena;
    torch->program = program;
    const char *scope = moec_option(compiler, "train.optimizer.weight_decay_scope");
    torch->decays_all = scope && !strcmp(scope, "all");
    check_model(torch);
    const Program *batch = elaborated(compiler, GRAPH_FORWARD, 3 * program->batch->size, 0),
                  *context = elaborated(compiler, GRAPH_FORWARD, 0, 3 * program->sequence->size);
    if (!batch || !context) return;
    find_numbers(torch, batch, context);
    find_modules(torch);
    const char *classes = print_classes(torch);
    const char *name = class_name_of(torch, program->name);
    const Tensor *logits = program->outputs.items[0];
    const Decoding decoding = moec_decoding(compiler);
    bool math = torch->uses_attend || torch->uses_gather || torch->uses_math;
    bool functional = torch->uses_attend || strstr(classes, "F.");
    const char *values[] = {
        "NAME",       name,
        "MODEL",      program->name,
        "CLASSES",    classes,
        "OPTIONS",    moec_options_json(compiler),
        "VOCABULARY", arena_format(torch->arena, "%ld", logits->axes[2]->size),
        "CONTEXT",    arena_format(torch->arena, "%ld", program->sequence->size),
        "HINDRANCE",  decoding.hindrance ? decoding.hindrance : "",
        "MATH",       math ? "import math\n" : "",
        "FUNCTIONAL", functional ? "import torch.nn.functional as F\n" : "",
        NULL};
    Text modeling = {.arena = torch->arena}, configuration = {.arena = torch->arena};
    add_template(&modeling, text_called("head.py"), values);
    for (const EmbeddedFile *file = torch_files; file->name; file++)
        if (wants(torch, file->name)) add_template(&modeling, file->text, values);
    add_template(&modeling, text_called("base.py"), values);
    add_template(&modeling, "@CLASSES@", values);
    add_template(&configuration, text_called("configuration.py"), values);
    emission->result = (MoecTorch){.modeling = modeling.text,
                                   .configuration = configuration.text,
                                   .class_name = name,
                                   .vocabulary = logits->axes[2]->size,
                                   .context = program->sequence->size,
                                   .hindrance = decoding.hindrance,
                                   .by_training = program->by_training};
}

const MoecTorch *moec_emit_torch(MoecCompiler *compiler) {
    Emission *emission = arena_alloc(compiler->arena, sizeof *emission);
    emission->compiler = compiler;
    if (moec_failed(compiler) || !bounded(compiler, emit, emission) || moec_failed(compiler))
        return NULL;
    return &emission->result;
}
