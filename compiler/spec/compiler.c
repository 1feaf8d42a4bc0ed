/* compiler: the state of an open spec, its memory limit, reports and requests. */
#include "spec/compiler.h"

#include <string.h>

MoecCompiler *compiler_new(void) {
    Arena *arena = arena_new();
    MoecCompiler *compiler = arena_alloc(arena, sizeof *compiler);
    compiler->arena = arena;
    compiler->reports.arena = arena;
    return compiler;
}

/* ---- bounds ---- */

/* Memory limit for opening a spec, and for each program that is compiled from it. Models within the
 * limits of the elaborator need less; this limit catches unforeseen cases and machines with less
 * memory. */
enum { MEGABYTE = 1 << 20, MAX_MEGABYTES = 450 };

static void stop_without_memory(void *data) {
    MoecCompiler *compiler = data;
    bool large = arena_bytes(compiler->arena) - compiler->bytes_before >
                 (size_t)MEGABYTE * (MAX_MEGABYTES - 100);
    arena_limit(compiler->arena, 0, NULL, NULL);
    if (large)
        report_error(&compiler->reports, compiler->reports.at,
                     "the program is too large: the compiler needs more than %d MB", MAX_MEGABYTES);
    else
        report_error(&compiler->reports, compiler->reports.at,
                     "not enough memory for the compiler");
    report_help(&compiler->reports,
                "apply fewer layers, or apply them in a repeat, which is compiled once");
    report_give_up(&compiler->reports);
}

bool bounded(MoecCompiler *compiler, void (*run)(void *data), void *data) {
    compiler->bytes_before = arena_bytes(compiler->arena);
    arena_limit(compiler->arena, compiler->bytes_before + (size_t)MEGABYTE * MAX_MEGABYTES,
                stop_without_memory, compiler);
    bool whole = reports_guard(&compiler->reports, run, data);
    arena_limit(compiler->arena, 0, NULL, NULL);
    return whole;
}

/* ---- state ---- */

void moec_close(MoecCompiler *compiler) {
    if (!compiler) return;
    arena_free(compiler->scratch);
    arena_free(compiler->arena);
}

bool moec_failed(const MoecCompiler *compiler) {
    return compiler->reports.errors > 0;
}

const char *moec_reports(MoecCompiler *compiler) {
    return reports_text(&compiler->reports, compiler->arena);
}

const char *moec_reports_json(MoecCompiler *compiler) {
    return reports_json(&compiler->reports, compiler->arena);
}

const char *moec_warnings(MoecCompiler *compiler) {
    return warnings_text(&compiler->reports, compiler->arena);
}

const char *moec_warnings_json(MoecCompiler *compiler) {
    return warnings_json(&compiler->reports, compiler->arena);
}

void moec_print_notes(bool print) {
    reports_print_notes(print);
}

void moec_observe(MoecCompiler *compiler) {
    compiler->observes = true;
}

void moec_observe_hessians(MoecCompiler *compiler) {
    compiler->observes_hessians = true;
}

void moec_observe_applied(MoecCompiler *compiler) {
    compiler->observes_applied = true;
}

const char *moec_without_layers(const MoecCompiler *compiler) {
    return compiler->unit ? compiler->unit->without_layers : NULL;
}

bool moec_stores_weights(MoecCompiler *compiler, const char *run) {
    const Unit *unit = compiler->unit;
    if (!unit || !unit->without_layers) return true;
    report_error(&compiler->reports, unit->applied,
                 "the run stores the parameters of a layer instead of the weights it computes");
    return report_help(&compiler->reports, "moec merge %s --out DIR stores their results", run);
}

void moec_observe_name(MoecCompiler *compiler, const char *name) {
    list_push(compiler->arena, &compiler->observed,
              arena_copy(compiler->arena, name, strlen(name)));
}

void moec_probe(MoecCompiler *compiler) {
    if (compiler->unit) compiler->unit->probing = true;
}

void moec_speculate(MoecCompiler *compiler) {
    if (compiler->unit) compiler->unit->speculating = true;
}

bool moec_refines(const MoecCompiler *compiler) {
    return compiler->refines;
}

void moec_differentiate_inputs(MoecCompiler *compiler) {
    compiler->differentiates = true;
}

void moec_split_training(MoecCompiler *compiler, const char *name) {
    if (compiler->unit) compiler->unit->cotangent = arena_format(compiler->arena, "%s", name);
}

bool moec_gathers(const MoecCompiler *compiler) {
    return compiler->gathers;
}

bool moec_reads_length(const MoecCompiler *compiler) {
    return compiler->reads_length;
}

Arena *moec_arena(MoecCompiler *compiler) {
    return compiler->arena;
}

Unit *moec_unit(MoecCompiler *compiler) {
    return compiler->unit;
}

const List *moec_settings(MoecCompiler *compiler) {
    return &compiler->settings;
}

const List *moec_layout_list(MoecCompiler *compiler) {
    return &compiler->layouts;
}

const Experiment *moec_asked(MoecCompiler *compiler) {
    return compiler->experiment;
}

const char *moec_model(const MoecCompiler *compiler) {
    return compiler->model;
}

void moec_mark_units(MoecCompiler *compiler) {
    compiler->marks = true;
}

void moec_trains(MoecCompiler *compiler) {
    compiler->trains = true;
}
