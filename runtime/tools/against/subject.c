/* subject: the definition that foreign code is compared with. A layer gets a model of its own:
 *
 *     layer attention(x[s,d]) -> y[s,d]
 *
 *     -->  layer against_attention {
 *            option inner: layer = attention
 *            sequence s = train.context_length
 *            axis d = 64
 *            input x[s,d]: float
 *            input cotangent_y[s,d]: float
 *            against_out = inner(x)
 *            loss = sum[batch,s,d] against_out[s,d] * cotangent_y[s,d]
 *          }
 *
 * The gradient of the loss with respect to the cotangent is the result of the layer.
 */
#include "tools/against/against.h"

#include "abi/json_make.h"
#include "abi/step_path.h"
#include "abi/text_find.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "model/model.h"
#include "training/spec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AXIS_LIMIT = 32, DEFAULT_SIZE = 16 };
#define COTANGENT "cotangent_"
#define INNER "inner."

/* ---- the signature of a layer ---- */

typedef struct LayerFormal {
    char name[64], axes[256]; /* "s,d"; "": as those of the first argument */
} LayerFormal;

typedef struct Signature {
    LayerFormal arguments[16], results[16];
    int argument_count, result_count;
    char axes[AXIS_LIMIT][64]; /* those of the arguments first */
    int axis_count, argument_axis_count;
} Signature;

static const char *skip_blanks(const char *at) {
    while (isspace((unsigned char)*at) || *at == ',') at++;
    return at;
}

static size_t copy_word(char *to, size_t room, const char *at) {
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
    snprintf(to, room, "%.*s", (int)length, at);
    return length;
}

static void note_axis(Signature *signature, const char *name) {
    for (int i = 0; i < signature->axis_count; i++)
        if (!strcmp(signature->axes[i], name)) return;
    if (signature->axis_count < AXIS_LIMIT)
        snprintf(signature->axes[signature->axis_count++], sizeof signature->axes[0], "%s", name);
}

/* The subscripts of a formal up to `]`; `...` becomes the sequence `s`. */
static const char *read_axes(Signature *signature, LayerFormal *formal, const char *at) {
    size_t used = 0;
    for (at = skip_blanks(at); *at && *at != ']'; at = skip_blanks(at)) {
        char name[64] = "s";
        const size_t length = copy_word(name, sizeof name, at);
        if (!length) snprintf(name, sizeof name, "s");
        at += length;
        while (*at == '.') at++;
        if (*at && *at != ',' && *at != ']' && !isspace((unsigned char)*at)) at++;
        note_axis(signature, name);
        used += (size_t)snprintf(formal->axes + used, sizeof formal->axes - used, "%s%s",
                                 used ? "," : "", name);
        if (used >= sizeof formal->axes) used = sizeof formal->axes - 1;
    }
    return *at ? at + 1 : at;
}

static const char *read_formals(Signature *signature, const char *at, LayerFormal *to, int *count) {
    for (at = skip_blanks(at); isalpha((unsigned char)*at) || *at == '_'; at = skip_blanks(at)) {
        LayerFormal formal = {0};
        at += copy_word(formal.name, sizeof formal.name, at);
        if (*at == '[') at = read_axes(signature, &formal, at + 1);
        if (*count < 16) to[(*count)++] = formal;
    }
    return at;
}

/* Reads "attention(x[s,d]) -> y[s,d]". */
static bool read_signature(Signature *signature, const char *text) {
    *signature = (Signature){0};
    const char *open = strchr(text, '('), *arrow = strstr(text, "->");
    if (!open || !arrow) return false;
    read_formals(signature, open + 1, signature->arguments, &signature->argument_count);
    signature->argument_axis_count = signature->axis_count;
    read_formals(signature, arrow + 2, signature->results, &signature->result_count);
    if (!signature->argument_count || !signature->result_count) return false;
    if (!signature->axis_count) {
        note_axis(signature, "s");
        note_axis(signature, "d");
        signature->argument_axis_count = 2;
    }
    LayerFormal *first = &signature->arguments[0];
    if (!*first->axes) snprintf(first->axes, sizeof first->axes, "s,d");
    for (int i = 0; i < signature->argument_count; i++)
        if (!*signature->arguments[i].axes)
            memcpy(signature->arguments[i].axes, first->axes, sizeof first->axes);
    for (int i = 0; i < signature->result_count; i++)
        if (!*signature->results[i].axes)
            memcpy(signature->results[i].axes, first->axes, sizeof first->axes);
    return true;
}

/* False after a message for a result with an axis that no argument has: its size is unknown. */
static bool check_results(const Signature *signature, const char *layer) {
    for (int i = 0; i < signature->result_count; i++)
        for (const char *at = signature->results[i].axes; *at; at += *at == ',') {
            const size_t length = strcspn(at, ",");
            bool known = false;
            for (int j = 0; j < signature->argument_axis_count; j++)
                known |= strlen(signature->axes[j]) == length &&
                         !strncmp(signature->axes[j], at, length);
            if (!known)
                return error_message("compare a model that applies the layer, with a loss",
                                     "no argument of %s has the axis '%.*s' of its result", layer,
                                     (int)length, at);
            at += length;
        }
    return true;
}

/* ---- the model around a layer ---- */

/* The size of an axis in "d=64,h=4". */
static long size_of_axis(const char *sizes, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = sizes; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, length) && at[length] == '=')
            return strtol(at + length + 1, NULL, 10);
    return DEFAULT_SIZE;
}

/* False after a message if an entry of --sizes is not AXIS=N with an axis of the layer. */
static bool check_axis_sizes(const AgainstOptions *options, const Signature *signature,
                             const char *layer) {
    for (const char *at = options->sizes; at && *at;) {
        char name[64];
        const size_t length = copy_word(name, sizeof name, at);
        const char *next = strchr(at, ',');
        bool known = false;
        char *end = NULL;
        const bool good =
            at[length] == '=' && strtol(at + length + 1, &end, 10) > 0 && (*end == ',' || !*end);
        for (int i = 1; i < signature->axis_count; i++) known |= !strcmp(signature->axes[i], name);
        if (!good || !known) {
            AUTO_FREE char *help =
                memory_format("the axes of %s are %s", layer,
                              signature->axis_count > 1 ? signature->axes[1] : "none");
            for (int i = 2; i < signature->axis_count; i++)
                help = memory_append(help, ", %s", signature->axes[i]);
            if (!known && good && !strcmp(name, signature->axes[0]))
                error_message("use --context-length", "--sizes cannot set the sequence axis '%s'",
                              name);
            else
                error_message(help, "--sizes expects AXIS=N, got '%.*s'",
                              (int)(next ? next - at : (long)strlen(at)), at);
            return false;
        }
        at = next ? next + 1 : NULL;
    }
    return true;
}

static bool is_integer_input(const AgainstPlan *plan, const char *name) {
    const AgainstDomain *domain = plan_domain(plan, name);
    return domain && (domain->integers || domain->documents);
}

static void write_declarations(FILE *file, const AgainstSubject *subject,
                               const Signature *signature) {
    fprintf(file, "  sequence %s = train.context_length\n", signature->axes[0]);
    for (int i = 1; i < signature->axis_count; i++)
        fprintf(file, "  axis %s = %ld\n", signature->axes[i],
                size_of_axis(subject->options->sizes, signature->axes[i]));
    for (int i = 0; i < signature->argument_count; i++) {
        const LayerFormal *formal = &signature->arguments[i];
        fprintf(file, "  input %s[%s]: %s\n", formal->name, formal->axes,
                is_integer_input(subject->plan, formal->name) ? "token" : "float");
    }
    for (int i = 0; i < signature->result_count; i++)
        fprintf(file, "  input " COTANGENT "%s[%s]: float\n", signature->results[i].name,
                signature->results[i].axes);
}

static void write_equations(FILE *file, const Signature *signature) {
    fprintf(file, "  against_out = inner(");
    for (int i = 0; i < signature->argument_count; i++)
        fprintf(file, "%s%s", i ? ", " : "", signature->arguments[i].name);
    fprintf(file, ")\n  loss = ");
    for (int i = 0; i < signature->result_count; i++) {
        const LayerFormal *formal = &signature->results[i];
        fprintf(file, "%s(sum[batch,%s] against_out%s%s[%s] * " COTANGENT "%s[%s])", i ? " + " : "",
                formal->axes, i ? "." : "", i ? formal->name : "", formal->axes, formal->name,
                formal->axes);
    }
    fprintf(file, "\n}\n");
}

/* --set of the layer, and those that begin with "train." */
static void write_layer_sets(FILE *file, const TextList *sets, bool train) {
    for (int i = 0; i < sets->count; i++) {
        const char *equals = strchr(sets->items[i], '=');
        const bool of_train = !strncmp(sets->items[i], "train.", 6);
        if (!equals || of_train != train) continue;
        fprintf(file, " %.*s = %s", (int)(equals - sets->items[i]), sets->items[i], equals + 1);
    }
}

/* The model in one line of text without the file, or after it. */
static char *wrapped(const AgainstSubject *subject, const Signature *signature, const char *layer,
                     const char *before, const char *text, size_t length) {
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    fprintf(file, "use train %s", before);
    if (length) fwrite(text, 1, length, file);
    fprintf(file,
            "\nlayer against_%s {\n  option inner: layer = %s\n"
            "  option train: layer = train { batch_size = 2, context_length = 16 }\n",
            layer, layer);
    write_declarations(file, subject, signature);
    write_equations(file, signature);
    fprintf(file, "model against_model = against_%s { inner = {", layer);
    write_layer_sets(file, subject->options->sets, false);
    fprintf(file, " }");
    write_layer_sets(file, subject->options->sets, true);
    fprintf(file, " }\n");
    fclose(file);
    return out;
}

/* The description of a layer among the declarations, or NULL; a new reference. */
static json_t *layer_described(MoecCompiler *declarations, const char *name) {
    const char *text = moec_doc(declarations, name, MOEC_DOC_JSON);
    json_t *list = text ? json_loads(text, 0, NULL) : NULL, *found = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *entry = json_array_get(list, i);
        const char *kind = json_field_text(entry, "kind");
        if (kind && !strcmp(kind, "layer") && !found) found = json_incref(entry);
    }
    json_decref(list);
    return found;
}

static bool use_layer(AgainstSubject *subject, const json_t *layer, const char *file) {
    const char *name = json_field_text(layer, "name"),
               *signature_text = json_field_text(layer, "signature"),
               *home = json_field_text(layer, "file");
    Signature signature;
    if (!name || !signature_text || !read_signature(&signature, signature_text))
        return error_message("choose a layer with an argument and a result, or a model",
                             "'%s' cannot be compared: %s", name ? name : "?",
                             signature_text ? signature_text : "it has no signature");
    if (!check_results(&signature, name) || !check_axis_sizes(subject->options, &signature, name))
        return false;
    Mapping mapping = {0};
    if (file && !file_map(file, "check the path", &mapping)) return false;
    const char *slash = home ? strrchr(home, '/') : NULL;
    AUTO_FREE char *use =
        file ? memory_format("%s", "")
             : memory_format("use %.*s ", (int)strcspn(slash ? slash + 1 : "", "."),
                             slash ? slash + 1 : "");
    subject->title = memory_format("%s", name);
    subject->text =
        wrapped(subject, &signature, name, use, (const char *)mapping.bytes, mapping.length);
    subject->path = memory_format("%s", file ? file : "against.moe");
    subject->model = memory_format("against_model");
    subject->line = (int)json_integer_value(json_object_get(layer, "line"));
    if (file) file_unmap(&mapping);
    return true;
}

/* The sizes of the axes at which a program calls the kernel. The first axis of the layer, or "...",
 * is the context. */
static void set_sizes(AgainstOptions *options, const Signature *signature) {
    const MoecExtern *external = options->external->forward;
    char *sizes = memory_format("%s", "");
    options->batch = 1;
    options->context = external->rows;
    for (int i = 0; i < external->size_count; i++) {
        const MoecExternSize *size = &external->sizes[i];
        bool known = false;
        for (int j = 1; j < signature->axis_count; j++)
            known |= !strcmp(signature->axes[j], size->name);
        if (!strcmp(signature->axes[0], size->name)) {
            options->batch = external->rows;
            options->context = size->size;
        }
        if (!known) continue;
        char *longer =
            memory_format("%s%s%s=%ld", sizes, *sizes ? "," : "", size->name, size->size);
        free(sizes);
        sizes = longer;
    }
    options->sizes = sizes;
}

bool subject_open_extern(AgainstSubject *subject, AgainstOptions *options) {
    MoecCompiler *compiler = options->external->compiler;
    const char *name = options->external->forward->layer;
    json_auto_t *layer = layer_described(compiler, name);
    const char *text = json_field_text(layer, "signature");
    Signature signature;
    bool good = text && read_signature(&signature, text);
    if (!good) error_message(NULL, "layer '%s' cannot be compared: it has no signature", name);
    if (good) set_sizes(options, &signature);
    good = good && check_results(&signature, name);
    if (good) {
        subject->title = memory_format("%s", name);
        subject->text = wrapped(subject, &signature, name, "", "", 0);
        subject->path = memory_format("%s", options->external->forward->spec);
        subject->model = memory_format("against_model");
        subject->line = (int)json_integer_value(json_object_get(layer, "line"));
    }
    return good;
}

static bool is_model(MoecCompiler *declarations, const char *name) {
    int count;
    const char *const *models = moec_models(declarations, &count);
    return text_find(models, count, name) >= 0;
}

bool subject_open(AgainstSubject *subject) {
    const AgainstOptions *options = subject->options;
    const char *operand = options->operand, *search = getenv("MOEC_PATH");
    const char *colon = file_exists(operand) ? NULL : strrchr(operand, ':');
    AUTO_FREE char *file =
        memory_format("%.*s", colon ? (int)(colon - operand) : (int)strlen(operand), operand);
    const bool standard = !colon && !file_exists(file) && !strpbrk(file, "./");
    bool good = true;
    if (!spec_is_run(operand) && (standard || (colon && file_exists(file)))) {
        AUTO(MoecCompiler) *declarations = moec_open_declarations(standard ? NULL : file, search);
        const char *name = standard ? operand : colon + 1;
        json_auto_t *layer =
            standard || !is_model(declarations, name) ? layer_described(declarations, name) : NULL;
        good = standard || reports_good(declarations);
        if (good && layer) good = use_layer(subject, layer, standard ? NULL : file);
    }
    if (good && !subject->text && options->sizes)
        good = error_message("use --set, -b and -c", "--sizes is for a layer, but %s is a model",
                             operand);
    if (!subject->title) subject->title = memory_format("%s", colon ? colon + 1 : operand);
    return good;
}

void subject_free(AgainstSubject *subject) {
    free(subject->title);
    free(subject->text);
    free(subject->path);
    free(subject->model);
}

/* ---- its tensors ---- */

bool tensor_is_given(const AgainstTensor *tensor) {
    return tensor->role < AGAINST_RESULT;
}

char *against_tensor_text(const char *name, int rank, const long *shape) {
    char *sizes = tensor_shape_text(shape, rank), *text = memory_format("%s %s", name, sizes);
    free(sizes);
    return text;
}

static AgainstTensor *add_subject_tensor(AgainstShape *shape, AgainstRole role,
                                         const MoecTensor *info, int skip) {
    shape->tensors =
        memory_grow(shape->tensors, sizeof *shape->tensors * (size_t)(shape->count + 1));
    AgainstTensor *tensor = &shape->tensors[shape->count++];
    *tensor = (AgainstTensor){.role = role,
                              .rank = info->rank - skip,
                              .count = 1,
                              .integer = info->is_int,
                              .limit = info->vocabulary,
                              .init = info->init,
                              .a = info->a,
                              .b = info->b};
    const char *axes = info->axes ? info->axes : "";
    if (skip && strchr(axes, ',')) axes = strchr(axes, ',') + 1;
    tensor->axes = axes;
    for (int i = 0; i < tensor->rank && i < AGAINST_RANK; i++) {
        tensor->shape[i] = info->shape[i + skip];
        tensor->count *= (size_t)tensor->shape[i];
    }
    return tensor;
}

/* Parameters and states: one tensor per iteration of a repeat. */
static void add_stored(AgainstShape *shape, AgainstRole role, const MoecTensor *infos, int count,
                       bool layer) {
    for (int i = 0; i < count; i++) {
        StepPath parts;
        const bool stacked = step_path_read(infos[i].name, &parts);
        for (long step = 0; step < (stacked ? infos[i].shape[0] : 1); step++) {
            AgainstTensor *tensor = add_subject_tensor(shape, role, &infos[i], stacked);
            tensor->path = stacked ? memory_format("%.*s%ld%s", parts.before, infos[i].name,
                                                   step_path_number(&parts, step), parts.after)
                                   : memory_format("%s", infos[i].name);
            const bool inside = layer && !strncmp(tensor->path, INNER, strlen(INNER));
            tensor->name = memory_format("%s", tensor->path + (inside ? strlen(INNER) : 0));
            tensor->spec = infos[i].name;
            if (role == AGAINST_PARAMETER && !infos[i].frozen)
                tensor->gradient = memory_format("gradient:%s", tensor->path);
        }
    }
}

static void add_arguments(AgainstShape *shape) {
    const MoecGraphEntry *graph = moec_table(shape->compiler, shape->train)->graphs;
    const MoecTensor *infos = graph->inputs;
    for (int i = 0; i < graph->input_count; i++) {
        if (infos[i].input == MOEC_INPUT_SCALAR ||
            !strncmp(infos[i].name, COTANGENT, strlen(COTANGENT)))
            continue;
        AgainstTensor *tensor = add_subject_tensor(shape, AGAINST_ARGUMENT, &infos[i], 0);
        tensor->name = memory_format("%s", infos[i].name);
        tensor->path = memory_format("input:%s", infos[i].name);
        tensor->spec = infos[i].name;
        if (!tensor->integer) tensor->gradient = memory_format("output:gradient:%s", infos[i].name);
    }
}

/* The results of a layer are gradients of cotangents; those of a model are outputs. */
static void add_results(AgainstShape *shape, const AgainstSubject *subject) {
    const bool layer = subject->text != NULL;
    const MoecGraphEntry *train = moec_table(shape->compiler, shape->train)->graphs,
                         *forward =
                             layer ? NULL : moec_table(shape->compiler, shape->forward)->graphs;
    const MoecTensor *infos = layer ? train->inputs : forward->outputs;
    const int count = layer ? train->input_count : forward->output_count;
    for (int i = 0; i < count; i++) {
        const char *name = infos[i].name;
        if (layer ? strncmp(name, COTANGENT, strlen(COTANGENT)) != 0 : infos[i].rank == 0) continue;
        AgainstTensor *tensor = add_subject_tensor(shape, AGAINST_RESULT, &infos[i], 0);
        tensor->name = memory_format("%s", name + (layer ? strlen(COTANGENT) : 0));
        tensor->path = memory_format(layer ? "output:gradient:%s" : "output:%s", name);
    }
    infos = train->outputs;
    for (int i = 0; i < train->output_count; i++) {
        const char *name = infos[i].name;
        if (infos[i].rank || infos[i].probe || !strcmp(name, "total") ||
            (layer && !strcmp(name, "loss")))
            continue;
        AgainstTensor *tensor = add_subject_tensor(shape, AGAINST_TERM, &infos[i], 0);
        tensor->name = memory_format("%s", name);
        tensor->path = memory_format("output:%s", name);
    }
}

/* ---- the equations of its tensors ---- */

static void sizes_text(const AgainstTensor *tensor, char *text, size_t room) {
    const char *axes = tensor->axes;
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < tensor->rank && used < room; i++) {
        const int length = (int)strcspn(axes, ",");
        used += (size_t)snprintf(text + used, room - used, "%s%.*s=%ld", i ? "," : "", length, axes,
                                 tensor->shape[i]);
        axes += length + (axes[length] == ',');
    }
}

/* A result: the tensor of the spec with its name, or else the last one with its axes. */
static void locate_result(const AgainstShape *shape, AgainstTensor *tensor, bool layer) {
    int count;
    char sizes[256], *name = memory_format("%s%s", layer ? INNER : "", tensor->name);
    sizes_text(tensor, sizes, sizeof sizes);
    const MoecSpecTensor *list =
        moec_spec_tensors(shape->compiler, shape->batch, shape->context, &count);
    bool named = false;
    for (int i = 0; i < count && !named; i++) {
        named = !strcmp(list[i].name, name);
        if (!list[i].file || (!named && strcmp(list[i].axes, sizes) != 0)) continue;
        tensor->file = list[i].file;
        tensor->line = list[i].line;
    }
    free(name);
}

void subject_locate(const AgainstSubject *subject, const AgainstShape *shape,
                    AgainstTensor *tensor) {
    if (tensor->role == AGAINST_RESULT)
        locate_result(shape, tensor, subject->text != NULL);
    else if (tensor->spec)
        moec_first_reader(shape->compiler, tensor->spec, &tensor->file, &tensor->line);
}

/* ---- one shape ---- */

bool subject_shape(const AgainstSubject *subject, long batch, long context, AgainstShape *shape) {
    *shape = (AgainstShape){.batch = batch, .context = context};
    const AgainstExtern *external = subject->options->external;
    if (external) {
        shape->compiler = moec_open_beside(external->compiler, subject->text, subject->model);
    } else if (subject->text) {
        const MoecDocument document = {subject->path, subject->text, strlen(subject->text)};
        shape->compiler = moec_open_document(&document, 1, subject->model, getenv("MOEC_PATH"));
    } else
        shape->compiler = spec_open_quietly(subject->options->operand, subject->options->sets);
    if (!shape->compiler || !reports_good(shape->compiler)) return false;
    moec_trains(shape->compiler);
    moec_differentiate_inputs(shape->compiler);
    shape->train = moec_define(shape->compiler, MOEC_TRAIN, batch, context, 0);
    if (shape->train && !subject->text)
        shape->forward = moec_define(shape->compiler, MOEC_FORWARD, batch, context, 0);
    if (!shape->train || (!subject->text && !shape->forward))
        return reports_good(shape->compiler) &&
               error_message("choose a model with a loss, or a layer: FILE.moe:LAYER",
                             "%s has no training program", subject->title);
    add_arguments(shape);
    const MoecTable *table = moec_table(shape->compiler, shape->train);
    const bool layer = subject->text != NULL;
    add_stored(shape, AGAINST_PARAMETER, table->parameters, table->parameter_count, layer);
    add_stored(shape, AGAINST_STATE, table->states, table->state_count, layer);
    add_results(shape, subject);
    return true;
}

void subject_shape_free(AgainstShape *shape) {
    for (int i = 0; i < shape->count; i++) {
        free(shape->tensors[i].name);
        free(shape->tensors[i].path);
        free(shape->tensors[i].gradient);
    }
    free(shape->tensors);
    moec_close(shape->compiler);
}
