/* texts: for tests/texts.sh. Reads lines `FILE:MODEL [--set KEY=VALUE]...` and prints the hash and the name of every emitted
 * text of each model. With a folder as its argument it also writes the texts there. */
#include "moec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETS = 8 };

typedef struct Spec {
    char *file, *model;
    const char *sets[MAX_SETS + 1];
    int set_count;
} Spec;

/* Graphs that are emitted together. */
typedef struct Wanted {
    const char *name;
    MoecGraph graphs[2];
    int count;
    long batch, context, tokens;
} Wanted;

static const Wanted wanted[] = {
    {"forward", {MOEC_FORWARD}, 1, 0, 0, 0},
    {"train", {MOEC_TRAIN, MOEC_UPDATE}, 2, 0, 0, 0},
    {"measure", {MOEC_MEASURE}, 1, 0, 0, 0},
    {"decode", {MOEC_DECODE, MOEC_DECODE}, 2, 1, 64, 1},
};

static unsigned long long hash_of(const char *text) {
    unsigned long long hash = 14695981039346656037ULL;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211ULL;
    return hash;
}

static void put(const char *folder, const char *spec, const char *name, const char *text) {
    char path[512];
    printf("%016llx %s %s\n", hash_of(text), spec, name);
    if (!folder) return;
    snprintf(path, sizeof path, "%s/%s_%s", folder, spec, name);
    for (char *c = path + strlen(folder) + 1; *c; c++)
        if (*c == '/' || *c == ':') *c = '_';
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file)) exit((perror(path), 2));
}

/* A model without a graph has no such text. The second of two decode steps has several tokens. */
static bool compile(MoecCompiler *compiler, const Wanted *want, MoecProgram *programs[2]) {
    for (int i = 0; i < want->count; i++) {
        programs[i] = moec_compile(compiler, want->graphs[i], want->batch, want->context,
                                   i ? 8 * want->tokens : want->tokens);
        if (!programs[i]) return false;
    }
    return true;
}

/* The texts of one kind: hosted C, stand-alone C, hosted CUDA, stand-alone CUDA. */
typedef enum Kind { HOSTED, ALONE, DEVICE, DEVICE_ALONE, KINDS } Kind;

static void emit_kind(MoecCompiler *compiler, const char *line, const Wanted *want, Kind kind,
                      MoecProgram *programs[2], const char *folder) {
    char name[64];
    if (kind == HOSTED || kind == ALONE) {
        snprintf(name, sizeof name, "%s%s.c", want->name, kind == ALONE ? "_alone" : "");
        put(folder, line, name, moec_emit_c(compiler, programs, want->count, kind == ALONE));
    } else if (kind == DEVICE) {
        MoecDeviceProgram *device = moec_device_program(compiler, programs, want->count);
        snprintf(name, sizeof name, "%s.cu", want->name);
        put(folder, line, name, device ? device->kernels.text : moec_reports(compiler));
        if (device) moec_device_program_free(device);
    } else {
        MoecKernels kernels;
        snprintf(name, sizeof name, "%s_alone.host.c", want->name);
        const char *host = moec_emit_cuda(compiler, programs, want->count, &kernels);
        put(folder, line, name, host ? host : moec_reports(compiler));
        snprintf(name, sizeof name, "%s_alone.cu", want->name);
        if (host) put(folder, line, name, kernels.text);
    }
}

/* Each kind has its own compiler: all kinds of a large model exceed the memory limit of one. */
static void emit(const Spec *spec, const char *line, const Wanted *want, const char *folder) {
    for (Kind kind = HOSTED; kind < KINDS; kind++) {
        MoecCompiler *compiler =
            moec_open(spec->file, spec->model, spec->sets, spec->set_count, NULL);
        MoecProgram *programs[2];
        if (kind == HOSTED && moec_failed(compiler))
            put(folder, line, "errors", moec_reports(compiler));
        if (compile(compiler, want, programs))
            emit_kind(compiler, line, want, kind, programs, folder);
        moec_close(compiler);
    }
}

/* Splits a line into its parts, in its own memory. */
static Spec parse(char *line) {
    Spec spec = {.file = strtok(line, " ")};
    char *colon = strchr(spec.file, ':');
    if (colon) *colon = 0, spec.model = colon + 1;
    for (char *word; (word = strtok(NULL, " ")) && spec.set_count < MAX_SETS;)
        if (strcmp(word, "--set")) spec.sets[spec.set_count++] = word;
    return spec;
}

int main(int argc, char **argv) {
    char line[512], name[512];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!*line) continue;
        strcpy(name, line);
        name[strcspn(name, " ")] = 0;
        Spec spec = parse(line);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            emit(&spec, name, &wanted[i], argc > 1 ? argv[1] : NULL);
    }
    return 0;
}
