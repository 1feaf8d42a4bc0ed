/* Mutated specs: specs are split by the grammar and recombined, then checked, formatted and
 * processed by the passes of every mode. A finding is a crash, an internal error, a sanitizer
 * report, use of more than 2 s or 500 MB, or an exit that is neither success nor an error. See
 * tests/README.md; run in the root of the repository. */
#include "driver.h"

#include "moec.h"
#include "passes.h"

#include <dirent.h>

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void) {
    return "detect_leaks=0:exitcode=99:hard_rss_limit_mb=2500";
}

const char *__ubsan_default_options(void) {
    return "halt_on_error=1:exitcode=99:print_stacktrace=1";
}

/* ---- the texts ---- */

enum { MAX_TEXTS = 1024, MAX_FILES = 6, MAX_NODES = 40000 };

/* The files of one folder: the file of the model first, then those that it uses. */
typedef struct Spec {
    int count;
    char *names[MAX_FILES];
    Bytes files[MAX_FILES];
} Spec;

static Spec specs[MAX_TEXTS], library[MAX_TEXTS];
static int spec_count, library_count;

static void add_file(Spec *spec, const char *name, const char *text, size_t length) {
    if (spec->count == MAX_FILES) return;
    spec->names[spec->count] = taken(strdup(name));
    spec->files[spec->count++] = bytes_of(text, length);
}

/* The sources of a case: between its first and second line ---, separated by lines === NAME. */
static void add_case(const char *text) {
    const char *at = strstr(text, "\n---\n"), *end = at ? strstr(at + 4, "\n---\n") : NULL;
    if (!end || spec_count == MAX_TEXTS) return;
    Spec *spec = &specs[spec_count];
    char name[128] = "main.moe";
    for (at += 5; at <= end;) {
        const char *next = strstr(at, "\n=== ");
        if (!next || next > end) next = end;
        if (next > at) add_file(spec, name, at, (size_t)(next - at) + 1);
        if (next == end || sscanf(next, "\n=== %120s", name) != 1) break;
        at = next + 1 + strcspn(next + 1, "\n") + 1;
    }
    if (spec->count) spec_count++;
}

static void add_path(const char *path) {
    Bytes bytes;
    size_t length = strlen(path);
    const char *slash = strrchr(path, '/');
    if (!read_file(path, &bytes)) return;
    if (length > 5 && !strcmp(path + length - 5, ".case")) {
        add_case(bytes.data);
    } else if (length > 4 && !strcmp(path + length - 4, ".moe")) {
        bool std = !strncmp(path, "stdlib/", 7);
        int *count = std ? &library_count : &spec_count;
        if (*count < MAX_TEXTS)
            add_file(std ? &library[(*count)++] : &specs[(*count)++], slash ? slash + 1 : path,
                     bytes.data, bytes.length);
    }
    free(bytes.data);
}

static int visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* In the order of names: a seed has the same mutants on every machine. */
static void add_folder(const char *folder) {
    struct dirent **entries;
    int count = scandir(folder, &entries, visible, alphasort);
    for (int i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        struct stat status;
        bool there = !stat(path, &status);
        if (there && S_ISDIR(status.st_mode) && !strncmp(path, "tests/cases/", 12))
            add_folder(path);
        else if (there && S_ISREG(status.st_mode))
            add_path(path);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

/* ---- the parts of a text ---- */

typedef struct Parts {
    Arena *arena;
    const Node *nodes[MAX_NODES];
    int count;
} Parts;

static void add_parts(Parts *parts, const Node *node) {
    if (!node) return;
    if (node->span.end > node->span.start && parts->count < MAX_NODES)
        parts->nodes[parts->count++] = node;
    for (int i = 0; i < node->count; i++) add_parts(parts, node->kids[i]);
}

static void find_parts(Parts *parts, const Bytes *text) {
    parts->arena = arena_new();
    parts->count = 0;
    Reports *reports = arena_alloc(parts->arena, sizeof *reports);
    reports->arena = parts->arena;
    Source *source = arena_alloc(parts->arena, sizeof *source);
    *source = (Source){.path = "main.moe", .text = text->data, .length = text->length};
    add_parts(parts, parse(parts->arena, reports, source));
}

static bool is_expression(const Node *node) {
    return node->kind >= NODE_NUMBER && node->kind != NODE_SUBS && node->kind != NODE_BINDERS &&
           node->kind != NODE_ELLIPSIS;
}

static bool is_statement(const Node *node) {
    return node->kind >= NODE_OPTION && node->kind <= NODE_REQUIRE && node->kind != NODE_TYPE &&
           node->kind != NODE_LIMITS && node->kind != NODE_CASE;
}

/* A part that may replace the other. */
static bool alike(const Node *a, const Node *b) {
    return a->kind == b->kind || (is_expression(a) && is_expression(b)) ||
           (is_statement(a) && is_statement(b));
}

static const Node *any_part(const Parts *parts, bool (*wanted)(const Node *node)) {
    for (int tries = 0; tries < 200 && parts->count; tries++) {
        const Node *node = parts->nodes[pick((size_t)parts->count)];
        if (!wanted || wanted(node)) return node;
    }
    return NULL;
}

static const Node *part_like(const Parts *parts, const Node *model) {
    for (int tries = 0; tries < 200 && parts->count; tries++) {
        const Node *node = parts->nodes[pick((size_t)parts->count)];
        if (node != model && alike(node, model)) return node;
    }
    return NULL;
}

/* ---- mutations ---- */

static const char *const hostile_numbers[] = {"0",
                                              "-1",
                                              "1",
                                              "2",
                                              "0.5",
                                              "-0.5",
                                              "3",
                                              "1e-300",
                                              "1e300",
                                              "1e19",
                                              "2147483647",
                                              "2147483648",
                                              "4294967296",
                                              "1e18",
                                              "65537",
                                              "4096",
                                              "1000",
                                              "64",
                                              "7",
                                              "(0 - 1) ^ 0.5",
                                              "(1e308 * 10)",
                                              "9007199254740993"};
static const char *const hostile_names[] = {"loss",
                                            "batch",
                                            "s",
                                            "d",
                                            "x",
                                            "y",
                                            "int",
                                            "exp",
                                            "main",
                                            "M_PI",
                                            "none",
                                            "true",
                                            "sum",
                                            "elements",
                                            ("a_very_long_name_that_goes_on_and_on_and_on_and_on_"
                                             "and_on_and_on_and_on_and_on_and_on_and_on_and_on")};
static const char *const wraps[] = {"(%s + %s)",     "tanh(%s)",          "-%s",
                                    "(sum[d] %s)",   "softmax[s](%s)",    "%s[s]",
                                    "(%s) ^ 2",      "(%s * 0)",          "where(%s, 1, %s)",
                                    "max[s] %s",     "stop(%s)",          "top[d](%s, 1)",
                                    "floor(%s / 2)", "(%s %% 2)",         "logsumexp[s] %s",
                                    "[%s, %s]",      "uniform() * %s",    "%s[s - 1, d]",
                                    "%s[d, s]",      "mean[batch, s] %s", "(0 + %s)",
                                    "(1 > %s)",      "norm(%s)",          "%s.lse"};
static const char *const around[] = {"repeat again[i < 3] { %s }",
                                     "for q in 0..3 { %s }",
                                     "if 1 == 1 { %s }",
                                     "repeat deep[i < 40] { repeat inner[j < 40] { %s } }",
                                     "for q in 0..200 { for r in 0..50 { %s } }",
                                     "repeat layer[i < 2] { if i == 1 { %s } }"};

static void replace(Bytes *text, const Node *node, const char *with, size_t length) {
    replace_bytes(text, (size_t)node->span.start, (size_t)node->span.end, with, length);
}

/* %s in the pattern is the part itself. */
static void wrap(Bytes *text, const Node *node, const char *pattern) {
    size_t length = (size_t)(node->span.end - node->span.start);
    if (length > 4000) return;
    char part[4001], made[16384];
    memcpy(part, text->data + node->span.start, length);
    part[length] = 0;
    snprintf(made, sizeof made, pattern, part, part);
    replace(text, node, made, strlen(made));
}

static bool is_number(const Node *node) {
    return node->kind == NODE_NUMBER;
}

static bool is_name(const Node *node) {
    return node->kind == NODE_NAME;
}

/* Replaces a part by a part of another text. */
static void replace_from(Bytes *text, const Node *node, const Bytes *other) {
    Parts *parts = taken(malloc(sizeof *parts));
    find_parts(parts, other);
    const Node *donor = part_like(parts, node);
    if (donor)
        replace(text, node, other->data + donor->span.start,
                (size_t)(donor->span.end - donor->span.start));
    arena_free(parts->arena);
    free(parts);
}

static const Bytes *any_text(void) {
    const Spec *spec =
        pick(2) ? &specs[pick((size_t)spec_count)] : &library[pick((size_t)library_count)];
    return &spec->files[pick((size_t)spec->count)];
}

static void duplicate(Bytes *text, const Node *node) {
    size_t length = (size_t)(node->span.end - node->span.start);
    char *part = taken(malloc(length + 2));
    part[0] = '\n';
    memcpy(part + 1, text->data + node->span.start, length);
    replace_bytes(text, (size_t)node->span.end, (size_t)node->span.end, part, length + 1);
    free(part);
}

static void swap_parts(Bytes *text, const Node *one, const Node *other) {
    if (one->span.start > other->span.start) {
        const Node *first = other;
        other = one;
        one = first;
    }
    if (one->span.end > other->span.start) return;
    Bytes before = *text;
    *text = bytes_of(before.data, before.length);
    replace(text, other, before.data + one->span.start, (size_t)(one->span.end - one->span.start));
    replace(text, one, before.data + other->span.start,
            (size_t)(other->span.end - other->span.start));
    free(before.data);
}

static void break_bytes(Bytes *text) {
    static const char *const tokens[] = {"+", "-", "*", "/",  "[",  "]",  "{", "}", "(",
                                         ")", ",", "=", "..", "in", "\n", "^", "@", ";"};
    size_t at = pick(text->length + 1), end = at + pick(4);
    const char *token = PICK(tokens);
    replace_bytes(text, at, end < text->length ? end : text->length, token, strlen(token));
}

static void mutate_part(Bytes *text, const Parts *parts) {
    const Node *any = any_part(parts, NULL), *number = any_part(parts, is_number),
               *name = any_part(parts, is_name), *expression = any_part(parts, is_expression),
               *statement = any_part(parts, is_statement),
               *like = any ? part_like(parts, any) : NULL;
    const char *with;
    switch (pick(10)) {
    case 0:
    case 1:
        with = PICK(hostile_numbers);
        if (number) replace(text, number, with, strlen(with));
        break;
    case 2:
        with = PICK(hostile_names);
        if (name) replace(text, name, with, strlen(with));
        break;
    case 3:
        if (any && like) swap_parts(text, any, like);
        break;
    case 4:
        if (statement) duplicate(text, statement);
        break;
    case 5:
        if (any) replace(text, any, "", 0);
        break;
    case 6:
        if (expression) wrap(text, expression, PICK(wraps));
        break;
    case 7:
        if (statement) wrap(text, statement, PICK(around));
        break;
    case 8:
        if (any) replace_from(text, any, any_text());
        break;
    default:
        if (any && like) {
            Bytes copy = bytes_of(text->data, text->length);
            replace(text, any, copy.data + like->span.start,
                    (size_t)(like->span.end - like->span.start));
            free(copy.data);
        }
    }
}

static void mutate(Bytes *text) {
    Parts *parts = taken(malloc(sizeof *parts));
    for (size_t times = 1 + pick(3); times && text->length < 100000; times--) {
        find_parts(parts, text);
        if (!parts->count || pick(40) == 0)
            break_bytes(text);
        else
            mutate_part(text, parts);
        arena_free(parts->arena);
    }
    free(parts);
}

/* ---- commands ---- */

typedef struct Command {
    char path[700];
    const char *pass; /* NULL: check; "": fmt */
    int graph;
    bool device;
} Command;

static int finish(MoecCompiler *compiler, bool ok) {
    if (!ok) fputs(moec_reports(compiler), stderr);
    moec_close(compiler);
    return ok ? 0 : 1;
}

static int run_command(void *data) {
    const Command *command = data;
    MoecCompiler *compiler = moec_open(command->path, NULL, NULL, 0, NULL);
    if (command->pass && !*command->pass) {
        const char *text = moec_format(compiler);
        if (text) moec_close(compiler);
        return text ? 0 : finish(compiler, false);
    }
    const char *text = moec_failed(compiler) ? NULL
                       : command->pass       ? moec_dump(compiler, (MoecGraph)command->graph,
                                                         command->pass, moec_target(command->device ? "cuda" : "c"))
                                             : moec_cost_text(compiler);
    return finish(compiler, text && !moec_failed(compiler));
}

static const char *const graphs[] = {[MOEC_FORWARD] = "forward",
                                     [MOEC_TRAIN] = "train",
                                     [MOEC_DECODE] = "decode",
                                     [MOEC_UPDATE] = "update",
                                     [MOEC_MEASURE] = "measure"};

/* Prints the equivalent command line. */
static void print_command(const Command *command) {
    if (!command->pass)
        printf("    moec check %s\n", command->path);
    else if (!*command->pass)
        printf("    moec fmt %s\n", command->path);
    else
        printf("    moec dump %s --after %s --mode %s%s\n", command->path, command->pass,
               graphs[command->graph], command->device ? " --device cuda" : "");
}

static bool try_command(const Plan *plan, uint64_t number, const Command *command) {
    Outcome *outcome = taken(malloc(sizeof *outcome));
    run_child(run_command, (void *)command, outcome);
    const char *what = complaint(outcome);
    bool first = what && report_finding(what, outcome, plan, number);
    if (first) print_command(command);
    free(outcome);
    return first;
}

static Command any_command(const char *path) {
    int count;
    const char *const *names = moec_passes(&count);
    Command command = {.pass = pick(8) ? names[pick((size_t)count)] : "",
                       .graph = (int)pick(sizeof graphs / sizeof graphs[0]),
                       .device = pick(2)};
    if (pick(3) == 0) command.graph = MOEC_DECODE;
    if (pick(2) && *command.pass) command.pass = names[count - 1];
    snprintf(command.path, sizeof command.path, "%s", path);
    return command;
}

static void remove_folder(const char *folder) {
    struct dirent **entries;
    int count = scandir(folder, &entries, visible, alphasort);
    for (int i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        unlink(path);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    rmdir(folder);
}

/* Writes a spec with one mutated file: its own file, or a library file, which is then stored next
 * to it. */
static void one_mutant(const Plan *plan, uint64_t number) {
    const Spec *spec = &specs[pick((size_t)spec_count)];
    bool from_library = pick(3) == 0;
    size_t chosen = from_library ? pick((size_t)library_count) : pick((size_t)spec->count);
    char folder[560], path[700], main_path[700];
    snprintf(folder, sizeof folder, "%s/%llu", work, (unsigned long long)number);
    mkdir(folder, 0700);
    for (int i = 0; from_library && i < library_count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, library[i].names[0]);
        write_file(path, library[i].files[0].data, library[i].files[0].length);
    }
    for (int i = 0; i < spec->count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, spec->names[i]);
        write_file(path, spec->files[i].data, spec->files[i].length);
        if (i == 0) memcpy(main_path, path, sizeof path);
    }
    const Bytes *original = from_library ? &library[chosen].files[0] : &spec->files[chosen];
    Bytes text = bytes_of(original->data, original->length);
    mutate(&text);
    snprintf(path, sizeof path, "%s/%s", folder,
             from_library ? library[chosen].names[0] : spec->names[chosen]);
    write_file(path, text.data, text.length);
    free(text.data);
    Command check = {0}, other = any_command(main_path);
    snprintf(check.path, sizeof check.path, "%s", main_path);
    bool kept = try_command(plan, number, &check);
    kept |= try_command(plan, number, &other);
    if (!kept && plan->only < 0) remove_folder(folder);
}

int main(int argc, char **argv) {
    Plan plan = read_plan(argc, argv);
    const char *folder = getenv("FOUND");
    snprintf(work, sizeof work, "%s", folder ? folder : "/tmp/moec-specs-XXXXXX");
    if (folder ? mkdir(work, 0700) && errno != EEXIST : !mkdtemp(work)) return 2;
    static const char *const folders[] = {"models", "examples", "stdlib", "tests", "tests/cases"};
    for (int i = 0; i < (plan.few ? 3 : 5); i++) add_folder(folders[i]);
    if (!spec_count || !library_count) {
        fputs("run it in the repository's root\n", stderr);
        return 2;
    }
    int code = run_plan(&plan, one_mutant);
    char errors[600];
    snprintf(errors, sizeof errors, "%s/errors", work);
    unlink(errors);
    rmdir(work);
    return code;
}
