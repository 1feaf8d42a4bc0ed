/* emit_torch: a model as the text of a PyTorch module that the transformers library loads. The text
 * around the equations is in torch/text/. */
#include "driver/driver.h"

#include "abi/json_make.h"
#include "torch/torch.h"
#include "torch/torch_text.h"

#include <stdlib.h>
#include <string.h>

typedef struct Emission {
    MoecCompiler *compiler;
    Torch torch;
    MoecTorch result;
} Emission;

/* Functions of the printed file that only some models need. */
static const char *const functions[] = {"attend", "gather", "take", "top_k"};

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

/* The first sequence of tokens is the one that generate() continues; lists the other inputs. */
static void list_inputs(Torch *torch) {
    const Program *program = torch->program;
    const Tensor *logits = program->outputs.count ? program->outputs.items[0] : NULL;
    Reports *reports = program->reports;
    bool tokens = false;
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
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
    for (int i = 0; i < torch->inputs.count; i++) {
        const Tensor *input = torch->inputs.items[i];
        if (!position_count(input) || !torch->needed[input->id]) continue;
        report_invalid(torch->program->reports, input->span,
                       "generate() of transformers continues one sequence, the tokens; use "
                       "--target c for other inputs",
                       "PyTorch target: input '%s' has values for new tokens", input->path);
        report_give_up(torch->program->reports);
    }
}

/* ---- the model with other sizes and options ---- */

static bool view_program(MoecCompiler *compiler, long batch, long context, TorchView *view) {
    compiler->unit->decisions = &view->decisions;
    view->program = elaborated(compiler, GRAPH_FORWARD, batch, context);
    compiler->unit->decisions = NULL;
    view->settings = &compiler->settings;
    return view->program != NULL;
}

static bool has_set(const List *sets, const char *path) {
    size_t length = strlen(path);
    for (int i = 0; i < sets->count; i++)
        if (!strncmp(sets->items[i], path, length) && ((char *)sets->items[i])[length] == '=')
            return true;
    return false;
}

/* Options that follow those of `sets`, with their values in the model: "path=value". */
static List kept_options(const MoecCompiler *compiler, MoecCompiler *other, const List *sets) {
    Arena *arena = compiler->arena;
    List kept = {0};
    for (int i = 0; i < compiler->settings.count; i++) {
        const Setting *setting = compiler->settings.items[i];
        const char *now = moec_option(other, setting->path);
        if (!now || !strcmp(now, setting->text) || has_set(sets, setting->path)) continue;
        if (setting->kind == VALUE_OTHER || !is_equation_option(setting->path)) continue;
        const char *text = setting->kind == VALUE_NUMBER
                               ? arena_format(arena, "%.17g", setting->number)
                               : setting->text;
        list_push(arena, &kept, (void *)arena_format(arena, "%s=%s", setting->path, text));
    }
    return kept;
}

/* The overrides "path=value" as nodes. */
static List entries_of(MoecCompiler *compiler, const List *sets) {
    List entries = {0};
    for (int i = 0; i < sets->count; i++) {
        Source *source = arena_alloc(compiler->arena, sizeof *source);
        *source = (Source){"--set", sets->items[i], strlen(sets->items[i]), false};
        list_push(compiler->arena, &entries,
                  parse_entry(compiler->arena, &compiler->reports, source));
    }
    return entries;
}

static bool view_changed(MoecCompiler *compiler, const List *sets, TorchView *view) {
    const List entries = entries_of(compiler, sets);
    view->decisions = (List){0};
    Program *program;
    view->owner = moec_vary_forward(compiler, &entries, &view->decisions, &program);
    view->program = program;
    return program != NULL;
}

static bool open_view(void *data, long batch, long context, const List *sets, TorchView *view) {
    MoecCompiler *compiler = data;
    if (!sets->count) return view_program(compiler, batch, context, view);
    if (!view_changed(compiler, sets, view)) return false;
    List all = kept_options(compiler, view->owner, sets);
    if (!all.count) return true;
    list_insert(compiler->arena, &all, 0, sets);
    moec_close(view->owner);
    return view_changed(compiler, &all, view);
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
    for (int i = 0; i < torch->variables.count; i++) {
        const TorchVariable *variable = torch->variables.items[i];
        if (variable->path)
            text_add(&text, "    \"%s\": %s,\n", variable->path, variable->real ? "float" : "int");
    }
    return text.text;
}

/* The arguments of generate(). Inputs of targets are none. */
static const char *generate_arguments(const Torch *torch) {
    Text text = {.arena = torch->arena};
    text_add(&text, "ids");
    for (int i = 0; i < torch->inputs.count; i++) {
        const Tensor *input = torch->inputs.items[i];
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
    if (!view_program(compiler, 0, 0, &view)) return;
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
    const char *values[] = {
        "NAME",       name,
        "MODEL",      program->name,
        "CLASSES",    classes,
        "OPTIONS",    options,
        "FREE",       free_text(torch),
        "VOCABULARY", arena_format(torch->arena, "%ld", logits->axes[2]->size),
        "CONTEXT",    arena_format(torch->arena, "%ld", program->sequence->size),
        "HINDRANCE",  hindrance ? hindrance : "",
        "FROZEN",     code_has(classes, "requires_grad") ? text_called("frozen.py") : "",
        "MATH",       code_has(code, "math") ? "import math\n" : "",
        "LAYERS",     code_has(classes, "GradientCheckpointingLayer") ? layers : "",
        "FUNCTIONAL", code_has(code, "F") ? "import torch.nn.functional as F\n" : "",
        NULL};
    Text modeling = {.arena = torch->arena}, configuration = {.arena = torch->arena};
    add_template(&modeling, text_called("head.py"), values);
    add_template(&modeling, used.text, values);
    add_template(&modeling, text_called("base.py"), values);
    add_template(&modeling, "@CLASSES@", values);
    add_template(&configuration, text_called("configuration.py"), values);
    emission->result = (MoecTorch){.modeling = modeling.text,
                                   .configuration = configuration.text,
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
