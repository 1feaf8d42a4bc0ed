/* classes: one class per layer, with its weights, its layers and its forward pass. Layers with the
 * same text share a class.
 */
#include "torch/torch.h"

#include "abi/torch_words.h"
#include "analysis/parameter_facts.h"

#include <ctype.h>
#include <string.h>

typedef struct ClassText {
    const char *name, *body;
    bool repeated; /* an iteration of a repeat: its activations can be recomputed */
} ClassText;

static void print_module(Torch *torch, TorchModule *module, Printer *caller);

/* ---- applications ---- */

/* Whether the path of the child ends in the number of an iteration: "block.{i}". */
static bool in_list(const TorchModule *child) {
    const char *last = last_name(child->path);
    return *last == '{' || isdigit((unsigned char)*last);
}

static PyVariable *input_variable(Printer *printer, const TorchItem *item) {
    Torch *torch = printer->torch;
    const Tensor *tensor = item->tensor;
    PyVariable *variable = variable_of(printer, tensor, item->version);
    if (variable) return variable;
    if (!is_weight_or_state(tensor) || !path_is_within(tensor->path, printer->module->path))
        refuse(torch, tensor->span, "a value that a layer reads before it is defined");
    return stored_variable(printer, tensor);
}

/* The variables that receive the results of a layer. */
static const char *result_names(Printer *printer, TorchModule *child) {
    List results = {0};
    for (int i = 0; i < child->outputs.count; i++) {
        const TorchItem *item = child->outputs.items[i];
        const PyVariable *made = child->results.items[i];
        const char *stem = result_stem(printer, child);
        if (!stem) stem = local_stem(printer, item->tensor);
        PyVariable *variable = define_named(printer, stem, item->tensor, item->version);
        copy_dims(variable, made);
        list_push(printer->arena, &results, (void *)variable->name);
    }
    return comma_list(printer->arena, &results);
}

static void print_application(Printer *printer, TorchModule *child) {
    Torch *torch = printer->torch;
    if (!child->outputs.count) return;
    print_module(torch, child, printer);
    Span call = child->application->call;
    if (in_list(child)) call.end = call.start; /* the line of the repeat alone */
    print_source(printer, call);
    List arguments = {0};
    for (int i = 0; i < child->inputs.count; i++)
        list_push(torch->arena, &arguments,
                  (void *)input_variable(printer, child->inputs.items[i])->name);
    if (child->uses_fixed) list_push(torch->arena, &arguments, (void *)printer->fixed_name);
    if (child->uses_cache) list_push(torch->arena, &arguments, "cache");
    python_line(printer, "%s = %s(%s)", result_names(printer, child),
                attribute(torch, printer->module, child->path, true),
                comma_list(torch->arena, &arguments));
}

/* ---- forward passes ---- */

/* A carried value that is constant along a dimension before the loop varies in it. */
static void expand_carried(Printer *printer) {
    LIST_EACH(PyVariable, variable, &printer->variables) {
        if (!is_stacked(variable->tensor) || variable->version) continue;
        const char *text = expanded(printer, variable);
        if (text == variable->name) continue;
        python_line(printer, "%s = %s", variable->name, text);
        memset(variable->absent, 0, sizeof variable->absent);
    }
}

static void print_repeat(Printer *printer, const TorchPart *part) {
    const Index *index = part->statement->index;
    print_comment(printer, part->statement);
    expand_carried(printer);
    TorchLoop loop = {index->name, new_name(printer, python_name(printer->torch, index->name))};
    python_line(printer, "for %s in range(%s):", loop.name,
                python_number(printer, index->axis, (double)index->axis->size).text);
    printer->depth++;
    printer->loops++;
    list_push(printer->arena, &printer->torch->loops, &loop);
    print_parts(printer, &part->body, 0, part->body.count);
    printer->torch->loops.count--;
    printer->loops--;
    printer->depth--;
}

void print_parts(Printer *printer, const List *parts, int first, int end) {
    const List *outer = printer->parts;
    const int outer_at = printer->at;
    printer->parts = parts;
    for (printer->at = first; printer->at < end; printer->at++) {
        const TorchPart *part = parts->items[printer->at];
        Routed routed;
        if (is_routed(printer)) continue;
        if (find_routed(printer, printer->at, &routed))
            print_routed(printer, &routed);
        else if (part->child)
            print_application(printer, part->child);
        else if (part->statement->kind == STATEMENT_REPEAT)
            print_repeat(printer, part);
        else if (part->statement->kind == STATEMENT_CALL)
            python_call(printer, part->statement);
        else
            print_equation(printer, part->statement);
    }
    printer->parts = outer;
    printer->at = outer_at;
}

/* ---- weights and layers ---- */

static void print_stored(Torch *torch, Text *text, const Tensor *tensor) {
    List axes = {0}, numbers = {0};
    for (int i = first_axis(tensor); i < tensor->rank; i++) {
        list_push(torch->arena, &axes, (void *)tensor->axes[i]->name);
        list_push(torch->arena, &numbers, arena_format(torch->arena, "%ld", tensor->axes[i]->size));
    }
    const char *name = attribute_name(torch, tensor->path),
               *sizes = axes.count ? comma_list(torch->arena, &numbers) : "()";
    if (tensor->role == ROLE_STATE)
        text_add(text, "        self.register_buffer(\"%s\", torch.empty(%s))", name, sizes);
    else
        text_add(text, "        self.%s = nn.Parameter(torch.empty(%s)%s)", name, sizes,
                 tensor->frozen ? ", requires_grad=False" : "");
    text_add(text, axes.count ? "  # [%s]\n" : "%s\n", comma_list(torch->arena, &axes));
}

/* The initial distribution of each weight, and the weights with weight decay. */
static void print_initial(Torch *torch, Text *text, const TorchModule *module) {
    static const char *const kinds[] = {"constant", "normal", "uniform"};
    List decayed = {0};
    const bool one = module->stored.count == 1;
    if (!module->stored.count) return;
    text_add(text, "    initial = (%s", one ? "" : "\n");
    LIST_EACH(const Tensor, tensor, &module->stored) {
        const Init *init = &tensor->init;
        const char *name = attribute_name(torch, tensor->path);
        int kind = init->kind == MOEC_INIT_NORMAL ? 1 : init->kind == MOEC_INIT_UNIFORM ? 2 : 0;
        text_add(text, one ? "(\"%s\", \"%s\", %s, %s)," : "        (\"%s\", \"%s\", %s, %s),\n",
                 name, kinds[kind], shortest(torch->arena, init->a),
                 shortest(torch->arena, init->b));
        bool decays = torch->decays_all || (tensor->facts && is_matrix(tensor));
        if (tensor->role == ROLE_PARAMETER && decays)
            list_push(torch->arena, &decayed, arena_format(torch->arena, "\"%s\"", name));
    }
    text_add(text, one ? ")\n" : "    )\n");
    const char *names = comma_list(torch->arena, &decayed);
    const bool longer = strlen(names) > LINE_LENGTH - strlen("    decayed = ()");
    if (decayed.count && !longer)
        text_add(text, "    decayed = (%s%s)\n", names, decayed.count == 1 ? "," : "");
    for (int i = 0; longer && i < decayed.count; i++)
        text_add(text, "%s        %s,\n%s", i ? "" : "    decayed = (\n", (char *)decayed.items[i],
                 i + 1 < decayed.count ? "" : "    )\n");
    text_add(text, "\n");
}

static const char *made_text(Torch *torch, const TorchModule *layer) {
    return arena_format(torch->arena, "%s(%s)", layer->class_name,
                        layer->uses_config ? "config" : "");
}

/* The path of its nn.ModuleList: "block". */
static const char *list_path(Torch *torch, const TorchModule *child) {
    const char *path = child->path;
    return arena_copy(torch->arena, path, (size_t)(last_name(path) - 1 - path));
}

/* The layers of one nn.ModuleList, from `first`; returns the index after them. */
static int print_list(Printer *printer, Text *text, int first) {
    Torch *torch = printer->torch;
    TorchModule *const *children = (TorchModule *const *)printer->module->children.items;
    int end = first, at = first, count = printer->module->children.count;
    const char *path = children[first]->path, *list = list_path(torch, children[first]);
    while (end < count && in_list(children[end]) && !strcmp(list_path(torch, children[end]), list))
        end++;
    const size_t start = text->length;
    text_add(text, "        %s%s = nn.ModuleList([", attribute(torch, printer->module, list, true),
             list_suffix(torch, path, strlen(path)));
    while (at < end) {
        int period = 0;
        while (children[at]->steps && at + period < end && children[at + period]->steps) period++;
        text_add(text, at > first ? ", " : "");
        if (!period) {
            text_add(text, "%s", made_text(torch, children[at++]));
            continue;
        }
        const Axis *steps = children[at]->steps;
        const char *times = python_number(printer, steps, (double)steps->size).text;
        bool only = at == first && at + period == end;
        text_add(text, "%s", only ? "" : "*(");
        if (period == 1)
            text_add(text, "%s for _ in range(%s)", made_text(torch, children[at]), times);
        else
            text_add(text, "layer for _ in range(%s) for layer in (", times);
        for (int i = 0; i < period && period > 1; i++)
            text_add(text, "%s%s", i ? ", " : "", made_text(torch, children[at + i]));
        text_add(text, "%s%s", period > 1 ? ")" : "", only ? "" : ")");
        at += period;
    }
    text_add(text, "])%s\n", text->length + 2 - start > LINE_LENGTH ? FORMAT_SKIP : "");
    return end;
}

/* The constructor, after the attributes of the class. Its options, weights and layers. */
static const char *init_text(Printer *printer) {
    Torch *torch = printer->torch;
    TorchModule *module = module_at(torch, printer->module->path);
    Text text = text_new(torch->arena), layers = text_new(torch->arena);
    const bool root = module == torch->root;
    LIST_EACH(TorchModule, child, &module->children)
        if (!child->class_name) print_module(torch, child, NULL);
    for (int i = 0; i < module->children.count;) {
        const TorchModule *child = module->children.items[i];
        if (in_list(child)) {
            i = print_list(printer, &layers, i);
            continue;
        }
        text_add(&layers, "        %s = %s\n", attribute(torch, module, child->path, true),
                 made_text(torch, child));
        i++;
    }
    module->uses_config = root || module->options.count || code_has(layers.text, "config");
    if (!module->stored.count && !layers.length && !module->options.count && !root)
        return text.text;
    print_initial(torch, &text, module);
    text_add(&text, "    def __init__(self%s):\n        super().__init__(%s)\n",
             module->uses_config ? ", config" : "", root ? "config" : "");
    LIST_EACH(const TorchVariable, option, &module->options) {
        text_add(&text, "        self.%s = config.options[\"%s\"]\n",
                 option_attribute(torch, module, option), option->path);
    }
    for (int i = 0; i < module->stored.count; i++)
        print_stored(torch, &text, module->stored.items[i]);
    text_add_bytes(&text, layers.text, layers.length);
    return text.text;
}

/* ---- modules ---- */

static bool class_name_taken(const Torch *torch, const char *name) {
    if (torch_is_reserved(name, strlen(name)) || !strcmp(name, "F")) return true; /* None, F.silu */
    return list_named(&torch->classes, offsetof(ClassText, name), name) != NULL;
}

static ClassText *class_with(Torch *torch, const TorchModule *module, const char *body) {
    ClassText *other = list_named(&torch->classes, offsetof(ClassText, body), body);
    if (other) return other;
    const char *stem = class_name_of(torch, module->name), *name = stem;
    for (int number = 2; class_name_taken(torch, name); number++)
        name = arena_format(torch->arena, "%s%d", stem, number);
    const ClassText made = {.name = name, .body = body};
    return list_copy(torch->arena, &torch->classes, &made, sizeof made);
}

static void set_class(Torch *torch, TorchModule *module, const char *body) {
    ClassText *text = class_with(torch, module, body);
    text->repeated |= module->steps != NULL;
    module->class_name = text->name;
}

static void add_input(Printer *printer, const TorchItem *item, const PyVariable *outside) {
    const char *name = new_name(printer, local_stem(printer, item->tensor));
    PyVariable *variable = python_variable(printer, item->tensor, item->version, name);
    copy_dims(variable, outside);
    if (!printer->like && variable->kind == PY_REAL) printer->like = name;
}

static const char *own_weight(Torch *torch, const TorchModule *module) {
    const TorchModule *first = module_at(torch, module->path);
    LIST_EACH(const Tensor, tensor, &first->stored)
        if (tensor->role == ROLE_PARAMETER) return attribute(torch, module, tensor->path, false);
    return NULL;
}

static void print_return(Printer *printer) {
    TorchModule *module = printer->module;
    List names = {0};
    LIST_EACH(const TorchItem, item, &module->outputs) {
        PyVariable *variable = variable_of(printer, item->tensor, item->version);
        if (!variable) refuse(printer->torch, item->tensor->span, "this result of a layer");
        list_copy(printer->arena, &module->results, variable, sizeof *variable);
        list_push(printer->arena, &names, (void *)variable->name);
    }
    python_line(printer, "return %s", comma_list(printer->arena, &names));
}

static const char *signature(const Printer *printer, int inputs) {
    Text text = {.arena = printer->arena};
    text_add(&text, "self");
    for (int i = 0; i < inputs; i++) text_add(&text, ", %s", (const char *)printer->names.items[i]);
    if (printer->module->uses_fixed) text_add(&text, ", %s", printer->fixed_name);
    text_add(&text, "%s", printer->module->uses_cache ? ", cache" : "");
    bool longer = text.length > LINE_LENGTH - strlen("    def forward():");
    return arena_format(
        text.arena, longer ? "    def forward(\n        %s\n    ):\n" : "    def forward(%s):\n",
        text.text);
}

/* Prints the class of a layer as it is applied by `caller`; NULL: it holds weights only. */
static void print_module(Torch *torch, TorchModule *module, Printer *caller) {
    TorchModule *first = module_at(torch, module->path);
    Printer printer = {.torch = torch, .arena = torch->arena, .module = module, .depth = 2};
    printer.text.arena = torch->arena;
    for (int i = 0; i < module->inputs.count && caller; i++)
        add_input(&printer, module->inputs.items[i],
                  input_variable(caller, module->inputs.items[i]));
    if (!printer.like) printer.like = own_weight(torch, module);
    printer.fixed = caller && caller->routing ? caller->routing : caller ? caller->fixed : NULL;
    if (printer.fixed) printer.fixed_name = python_name(torch, printer.fixed->name);
    if (printer.fixed) list_push(torch->arena, &printer.names, (void *)printer.fixed_name);
    const char *forward = "";
    if (caller) {
        print_parts(&printer, &module->parts, 0, module->parts.count);
        print_return(&printer);
        module->uses_cache = code_has(printer.text.text, "cache");
        module->uses_fixed = printer.fixed && code_has(printer.text.text, printer.fixed_name);
        forward = arena_format(torch->arena, "%s%s", signature(&printer, module->inputs.count),
                               printer.text.text);
    }
    if (first != module) {
        bool same = first->forward && !strcmp(first->forward, forward);
        if (!same)
            refuse(torch, ((TorchPart *)module->parts.items[0])->statement->span,
                   "a shared layer with two different forward passes");
        return;
    }
    module->forward = forward;
    const char *init = init_text(&printer);
    set_class(torch, module,
              arena_format(torch->arena, "%s%s%s", init, *init && *forward ? "\n" : "",
                           *init || *forward ? forward : "    pass\n"));
}

void print_layer(Printer *printer, TorchModule *layer) {
    print_module(printer->torch, layer, printer);
}

/* ---- the model ---- */

static bool is_next(const Tensor *tensor) {
    return tensor->role == ROLE_INPUT && tensor->declared == MOEC_INPUT_NEXT;
}

/* Dependences of a tensor: on other inputs, on positions or their number, on the next tokens. */
enum { ON_GIVEN = 1, ON_POSITIONS = 2, ON_NEXT = 4 };

static int dependence(const int *depends, const List *accesses) {
    int all = 0;
    for (int i = 0; i < accesses->count; i++)
        all |= depends[((Expr *)accesses->items[i])->tensor->id];
    return all;
}

static void add_dependence(int *depends, const List *writes, int on) {
    for (int i = 0; i < writes->count; i++) depends[((Expr *)writes->items[i])->tensor->id] |= on;
}

/* The parts of the model in four stages: those that depend on no position and no other input, on
 * other inputs alone, on positions, on the next tokens. Without other inputs, the first two are
 * empty. */
enum { STAGE_NONE, STAGE_GIVEN, STAGE_POSITIONS, STAGE_NEXT, STAGES };

/* Puts the parts in the order of their stages; ends[stage]: the index after them. Returns the
 * dependences of the logits. */
static int sort_stages(Torch *torch, List *parts, int *ends) {
    const Program *program = torch->program;
    int *depends = arena_alloc(torch->arena, (size_t)program->tensors.count * sizeof *depends);
    List stages[STAGES] = {0};
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        depends[i] = list_find(&torch->inputs, tensor) >= 0 ? ON_GIVEN : 0;
        if (position_count(tensor))
            depends[i] |= depends[i] ? ON_POSITIONS | ON_NEXT : ON_POSITIONS;
        if (is_next(tensor)) depends[i] |= ON_NEXT;
    }
    LIST_EACH(const TorchPart, part, parts)
        if (part->sees_positions) add_dependence(depends, &part->writes, ON_POSITIONS);
    LIST_EACH(TorchPart, part, parts) {
        const int on = dependence(depends, &part->reads) | dependence(depends, &part->writes);
        add_dependence(depends, &part->writes, on);
        int stage = on & ON_NEXT                                ? STAGE_NEXT
                    : on & ON_POSITIONS || !torch->inputs.count ? STAGE_POSITIONS
                    : on & ON_GIVEN                             ? STAGE_GIVEN
                                                                : STAGE_NONE;
        list_push(torch->arena, &stages[stage], part);
    }
    *parts = (List){0};
    for (int i = 0; i < STAGES; i++) {
        list_append(torch->arena, parts, &stages[i]);
        ends[i] = parts->count;
    }
    return depends[((Tensor *)program->outputs.items[0])->id];
}

static void print_losses(Printer *printer, const char *logits, bool dropped) {
    const Program *program = printer->torch->program;
    Text text = text_new(printer->arena);
    for (int i = 1; i < program->outputs.count; i++) {
        const Tensor *output = program->outputs.items[i];
        const PyVariable *variable = variable_of(printer, output, 0);
        if (output->probe || !variable) continue;
        const char *name = output == program->loss ? "loss" : output->path;
        if (output != program->loss && !strcmp(name, "loss")) name = "cross_entropy";
        text_add(&text, "%s\"%s\": %s", *text.text ? ", " : "", name, variable->name);
    }
    python_line(printer, "return %s, {%s}%s", logits, text.text,
                dropped ? " if losses else {}" : "");
}

/* These parts, computed for the first token. The cache has the tensors that later parts read. */
static void print_given(Printer *printer, const List *parts, int first, int end) {
    if (first == end) return;
    Text kept = {.arena = printer->arena}, read = {.arena = printer->arena};
    int known = printer->variables.count;
    python_line(printer, "if not cache.given:");
    printer->depth++;
    print_parts(printer, parts, first, end);
    printer->parts = parts;
    printer->at = end - 1;
    for (int i = known; i < printer->variables.count; i++) {
        const PyVariable *variable = printer->variables.items[i];
        const char *name = variable->name;
        if (is_weight_or_state(variable->tensor) || !*name ||
            !read_later(printer, variable->tensor, variable->version))
            continue;
        text_add(&kept, "%s\"%s\": %s", kept.length ? ", " : "", name, name);
        text_add(&read, "%*s%s = cache.given[\"%s\"]\n", 4 * (printer->depth - 1), "", name, name);
    }
    python_line(printer, "cache.given = {%s}", kept.text);
    printer->depth--;
    text_add_bytes(&printer->text, read.text, read.length);
}

/* The equations of the model: logits, then losses if there are targets. */
static const char *print_model(Torch *torch, Printer *printer) {
    TorchModule *root = torch->root;
    const Program *program = torch->program;
    const Tensor *logits = program->outputs.items[0];
    int ends[STAGES];
    const bool after = sort_stages(torch, &root->parts, ends) & ON_NEXT;
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (tensor->role != ROLE_INPUT) continue;
        if (after && is_next(tensor) && torch->needed[i])
            refuse(torch, logits->span, "an output that depends on the next tokens");
        bool other = list_find(&torch->inputs, tensor) >= 0;
        const char *name = other             ? input_name(torch, tensor)
                           : is_next(tensor) ? "targets"
                                             : "tokens";
        PyVariable *variable = python_variable(printer, tensor, 0, new_name(printer, name));
        if (tensor->type == TYPE_INT) variable->kind = PY_INT;
    }
    /* A repeat before the logits has losses. */
    if (after) {
        python_line(printer, "losses = targets is not None");
        python_line(printer, "targets = targets if losses else tokens  # the losses are dropped");
        ends[STAGE_POSITIONS] = root->parts.count;
    }
    print_parts(printer, &root->parts, 0, ends[STAGE_NONE]);
    print_given(printer, &root->parts, ends[STAGE_NONE], ends[STAGE_GIVEN]);
    print_parts(printer, &root->parts, ends[STAGE_GIVEN], ends[STAGE_POSITIONS]);
    const char *name = expanded(printer, variable_of(printer, logits, 0));
    if (!after) python_line(printer, "if targets is None:");
    if (!after) python_line(printer, "    return %s, {}", name);
    print_parts(printer, &root->parts, ends[STAGE_POSITIONS], root->parts.count);
    print_losses(printer, name, after);
    return printer->text.text;
}

/* Each input with its shape without the batch: ("question", 6). */
static const char *inputs_text(Torch *torch) {
    Text text = {.arena = torch->arena};
    text_add(&text, torch->inputs.count ? "    inputs = (" : "%s", "");
    for (int i = 0; i < torch->inputs.count; i++) {
        const Tensor *tensor = torch->inputs.items[i];
        text_add(&text, "%s(\"%s\"", i ? " " : "", input_name(torch, tensor));
        for (int j = 1; j < tensor->rank; j++) {
            bool positions = tensor->axes[j]->kind == AXIS_SEQUENCE;
            text_add(&text, positions ? ", None" : ", %ld", tensor->axes[j]->size);
        }
        bool last = i > 0 && i + 1 == torch->inputs.count;
        text_add(&text, "%s)%s", tensor->rank > 1 ? "" : ",", last ? "" : ",");
    }
    text_add(&text, torch->inputs.count ? ")\n\n" : "%s", "");
    return text.text;
}

const char *print_classes(Torch *torch) {
    Printer printer = {.torch = torch, .arena = torch->arena, .module = torch->root, .depth = 2};
    printer.text.arena = torch->arena;
    printer.like = own_weight(torch, torch->root);
    const char *equations = print_model(torch, &printer);
    const char *init = init_text(&printer), *name = class_name_of(torch, torch->program->name);
    Text text = text_new(torch->arena);
    LIST_EACH(const ClassText, made, &torch->classes) {
        text_add(&text, "class %s(%s):\n%s\n\n", made->name,
                 made->repeated ? "GradientCheckpointingLayer" : "nn.Module", made->body);
    }
    text_add(&text, "class %sForCausalLM(%sBase):\n%s%s        self.post_init()\n\n", name, name,
             inputs_text(torch), init);
    text_add(&text, "    def equations(self, tokens, targets, cache");
    for (int i = 0; i < torch->inputs.count; i++)
        text_add(&text, ", %s", input_name(torch, torch->inputs.items[i]));
    text_add(&text, "):\n%s", equations);
    return text.text;
}
