/* A printer in the syntax of Metal, as for a machine whose kernels receive numbered buffers: every kernel of models/tiny.moe, in
 * training and decoding. With a C++ compiler, its syntax is checked: the words of Metal become macros. Runs in the root of the
 * project. */
#include "../opencl/opencl.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the printer ---- */

static const PrintStyle metal = {.function = "kernel void",
                                 .seed = "constant ulong &moec_seed",
                                 .memory = "device ",
                                 .alone = "",
                                 .address = "",
                                 .begin = "",
                                 .seed_begin = "",
                                 .number = "constant ",
                                 .number_end = "&",
                                 .binding = " [[buffer(",
                                 .binding_end = ")]]",
                                 .further = "uint moec_item [[thread_position_in_threadgroup]], uint moec_group "
                                            "[[threadgroup_position_in_grid]], uint moec_items "
                                            "[[threads_per_threadgroup]], uint moec_groups [[threadgroups_per_grid]]"};

/* Operations of compiler/ir/op.def, and those of loops. */
static const char prelude[] = "#include <metal_stdlib>\n"
                              "#define get_local_id(d) ((long)moec_item)\n"
                              "#define get_local_size(d) ((long)moec_items)\n"
                              "#define get_global_id(d) ((long)moec_group * moec_items + moec_item)\n"
                              "#define get_global_size(d) ((long)moec_groups * moec_items)\n"
                              "#define __shared__ threadgroup\n"
                              "#define MOEC_OMP(...)\n"
                              "#define double float\n"
                              "#define moec_math(name) name\n"
                              "#define moec_barrier() threadgroup_barrier(mem_flags::mem_device)\n";

static const char *print_metal(Arena *arena, const Module *module) {
    Text text = {.arena = arena};
    text_add(&text, "%s", prelude);
    print_sizes(&text, &module->sizes, true);
    print_functions(&text, &(const PrintContext){module, &metal, NULL}, &module->device, NULL, NULL);
    return text.text;
}

/* ---- the text ---- */

/* Buffers are numbered from 0 on, and every parameter of the kernel has one. */
static void check_kernel(Arena *arena, const char *text, const LoopKernel *kernel) {
    const char *head = strstr(text, arena_format(arena, "kernel void %s(", kernel->form.name));
    if (!head) fail_msg("no kernel %s", kernel->form.name);
    const char *end = strchr(head, '{'), *at = head;
    for (int i = 0; i < kernel->params.count; i++) {
        at = strstr(at, arena_format(arena, "[[buffer(%d)]]", i));
        assert_non_null(at);
        assert_true(at < end);
    }
    assert_null(strstr(head, "long moec_seed ="));
}

/* Words of Metal for a C++ compiler. A call that is no function of the prelude gets any number. */
static const char words[] = "#include <cstdint>\n#include <cmath>\nusing namespace std;\n#define kernel\n#define device\n#define constant const\n"
                            "#define threadgroup static\n#define threadgroup_barrier(flags) ((void)0)\n"
                            "typedef unsigned uint;\ntypedef unsigned long ulong;\n"
                            "template <class... T> float moec_any(T...) { return 0; }\n";

/* Declares the functions of the kernels that the text calls: moec_exp(...). */
static void declare_called(Text *all, const char *text) {
    char name[64];
    List known = {0};
    for (const char *at = text; (at = strstr(at, "moec_")); at += 5) {
        const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");
        bool again = length >= sizeof name || at[length] != '(' || !strncmp(at, "moec_barrier", 12) ||
                     !strncmp(at, "moec_math", 9);
        for (int i = 0; i < known.count && !again; i++)
            again = strlen(known.items[i]) == length && !strncmp(known.items[i], at, length);
        if (again) continue;
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        list_push(all->arena, &known, arena_format(all->arena, "%s", name));
        text_add(all, "#define %s moec_any\n", name);
    }
}

static void check_syntax(Arena *arena, const char *text) {
    Text all = {.arena = arena};
    char folder[] = "/tmp/moec-test-metal-XXXXXX";
    const char *compiler = getenv("CXX") ? getenv("CXX") : "c++";
    if (system(arena_format(arena, "command -v %s >/dev/null", compiler))) return;
    assert_non_null(mkdtemp(folder));
    text_add(&all, "%s", words);
    declare_called(&all, text);
    text_add(&all, "%s", strchr(text, '\n'));
    const char *path = arena_format(arena, "%s/kernels.cpp", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(all.text, file) >= 0 && !fclose(file));
    const int status =
        system(arena_format(arena, "%s -std=c++17 -fsyntax-only -Wno-attributes %s", compiler, path));
    unlink(path);
    rmdir(folder);
    assert_int_equal(status, 0);
}

/* ---- models ---- */

static int printed;

/* with_syntax: each check starts a C++ compiler. */
static void print_model(const char *model, MoecGraph graph, bool with_syntax) {
    MoecCompiler *compiler = moec_open("models/tiny.moe", model, NULL, 0, NULL);
    if (moec_failed(compiler)) fail_msg("%s", moec_reports(compiler));
    moec_unit(compiler)->target = &target_opencl;
    MoecProgram *program = moec_compile(compiler, graph, 0, 0, graph == MOEC_DECODE);
    if (!program && graph == MOEC_DECODE) { /* expert choice compares all positions */
        moec_close(compiler);
        return;
    }
    if (!program) fail_msg("%s", moec_reports(compiler));
    Arena *arena = arena_new();
    const Module *module = shared_module(arena, moec_schedule(compiler, program));
    const char *text = print_metal(arena, module);
    assert_true(module->kernels.count > 0);
    for (int i = 0; i < module->kernels.count; i++) check_kernel(arena, text, module->kernels.items[i]);
    if (with_syntax) check_syntax(arena, text);
    printed += module->kernels.count;
    arena_free(arena);
    moec_close(compiler);
}

static void test_all(void **state) {
    (void)state;
    int count;
    MoecCompiler *declarations = moec_open("models/tiny.moe", NULL, NULL, 0, NULL);
    const char *const *models = moec_models(declarations, &count);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        print_model(models[i], MOEC_TRAIN, i == 0);
        print_model(models[i], MOEC_DECODE, i == 0);
    }
    printf("%d kernels of %d models\n", printed, count);
    moec_close(declarations);
}

/* A tensor with the name of a keyword of the target gets another name. */
static void test_keywords(void **state) {
    (void)state;
    Arena *arena = arena_new();
    const Around around = {.keywords = target_opencl.keywords};
    assert_string_equal(free_name(arena, &around, "half"), "half_2");
    assert_string_equal(free_name(arena, &around, "halves"), "halves");
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_keywords)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
