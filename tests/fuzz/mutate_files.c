/* Hostile files: checkpoints, weights, GGUF, Hugging Face directories, tokenizers, logs, token files and saved specs are
 * truncated, changed and filled with extreme numbers. Then the commands that read them run. driver.h defines a finding. MOEC is
 * the command (default: the moec on the path); the model is compiled once, with MOEC_CFLAGS=-O0, into a separate cache. See
 * tests/README.md. */
#include "driver.h"

/* Files of a run, its inputs, and models of other programs. */
static const char *const kinds[] = {"run/last.safetensors",
                                    "run/best.safetensors",
                                    "run/log.jsonl",
                                    "tokens.bin",
                                    "text",
                                    "weights.safetensors",
                                    "gguf/model.gguf",
                                    "folder/config.json",
                                    "folder/model.safetensors",
                                    "tokenizer.json"};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0], BEGINNING = 1600 };

static const char *const tokenizers[] = {"bert", "clip", "deepseek", "gpt2", "llama2", "t5"};
enum { TOKENIZER_COUNT = sizeof tokenizers / sizeof tokenizers[0] };

static Bytes originals[KIND_COUNT], tokenizer_texts[TOKENIZER_COUNT];
static const char *moec = "moec";

/* ---- commands ---- */

enum { MAX_ARGUMENTS = 24 };

static int run_moec(void *data) {
    char **arguments = data;
    if (chdir(work)) return 2;
    execvp(arguments[0], arguments);
    return 2;
}

/* The commands that read each kind of file. */
static const char *const readers[KIND_COUNT][4] = {
    {"train spec.moe --data text --out run --resume --steps 3",
     "eval run/last.safetensors --data text",
     "generate run/last.safetensors --prompt ab -n 2",
     "emit run/last.safetensors --target c --mode decode --out emitted"},
    {"eval run --data text", "generate run --prompt ab -n 2", "eval run --data text --json",
     "train spec.moe --data text --out run --resume --steps 3"},
    {"train spec.moe --data text --out run --resume --steps 3",
     "train spec.moe --data text --out run --resume --steps 4",
     "train spec.moe --data text --out run --steps 3",
     "train spec.moe --data text --out run --resume --steps 2"},
    {"train spec.moe --data tokens.bin --out other --steps 1", "eval run --data tokens.bin",
     "forward spec.moe --weights weights.safetensors --input tokens.bin --outputs loss --out "
     "out.safetensors",
     "train spec.moe --data text --val-data tokens.bin --out other --steps 1"},
    {"train spec.moe --data text --out other --steps 1", "eval run --data text",
     "train spec.moe --data text --val-data text --out other --steps 1", "eval run --data text --json"},
    {"forward spec.moe --weights weights.safetensors --input tokens.bin --outputs loss,grads --out "
     "out.safetensors",
     "forward spec.moe --device reference --weights weights.safetensors --input tokens.bin --outputs logits "
     "--out out.safetensors",
     "eval weights.safetensors --data text",
     "train spec.moe --data weights.safetensors --out other --steps 1"},
    {"import gguf/model.gguf --out other", "weights gguf/model.gguf",
     "import gguf/model.gguf --out other --no-tokenizer", "import gguf/model.gguf --out other"},
    {"import folder --out other", "import folder --out other", "import folder --out other",
     "import folder --out other"},
    {"import folder --out other", "weights folder", "import folder --out other", "weights folder"},
    {"tokenize text --tokenizer tokenizer.json --out out.bin",
     "tokenize text --tokenizer tokenizer.json --out out.bin",
     "tokenize text --tokenizer tokenizer.json --out out.bin",
     "tokenize text --tokenizer tokenizer.json --out out.bin"},
};

static void split(char *line, char **arguments) {
    int count = 0;
    arguments[count++] = (char *)(uintptr_t)moec;
    for (char *word = strtok(line, " "); word && count < MAX_ARGUMENTS - 1;
         word = strtok(NULL, " "))
        arguments[count++] = word;
    arguments[count] = NULL;
}

static void run_line(const char *line, Outcome *outcome) {
    char copy[512], *arguments[MAX_ARGUMENTS];
    snprintf(copy, sizeof copy, "%s", line);
    split(copy, arguments);
    run_child(run_moec, arguments, outcome);
}

/* ---- mutations ---- */

static const char *const hostile[] = {"0",
                                      "-1",
                                      "1",
                                      "1e300",
                                      "-1e300",
                                      "nan",
                                      "inf",
                                      "-inf",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "1e400",
                                      "4294967296",
                                      "2147483648",
                                      "0.5",
                                      "",
                                      "null",
                                      "true",
                                      "[]",
                                      "{}",
                                      "\"\"",
                                      "\"x\"",
                                      "[[[[[[[[1]]]]]]]]",
                                      "\"../../x\"",
                                      "\"\\u0000\"",
                                      "-0",
                                      "1e-320"};
static const char *const dtypes[] = {"F32", "F64", "F16",  "BF16", "I32",
                                     "I64", "U8",  "BOOL", "",     "F8_E4M3"};

/* The start and end of a JSON value in the text: digits, a word, or a string. */
static bool any_value(const Bytes *text, size_t from, size_t to, size_t *start, size_t *end) {
    for (int tries = 0; tries < 100 && to > from; tries++) {
        size_t at = from + pick(to - from);
        while (at < to && !strchr(":[,", text->data[at])) at++;
        if (++at >= to) continue;
        *start = at;
        *end = at;
        bool quoted = text->data[at] == '"';
        if (quoted) (*end)++;
        while (*end < to && (quoted ? text->data[*end] != '"' : !strchr(",]}:", text->data[*end])))
            *end += 1 + (quoted && text->data[*end] == '\\');
        if (quoted) (*end)++;
        if (*end <= to) return true;
    }
    return false;
}

static void hostile_value(Bytes *text, size_t from, size_t to) {
    size_t start, end;
    char made[80];
    if (!any_value(text, from, to, &start, &end)) return;
    const char *with = pick(5) ? PICK(hostile) : PICK(dtypes);
    bool quoted = text->data[start] == '"';
    snprintf(made, sizeof made, quoted ? "\"%.60s\"" : "%.60s", with);
    replace_bytes(text, start, end, made, strlen(made));
}

static void set_header(Bytes *text, uint64_t length) {
    for (int i = 0; i < 8 && (size_t)i < text->length; i++)
        text->data[i] = (char)(length >> 8 * i & 255);
}

/* Changes the header: a value, a metadata entry removed or repeated, brackets. The length is updated. The checksum is removed:
 * the reader would reject the file before it reads the change. */
static void mutate_header(Bytes *text) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | (unsigned char)text->data[i];
    if (text->length < 8 || length > text->length - 8) return;
    size_t before = text->length, end = 8 + (size_t)length;
    char *checksum = memmem(text->data + 8, (size_t)length, "\"checksum\"", 10);
    if (checksum) checksum[1] = 'C';
    static const char *const notes[] = {"\"step\"",   "\"seed\"",      "\"position\"",
                                        "\"tokens\"", "\"best_loss\"", "\"version\"",
                                        "\"format\"", "\"model\"",     "\"spec\"",
                                        "\"shape\"",  "\"dtype\"",     "\"data_offsets\""};
    const char *note = PICK(notes);
    char *found = memmem(text->data + 8, (size_t)length, note, strlen(note));
    size_t at = found ? (size_t)(found - text->data) + strlen(note) : 8;
    size_t one = 8 + pick((size_t)length), other = one + pick(60);
    switch (pick(6)) {
    case 0:
    case 1:
        hostile_value(text, at, at + 40 < end ? at + 40 : end);
        break;
    case 2:
        hostile_value(text, 8, end);
        break;
    case 3:
        replace_bytes(text, one, other < end ? other : end, "", 0);
        break;
    case 4: {
        Bytes copy = bytes_of(text->data + one, (other < end ? other : end) - one);
        replace_bytes(text, one, one, copy.data, copy.length);
        free(copy.data);
        break;
    }
    default: {
        static const char *const marks[] = {
            "{", "}", "[", "]", ",", "\"", ":", "\\", "\x80", "\n", "{\"a\":{\"b\":"};
        const char *mark = PICK(marks);
        replace_bytes(text, one, one + 1, mark, strlen(mark));
    }
    }
    set_header(text, length + text->length - before);
}

static void flip_bits(Bytes *text) {
    for (size_t times = 1 + pick(8); times && text->length; times--)
        text->data[pick(text->length)] ^= (char)(1 << pick(8));
}

static void hostile_word(Bytes *text) {
    static const uint32_t words[] = {0,          1,          0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
                                     0x7FC00000, 0x7F800000, 50256,      256};
    if (text->length < 4) return;
    size_t word_count = text->length / 4,
           at = 4 * (pick(2) ? pick(word_count < 8 ? word_count : 8) : pick(word_count));
    uint32_t word = PICK(words);
    memcpy(text->data + at, &word, 4);
}

static void mutate(Bytes *text, bool tensors) {
    for (size_t times = 1 + pick(2); times; times--) {
        size_t way = pick(tensors ? 10 : 6), at = pick(text->length + 1);
        if (way == 0) replace_bytes(text, at, text->length, "", 0);
        if (way == 1) flip_bits(text);
        if (way == 2) hostile_word(text);
        if (way == 3) hostile_value(text, 0, text->length);
        if (way == 4) replace_bytes(text, at, at + pick(text->length - at + 1), "", 0);
        if (way == 5) replace_bytes(text, at, at, "\0\xFF{}[]\"\n", pick(9));
        if (way > 5 && text->length > 8) mutate_header(text);
    }
}

/* Changes keys and shapes of a GGUF file instead of its numbers, or the parts of a tokenizer before its vocabulary. */
static void mutate_beginning(Bytes *text) {
    size_t length = text->length < BEGINNING ? text->length : BEGINNING;
    Bytes head = bytes_of(text->data, length);
    mutate(&head, false);
    if (pick(4))
        replace_bytes(text, 0, length, head.data, head.length);
    else
        mutate(text, false);
    free(head.data);
}

/* ---- the run ---- */

static void path_of(char path[700], const char *name) {
    snprintf(path, 700, "%s/%s", work, name);
}

static void put_back(void) {
    char path[700];
    if (chdir(work) || system("rm -rf run other emitted out.bin* && mkdir run")) exit(2);
    for (int i = 0; i < KIND_COUNT; i++) {
        path_of(path, kinds[i]);
        write_file(path, originals[i].data, originals[i].length);
    }
}

static void one_mutant(const Plan *plan, uint64_t number) {
    size_t kind = pick(KIND_COUNT + 3); /* checkpoints more often */
    if (kind >= KIND_COUNT) kind = 0;
    const char *line = readers[kind][pick(4)];
    char path[700], kept[700];
    put_back();
    const bool tokenizer = !strcmp(kinds[kind], "tokenizer.json");
    const Bytes *original = tokenizer ? &PICK(tokenizer_texts) : &originals[kind];
    Bytes text = bytes_of(original->data, original->length);
    if (tokenizer || strstr(kinds[kind], "gguf"))
        mutate_beginning(&text);
    else
        mutate(&text, strstr(kinds[kind], "safetensors") != NULL);
    path_of(path, kinds[kind]);
    write_file(path, text.data, text.length);
    Outcome *outcome = taken(malloc(sizeof *outcome));
    run_line(line, outcome);
    const char *what = complaint(outcome);
    if (what && report_finding(what, outcome, plan, number)) {
        snprintf(kept, sizeof kept, "%.600s/found-%llu", work, (unsigned long long)number);
        write_file(kept, text.data, text.length);
        printf("    cd %s; cp %s %s; moec %s\n", work, kept, kinds[kind], line);
    }
    free(outcome);
    free(text.data);
}

/* Creates a small model, two training steps, its weights and tokens. */
static bool prepare(void) {
    static const char spec[] =
        "use decoder\n\nmodel m = decoder {\n  vocab_size = 256, dim = 8, layers = 1\n"
        "  attention = { heads = { q = 1 }, head_dim = 8 }\n"
        "  train = { batch_size = 2, context_length = 8, steps = 2, eval_interval = 1 }\n}\n";
    static const char *const lines[] = {"train spec.moe --data text --out run",
                                        "init spec.moe --seed 1 --out weights.safetensors",
                                        "export weights.safetensors --format gguf --out gguf",
                                        "export weights.safetensors --format llama --out folder"};
    char path[700], words[600], tokens[1024 + 2 * 600] = {0};
    const uint32_t header[3] = {20240520, 1, 600};
    Outcome outcome;
    for (int i = 0; i < 600; i++) words[i] = (char)('a' + i * i % 23);
    memcpy(tokens, header, sizeof header);
    for (int i = 0; i < 600; i++) tokens[1024 + 2 * i] = words[i];
    path_of(path, "spec.moe");
    write_file(path, spec, sizeof spec - 1);
    path_of(path, "text");
    write_file(path, words, sizeof words);
    path_of(path, "tokens.bin");
    write_file(path, tokens, sizeof tokens);
    path_of(path, "tokenizer.json");
    write_file(path, tokenizer_texts[0].data, tokenizer_texts[0].length);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        run_line(lines[i], &outcome);
        if (outcome.code == 0) continue;
        fprintf(stderr, "moec %s ended with %d: %s\n", lines[i], outcome.code, outcome.message);
        return false;
    }
    for (int i = 0; i < KIND_COUNT; i++) {
        path_of(path, kinds[i]);
        if (!read_file(path, &originals[i])) return false;
    }
    return true;
}

/* The files of the unit tests, from the root of the repository. */
static bool read_tokenizers(void) {
    char path[200];
    bool ok = true;
    for (int i = 0; ok && i < TOKENIZER_COUNT; i++) {
        snprintf(path, sizeof path, "tests/tokenizer/fixtures/%s.json", tokenizers[i]);
        ok = read_file(path, &tokenizer_texts[i]);
        if (!ok) fprintf(stderr, "cannot read %s: run it in the root of the repository\n", path);
    }
    return ok;
}

int main(int argc, char **argv) {
    Plan plan = read_plan(argc, argv);
    char command[600];
    if (!read_tokenizers()) return 2;
    snprintf(work, sizeof work, "/tmp/moec-files-XXXXXX");
    if (getenv("MOEC")) moec = getenv("MOEC");
    if (!mkdtemp(work)) return 2;
    snprintf(command, sizeof command, "%s/cache", work);
    setenv("XDG_CACHE_HOME", command, 1);
    setenv("MOEC_CFLAGS", "-O0", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0:exitcode=99", 1);
    setenv("UBSAN_OPTIONS", "halt_on_error=1:exitcode=99:print_stacktrace=1", 1);
    if (!prepare()) return 2;
    int code = run_plan(&plan, one_mutant);
    snprintf(command, sizeof command, "rm -rf '%s'", work);
    return code == 0 && system(command) ? 2 : code;
}
