#include "tools/exchange/exchange.h"

#include "base/memory.h"
#include "base/message.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED = 20 };

typedef struct FolderMatch {
    MoecCompiler *layouts, *compiler; /* compiler: of the model */
    const char *layout;
    const Model *model;
    const MoecFileTensor *const *theirs;
    int count;
    int wrong; /* number of mismatches, including those that are not printed */
} FolderMatch;

static const char *const remedy_import =
    "moec tensors lists the tensors of a file; --layout FILE selects a custom layout";

static void report_mismatch(FolderMatch *match, const char *what, const char *name) {
    if (match->wrong++ < LISTED) line_message("  %s  %s", what, name);
}

/* Prints the end of the list as an error. path: of the tensors. */
static bool end_report(const FolderMatch *match, const char *path, const char *remedy) {
    if (!match->wrong) return true;
    if (match->wrong > LISTED)
        fprintf(message_file(), "  ... and %d more\n", match->wrong - LISTED);
    return error_message(remedy, "%s: %d tensor%s not match layout '%s'", path, match->wrong,
                         match->wrong == 1 ? " does" : "s do", match->layout);
}

static bool has_shape(const TensorEntry *entry, const long *shape, int rank) {
    return entry->rank == rank && !memcmp(entry->shape, shape, sizeof *shape * (size_t)rank);
}

static void tell_shape(FolderMatch *match, const TensorEntry *entry, const long *shape, int rank) {
    AUTO_FREE char *found = tensor_shape_text(entry->shape, entry->rank),
                   *wanted = tensor_shape_text(shape, rank);
    AUTO_FREE char *text = memory_format("%s: %s, expected %s", entry->name, found, wanted);
    report_mismatch(match, "shape  ", text);
}

/* Parameters first, then layer states. */
static const PublicTensor *public_tensor_at(const Model *model, int i) {
    int count = model->parameter_count;
    return i < count ? &model->parameters[i] : &model->states[i - count];
}

static bool match_names(FolderMatch *match) {
    int count = match->model->parameter_count + match->model->state_count;
    AUTO_FREE MoecNamedTensor *tensors = memory_new(sizeof *tensors * ((size_t)count + 1));
    for (int i = 0; i < count; i++) {
        const PublicTensor *one = public_tensor_at(match->model, i);
        tensors[i] = (MoecNamedTensor){one->name, one->axes, one->rank, one->shape};
    }
    match->theirs = moec_layout_tensors(match->layouts, match->layout, match->compiler, tensors,
                                        count, &match->count);
    if (!match->theirs) message_reports(moec_reports(match->layouts));
    return match->theirs != NULL;
}

/* Reports parameters that the layout does not mention. Required layer states follow from the
 * options, so they are not checked. */
static void check_spoken(FolderMatch *match) {
    int count = match->model->parameter_count + match->model->state_count;
    AUTO_FREE bool *spoken = memory_new(sizeof *spoken * ((size_t)count + 1));
    for (int i = 0; i < match->count; i++)
        for (int k = 0; k < match->theirs[i]->slice_count; k++)
            spoken[match->theirs[i]->slices[k].tensor] = true;
    for (int i = 0; i < match->model->parameter_count; i++)
        if (!spoken[i]) report_mismatch(match, "unmapped", match->model->parameters[i].name);
}

static void add_their(FolderMatch *match, Conversion *conversion, const Shards *shards,
                      const MoecFileTensor *their, bool *used) {
    int at = shards_find(shards, their->name);
    if (at < 0) at = shards_find(shards, their->other_name);
    if (at < 0) {
        report_mismatch(match, "missing", their->name);
        return;
    }
    const TensorEntry *entry = shards->entries[at];
    used[at] = true;
    if (!has_shape(entry, their->shape, their->rank)) {
        tell_shape(match, entry, their->shape, their->rank);
        return;
    }
    for (int k = 0; k < their->slice_count; k++)
        if (!conversion_origin(conversion, their->slices[k].tensor, shards->path, entry,
                               &their->slices[k]))
            match->wrong++;
}

/* Reports tensors that the layout neither maps nor ignores. */
static void check_used(FolderMatch *match, const Shards *shards, const bool *used) {
    const char *first = NULL;
    int left = 0;
    for (int i = 0; i < shards->count; i++) {
        const char *name = shards->entries[i]->name;
        if (used[i]) continue;
        if (!moec_layout_ignores(match->layouts, match->layout, name)) {
            report_mismatch(match, "unknown", name);
            continue;
        }
        if (!left++) first = name;
    }
    if (left)
        note_message("layout '%s' ignores %d tensor%s, the first is %s", match->layout, left,
                     left == 1 ? "" : "s", first);
}

Conversion *match_import(MoecCompiler *layouts, const char *layout, MoecCompiler *compiler,
                         const Model *model, const Shards *shards) {
    FolderMatch match = {
        .layouts = layouts, .layout = layout, .compiler = compiler, .model = model};
    if (!match_names(&match)) return NULL;
    Conversion *conversion = conversion_new(model->parameter_count + model->state_count, true);
    for (int i = 0; i < conversion->count; i++) {
        const PublicTensor *one = public_tensor_at(model, i);
        conversion_target(conversion, i, one->name, one->rank, one->shape);
    }
    bool *used = memory_new(sizeof *used * ((size_t)shards->count + 1));
    check_spoken(&match);
    for (int i = 0; i < match.count; i++)
        add_their(&match, conversion, shards, match.theirs[i], used);
    check_used(&match, shards, used);
    free(used);
    conversion_drop_empty(conversion);
    if (end_report(&match, shards->path, remedy_import)) return conversion;
    conversion_free(conversion);
    return NULL;
}

static void add_our(FolderMatch *match, Conversion *conversion, const Safetensors *file,
                    int index) {
    const MoecFileTensor *their = match->theirs[index];
    conversion_target(conversion, index, their->name, their->rank, their->shape);
    for (int k = 0; k < their->slice_count; k++) {
        const PublicTensor *one = public_tensor_at(match->model, their->slices[k].tensor);
        const TensorEntry *entry = safetensors_find(file, one->name);
        if (!entry)
            report_mismatch(match, "missing", one->name);
        else if (!conversion_origin(conversion, index, file->path, entry, &their->slices[k]))
            match->wrong++;
    }
}

Conversion *match_export(MoecCompiler *layouts, const char *layout, MoecCompiler *compiler,
                         const Model *model, const Safetensors *file) {
    FolderMatch match = {
        .layouts = layouts, .layout = layout, .compiler = compiler, .model = model};
    if (!match_names(&match)) return NULL;
    Conversion *conversion = conversion_new(match.count, false);
    check_spoken(&match);
    for (int i = 0; i < match.count; i++) add_our(&match, conversion, file, i);
    if (end_report(&match, file->path,
                   "the model family has no such tensor: use a model without it, or a layout "
                   "that maps it"))
        return conversion;
    conversion_free(conversion);
    return NULL;
}
