/* Layouts without files: the models of models/published.moe become the config.json of their
 * families and then specs again, with the same options. Every third model, or all with "all". */
#include "moec.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char path[] = "models/published.moe";

/* Family of each model, in file order, and the number of layers that covers all kinds. */
static const struct {
    const char *model, *layout, *layers;
} rows[] = {
    {"llama_3_1_8b", "llama", "layers=2"},
    {"mistral_7b", "mistral", "layers=2"},
    {"mixtral_8x7b", "mixtral", "layers=2"},
    {"phi_3_mini", "phi3", "layers=2"},
    {"qwen_2_5_7b", "qwen2", "layers=2"},
    {"qwen3_8b", "qwen3", "layers=2"},
    {"qwen3_0_6b", "qwen3", "layers=2"},
    {"qwen3_30b_a3b", "qwen3_moe", "layers=2"},
    {"qwen3_next_80b_a3b", "qwen3_next", "layers=4"},
    {"olmo_2_7b", "olmo2", "layers=2"},
    {"olmoe_1b_7b", "olmoe", "layers=2"},
    {"gemma_2b", "gemma", "layers=2"},
    {"gemma_2_2b", "gemma2", "layers=2"},
    {"gemma_3_1b", "gemma3_text", "layers=6"},
    {"gpt_oss_20b", "gpt_oss", "layers=2"},
    {"gpt_oss_120b", "gpt_oss", "layers=2"},
    {"deepseek_v3", "deepseek_v3", "layers=4"},
    {"gpt_neox_20b", "gpt_neox", "layers=2"},
};

enum { ROWS = sizeof rows / sizeof *rows };

/* Records may state a default value; the options inside are listed, too. The inputs of a given RoPE
 * magnitude are not compared. */
static bool says_nothing(const char *key, const json_t *value) {
    return strchr(json_string_value(value), '{') || strstr(key, "rotary.mscale_all");
}

static bool same_options(const char *model, const char *before, const char *after) {
    json_t *one = json_loads(before, 0, NULL), *other = json_loads(after, 0, NULL), *value;
    const char *key;
    int differences = json_object_size(one) != json_object_size(other);
    json_object_foreach(one, key, value) {
        const json_t *found = json_object_get(other, key);
        if (json_equal(value, found) || says_nothing(key, value)) continue;
        print_error("%s: %s = %s, and %s after import\n", model, key, json_string_value(value),
                    found ? json_string_value(found) : "nothing");
        differences++;
    }
    json_decref(one);
    json_decref(other);
    return !differences;
}

static void there_and_back(MoecCompiler *layouts, const char *model, const char *layout,
                           const char *layers) {
    MoecCompiler *compiler = moec_open(path, model, &layers, 1, NULL);
    int count, other_count = 0;
    const char *const *others;
    if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
    const MoecPair *pairs = moec_layout_pairs(layouts, layout, compiler, &count);
    if (!pairs) fail_msg("%s: %s", model, moec_reports(layouts));
    assert_string_equal(moec_layout_of(layouts, pairs, count), layout);
    const char *spec =
        moec_layout_spec(layouts, layout, model, pairs, count, &others, &other_count);
    if (!spec) fail_msg("%s: %s", model, moec_reports(layouts));
    assert_int_equal(other_count, 0);
    const MoecDocument document = {"imported.moe", spec, strlen(spec)};
    MoecCompiler *imported = moec_open_document(&document, 1, model, NULL);
    if (moec_failed(imported)) fail_msg("%s: %s%s", model, moec_reports(imported), spec);
    if (!same_options(model, moec_options_json(compiler), moec_options_json(imported)))
        fail_msg("%s has other options: %s", model, spec);
    moec_close(imported);
    moec_close(compiler);
}

static int step = 3;

static void test_published(void **state) {
    (void)state;
    MoecCompiler *file = moec_open(path, NULL, NULL, 0, NULL);
    int count;
    const char *const *models = moec_models(file, &count);
    assert_int_equal(count, ROWS);
    for (int i = 0; i < ROWS; i++) assert_string_equal(models[i], rows[i].model);
    for (int i = 0; i < ROWS; i += step) {
        MoecCompiler *layouts = moec_open_layouts(NULL, NULL);
        there_and_back(layouts, rows[i].model, rows[i].layout, rows[i].layers);
        moec_close(layouts);
    }
    moec_close(file);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "all") == 0) step = 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
