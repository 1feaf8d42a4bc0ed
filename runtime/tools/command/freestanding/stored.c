/* stored: the weights and layer states of a freestanding program, in the order of its memory, as
 * initializers or as bytes. */
#include "tools/command/freestanding/plain_folder.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file under construction. */
typedef struct Output {
    Aside aside;
    bool text;
    size_t in_line, bytes;
} Output;

static bool open_output(Output *output, const char *folder, const char *name, bool text) {
    AUTO_FREE char *path = path_join(folder, name);
    *output = (Output){.text = text};
    return aside_open(&output->aside, path, false);
}

static void output_text(Output *output, const char *text) {
    aside_write(&output->aside, text, strlen(text));
}

/* A value of an initializer, 8 in a line. */
static void output_value(Output *output, const char *value) {
    output_text(output, value);
    output_text(output, ++output->in_line % 8 ? " " : "\n");
}

static void output_bytes(Output *output, const void *bytes, size_t count) {
    aside_write(&output->aside, bytes, count);
    output->bytes += count;
}

static void begin(Output *output, const MoecStored *stored) {
    char text[320];
    if (!output->text) return;
    snprintf(text, sizeof text, "%s/* %s [%s] */\n", output->in_line % 8 ? "\n" : "", stored->name,
             stored->axes);
    output->in_line = 0;
    output_text(output, text);
}

/* ---- elements ---- */

static void output_float(Output *output, float value) {
    uint32_t bits;
    char text[32];
    memcpy(&bits, &value, sizeof bits);
    if (!output->text) {
        output_bytes(output, &bits, sizeof bits);
        return;
    }
    snprintf(text, sizeof text, "0x%08xu,", bits);
    output_value(output, text);
}

static void output_half(Output *output, uint16_t bits) {
    char text[32];
    if (!output->text) {
        output_bytes(output, &bits, sizeof bits);
        return;
    }
    snprintf(text, sizeof text, "{0x%04xu},", bits);
    output_value(output, text);
}

static void output_scale(Output *output, float scale) {
    char text[32];
    snprintf(text, sizeof text, "%.9gf", (double)scale);
    if (!strpbrk(text, ".e")) snprintf(text, sizeof text, "%.1ff", (double)scale);
    output_text(output, text);
}

static void output_group(Output *output, const MoecGroup *group) {
    char text[32];
    if (!output->text) {
        output_bytes(output, group, sizeof *group);
        return;
    }
    output_text(output, "{");
    output_scale(output, group->scale);
    output_text(output, ", {");
    for (int i = 0; i < MOEC_GROUP; i++) {
        snprintf(text, sizeof text, "%s%d", i ? "," : "", group->steps[i]);
        output_text(output, text);
    }
    output_text(output, "}},\n");
}

/* The words of a part of a panel, after its scales. */
static void output_words(Output *output, const uint32_t (*steps)[MOEC_PANEL], int words) {
    char text[32];
    output_text(output, "}, {");
    for (int w = 0; w < words; w++)
        for (int i = 0; i < MOEC_PANEL; i++) {
            snprintf(text, sizeof text, "%s0x%08xu", i ? "," : w ? "},\n{" : "{", steps[w][i]);
            output_text(output, text);
        }
    output_text(output, "}}},\n");
}

static void output_int4(Output *output, const MoecInt4 *part) {
    char text[32];
    if (!output->text) {
        output_bytes(output, part, sizeof *part);
        return;
    }
    output_text(output, "{{");
    for (int i = 0; i < MOEC_PANEL; i++) {
        snprintf(text, sizeof text, "%s0x%04xu", i ? "," : "", part->scale[i]);
        output_text(output, text);
    }
    output_words(output, part->steps, MOEC_PANEL_DEPTH / 8);
}

static void output_ternary(Output *output, const MoecTernary *part) {
    if (!output->text) {
        output_bytes(output, part, sizeof *part);
        return;
    }
    for (int i = 0; i < MOEC_PANEL; i++) {
        output_text(output, i ? "," : "{{");
        output_scale(output, part->scale[i]);
    }
    output_words(output, part->steps, MOEC_TERNARY_DEPTH / 16);
}

/* ---- tensors ---- */

static void put_floats(Output *output, const float *from, const MoecStored *stored) {
    for (size_t i = 0; i < stored->elements; i++) output_float(output, from[i]);
    for (size_t i = stored->elements; i % 16; i++) output_float(output, 0);
}

/* Elements of a copy. */
static void put_copy(Output *output, const void *copy, const MoecStored *stored) {
    const uint16_t *halves = copy;
    for (size_t i = 0; i < stored->elements; i++)
        if (stored->type == MOEC_INT4)
            output_int4(output, (const MoecInt4 *)copy + i);
        else if (stored->type == MOEC_TERNARY)
            output_ternary(output, (const MoecTernary *)copy + i);
        else if (stored->type == MOEC_INT8)
            output_group(output, (const MoecGroup *)copy + i);
        else
            output_half(output, halves[i]);
    for (size_t i = stored->elements; stored->type == MOEC_BF16 && i % 16; i++)
        output_half(output, 0);
}

/* The copy of a parameter in the rounded weights. */
static const void *stored_copy(const MoecTable *table, const void *rounded,
                               const MoecStored *stored) {
    int i = 0;
    while (table->packed[i].weights != stored->from * sizeof(float)) i++;
    return (const char *)rounded + table->packed[i].packed;
}

static const float *stored_numbers(const Model *model, const MoecStored *stored) {
    return (stored->is_state ? model->layer_states : model->weights) + stored->from;
}

static bool is_finite_tensor(const FreestandingFolder *folder, const MoecStored *stored) {
    const float *from = stored_numbers(folder->model, stored);
    for (size_t i = 0; i < stored->elements; i++)
        if (!isfinite(from[i]))
            return error_message("train again from an earlier checkpoint",
                                 "weight '%s' has a value that is not a number or infinite",
                                 stored->name);
    return true;
}

/* All tensors of a type. rounded: the weights of the others than MOEC_F32. */
static void put_all(Output *output, const FreestandingFolder *folder, const void *rounded,
                    int type) {
    const MoecFreestanding *program = folder->program;
    for (int i = 0; i < program->stored_count; i++) {
        const MoecStored *stored = &program->stored[i];
        if (stored->type != type) continue;
        begin(output, stored);
        if (type == MOEC_F32)
            put_floats(output, stored_numbers(folder->model, stored), stored);
        else
            put_copy(output, stored_copy(folder->model->table, rounded, stored), stored);
    }
}

/* The members of moec_rounded in their order. */
static void put_all_rounded(Output *output, const FreestandingFolder *folder, const void *rounded) {
    const MoecFreestanding *program = folder->program;
    bool before = false;
    for (int i = 0; i < MOEC_STORED_ARRAYS; i++) {
        if (!program->copies[i].elements) continue;
        if (before && output->text) output_text(output, "\n}, {\n");
        before = true;
        put_all(output, folder, rounded, program->copies[i].type);
    }
}

/* An array in a part of weights.bin. */
static void add_included_array(Text *text, const char *name, size_t from, size_t bytes) {
    AUTO_FREE char *lines = memory_format(
        "    .balign 16\n    .global %s\n%s:\n    .incbin \"weights.bin\", %zu, %zu\n", name, name,
        from, bytes);
    text_append(text, lines, strlen(lines));
}

/* The assembler's file: both arrays. */
static bool write_assembly(const FreestandingFolder *folder, size_t floats, size_t all) {
    static const char head[] =
        "/* The weights in read-only memory, for gcc and clang: MODEL_WEIGHTS_SECTION names "
        "another "
        "section. */\n"
        "#ifndef MODEL_WEIGHTS_SECTION\n#define MODEL_WEIGHTS_SECTION .rodata\n#endif\n"
        "    .section MODEL_WEIGHTS_SECTION, \"a\"\n";
    static const char tail[] = "#if defined(__linux__) && defined(__ELF__)\n"
                               "    .section .note.GNU-stack, \"\", %progbits\n#endif\n";
    AUTO(Text) text = {0};
    text_append(&text, head, strlen(head));
    add_included_array(&text, "moec_floats", 0, floats);
    if (all > floats) add_included_array(&text, "moec_rounded", floats, all - floats);
    text_append(&text, tail, strlen(tail));
    return folder_write(folder->out, "weights.S", text.bytes, text.length);
}

bool stored_check(const FreestandingFolder *folder) {
    for (int i = 0; i < folder->program->stored_count; i++)
        if (!is_finite_tensor(folder, &folder->program->stored[i])) return false;
    return true;
}

static bool write_stored(const FreestandingFolder *folder, const void *rounded) {
    Output output;
    if (folder->apart) {
        if (!open_output(&output, folder->out, "weights.bin", false)) return false;
        put_all(&output, folder, NULL, MOEC_F32);
        const size_t floats = output.bytes;
        put_all_rounded(&output, folder, rounded);
        return aside_close(&output.aside) && write_assembly(folder, floats, output.bytes);
    }
    for (int i = 0; i <= (rounded != NULL); i++) {
        if (!open_output(&output, folder->out, i ? "rounded.inc" : "weights.inc", true))
            return false;
        if (i)
            put_all_rounded(&output, folder, rounded);
        else
            put_all(&output, folder, NULL, MOEC_F32);
        if (!aside_close(&output.aside)) return false;
    }
    return true;
}

bool stored_write(const FreestandingFolder *folder) {
    const MoecTable *table = folder->model->table;
    AUTO_FREE void *rounded = NULL;
    if (freestanding_rounded_bytes(folder->program)) {
        rounded = memory_new(rounded_bytes(table));
        table->round(NULL, folder->model->weights, rounded);
    }
    return write_stored(folder, rounded);
}
