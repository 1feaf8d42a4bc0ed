/* Decoding of a few positions at a time has the logits of the whole sequence. Graphs that cannot be
 * decoded are reported. */
#include "calls/call_table.h"
#include "passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const Span nowhere;

enum { CONTEXT = 12, FAR = 160, BATCH = 2, VOCABULARY = 7 };

typedef struct Options {
    bool repeated; /* three steps over a carried stream */
    bool latent;   /* keys and values are expanded from a cached tensor */
    bool shifted;  /* adds the embeddings of the previous and of the first token */
    bool back;     /* adds the embedding of the second-previous token */
    bool windowed;
    bool far;    /* a sequence of many windows */
    bool packed; /* documents, numbered by a sum over earlier tokens */
    bool summed; /* something that cannot be decoded, twice */
    bool idle;   /* the same, but no output depends on it */
} Options;

/* A program under construction; single letters name axes and indices. */
typedef struct Build {
    Program *program;
    Axis *axes[128];
    Index *indices[128];
    Block *block;
} Build;

static void axis(Build *build, char letter, long size, AxisKind kind) {
    const char *name = arena_format(build->program->arena, "%c", letter);
    build->axes[(int)letter] = axis_new(build->program, name, size, kind, nowhere);
    build->indices[(int)letter] = index_new(build->program, name, build->axes[(int)letter]);
}

static Tensor *tensor(Build *build, const char *name, const char *letters, Role role) {
    Axis *axes[MAX_RANK];
    int rank = (int)strlen(letters);
    for (int i = 0; i < rank; i++) axes[i] = build->axes[(int)letters[i]];
    Tensor *made = tensor_new(build->program, name, role, TYPE_REAL, rank, axes, nowhere);
    if (role == ROLE_PARAMETER) made->path = made->name;
    return made;
}

static Expr *at(Build *build, Tensor *read, const char *letters) {
    Index *indices[MAX_RANK];
    for (int i = 0; letters[i]; i++) indices[i] = build->indices[(int)letters[i]];
    return expr_read_indices(build->program, read, indices);
}

static Expr *op(Build *build, OpCode code, Expr *a, Expr *b) {
    return expr_apply(build->program, code, a, b, NULL);
}

static Expr *number(Build *build, double value) {
    return expr_number(build->program, value);
}

static void set(Build *build, Expr *target, const char *reduced, Expr *value) {
    Index *indices[MAX_RANK];
    int count = (int)strlen(reduced);
    for (int i = 0; i < count; i++) indices[i] = build->indices[(int)reduced[i]];
    statement_loop(build->program, build->block, target, false, count ? REDUCE_SUM : REDUCE_NONE,
                   indices, count, value, nowhere);
}

static Expr *define(Build *build, const char *name, const char *letters, const char *reduced,
                    Expr *value) {
    Expr *target = at(build, tensor(build, name, letters, ROLE_TEMP), letters);
    set(build, target, reduced, value);
    return target;
}

static Expr *weight(Build *build, const char *name, const char *letters, const Options *options) {
    const char *full =
        options->repeated ? arena_format(build->program->arena, "l%s", letters) : letters;
    return at(build, tensor(build, name, full, ROLE_PARAMETER), full);
}

static Expr *product(Build *build, const char *name, const char *letters, const char *reduced,
                     Expr *x, Expr *w) {
    return define(build, name, letters, reduced, op(build, OP_MUL, x, w));
}

/* document[b,t]: number of tokens up to t that equal 4. */
static Expr *documents(Build *build, Index *t) {
    Program *program = build->program;
    Tensor *tokens = program->tensors.items[0];
    Index *b = build->indices['b'], *s = build->indices['s'],
          *r = index_new(program, "r", build->axes['s']);
    Expr *four =
        op(build, OP_EQ, expr_read_indices(program, tokens, (Index *[]){b, r}), number(build, 4));
    Expr *earlier = op(build, OP_LE, expr_index(program, r), expr_index(program, s));
    Tensor *document = tensor(build, "document", "bs", ROLE_TEMP);
    statement_loop(program, build->block, at(build, document, "bs"), false, REDUCE_SUM, &r, 1,
                   op(build, OP_MUL, four, earlier), nowhere);
    return expr_read_indices(program, document, (Index *[]){b, t});
}

/* Attention over x[b,s,d] with four query heads, two key heads and one value head. */
static Expr *attention(Build *build, Expr *x, const Options *options) {
    Program *program = build->program;
    const char *from = options->latent ? "r" : "d";
    Expr *source = x;
    if (options->latent) {
        source = product(build, "latent", "bsr", "d", x, weight(build, "reduce", "dr", options));
        source->tensor->cached = true;
    }
    Expr *q = product(build, "q", "bshe", "d", x, weight(build, "wq", "dhe", options));
    Expr *wk = weight(build, "wk", arena_format(program->arena, "%sje", from), options);
    Expr *wv = weight(build, "wv", arena_format(program->arena, "%svc", from), options);
    Expr *raw = product(build, "raw", "bsje", from, source, wk);
    Expr *rotated =
        op(build, OP_MUL, raw, op(build, OP_COS, expr_index(program, build->indices['s']), NULL));
    Expr *k = define(build, "k", "bsje", "", rotated);
    Expr *v = product(build, "v", "bsvc", from, source, wv);
    Index *t = index_new(program, "t", build->axes['s']);
    Expr *document = options->packed ? documents(build, t) : NULL;
    Statement *attend = statement_call(program, build->block, CALL_ATTEND, nowhere);
    k = expr_read_indices(
        program, k->tensor,
        (Index *[]){build->indices['b'], t, build->indices['j'], build->indices['e']});
    v = expr_read_indices(
        program, v->tensor,
        (Index *[]){build->indices['b'], t, build->indices['v'], build->indices['c']});
    Expr *o = at(build, tensor(build, "o", "bshc", ROLE_TEMP), "bshc"),
         *lse = at(build, tensor(build, "lse", "bsh", ROLE_TEMP), "bsh");
    list_push(program->arena, &attend->inputs, q);
    list_push(program->arena, &attend->inputs, k);
    list_push(program->arena, &attend->inputs, v);
    if (document) list_push(program->arena, &attend->inputs, document);
    list_push(program->arena, &attend->outputs, o);
    list_push(program->arena, &attend->outputs, lse);
    attend->attention = (AttendOptions){.mask = options->windowed ? MASK_WINDOW : MASK_CAUSAL,
                                        .window = 4,
                                        .scale = 0.5,
                                        .documents = options->packed};
    return product(build, "y", "bsf", "hc", o, weight(build, "wo", "hcf", options));
}

static long context_of(const Options *options) {
    return options->far ? FAR : CONTEXT;
}

static void add_axes(Build *build, const Options *options) {
    axis(build, 'l', 3, AXIS_REPEAT);
    axis(build, 'L', 4, AXIS_REPEAT);
    axis(build, 'b', BATCH, AXIS_BATCH);
    axis(build, 's', context_of(options), AXIS_SEQUENCE);
    axis(build, 'd', 3, AXIS_PLAIN);
    axis(build, 'r', 2, AXIS_PLAIN);
    axis(build, 'h', 4, AXIS_PLAIN);
    axis(build, 'j', 2, AXIS_PLAIN);
    axis(build, 'v', 1, AXIS_PLAIN);
    axis(build, 'e', 3, AXIS_PLAIN);
    axis(build, 'c', 2, AXIS_PLAIN);
    axis(build, 'w', VOCABULARY, AXIS_PLAIN);
    build->axes['f'] = build->axes['d'];
    build->indices['f'] = index_new(build->program, "f", build->axes['d']);
    build->program->batch = build->axes['b'];
    build->program->sequence = build->axes['s'];
}

/* x[b,s,d]: embeddings of token and position, optionally of the previous and the first token. */
static Expr *embed(Build *build, const Options *options) {
    Program *program = build->program;
    Tensor *tokens = tensor(build, "tokens", "bs", ROLE_INPUT);
    tokens->type = TYPE_INT;
    tokens->input = MOEC_INPUT_TOKEN;
    Expr *subs[2] = {at(build, tokens, "bs"), expr_index(program, build->indices['d'])};
    Expr *token = expr_read(program, tensor(build, "embedding", "wd", ROLE_PARAMETER), subs);
    Expr *position = at(build, tensor(build, "position_embedding", "sd", ROLE_PARAMETER), "sd");
    Expr *x = define(build, "x", "bsd", "", op(build, OP_ADD, token, position));
    if (!options->shifted && !options->back) return x;
    Expr *s = expr_index(program, build->indices['s']), *b = x->args[0], *d = x->args[2];
    Expr *second =
        expr_read(program, x->tensor, (Expr *[]){b, op(build, OP_SUB, s, number(build, 2)), d});
    if (options->back) return define(build, "mixed", "bsd", "", op(build, OP_ADD, x, second));
    Expr *before =
        expr_read(program, x->tensor, (Expr *[]){b, op(build, OP_SUB, s, number(build, 1)), d});
    Expr *first = expr_read(program, x->tensor, (Expr *[]){b, number(build, 0), d});
    return define(build, "mixed", "bsd", "",
                  op(build, OP_ADD, x,
                     op(build, OP_MUL, before, op(build, OP_ADD, first, number(build, 2)))));
}

static Expr *steps(Build *build, Expr *x, const Options *options) {
    Program *program = build->program;
    Tensor *stream = tensor(build, "stream", "Lbsd", ROLE_TEMP);
    Expr *subs[4] = {number(build, 0), x->args[0], x->args[1], x->args[2]};
    set(build, expr_read(program, stream, subs), "", x);
    build->block =
        &statement_repeat(program, &program->body, build->indices['l'], false, nowhere)->body;
    subs[0] = expr_index(program, build->indices['l']);
    Expr *y = attention(build, expr_read(program, stream, subs), options);
    subs[3] = expr_index(program, build->indices['f']);
    Expr *before = expr_read(program, stream, subs);
    subs[0] = op(build, OP_ADD, subs[0], number(build, 1));
    set(build, expr_read(program, stream, subs), "", op(build, OP_ADD, before, y));
    build->block = &program->body;
    subs[0] = number(build, 3);
    return expr_read(program, stream, subs);
}

static Program *build_program(Arena *arena, Reports *reports, const Options *options) {
    Build build = {.program = program_new(arena, reports, "test", GRAPH_FORWARD, call_table)};
    Program *program = build.program;
    build.block = &program->body;
    add_axes(&build, options);
    Expr *x = embed(&build, options);
    Expr *y = options->repeated ? steps(&build, x, options) : attention(&build, x, options);
    if (options->summed || options->idle) {
        Expr *mean = define(&build, "mean", "bf", "s", y),
             *other = define(&build, "other", "b", "sf", op(&build, OP_MUL, y, y));
        if (options->summed)
            y = define(&build, "centred", "bsf", "",
                       op(&build, OP_SUB, op(&build, OP_MUL, y, other), mean));
    }
    Tensor *logits = tensor(&build, "logits", "bsw", ROLE_OUTPUT);
    set(&build, at(&build, logits, "bsw"), "f",
        op(&build, OP_MUL, y, at(&build, tensor(&build, "head", "fw", ROLE_PARAMETER), "fw")));
    list_push(arena, &program->outputs, logits);
    return program;
}

static void fill(Interpreter *eval, const Program *program) {
    for (int i = 0; i < program->tensors.count; i++) {
        const Tensor *tensor = program->tensors.items[i];
        unsigned seed = 17;
        if (tensor->role != ROLE_PARAMETER) continue;
        for (const char *c = tensor->name; *c; c++) seed = seed * 31 + (unsigned char)*c;
        for (long j = 0; j < tensor_elements(tensor); j++) {
            seed = seed * 1664525u + 1013904223u;
            interpreter_real(eval, tensor)[j] = (double)(seed >> 8) / (1 << 24) * 2 - 1;
        }
    }
}

static Tensor *find(const Program *program, const char *name) {
    for (int i = 0; i < program->tensors.count; i++) {
        Tensor *tensor = program->tensors.items[i];
        if (strcmp(tensor->name, name) == 0) return tensor;
    }
    return NULL;
}

static long token_at(long b, long s) {
    return (b * 5 + s * s + 3 * s) % VOCABULARY;
}

static void put_tokens(Interpreter *eval, const Program *program, long first, long count) {
    for (long b = 0; b < BATCH; b++)
        for (long s = 0; s < count; s++)
            interpreter_int(eval, find(program, "tokens"))[b * count + s] = token_at(b, first + s);
}

static void run(Interpreter *eval) {
    const char *message = interpreter_run(eval, 1, true);
    if (message) fail_msg("%s", message);
}

/* Compares steps of `tokens` positions with the whole sequence. Returns the bytes per token. */
static long check(const Options *options, long tokens) {
    Arena *arena = arena_new();
    Program *whole = build_program(arena, NULL, options),
            *step = build_program(arena, NULL, options);
    decode(step, tokens);
    char *message = well_formed(arena, step);
    if (message) fail_msg("%s", message);
    Interpreter *expected = interpreter_new(whole), *found = interpreter_new(step);
    fill(expected, whole);
    fill(found, step);
    const long context = context_of(options);
    put_tokens(expected, whole, 0, context);
    run(expected);
    double error = 0, norm = 0;
    for (long position = 0; position < context; position += tokens) {
        interpreter_int(found, find(step, "position"))[0] = position;
        put_tokens(found, step, position, tokens);
        run(found);
        for (long i = 0; i < BATCH * tokens * VOCABULARY; i++) {
            long b = i / (tokens * VOCABULARY), rest = i % (tokens * VOCABULARY);
            double a = interpreter_real(
                expected, find(whole, "logits"))[(b * context + position) * VOCABULARY + rest];
            double difference = a - interpreter_real(found, find(step, "logits"))[i];
            error += difference * difference;
            norm += a * a;
        }
    }
    if (!(sqrt(error) <= 1e-12 * sqrt(norm)) || norm == 0)
        fail_msg("error %g of norm %g", sqrt(error), sqrt(norm));
    assert_int_equal(step->context, context);
    long bytes = cache_bytes_per_token(step);
    interpreter_free(expected);
    interpreter_free(found);
    arena_free(arena);
    return bytes;
}

static void steps_agree(void **state) {
    (void)state;
    enum { KEYS = 2 * 3, VALUES = 1 * 2, LATENT = 2, WIDTH = 3 };
    assert_int_equal(check(&(Options){.repeated = false}, 1), 4 * (KEYS + VALUES));
    assert_int_equal(check(&(Options){.windowed = true}, 3), 4 * (KEYS + VALUES));
    /* ring buffers; a position of the documents has two numbers */
    const Options far = {.windowed = true, .far = true, .repeated = true};
    for (int i = 0; i < 4; i++) assert_int_equal(check(&far, (long[]){1, 5, 32, 40}[i]), 0);
    assert_int_equal(check(&(Options){.windowed = true, .far = true, .packed = true}, 5), 4 * 2);
    assert_int_equal(check(&(Options){.repeated = true}, 1), 4 * 3 * (KEYS + VALUES));
    assert_int_equal(check(&(Options){.latent = true}, 1), 4 * LATENT);
    assert_int_equal(check(&(Options){.latent = true, .repeated = true}, 4), 4 * 3 * LATENT);
    assert_int_equal(check(&(Options){.shifted = true, .repeated = true}, 1),
                     4 * (3 * (KEYS + VALUES) + WIDTH));
    for (long tokens = 1; tokens <= 4; tokens += tokens) /* a ring buffer has no bytes per token */
        assert_int_equal(check(&(Options){.back = true}, tokens), 4 * (KEYS + VALUES));
    assert_int_equal(check(&(Options){.back = true, .repeated = true}, 3), 4 * 3 * (KEYS + VALUES));
    assert_int_equal(check(&(Options){.idle = true}, 1), 4 * (KEYS + VALUES));
    assert_int_equal(check(&(Options){.packed = true}, 1), 4 * (KEYS + VALUES + 2));
    assert_int_equal(check(&(Options){.packed = true, .windowed = true}, 3),
                     4 * (KEYS + VALUES + 2));
}

static void sums_are_reported(void **state) {
    (void)state;
    Arena *arena = arena_new();
    Reports reports = {.arena = arena};
    decode(build_program(arena, &reports, &(Options){.summed = true}), 1);
    assert_int_equal(reports.errors, 2);
    const char *text = reports_text(&reports, arena);
    assert_non_null(strstr(text, "cannot decode: this sums over the sequence"));
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_agree),
        cmocka_unit_test(sums_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
