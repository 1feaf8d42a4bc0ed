/* torch_names: Python names of tensors, layers and classes; lines and comments. */
#include "torch/torch.h"

#include "abi/torch_words.h"

#include <ctype.h>
#include <string.h>

/* Words that cannot be variables, and names of the text around the equations. ruff refuses `l`, `O`
 * and `I` as ambiguous. */
static const char *const words[] = {
    "False",   "None",     "True",     "and",    "as",        "assert",   "async",  "await",
    "break",   "class",    "continue", "def",    "del",       "elif",     "else",   "except",
    "finally", "for",      "from",     "global", "if",        "import",   "in",     "is",
    "lambda",  "nonlocal", "not",      "or",     "pass",      "raise",    "return", "try",
    "while",   "with",     "yield",    "self",   "torch",     "nn",       "float",  "cache",
    "F",       "math",     "range",    "l",      "O",         "I",        "cls",    "take",
    "gather",  "attend",   "top_k",    "losses", "positions", "reversed", "windows"};
/* Arguments of forward(). */
static const char *const forward_words[] = {
    "input_ids", "attention_mask", "past_key_values", "labels", "targets", "tokens", "use_cache"};
#define IN_LIST(list, name) (text_find(list, sizeof(list) / sizeof *(list), name) >= 0)

const char *python_name(const Torch *torch, const char *name) {
    return IN_LIST(words, name) ? arena_format(torch->arena, "%s_", name) : name;
}

const char *input_name(const Torch *torch, const Tensor *input) {
    const char *name = input->path;
    return IN_LIST(forward_words, name) ? arena_format(torch->arena, "%s_", name)
                                        : python_name(torch, name);
}

const char *attribute_name(Torch *torch, const char *path) {
    const char *name = last_name(path);
    return torch_is_reserved(name, strlen(name)) ? arena_format(torch->arena, "%s_", name) : name;
}

const char *last_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* "norm" of "block.{i}.norm"; "" at the root and for an iteration. */
static const char *last_segment(const char *path) {
    const char *last = last_name(path);
    return *last == '{' || isdigit((unsigned char)*last) ? "" : last;
}

/* The name in the source: elaborate puts the label of the layer before it. */
const char *local_stem(Printer *printer, const Tensor *tensor) {
    const Application *application = printer->module->application;
    for (int i = 0; application && i < application->formals.count; i++) {
        const Formal *formal = application->formals.items[i];
        if (formal->tensor == tensor) return python_name(printer->torch, formal->name);
    }
    const char *label = last_segment(printer->module->path);
    size_t length = strlen(label);
    const char *stem = tensor->stem;
    if (is_weight_or_state(tensor)) stem = last_name(tensor->path);
    const bool begins = length && !strncmp(stem, label, length) && stem[length] == '_';
    if (begins && !isdigit((unsigned char)stem[length + 1])) stem += length + 1;
    return python_name(printer->torch, stem);
}

const char *result_stem(Printer *printer, const TorchModule *child) {
    Span call = child->application->call;
    if (!call.source || child->outputs.count != 1) return NULL;
    const char *text = call.source->text, *end = text + call.start;
    while (end > text && end[-1] == ' ') end--;
    if (end == text || end[-1] != '=') return NULL;
    for (end--; end > text && end[-1] == ' ';) end--;
    const char *start = end;
    while (start > text && (isalnum((unsigned char)start[-1]) || start[-1] == '_')) start--;
    if (start == end || isdigit((unsigned char)*start)) return NULL;
    Arena *arena = printer->arena;
    return python_name(printer->torch, arena_copy(arena, start, (size_t)(end - start)));
}

bool name_taken(const Printer *printer, const char *name) {
    return list_has_text(&printer->names, name);
}

const char *new_name(Printer *printer, const char *stem) {
    const char *name = stem;
    for (int number = 2; name_taken(printer, name); number++)
        name = arena_format(printer->arena, "%s_%d", stem, number);
    list_push(printer->arena, &printer->names, (void *)name);
    return name;
}

PyVariable *variable_of(Printer *printer, const Tensor *tensor, int version) {
    for (int i = printer->variables.count - 1; i >= 0; i--) {
        PyVariable *variable = printer->variables.items[i];
        if (variable->tensor == tensor && variable->version == version) return variable;
    }
    return version == 1 && printer->loops ? variable_of(printer, tensor, 0) : NULL;
}

void copy_dims(PyVariable *variable, const PyVariable *from) {
    memcpy(variable->absent, from->absent, sizeof from->absent);
    memcpy(variable->full, from->full, sizeof from->full);
    variable->kind = from->kind;
}

PyVariable *python_variable(Printer *printer, const Tensor *tensor, int version, const char *name) {
    const PyVariable made = {.tensor = tensor, .version = version, .name = name, .kind = PY_REAL};
    return list_copy(printer->arena, &printer->variables, &made, sizeof made);
}

PyVariable *stored_variable(Printer *printer, const Tensor *tensor) {
    const char *name = attribute(printer->torch, printer->module, tensor->path, false);
    PyVariable *variable = python_variable(printer, tensor, 0, name);
    for (int i = 0; i < tensor->rank; i++)
        variable->full[i] = tensor->axes[i]->kind == AXIS_SEQUENCE;
    return variable;
}

const char *python_size(Printer *printer, const Axis *axis, bool full) {
    bool batch = axis->kind == AXIS_BATCH;
    if (!batch && axis->kind != AXIS_SEQUENCE)
        return arena_format(printer->arena, "%ld", axis->size);
    return batch ? "cache.sequences" : full ? "cache.total" : "cache.length";
}

/* Whether a weight has exactly this path: a layer of the same label is NAME_layer in Python. */
static bool is_weight(Torch *torch, const char *path, size_t length) {
    LIST_EACH(const Tensor, tensor, &torch->program->tensors) {
        if (is_weight_or_state(tensor) && !strncmp(tensor->path, path, length) &&
            !tensor->path[length])
            return true;
    }
    return false;
}

const char *list_suffix(Torch *torch, const char *path, size_t length) {
    while (length && path[length - 1] != '.') length--;
    LIST_EACH(const Tensor, tensor, &torch->program->tensors) {
        if (is_weight_or_state(tensor) && !strncmp(tensor->path, path, length) &&
            tensor->path[length] != '{' && !isdigit((unsigned char)tensor->path[length]))
            return TORCH_STEPS;
    }
    return "";
}

/* The iteration in a path, with the variables of the loops: "i + 1" of "{i+1}". */
static void add_iteration(Torch *torch, Text *text, const char *at, const char *end) {
    while (at < end) {
        size_t length = 0;
        while (isalpha((unsigned char)*at) &&
               (isalnum((unsigned char)at[length]) || at[length] == '_'))
            length++;
        const TorchLoop *loop = NULL;
        for (int i = torch->loops.count - 1; length && i >= 0 && !loop; i--) {
            const TorchLoop *other = torch->loops.items[i];
            if (!strncmp(other->index, at, length) && !other->index[length]) loop = other;
        }
        if (loop)
            text_add(text, "%s", loop->name);
        else if (length)
            text_add_bytes(text, at, length);
        else
            text_add(text, *at == '*' || *at == '+' ? " %c " : "%c", *at);
        at += length ? length : 1;
    }
}

const char *attribute(Torch *torch, const TorchModule *from, const char *path, bool layer) {
    Text text = {.arena = torch->arena};
    text_add(&text, "self");
    size_t skip = strlen(from->path);
    for (const char *at = path + skip + (skip > 0); *at;) {
        size_t length = strcspn(at, ".");
        if (*at == '{' || isdigit((unsigned char)*at))
            text_add(&text, "%s", list_suffix(torch, path, (size_t)(at - path)));
        if (*at == '{') {
            text_add(&text, "[");
            add_iteration(torch, &text, at + 1, at + length - 1);
            text_add(&text, "]");
        } else
            text_add(&text,
                     isdigit((unsigned char)*at)     ? "[%.*s]"
                     : torch_is_reserved(at, length) ? ".%.*s_"
                                                     : ".%.*s",
                     (int)length, at);
        at += length;
        if ((layer || *at) && is_weight(torch, path, (size_t)(at - path)))
            text_add(&text, TORCH_LAYER);
        at += *at == '.';
    }
    return text.text;
}

static bool has_attribute(const TorchModule *module, const char *name) {
    for (int i = 0; i < module->stored.count; i++)
        if (!strcmp(last_name(((Tensor *)module->stored.items[i])->path), name)) return true;
    LIST_EACH(const TorchModule, child, &module->children)
        if (!strcmp(last_name(child->path), name) || !strcmp(child->name, name)) return true;
    return false;
}

const char *option_attribute(Torch *torch, TorchModule *module, const TorchVariable *option) {
    TorchModule *first = module_at(torch, module->path);
    const char *name = last_name(option->path);
    bool taken = torch_is_reserved(name, strlen(name)) || has_attribute(first, name);
    int at = 0;
    for (; at < first->options.count && first->options.items[at] != option; at++)
        taken |= !strcmp(last_name(((TorchVariable *)first->options.items[at])->path), name);
    if (at == first->options.count) list_push(torch->arena, &first->options, (void *)option);
    if (!taken) return name;
    char *whole = arena_format(torch->arena, "option_%s", option->path);
    for (char *c = whole; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return whole;
}

/* "RmsNorm" of "rms_norm". */
const char *class_name_of(Torch *torch, const char *name) {
    char *made = arena_copy(torch->arena, name, strlen(name));
    size_t length = 0;
    bool upper = true;
    for (const char *at = name; *at; at++) {
        if (*at == '_') {
            upper = true;
            continue;
        }
        made[length++] = upper ? (char)toupper((unsigned char)*at) : *at;
        upper = false;
    }
    made[length] = 0;
    return made;
}

/* ---- lines ---- */

const char *comma_list(Arena *arena, const List *texts) {
    Text text = text_new(arena);
    for (int i = 0; i < texts->count; i++)
        text_add(&text, "%s%s", i ? ", " : "", (const char *)texts->items[i]);
    return text.text;
}

static bool in_identifier(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

bool code_has(const char *code, const char *word) {
    const size_t length = strlen(word);
    bool quoted = false;
    for (char before = 0; *code; before = *code++) {
        quoted ^= *code == '"';
        if (*code == '#' && !quoted)
            code += strcspn(code, "\n") - 1; /* a comment */
        else if (!quoted && !in_identifier(before) && before != '.' &&
                 !strncmp(code, word, length) && !in_identifier(code[length]))
            return true;
    }
    return false;
}

void refuse(Torch *torch, Span span, const char *what) {
    report_invalid(torch->program->reports, span,
                   "write it with other equations, or use --target c",
                   "PyTorch target: %s cannot be written", what);
    report_give_up(torch->program->reports);
}

void python_line(Printer *printer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *line = arena_vformat(printer->arena, format, arguments);
    va_end(arguments);
    bool longer = *line != '#' && 4 * printer->depth + (int)strlen(line) > LINE_LENGTH;
    text_add(&printer->text, "%*s%s%s\n", 4 * printer->depth, "", line, longer ? FORMAT_SKIP : "");
}

/* The lines of the source from the beginning of the equation. */
void print_comment(Printer *printer, const Statement *statement) {
    Span span = statement->span;
    if (statement->kind == STATEMENT_REPEAT) span.end = span.start;
    print_source(printer, span);
}

void print_source(Printer *printer, Span span) {
    if (!span.source) return;
    const char *text = span.source->text, *start = text + span.start;
    while (start > text && start[-1] != '\n') start--;
    const char *end = text + (span.end > span.start ? span.end : span.start);
    end += strcspn(end, "\n");
    if (printer->comment == start) return;
    printer->comment = start;
    for (const char *line = start; line < end; line += strcspn(line, "\n") + 1) {
        while (isspace((unsigned char)*line) && *line != '\n') line++;
        int length = (int)strcspn(line, "\n");
        while (length && isspace((unsigned char)line[length - 1])) length--;
        if (length) python_line(printer, "# %.*s", length, line);
    }
}
