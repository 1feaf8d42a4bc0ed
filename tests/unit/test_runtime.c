/* test_runtime: files, tensors, data, order, sampling and public names of the runtime. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/cuda/cuda.h"
#include "data/data.h"
#include "base/memory.h"
#include "data/mixture.h"
#include "training/checkpoint.h"
#include "model/model.h"
#include "data/random.h"
#include "training/record.h"
#include "data/safetensors.h"
#include "model/generate/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/moec-test-XXXXXX";
static char path[64];

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder) || !freopen("/dev/null", "w", stderr)) return 1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_bytes(const void *bytes, size_t length) {
    assert_true(file_write(path, bytes, length));
}

/* Writes two tensors and a metadata entry to `path`. */
static void write_sample(void) {
    static const float values[] = {1, 2, 3, 4, 5, 6};
    char first[] = "a.b", second[] = "c";
    const TensorEntry entries[] = {
        {.name = first,
         .number = NUMBER_F32,
         .rank = 2,
         .shape = {2, 3},
         .bytes = 24,
         .data = values},
        {.name = second, .number = NUMBER_F32, .rank = 0, .bytes = 4, .data = values + 5},
    };
    json_t *notes = json_pack("{s:s}", "spec", "model m = \"\xc3\xa4\"\n");
    assert_true(safetensors_write(path, entries, 2, notes));
    json_decref(notes);
}

static void tensors_come_back(void **state) {
    (void)state;
    write_sample();
    Safetensors *file = safetensors_open(path);
    assert_non_null(file);
    assert_int_equal(file->count, 2);
    assert_string_equal(safetensors_note(file, "spec"), "model m = \"\xc3\xa4\"\n");
    const TensorEntry *entry = safetensors_find(file, "a.b");
    assert_non_null(entry);
    assert_int_equal(entry->shape[1], 3);
    float values[6];
    assert_true(safetensors_floats(file, entry, values, 6));
    assert_true(values[0] == 1 && values[5] == 6);
    assert_false(safetensors_floats(file, entry, values, 5));
    assert_null(safetensors_find(file, "b"));
    safetensors_close(file);
}

/* Every file that is truncated or has one changed byte is rejected; no such file may crash the reader. */
static void damaged_tensors_are_refused(void **state) {
    (void)state;
    write_sample();
    Mapping whole;
    assert_true(file_map(path, NULL, &whole));
    unsigned char bytes[1024];
    size_t length = whole.length;
    assert_true(length < sizeof bytes);
    memcpy(bytes, whole.bytes, length);
    file_unmap(&whole);
    for (size_t i = 0; i < length; i++) {
        write_bytes(bytes, i);
        assert_null(safetensors_open(path));
    }
    int accepted = 0;
    for (size_t i = 0; i < length; i++) {
        bytes[i] ^= 1;
        write_bytes(bytes, length);
        Safetensors *file = safetensors_open(path);
        accepted += file != NULL;
        safetensors_close(file);
        bytes[i] ^= 1;
    }
    /* Renaming "checksum" makes a file without a checksum, which is allowed. */
    assert_true(accepted <= (int)strlen("checksum"));
}

static void hostile_headers_are_refused(void **state) {
    (void)state;
    static const char *const headers[] = {
        "",
        "[]",
        "{\"a\":{}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,400]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":["
        "0,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0.0,4.0]}}",
        "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":3}",
    };
    static const int lengths[] = {0, 4, 8};
    for (size_t i = 0; i < 3 * sizeof headers / sizeof headers[0]; i++) {
        const char *header = headers[i / 3];
        unsigned char bytes[512] = {(unsigned char)strlen(header)};
        memcpy(bytes + 8, header, strlen(header));
        write_bytes(bytes, 8 + strlen(header) + (size_t)lengths[i % 3]);
        assert_null(safetensors_open(path));
    }
}

/* The metadata of a checkpoint with one entry replaced, or removed if the value is NULL. */
static bool place_with(const char *name, const char *value, TrainState *place) {
    json_t *notes =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "format", "moec", "version",
                  "0.1.0", "model", "m", "spec", "moec-bundle 1\nmodel m\n", "step", "7", "seed",
                  "18446744073709551615", "position", "112", "tokens", "5000", "best_loss", "1.25");
    if (value)
        json_object_set_new(notes, name, json_string(value));
    else
        json_object_del(notes, name);
    assert_true(safetensors_write(path, NULL, 0, notes));
    json_decref(notes);
    Safetensors *file = safetensors_open(path);
    assert_non_null(file);
    bool ok = checkpoint_place(file, place);
    safetensors_close(file);
    return ok;
}

static void hostile_notes_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"step",   "seed",    "position", "tokens", "best_loss",
                                        "format", "version", "model",    "spec"};
    static const char *const values[] = {NULL,
                                         "",
                                         "x",
                                         "nan",
                                         "-1",
                                         " 7",
                                         "7 ",
                                         "+7",
                                         "0x7",
                                         "007",
                                         "7.5",
                                         "99999999999999999999",
                                         "-9223372036854775808",
                                         "-inf",
                                         "1e999",
                                         "m\nm"};
    TrainState place = {0};
    assert_true(place_with("step", "7", &place));
    assert_true(place.step == 7 && place.position == 112 && place.tokens == 5000);
    assert_true(place.seed == UINT64_MAX && place.best == 1.25);
    assert_true(place_with("best_loss", "inf", &place) && isinf(place.best));
    assert_true(place_with("best_loss", "-3e-7", &place));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
            const char *value = values[j];
            bool number = value && !strcmp(names[i], "best_loss") &&
                          (!strcmp(value, "-1") || !strcmp(value, "007") || !strcmp(value, "7.5") ||
                           !strncmp(value, "9999", 4) || !strncmp(value, "-92", 3));
            if (place_with(names[i], value, &place) != number)
                fail_msg("note %s: '%s'", names[i], value ? value : "none");
        }
    assert_false(place_with("step", "1099511627777", &place));
    assert_false(place_with("model", "mm", &place));
    assert_false(place_with("version", "0.1", &place));
    assert_false(place_with("version", "0.1.0.2", &place));
}

static void put_word(unsigned char *bytes, uint32_t value) {
    for (int i = 0; i < 4; i++) bytes[i] = (unsigned char)(value >> (8 * i));
}

static void data_is_text_or_tokens(void **state) {
    (void)state;
    write_bytes("hello, world", 12);
    Data *data = data_open(path, 256);
    assert_non_null(data);
    assert_true(data->bytes && data->count == 12);
    int32_t tokens[4];
    assert_true(data_read(data, 7, 4, tokens));
    assert_int_equal(tokens[0], 'w');
    data_close(data);
    assert_null(data_open(path, 100));

    unsigned char bytes[1024 + 6] = {0};
    put_word(bytes, 20240520);
    put_word(bytes + 4, 1);
    put_word(bytes + 8, 3);
    bytes[1024] = 7, bytes[1027] = 1, bytes[1028] = 9;
    write_bytes(bytes, sizeof bytes);
    data = data_open(path, 300);
    assert_non_null(data);
    assert_true(!data->bytes && data_read(data, 0, 3, tokens));
    assert_true(tokens[0] == 7 && tokens[1] == 256 && tokens[2] == 9);
    data_close(data);
    assert_null(data_open(path, 256));
    write_bytes(bytes, sizeof bytes - 1);
    assert_null(data_open(path, 300));
    write_bytes("", 0);
    assert_null(data_open(path, 256));
}

/* An epoch visits disjoint samples within the data, each once; the next epoch has another order. */
static void order_covers_an_epoch(void **state) {
    (void)state;
    for (uint64_t count = 9; count < 400; count += 13) {
        Order order = {.seed = count, .count = count, .context = 8};
        uint64_t windows = order_epoch(&order);
        char *seen = memory_new(count);
        for (uint64_t i = 0; i < windows; i++) {
            uint64_t start = order_start(&order, i);
            assert_true(start + 9 <= count);
            for (uint64_t j = 0; j < 8; j++) assert_false(seen[start + j]++);
        }
        free(seen);
    }
    Order order = {.seed = 1, .count = 10000, .context = 8};
    int same = 0;
    for (uint64_t i = 0; i < 100; i++)
        same += order_start(&order, i) == order_start(&order, i + order_epoch(&order));
    assert_true(same < 10);
}

/* A period has the samples of each source in its share; a source visits its own in their order. */
static void mixture_has_its_shares(void **state) {
    (void)state;
    const double weights[] = {6, 3, 0.999, 0.001};
    const uint64_t quotas[] = {600, 300, 99, 1};
    Mixture mixture = {.count = 4, .seed = 5};
    int32_t token;
    mixture_share(&mixture, weights);
    for (int i = 0; i < 4; i++) {
        DataSource *source = &mixture.sources[i];
        assert_int_equal(source->quota, quotas[i]);
        source->data = memory_new(sizeof *source->data);
        *source->data = (Data){.count = 700, .record = 1, .words = memory_new(700 * sizeof token)};
        source->order = (Order){.seed = (uint64_t)i, .count = 700, .record = 1};
        for (int j = 0; j < 700; j++) source->data->words[j] = 1000 * i + j;
    }
    uint64_t seen[4] = {0};
    for (uint64_t sample = 0; sample < 2 * MIXTURE_PERIOD; sample++) {
        assert_true(mixture_sample(&mixture, sample, 0, 1, &token));
        seen[token / 1000]++;
        if (sample == 99) assert_in_range(seen[0], 45, 75); /* shuffled */
        if (sample == MIXTURE_PERIOD - 1)
            for (int i = 0; i < 4; i++) assert_int_equal(seen[i], quotas[i]);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(seen[i], 2 * quotas[i]);
    mixture_close(&mixture);
    assert_true(mixture_read(&mixture, "no/a=1,no/b=3"));
    assert_string_equal(mixture.sources[1].path, "no/b");
    assert_int_equal(mixture.sources[1].quota, 750);
    mixture_close(&mixture);
    assert_false(mixture_read(&mixture, "no/a=1,no/b"));
    mixture_close(&mixture);
}

static void permutation_is_one(void **state) {
    (void)state;
    for (uint64_t count = 1; count < 70; count++) {
        uint64_t seen = 0;
        for (uint64_t i = 0; i < count && count < 64; i++)
            seen |= (uint64_t)1 << random_permuted(3, i, count);
        assert_true(count >= 64 || seen == ((uint64_t)1 << count) - 1);
    }
}

static void normal_numbers_are_normal(void **state) {
    (void)state;
    double sum = 0, squares = 0;
    int count = 100000;
    for (int i = 0; i < count; i++) {
        double x = random_normal(42, (uint64_t)i);
        double radius = sqrt(-2 * log(1 - random_uniform(42, 2 * (uint64_t)i))),
               angle = 6.283185307179586 * random_uniform(42, 2 * (uint64_t)i + 1);
        assert_true(fabs(x - radius * cos(angle)) < 1e-14);
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / count) < 0.02 && fabs(squares / count - 1) < 0.02);
    double many[37];
    random_normals(42, 5, 37, many);
    for (int i = 0; i < 37; i++) assert_true(many[i] == random_normal(42, (uint64_t)(5 + i)));
}

static void sampling_keeps_to_its_limits(void **state) {
    (void)state;
    const float logits[] = {0, 3, 3, 1, -1};
    Sampling sampling = {.temperature = 0, .top_p = 1};
    assert_int_equal(sample_token(&sampling, logits, 5, 0), 1);
    sampling.temperature = 1;
    sampling.top_k = 2;
    int counts[5] = {0};
    for (uint64_t i = 0; i < 2000; i++) counts[sample_token(&sampling, logits, 5, i)]++;
    assert_true(counts[0] == 0 && counts[3] == 0 && counts[4] == 0 &&
                abs(counts[1] - counts[2]) < 200);
    sampling.top_k = 0;
    sampling.top_p = 0.3;
    for (uint64_t i = 0; i < 100; i++) assert_int_equal(sample_token(&sampling, logits, 5, i), 1);
}

static void logits_are_adjusted_by_what_was_said(void **state) {
    (void)state;
    const float logits[] = {1, 2, -1, 0, 3}, *adjusted;
    const int32_t tokens[] = {4, 2, 1, 1};
    const Said said = {tokens, 4, 2};
    const TokenBias bias = {3, 5};
    float changed[5];
    Sampling sampling = {.repetition = 1};
    assert_ptr_equal(sample_adjust(&sampling, logits, changed, 5, &said), logits);
    sampling = (Sampling){.repetition = 2, .biases = &bias, .bias_count = 1};
    sampling.presence = 0.5;
    sampling.frequency = 0.25;
    adjusted = sample_adjust(&sampling, logits, changed, 5, &said);
    const float expected[] = {1, 0, -2, 5, 1.5f};
    assert_ptr_equal(adjusted, changed);
    for (int i = 0; i < 5; i++) assert_true(adjusted[i] == expected[i]);
}

static void stacked_tensors_are_named_by_step(void **state) {
    (void)state;
    const MoecTensor tensors[] = {
        {.name = "embedding", .axes = "vocab,dim", .rank = 2, .shape = {5, 4}},
        {.name = "block.{2*i+1}.up",
         .axes = "block,dim",
         .offset = 128,
         .rank = 2,
         .shape = {3, 4}},
        {.name = "block.{i}.scale", .axes = "block", .offset = 256, .rank = 1, .shape = {2}},
    };
    int count;
    PublicTensor *list = public_tensors(tensors, 3, &count);
    assert_int_equal(count, 6);
    assert_string_equal(list[0].name, "embedding");
    assert_string_equal(list[1].name, "block.1.up");
    assert_string_equal(list[3].name, "block.5.up");
    assert_string_equal(list[3].axes, "dim");
    assert_int_equal(list[3].offset, 128 + 2 * 16);
    assert_string_equal(list[5].name, "block.1.scale");
    assert_string_equal(list[5].axes, "");
    assert_int_equal(list[5].rank, 0);
    public_free(list, count);
}

/* A run that resumes from step 2 removes later lines and a truncated line. */
static void record_is_shortened(void **state) {
    (void)state;
    static const char text[] = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"st";
    write_bytes(text, strlen(text));
    RunLog record;
    assert_true(record_open(&record, path, 2));
    assert_true(record_write(&record, json_pack("{s:i}", "step", 3)));
    RunLog other;
    assert_false(record_open(&other, path, 2));
    record_close(&record);
    Mapping mapping;
    assert_true(file_map(path, NULL, &mapping));
    assert_int_equal(mapping.length, 33);
    assert_memory_equal(mapping.bytes, text, 33);
    file_unmap(&mapping);
}

static void failed_writing_leaves_the_old(void **state) {
    (void)state;
    write_bytes("old", 3);
    Aside aside;
    assert_true(aside_open(&aside, path, true));
    aside_write(&aside, "new", 3);
    aside.failed = 28; /* ENOSPC */
    assert_false(aside_close(&aside));
    Mapping mapping;
    assert_true(file_map(path, NULL, &mapping));
    assert_memory_equal(mapping.bytes, "old", 3);
    file_unmap(&mapping);
}

/* Each part has the common text and its own kernels; together they have every required kernel. */
static void kernels_come_in_parts(void **state) {
    (void)state;
    static const MoecPiece pieces[] = {{MOEC_EVERY_KERNEL, 5, false},
                                       {0, 8, false},
                                       {MOEC_EVERY_KERNEL, 12, false},
                                       {1, 15, false},
                                       {1, 19, false},
                                       {2, 22, false},
                                       {MOEC_EVERY_KERNEL, 26, false}};
    const MoecKernels kernels = {"head\none"
                                 "size"
                                 "two"
                                 "two_"
                                 "six"
                                 "tail",
                                 pieces, 7};
    const bool all[7] = {[1] = true, [3] = true, [4] = true, [5] = true},
               some[7] = {[3] = true, [5] = true};
    assert_int_equal(cuda_kernels(&kernels, all), 4);
    assert_int_equal(cuda_kernels(&kernels, some), 2);
    char *first = cuda_part(&kernels, all, 0, 2), *second = cuda_part(&kernels, all, 1, 2);
    char *few = cuda_part(&kernels, some, 0, 1);
    assert_string_equal(first, "head\nonesizetwo_tail");
    assert_string_equal(second, "head\nsizetwosixtail");
    assert_string_equal(few, "head\nsizetwosixtail");
    free(first);
    free(second);
    free(few);
}

/* A reserved block uses the memory of the accessed pages, also in huge pages. */
static void reserved_memory_is_used_by_access(void **state) {
    (void)state;
    const size_t room = memory_of_machine() + ((size_t)1 << 32), used = (size_t)32 << 20,
                 slack = used / 4;
    unsigned char *block = memory_reserve(room);
    assert_non_null(block);
    assert_null(memory_map(room));
    const size_t before = memory_resident();
    memset(block, 1, used);
    for (size_t i = 1; i <= 64; i++) block[used + (i << 22)] = 2; /* no huge page is complete */
    memory_join_pages(block, room);
    assert_in_range(memory_resident() - before, used, used + slack);
    for (size_t i = 0; i < used; i += 4099) assert_int_equal(block[i], 1);
    assert_int_equal(block[used + (1 << 22)], 2);
    memory_release(block, room);
    assert_true(memory_resident() < before + slack);
    memory_unmap(block, room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserved_memory_is_used_by_access),
        cmocka_unit_test(tensors_come_back),
        cmocka_unit_test(kernels_come_in_parts),
        cmocka_unit_test(damaged_tensors_are_refused),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(data_is_text_or_tokens),
        cmocka_unit_test(order_covers_an_epoch),
        cmocka_unit_test(mixture_has_its_shares),
        cmocka_unit_test(permutation_is_one),
        cmocka_unit_test(normal_numbers_are_normal),
        cmocka_unit_test(sampling_keeps_to_its_limits),
        cmocka_unit_test(logits_are_adjusted_by_what_was_said),
        cmocka_unit_test(stacked_tensors_are_named_by_step),
        cmocka_unit_test(hostile_notes_are_refused),
        cmocka_unit_test(record_is_shortened),
        cmocka_unit_test(failed_writing_leaves_the_old),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
