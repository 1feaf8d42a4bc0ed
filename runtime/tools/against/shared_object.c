/* shared_object: runs a function of a shared library in the child process of client.c. The
 * interface is library/moec_against.h. A zone of known bytes precedes and follows each tensor. */
#include "tools/against/against.h"

#include "abi/json_make.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ZONE = 256, ZONE_BYTE = 0xA5 };

typedef struct GuardedBuffer {
    unsigned char *block; /* zone, values, zone */
    size_t bytes;
} GuardedBuffer;

/* One message: the tensors of the call in order. */
typedef struct LibraryCall {
    MoecAgainstCall call;
    MoecAgainstTensor *tensors; /* given, then results */
    GuardedBuffer *values, *gradients;
    int count;
} LibraryCall;

static size_t element_bytes_of(MoecAgainstType type) {
    return type == MOEC_AGAINST_BF16 ? 2 : type == MOEC_AGAINST_F32 ? 4 : 8;
}

static void *guarded_new(GuardedBuffer *buffer, size_t bytes) {
    const size_t whole = (2 * ZONE + bytes + 63) / 64 * 64;
    buffer->block = aligned_alloc(64, whole);
    buffer->bytes = bytes;
    if (!buffer->block) abort();
    memset(buffer->block, ZONE_BYTE, whole);
    memset(buffer->block + ZONE, 0, bytes);
    return buffer->block + ZONE;
}

static bool zones_good(const GuardedBuffer *buffer) {
    for (size_t i = 0; buffer->block && i < ZONE; i++)
        if (buffer->block[i] != ZONE_BYTE || buffer->block[ZONE + buffer->bytes + i] != ZONE_BYTE)
            return false;
    return true;
}

static void element_store(MoecAgainstType type, void *to, size_t i, double value) {
    if (type == MOEC_AGAINST_F64) ((double *)to)[i] = value;
    if (type == MOEC_AGAINST_I64) ((int64_t *)to)[i] = (int64_t)value;
    const float single = (float)value;
    if (type == MOEC_AGAINST_F32) ((float *)to)[i] = single;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (type == MOEC_AGAINST_BF16) ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
}

static double element_load(MoecAgainstType type, const void *from, size_t i) {
    if (type == MOEC_AGAINST_F64) return ((const double *)from)[i];
    if (type == MOEC_AGAINST_I64) return (double)((const int64_t *)from)[i];
    if (type == MOEC_AGAINST_F32) return (double)((const float *)from)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
    float single;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

/* ---- one call ---- */

static bool receive_into(int from, const MoecAgainstTensor *tensor, void *to) {
    AUTO_FREE double *values = memory_new(sizeof *values * ((size_t)tensor->count + 1));
    const bool good = against_receive_values(from, values, (size_t)tensor->count);
    for (size_t i = 0; i < (size_t)tensor->count; i++)
        element_store(tensor->type, to, i, values[i]);
    return good;
}

static bool send_from(int to, const MoecAgainstTensor *tensor, const void *from) {
    AUTO_FREE double *values = memory_new(sizeof *values * ((size_t)tensor->count + 1));
    for (size_t i = 0; i < (size_t)tensor->count; i++)
        values[i] = element_load(tensor->type, from, i);
    return against_send_values(to, values, (size_t)tensor->count);
}

static void describe_tensor(MoecAgainstTensor *tensor, const json_t *entry, MoecAgainstType type) {
    const json_t *sizes = json_object_get(entry, "shape");
    int64_t *shape = memory_new(sizeof *shape * (json_array_size(sizes) + 1));
    *tensor = (MoecAgainstTensor){
        .name = json_field_text(entry, "name"),
        .type = json_is_true(json_object_get(entry, "integer")) ? MOEC_AGAINST_I64 : type,
        .rank = (int)json_array_size(sizes),
        .shape = shape,
        .count = 1};
    for (int i = 0; i < tensor->rank; i++) {
        shape[i] = json_integer_value(json_array_get(sizes, (size_t)i));
        tensor->count *= shape[i];
    }
}

/* False when the other process has ended. */
static bool library_receive(LibraryCall *call, const json_t *message, int from) {
    const json_t *given = json_object_get(message, "tensors"),
                 *results = json_object_get(message, "results");
    const char *type_name = json_field_text(message, "type");
    int type = 0;
    while (type + 1 < AGAINST_TYPES && type_name &&
           strcmp(against_type_names[type], type_name) != 0)
        type++;
    const size_t first = json_array_size(given), count = first + json_array_size(results);
    call->count = (int)count;
    call->tensors = memory_new(sizeof *call->tensors * (count + 1));
    call->values = memory_new(sizeof *call->values * (count + 1));
    call->gradients = memory_new(sizeof *call->gradients * (count + 1));
    call->call = (MoecAgainstCall){.version = MOEC_AGAINST_VERSION,
                                   .given_count = (int)first,
                                   .result_count = (int)(count - first),
                                   .given = call->tensors,
                                   .results = call->tensors + first};
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        const bool is_given = i < first;
        const json_t *entry =
            is_given ? json_array_get(given, i) : json_array_get(results, i - first);
        MoecAgainstTensor *tensor = &call->tensors[i];
        describe_tensor(tensor, entry, (MoecAgainstType)type);
        const size_t bytes = (size_t)tensor->count * element_bytes_of(tensor->type);
        tensor->values = guarded_new(&call->values[i], bytes);
        for (size_t j = 0; !is_given && j < (size_t)tensor->count; j++)
            element_store(tensor->type, tensor->values, j, (double)NAN);
        if (json_is_true(json_object_get(entry, is_given ? "gradient" : "cotangent")))
            tensor->gradient = guarded_new(&call->gradients[i], bytes);
        if (is_given) good = good && receive_into(from, tensor, tensor->values);
    }
    for (size_t i = first; i < count; i++)
        if (call->tensors[i].gradient)
            good = good && receive_into(from, &call->tensors[i], call->tensors[i].gradient);
    return good;
}

static void library_free(LibraryCall *call) {
    for (int i = 0; i < call->count; i++) {
        free((void *)(uintptr_t)call->tensors[i].shape);
        free(call->values[i].block);
        free(call->gradients[i].block);
    }
    free(call->tensors);
    free(call->values);
    free(call->gradients);
}

static bool send_error(int to, const char *error, const char *help) {
    json_auto_t *answer = json_make("{s:s, s:s}", "error", error, "help", help);
    return against_send(to, answer);
}

static bool library_answer(const LibraryCall *call, const json_t *message, int code, int to) {
    json_t *gradients = json_array();
    for (int i = 0; i < call->call.given_count && code == MOEC_AGAINST_GOOD; i++)
        if (call->tensors[i].gradient)
            json_array_append_new(gradients, json_make("{s:s}", "name", call->tensors[i].name));
    json_auto_t *answer = json_make("{s:O, s:o}", "results", json_object_get(message, "results"),
                                    "gradients", gradients);
    if (code == MOEC_AGAINST_NO_GRADIENTS)
        json_object_set_new(answer, "note", json_text("the function computes no gradients"));
    bool good = against_send(to, answer);
    for (int i = call->call.given_count; i < call->count && good; i++)
        good = send_from(to, &call->tensors[i], call->tensors[i].values);
    for (int i = 0; i < call->call.given_count && code == MOEC_AGAINST_GOOD && good; i++)
        if (call->tensors[i].gradient)
            good = send_from(to, &call->tensors[i], call->tensors[i].gradient);
    return good;
}

/* False when the other process has ended. */
static bool serve_call(MoecAgainstFunction *function, const json_t *message, int from, int to) {
    LibraryCall call = {0};
    bool good = library_receive(&call, message, from);
    if (good) {
        char text[MOEC_AGAINST_MESSAGE] = "";
        const int code = function(&call.call, text);
        text[sizeof text - 1] = 0;
        const char *outside = NULL;
        for (int i = 0; i < call.count && !outside; i++)
            if (!zones_good(&call.values[i]) || !zones_good(&call.gradients[i]))
                outside = call.tensors[i].name;
        if (outside) {
            AUTO_FREE char *error = memory_format("the function writes outside of '%s'", outside);
            good = send_error(to, error, "build it with -fsanitize=address to find the statement");
        } else if (code != MOEC_AGAINST_GOOD && code != MOEC_AGAINST_NO_GRADIENTS)
            good = send_error(to, *text ? text : "the function returned an error without a message",
                              NULL);
        else
            good = library_answer(&call, message, code, to);
    }
    library_free(&call);
    return good;
}

static MoecAgainstFunction *library_function(void *library, const char *name,
                                             const AgainstExtern *external) {
    if (external) return extern_library_function(external, library);
    void *symbol = dlsym(library, name);
    MoecAgainstFunction *function = NULL;
    memcpy(&function, &symbol, sizeof function);
    return function;
}

int library_serve(const char *path, const char *name, const AgainstExtern *external, int from,
                  int to) {
    AUTO_FREE char *full = memory_format("%s%s", strchr(path, '/') ? "" : "./", path);
    void *handle = dlopen(full, RTLD_NOW | RTLD_LOCAL);
    MoecAgainstFunction *function = handle ? library_function(handle, name, external) : NULL;
    json_t *message = against_receive(from);
    bool good = message != NULL;
    if (good && !function)
        good =
            send_error(to, dlerror(), "build it with cc -shared -fPIC, and export the function") &&
            false;
    else if (good) {
        json_auto_t *answer = json_make("{s:s, s:b, s:[], s:[]}", "kind", "library", "any", 1,
                                        "arguments", "tensors");
        good = against_send(to, answer);
    }
    json_decref(message);
    while (good && (message = against_receive(from))) {
        good = serve_call(function, message, from, to);
        json_decref(message);
    }
    return 0;
}
