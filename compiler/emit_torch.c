/* emit_torch: a model as the text of a PyTorch module that the transformers library loads. The text
 * around the equations is in torch/text/. */
#include "driver/driver.h"

#include "abi/json_make.h"
#include "base/embedded.h"
#include "torch/torch.h"

#include <stdlib.h>
#include <string.h>

typedef struct Emission {
    MoecCompiler *compiler;
    Torch torch;
    MoecTorch result;
} Emission;

/* Functions of the printed file that only some models need. */
static const char *const functions[] = {"attend", "gather", "take", "top_k", "windows"};

static const char *text_called(const char *name) {
    for (const EmbeddedFile *file = torch_files; file->name; file++)
        if (!strcmp(file->name, name)) return file->text;
    return "";
}

typedef struct Placeholder {
    const char *word, *value;
} Placeholder;

/* The text with values for words. */
static const char *completed(Arena *arena, const char *text, const Placeholder *mark) {
    for (; mark->word; mark++) {
        Text made = text_new(arena);
        for (const char *at; (at = strstr(text, mark->word)); text = at + strlen(mark->word))
            text_add(&made, "%.*s%s", (int)(at - text), text, mark->value);
        text_add(&made, "%s", text);
        text = made.text;
    }
    return text;
}

/* The first sequence of tokens is the one that generate() continues; lists the other inputs. */
static void list_inputs(Torch *torch) {
    const Program *program = torch->program;
    const Tensor *logits = program->outputs.count ? program->outputs.items[0] : NULL;
    Reports *reports = program->reports;
    bool tokens = false;
    LIST_EACH(Tensor, tensor, &program->tensors) {
        if (tensor->role != ROLE_INPUT || tensor->declared == MOEC_INPUT_NEXT) continue;
        if (!tokens && tensor->declared == MOEC_INPUT_TOKEN && position_count(tensor) == 1)
            tokens = true;
        else
            list_push(torch->arena, &torch->inputs, tensor);
    }
    if (tokens && logits && logits->rank == 3 && logits->axes[1]->kind == AXIS_SEQUENCE) return;
    report_invalid(reports, (Span){0},
                   "use a model with an input tokens[s]: token and an output logits[s, v]",
                   "PyTorch target: model '%s' does not predict tokens", program->name);
    report_give_up(reports);
}

/* A loss may read another input at every position, but new tokens of generate() have none. */
static void refuse_new_values(const Torch *torch) {
    LIST_EACH(const Tensor, input, &torch->inputs) {
        if (!position_count(input) || !torch->needed[input->id]) continue;
        report_invalid(torch->program->reports, input->span,
                       "generate() of transformers continues one sequence, the tokens; use "
                       "--target c for other inputs",
                       "PyTorch target: input '%s' has values for new tokens", input->path);
        report_give_up(torch->program->reports);
    }
}

/* ---- the model with other sizes and options ---- */

static void add_override(MoecCompiler *compiler, List *overrides, const char *path,
                         const char *value) {
    const char *text = arena_format(compiler->arena, "%s=%s", path, value);
    Source *source = arena_alloc(compiler->arena, sizeof *source);
    *source = (Source){"--set", text, strlen(text), false};
    list_push(compiler->arena, overrides, parse_entry(compiler->arena, &compiler->reports, source));
}

static const char *exact_number(MoecCompiler *compiler, double number) {
    return arena_format(compiler->arena, "%.17g", number);
}

/* Overrides for the options that follow changed ones: they keep their values in the model. */
static void keep_options(MoecCompiler *compiler, MoecCompiler *other, const List *changed,
                         List *overrides) {
    LIST_EACH(const Setting, setting, &compiler->settings) {
        const char *now = moec_option(other, setting->path);
        if (!now || !strcmp(now, setting->text) || list_find(changed, setting->path) >= 0) continue;
        if (setting->kind == VALUE_OTHER || !is_equation_option(setting->path)) continue;
        const bool number = setting->kind == VALUE_NUMBER;
        add_override(compiler, overrides, setting->path,
                     number ? exact_number(compiler, setting->number) : setting->text);
    }
}

static bool open_view(void *data, long batch, long context, const List *variables,
                      TorchView *view) {
    MoecCompiler *compiler = data;
    Program *program;
    List overrides = {0}, changed = {0};
    view->settings = &compiler->settings;
    LIST_EACH(const TorchVariable, variable, variables) {
        if (!variable->path || variable->now == variable->written) continue;
        list_push(compiler->arena, &changed, (void *)variable->path);
        add_override(compiler, &overrides, variable->path, exact_number(compiler, variable->now));
    }
    if (!changed.count) {
        compiler->unit->decisions = &view->decisions;
        program = elaborated(compiler, GRAPH_FORWARD, batch, context);
        compiler->unit->decisions = NULL;
    } else
        view->owner = moec_vary_forward(compiler, &overrides, &view->decisions, &program);
    if (changed.count && program) keep_options(compiler, view->owner, &changed, &overrides);
    if (overrides.count > changed.count) {
        moec_close(view->owner);
        view->decisions = (List){0};
        view->owner = moec_vary_forward(compiler, &overrides, &view->decisions, &program);
    }
    view->program = program;
    return program != NULL;
}

static void close_view(TorchView *view) {
    if (view->owner) moec_close(view->owner);
}

/* ---- the configuration ---- */

/* The options as lines of JSON, which is also Python: "layers": 2, */
static const char *options_text(MoecCompiler *compiler) {
    Text text = text_new(compiler->arena);
    json_t *texts = json_loads(moec_options_json(compiler), 0, NULL), *value;
    const char *path;
    json_object_foreach(texts, path, value) {
        const Setting *setting = find_setting(compiler, path);
        char *string = json_write(value, JSON_ENCODE_ANY);
        text_add(&text, "    \"%s\": %s,\n", path,
                 setting->kind == VALUE_NUMBER ? shortest(compiler->arena, setting->number)
                                               : string);
        free(string);
    }
    json_decref(texts);
    return text.text;
}

/* The lines without the last comma, in braces. */
static const char *options_json(Arena *arena, const char *lines) {
    size_t length = strlen(lines);
    return arena_format(arena, "{\n%.*s\n  }", (int)(length > 2 ? length - 2 : 0), lines);
}

/* Those that may change: "layers": int, */
static const char *free_text(const Torch *torch) {
    Text text = {.arena = torch->arena};
    text_add(&text, "%s", torch->variables.count > 2 ? "\n" : "");
    LIST_EACH(const TorchVariable, variable, &torch->variables) {
        if (variable->path)
            text_add(&text, "    \"%s\": %s,\n", variable->path, variable->real ? "float" : "int");
    }
    return text.text;
}

/* The arguments of generate(). Inputs of targets are none. */
static const char *generate_arguments(const Torch *torch) {
    Text text = {.arena = torch->arena};
    text_add(&text, "ids");
    LIST_EACH(const Tensor, input, &torch->inputs) {
        const char *name = input_name(torch, input);
        if (!position_count(input)) text_add(&text, ", %s=%s", name, name);
    }
    return text.text;
}

static void emit(void *data) {
    Emission *emission = data;
    MoecCompiler *compiler = emission->compiler;
    Torch *torch = &emission->torch;
    TorchView view = {0};
    if (!open_view(compiler, 0, 0, &torch->variables, &view)) return;
    Program *program = (Program *)view.program;
    torch->arena = compiler->arena;
    torch->program = program;
    const char *scope = moec_option(compiler, "train.optimizer.weight_decay_scope");
    torch->decays_all = scope && !strcmp(scope, "all");
    list_inputs(torch);
    find_numbers(torch, &(TorchReader){compiler, open_view, close_view}, &view);
    find_modules(torch);
    refuse_new_values(torch);
    const char *classes = print_classes(torch);
    const char *name = class_name_of(torch, program->name);
    const Tensor *logits = program->outputs.items[0];
    const char *hindrance = moec_hindrance(compiler);
    Text used = text_new(torch->arena);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (code_has(classes, functions[i]))
            text_add(&used, "%s", text_called(arena_format(torch->arena, "%s.py", functions[i])));
    const char *code = arena_format(torch->arena, "%s%s", used.text, classes);
    const char *options = options_text(compiler);
    static const char layers[] =
        "from transformers.modeling_layers import GradientCheckpointingLayer\n";
    const Placeholder values[] = {
        {"@FROZEN@", code_has(classes, "requires_grad") ? text_called("frozen.py") : ""},
        {"@MATH@", code_has(code, "math") ? "import math\n" : ""},
        {"@LAYERS@", code_has(classes, "GradientCheckpointingLayer") ? layers : ""},
        {"@FUNCTIONAL@", code_has(code, "F") ? "import torch.nn.functional as F\n" : ""},
        {"@NAME@", name},
        {"@MODEL@", program->name},
        {"@VOCABULARY@", arena_format(torch->arena, "%ld", logits->axes[2]->size)},
        {"@CONTEXT@", arena_format(torch->arena, "%ld", program->sequence->size)},
        {"@HINDRANCE@", hindrance ? hindrance : ""},
        {"@FREE@", free_text(torch)},
        {"@OPTIONS@", options},
        {0}};
    const char *modeling = arena_format(torch->arena, "%s%s%s", text_called("head.py"), used.text,
                                        text_called("base.py"));
    modeling =
        arena_format(torch->arena, "%s%s", completed(torch->arena, modeling, values), classes);
    emission->result = (MoecTorch){
        .modeling = modeling,
        .configuration = completed(torch->arena, text_called("configuration.py"), values),
        .class_name = name,
        .options = options_json(torch->arena, options),
        .vocabulary = logits->axes[2]->size,
        .context = program->sequence->size,
        .arguments = generate_arguments(torch),
        .hindrance = hindrance,
        .by_training = program->by_training};
}

const MoecTorch *moec_emit_torch(MoecCompiler *compiler) {
    Emission *emission = arena_alloc(compiler->arena, sizeof *emission);
    emission->compiler = compiler;
    if (moec_failed(compiler) || !bounded(compiler, emit, emission) || moec_failed(compiler))
        return NULL;
    return &emission->result;
}
