#include "tokenizer/tokenizer.h"

#include "abi/quantity.h"
#include "abi/json_make.h"
#include "abi/utf8_cut.h"
#include "base/message.h"
#include "base/files.h"
#include "base/hashing.h"
#include "base/memory.h"
#include "base/clock.h"
#include "tokenizer/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The header of llm.c: 256 words, of which the first are used. Files of more than 2^32 tokens have
 * the upper half of their number in the fourth. */
enum { MAGIC_16 = 20240520, MAGIC_32 = 20240801, HEADER_BYTES = 1024 };
enum { QUIET_SECONDS = 1 }; /* before the first line of progress */
enum { PART_BYTES = 1 << 20, PART_LIMIT = 64 << 20, PARTS_PER_THREAD = 4 };

/* A part of a text, and its tokens. */
typedef struct TextChunk {
    char *bytes;
    size_t length, capacity;
    bool begins, ends; /* with a document */
    bool failed;
    uint64_t documents;
    TokenList tokens;
} TextChunk;

typedef struct Bulk {
    const Tokenizer *tokenizer;
    const BulkOptions *options;
    const char *const *paths;
    int path_count, threads;
    size_t part_bytes;
    /* Read position. */
    int path;
    int descriptor; /* of paths[path], -1: not open yet */
    size_t offset, length;
    /* Writing. */
    char *out, *partial, *state;
    int target, width;
    BulkResult result;
    /* A batch. */
    TextChunk *parts;
    int part_count, part_capacity;
    atomic_int next;
    Encoder **encoders; /* [threads] */
} Bulk;

/* ---- reading ---- */

static bool read_more(Bulk *bulk, TextChunk *part, size_t wanted) {
    if (wanted > part->capacity) {
        part->bytes = memory_grow(part->bytes, wanted);
        part->capacity = wanted;
    }
    while (part->length < wanted) {
        ssize_t got = pread(bulk->descriptor, part->bytes + part->length, wanted - part->length,
                            (off_t)(bulk->offset + part->length));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return error_message("do not change the text during the run", "cannot read %s: %s",
                                 bulk->paths[bulk->path],
                                 got ? strerror(errno) : "the file was truncated");
        part->length += (size_t)got;
    }
    return true;
}

/* Where a part that does not reach the end of its file is cut; 0: it must become longer. */
static size_t last_cut_of(const Bulk *bulk, const TextChunk *part) {
    if (bulk->options->lines) {
        const char *line = memrchr(part->bytes, '\n', part->length);
        return line ? (size_t)(line - part->bytes) + 1 : 0;
    }
    return cut_find(bulk->encoders[0], part->bytes, part->length);
}

static bool read_text_part(Bulk *bulk, TextChunk *part) {
    size_t left = bulk->length - bulk->offset, wanted = bulk->part_bytes, cut = 0;
    part->length = 0;
    part->begins = bulk->offset == 0;
    while (!cut && wanted < left) {
        if (!read_more(bulk, part, wanted)) return false;
        cut = last_cut_of(bulk, part);
        wanted = cut ? wanted : 2 * wanted;
        if (cut || wanted <= PART_LIMIT || bulk->options->lines) continue;
        note_message("%s: no safe split position after byte %zu; the text is split anyway, which "
                     "can change tokens there",
                     bulk->paths[bulk->path], bulk->offset);
        cut = cut_character(part->bytes, part->length);
    }
    if (!cut && !read_more(bulk, part, left)) return false;
    part->length = cut ? cut : left;
    bulk->offset += part->length;
    part->ends = bulk->offset == bulk->length;
    return true;
}

/* Opens the next non-empty file. False after a message; *more: there is one. */
static bool open_next(Bulk *bulk, bool *more) {
    while (bulk->descriptor < 0 || bulk->offset == bulk->length) {
        if (bulk->descriptor >= 0) {
            close(bulk->descriptor);
            bulk->descriptor = -1;
            bulk->path++;
            bulk->offset = 0;
        }
        *more = bulk->path < bulk->path_count;
        if (!*more) return true;
        bulk->descriptor =
            file_open(bulk->paths[bulk->path], "check the path of the text", &bulk->length);
        if (bulk->descriptor < 0) return false;
    }
    *more = true;
    return true;
}

/* ---- encoding ---- */

static bool encode_document(Bulk *bulk, Encoder *encoder, const char *bytes, size_t length,
                            TextChunk *part) {
    part->documents++;
    bool good = encoder_encode(encoder, bytes, length, bulk->options->special ? ENCODE_SPECIAL : 0,
                               &part->tokens);
    if (good && bulk->options->last >= 0) tokens_add(&part->tokens, bulk->options->last);
    return good;
}

static bool encode_field(Bulk *bulk, Encoder *encoder, const char *line, size_t length,
                         TextChunk *part) {
    json_error_t error;
    json_auto_t *object = json_loadb(line, length, JSON_ALLOW_NUL, &error);
    const json_t *text = json_object_get(object, bulk->options->field);
    return json_is_string(text)
               ? encode_document(bulk, encoder, json_string_value(text), json_string_length(text),
                                 part)
               : error_message("write one JSON object with this field per line",
                               "a line is not a JSON object with a text field '%s': %.*s",
                               bulk->options->field, utf8_cut_bytes(line, length, 60), line);
}

static bool encode_lines(Bulk *bulk, Encoder *encoder, TextChunk *part) {
    bool good = true;
    for (size_t at = 0; at < part->length && good;) {
        const char *line = part->bytes + at;
        const char *end = memchr(line, '\n', part->length - at);
        size_t length = end ? (size_t)(end - line) : part->length - at;
        at += length + 1;
        if (length && line[length - 1] == '\r') length--;
        if (!length) continue;
        good = bulk->options->field ? encode_field(bulk, encoder, line, length, part)
                                    : encode_document(bulk, encoder, line, length, part);
    }
    return good;
}

static bool encode_part(Bulk *bulk, Encoder *encoder, TextChunk *part) {
    part->tokens.count = part->documents = 0;
    if (bulk->options->lines) return encode_lines(bulk, encoder, part);
    const TokenList *before = tokenizer_before(bulk->tokenizer),
                    *after = tokenizer_after(bulk->tokenizer);
    bool special = bulk->options->special;
    if (part->begins && special) tokens_append(&part->tokens, before->items, before->count);
    if (!encoder_encode(encoder, part->bytes, part->length, part->begins ? 0 : ENCODE_CONTINUES,
                        &part->tokens))
        return false;
    if (!part->ends) return true;
    part->documents = 1;
    if (special) tokens_append(&part->tokens, after->items, after->count);
    if (bulk->options->last >= 0) tokens_add(&part->tokens, bulk->options->last);
    return true;
}

typedef struct EncodeWorker {
    Bulk *bulk;
    Encoder *encoder;
} EncodeWorker;

static void *encode_parts(void *argument) {
    const EncodeWorker *worker = argument;
    Bulk *bulk = worker->bulk;
    for (int i; (i = atomic_fetch_add(&bulk->next, 1)) < bulk->part_count;)
        bulk->parts[i].failed = !encode_part(bulk, worker->encoder, &bulk->parts[i]);
    return NULL;
}

/* All parts of the batch by all threads; this one is among them. */
static bool encode_batch(Bulk *bulk) {
    AUTO_FREE EncodeWorker *workers = memory_new(sizeof *workers * (size_t)bulk->threads);
    AUTO_FREE pthread_t *threads = memory_new(sizeof *threads * (size_t)bulk->threads);
    AUTO_FREE bool *started = memory_new(sizeof *started * (size_t)bulk->threads);
    atomic_store(&bulk->next, 0);
    for (int i = 0; i < bulk->threads; i++) {
        workers[i] = (EncodeWorker){bulk, bulk->encoders[i]};
        started[i] = i > 0 && i < bulk->part_count &&
                     pthread_create(&threads[i], NULL, encode_parts, &workers[i]) == 0;
    }
    encode_parts(&workers[0]);
    bool good = true;
    for (int i = 0; i < bulk->threads; i++)
        if (started[i]) pthread_join(threads[i], NULL);
    for (int i = 0; i < bulk->part_count; i++) good = good && !bulk->parts[i].failed;
    return good;
}

/* ---- writing ---- */

static bool write_at(Bulk *bulk, const unsigned char *bytes, size_t length, size_t offset) {
    while (length) {
        ssize_t written = pwrite(bulk->target, bytes, length, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0)
            return error_message("free some disk space, then continue with --resume",
                                 "cannot write %s: %s", bulk->partial, strerror(errno));
        bytes += written;
        offset += (size_t)written;
        length -= (size_t)written;
    }
    return true;
}

static bool write_tokens(Bulk *bulk, const TokenList *tokens) {
    size_t width = (size_t)bulk->width;
    unsigned char *bytes = memory_new(width * tokens->count + 1);
    for (size_t i = 0; i < tokens->count; i++)
        for (size_t k = 0; k < width; k++)
            bytes[width * i + k] = (unsigned char)((uint32_t)tokens->items[i] >> 8 * k);
    bool good =
        write_at(bulk, bytes, width * tokens->count, HEADER_BYTES + width * bulk->result.tokens);
    free(bytes);
    if (good) bulk->result.tokens += tokens->count;
    return good;
}

static bool write_header(Bulk *bulk) {
    unsigned char header[HEADER_BYTES] = {0};
    const uint32_t words[4] = {bulk->width == 2 ? MAGIC_16 : MAGIC_32, 1,
                               (uint32_t)bulk->result.tokens,
                               (uint32_t)(bulk->result.tokens >> 32)};
    for (size_t i = 0; i < sizeof words; i++)
        header[i] = (unsigned char)(words[i / 4] >> 8 * (i % 4));
    return write_at(bulk, header, sizeof header, 0);
}

/* ---- resume ---- */

/* Properties that must be equal for a resume. */
static json_t *token_file_json(const Bulk *bulk) {
    size_t length;
    const char *json = tokenizer_json(bulk->tokenizer, &length);
    const BulkOptions *options = bulk->options;
    json_t *paths = json_array();
    for (int i = 0; i < bulk->path_count; i++)
        json_array_append_new(paths, json_escaped(bulk->paths[i]));
    return json_make("{s:o, s:I, s:b, s:b, s:s?, s:i, s:i, s:I}", "texts", paths, "tokenizer",
                     (json_int_t)XXH3_64bits(json, length), "special", options->special, "lines",
                     options->lines, "field", options->field, "last", (int)options->last, "width",
                     bulk->width, "part", (json_int_t)bulk->part_bytes);
}

static bool save_state(const Bulk *bulk) {
    const BulkResult *result = &bulk->result;
    json_auto_t *state =
        json_make("{s:o, s:i, s:I, s:I, s:I, s:I}", "of", token_file_json(bulk), "path", bulk->path,
                  "offset", (json_int_t)bulk->offset, "tokens", (json_int_t)result->tokens, "bytes",
                  (json_int_t)result->bytes, "documents", (json_int_t)result->documents);
    AUTO_FREE char *text = json_write(state, JSON_INDENT(1));
    return text && file_write(bulk->state, text, strlen(text));
}

static json_int_t state_number(const json_t *state, const char *key) {
    return json_integer_value(json_object_get(state, key));
}

/* Loads the state of an earlier run if it had the same inputs. */
static bool load_state(Bulk *bulk) {
    json_auto_t *state = file_json(bulk->state), *mine = token_file_json(bulk);
    bool good = true;
    if (!state || !file_exists(bulk->partial)) {
        note_message("no earlier run to resume: %s is written from the start", bulk->out);
    } else if (!json_equal(json_object_get(state, "of"), mine) || state_number(state, "path") < 0 ||
               state_number(state, "offset") < 0 || state_number(state, "tokens") < 0) {
        good = error_message("remove --resume to start again",
                             "%s was started with other texts, another tokenizer or other options",
                             bulk->partial);
    } else {
        bulk->path = (int)state_number(state, "path");
        bulk->offset = (size_t)state_number(state, "offset");
        bulk->result.tokens = (uint64_t)state_number(state, "tokens");
        bulk->result.bytes = (uint64_t)state_number(state, "bytes");
        bulk->result.documents = (uint64_t)state_number(state, "documents");
    }
    return good;
}

/* The current file must exist up to the resume position. */
static bool take_up(Bulk *bulk) {
    if (!bulk->options->resume) return true;
    if (!load_state(bulk)) return false;
    size_t offset = bulk->offset;
    if (!offset || bulk->path >= bulk->path_count) return true;
    bulk->descriptor =
        file_open(bulk->paths[bulk->path], "check the path of the text", &bulk->length);
    return bulk->descriptor >= 0 &&
           (offset <= bulk->length || error_message("remove --resume to start again",
                                                    "%s was truncated", bulk->paths[bulk->path]));
}

static bool open_target(Bulk *bulk) {
    bool fresh = !bulk->result.tokens && !bulk->path && !bulk->offset;
    if (!file_replaceable(bulk->out)) return false;
    bulk->target = file_create(bulk->partial, O_WRONLY | O_CLOEXEC | (fresh ? O_TRUNC : 0));
    if (bulk->target < 0) return false;
    size_t length = HEADER_BYTES + (size_t)bulk->width * bulk->result.tokens;
    return ftruncate(bulk->target, (off_t)length) == 0 ||
           error_message("check the permissions and the free disk space", "cannot write %s: %s",
                         bulk->partial, strerror(errno));
}

/* Renames the complete file. */
static bool finish_token_file(Bulk *bulk) {
    if (!bulk->result.tokens) {
        unlink(bulk->partial);
        unlink(bulk->state);
        return error_message("use a text that is not empty", "the texts contain no tokens");
    }
    if (!write_header(bulk)) return false;
    if (fsync(bulk->target) != 0 || rename(bulk->partial, bulk->out) != 0)
        return error_message("check the disk, then continue with --resume", "cannot write %s: %s",
                             bulk->out, strerror(errno));
    unlink(bulk->state);
    return true;
}

/* ---- the whole ---- */

/* The parts that are encoded together. *more: whether any was read. */
static bool read_text_batch(Bulk *bulk, bool *more) {
    bulk->part_count = 0;
    *more = true;
    while (bulk->part_count < bulk->part_capacity) {
        bool another;
        if (!open_next(bulk, &another)) return false;
        if (!another) break;
        if (!read_text_part(bulk, &bulk->parts[bulk->part_count])) return false;
        bulk->part_count++;
    }
    *more = bulk->part_count > 0;
    return true;
}

static bool one_batch(Bulk *bulk, double began, bool *more) {
    if (!read_text_batch(bulk, more)) return false;
    if (!*more) return true;
    if (!encode_batch(bulk)) return false;
    for (int i = 0; i < bulk->part_count; i++) {
        if (!write_tokens(bulk, &bulk->parts[i].tokens)) return false;
        bulk->result.bytes += bulk->parts[i].length;
        bulk->result.documents += bulk->parts[i].documents;
    }
    double seconds = seconds_now() - began;
    if (!bulk->options->quiet && seconds > QUIET_SECONDS && progress_due())
        progress_show(false, "%s read, %.1f M tokens, %.1f MB/s",
                      quantity((double)bulk->result.bytes, "B").text,
                      (double)bulk->result.tokens / 1e6,
                      (double)bulk->result.bytes / 1e6 / seconds);
    return save_state(bulk);
}

static bool write_token_file(Bulk *bulk) {
    double began = seconds_now();
    if (!bulk->options->resume) unlink(bulk->state);
    bool good = take_up(bulk) && open_target(bulk), more = true;
    while (good && more && !interrupt_signal()) good = one_batch(bulk, began, &more);
    progress_clear();
    if (good && more && !bulk->options->quiet)
        note_message("interrupted; run the same command with --resume to continue");
    bulk->result.seconds = seconds_now() - began;
    for (int i = 0; i < bulk->threads; i++)
        bulk->result.replaced += encoder_replaced(bulk->encoders[i]);
    if (good && !more) return finish_token_file(bulk);
    if (bulk->target >= 0 && !file_exists(bulk->state))
        unlink(bulk->partial); /* it cannot be resumed */
    return false;
}

static void release_parts(Bulk *bulk) {
    for (int i = 0; i < bulk->part_capacity; i++) {
        free(bulk->parts[i].bytes);
        tokens_free(&bulk->parts[i].tokens);
    }
    for (int i = 0; i < bulk->threads; i++) encoder_free(bulk->encoders[i]);
    if (bulk->descriptor >= 0) close(bulk->descriptor);
    if (bulk->target >= 0) close(bulk->target);
    free(bulk->parts);
    free(bulk->encoders);
    free(bulk->out);
    free(bulk->partial);
    free(bulk->state);
}

static int threads_of(const BulkOptions *options) {
    long threads = options->threads ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
    return threads < 1 ? 1 : threads > 256 ? 256 : (int)threads;
}

bool bulk_tokenize(const Tokenizer *tokenizer, const char *const *paths, int count,
                   const BulkOptions *options, const char *out, BulkResult *result) {
    Bulk bulk = {.tokenizer = tokenizer,
                 .options = options,
                 .paths = paths,
                 .path_count = count,
                 .threads = threads_of(options),
                 .part_bytes = options->part ? options->part : PART_BYTES,
                 .descriptor = -1,
                 .target = -1,
                 .out = memory_format("%s", out),
                 .partial = memory_format("%s.partial", out),
                 .state = memory_format("%s.partial.json", out),
                 .width = options->width                         ? options->width
                          : tokenizer_size(tokenizer) <= 1 << 16 ? 2
                                                                 : 4};
    bulk.encoders = memory_new(sizeof *bulk.encoders * (size_t)bulk.threads);
    for (int i = 0; i < bulk.threads; i++) bulk.encoders[i] = encoder_new(tokenizer);
    bulk.part_capacity = PARTS_PER_THREAD * bulk.threads;
    bulk.parts = memory_new(sizeof *bulk.parts * (size_t)bulk.part_capacity);
    bool good = write_token_file(&bulk);
    *result = bulk.result;
    release_parts(&bulk);
    return good;
}
