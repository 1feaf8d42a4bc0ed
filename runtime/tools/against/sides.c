/* sides: whether the tensors of a spec and the names of the code agree. Arguments of the layer, or
 * inputs of the model, are arguments of the function with the same name. Parameters of the spec are
 * further arguments of the function, `expert_up` for `expert.up`, or the parameters of a module.
 * Options of the spec are passed where the function has an argument of that name. */
#include "tools/against/against.h"

#include "abi/json_make.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

/* Whether an argument of a function has the name of a tensor: `expert_up` for `expert.up`. */
static bool same_name(const char *tensor, const char *parameter) {
    for (; *tensor && *parameter; tensor++, parameter++)
        if (*tensor != *parameter && (*tensor != '.' || *parameter != '_')) return false;
    return *tensor == *parameter;
}

static bool list_has(const json_t *names, const char *name) {
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *one = json_string_value(json_array_get(names, i));
        if (one && !strcmp(one, name)) return true;
    }
    return false;
}

static const json_t *entry_called(const json_t *list, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *one = json_field_text(entry, "name");
        if (one && same_name(name, one)) return entry;
    }
    return NULL;
}

/* Whether a parameter of the function belongs to a tensor that is passed as an argument. */
static bool is_passed(const AgainstShape *shape, const char *parameter, bool module) {
    for (int i = 0; i < shape->count; i++) {
        const AgainstTensor *tensor = &shape->tensors[i];
        if (tensor_is_given(tensor) && (!module || tensor->role == AGAINST_ARGUMENT) &&
            same_name(tensor->name, parameter))
            return true;
    }
    return false;
}

/* ---- both sides as text ---- */

static void print_spec_side(const AgainstShape *shape) {
    static const char *const roles[] = {"argument ", "parameter", "state    "};
    for (int i = 0; i < shape->count; i++) {
        const AgainstTensor *tensor = &shape->tensors[i];
        if (!tensor_is_given(tensor)) continue;
        AUTO_FREE char *text = against_tensor_text(tensor->name, tensor->rank, tensor->shape);
        line_message("  spec: %s %s%s", roles[tensor->role], text,
                     tensor->integer ? ", integers" : "");
    }
}

static void print_code_side(const json_t *described) {
    const json_t *arguments = json_object_get(described, "arguments"),
                 *tensors = json_object_get(described, "tensors");
    for (size_t i = 0; i < json_array_size(arguments); i++) {
        const json_t *entry = json_array_get(arguments, i);
        line_message("  code: argument  %s%s", json_field_text(entry, "name"),
                     json_is_true(json_object_get(entry, "required")) ? "" : ", optional");
    }
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        AUTO_FREE char *text = described_text(json_array_get(tensors, i));
        line_message("  code: parameter %s", text);
    }
}

/* ---- differences ---- */

static char *parameter_problem(const AgainstTensor *tensor, const json_t *described) {
    const json_t *entry = NULL, *tensors = json_object_get(described, "tensors");
    for (size_t i = 0; i < json_array_size(tensors) && !entry; i++) {
        const json_t *one = json_array_get(tensors, i);
        const char *name = json_field_text(one, "name");
        if (name && !strcmp(name, tensor->name)) entry = one;
    }
    if (!entry) return memory_format("the module has no parameter '%s'", tensor->name);
    return has_described_shape(tensor, entry)
               ? NULL
               : memory_format("the parameter '%s' has another shape", tensor->name);
}

/* The first tensor of the spec without an argument of the code, as text; NULL: none. */
static char *untaken(const AgainstShape *shape, const json_t *described, bool module) {
    const json_t *arguments = json_object_get(described, "arguments");
    const bool any = json_is_true(json_object_get(described, "any"));
    for (int i = 0; i < shape->count; i++) {
        const AgainstTensor *tensor = &shape->tensors[i];
        if (!tensor_is_given(tensor) || tensor->role == AGAINST_STATE) continue;
        if (module && tensor->role == AGAINST_PARAMETER) {
            char *problem = parameter_problem(tensor, described);
            if (problem) return problem;
        } else if (!any && !entry_called(arguments, tensor->name))
            return memory_format("the code has no argument '%s'", tensor->name);
    }
    return NULL;
}

/* The first name of the code without a tensor of the spec, as text; NULL: none. */
static char *ungiven(const AgainstShape *shape, const json_t *described, bool module) {
    const json_t *arguments = json_object_get(described, "arguments"),
                 *options = json_object_get(described, "options"),
                 *tensors = json_object_get(described, "tensors");
    for (size_t i = 0; i < json_array_size(arguments); i++) {
        const json_t *entry = json_array_get(arguments, i);
        const char *name = json_field_text(entry, "name");
        if (name && json_is_true(json_object_get(entry, "required")) &&
            !is_passed(shape, name, module) && !list_has(options, name))
            return memory_format("the spec has no tensor or option '%s', a required argument",
                                 name);
    }
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const char *name = json_field_text(json_array_get(tensors, i), "name");
        bool known = false;
        for (int j = 0; name && j < shape->count; j++)
            known |= shape->tensors[j].role == AGAINST_PARAMETER &&
                     !strcmp(shape->tensors[j].name, name);
        if (!known) return memory_format("the spec has no parameter '%s'", name ? name : "?");
    }
    return NULL;
}

bool against_match(const AgainstClient *client, const AgainstSubject *subject,
                   const AgainstShape *shape) {
    const char *kind = json_field_text(client->described, "kind");
    const bool module = kind && !strcmp(kind, "module");
    AUTO_FREE char *problem = untaken(shape, client->described, module);
    if (!problem) problem = ungiven(shape, client->described, module);
    if (!problem) return true;
    print_spec_side(shape);
    print_code_side(client->described);
    error_message("names match by spelling, '_' for '.'; write a function with these arguments "
                  "that calls the code",
                  "%s does not match %s: %s", client->name, subject->title, problem);
    return false;
}
