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
    output_text(output, "{");
    output_scale(output, group->scale);
    output_text(output, ", {");
    for (int i = 0; i < MOEC_GROUP; i++) {
        snprintf(text, sizeof text, "%s%d", i ? "," : "", group->steps[i]);
        output_text(output, text);
    }
    output_text(output, "}},\n");
}

/* Rows of MOEC_PANEL numbers of so many bytes, as initializers of arrays. */
static void output_rows(Output *output, const void *numbers, size_t bytes, int rows) {
    const unsigned char *from = numbers;
    char text[32];
    for (int i = 0; i < rows * MOEC_PANEL; i++, from += bytes) {
        uint32_t number = 0;
        for (size_t j = 0; j < bytes; j++) number |= (uint32_t)from[j] << 8 * j;
        snprintf(text, sizeof text, "%s0x%0*xu",
                 i % MOEC_PANEL ? ","
                 : i            ? "},\n{"
                                : "{",
                 (int)bytes * 2, number);
        output_text(output, text);
    }
    output_text(output, "}");
}

/* Part number `at` of a panel, as the initializer of its structure. */
static void output_part(Output *output, const void *parts, size_t at, MoecType type) {
    const void *codes;
    output_text(output, "{");
    if (type == MOEC_TERNARY) {
        const MoecTernary *part = (const MoecTernary *)parts + at;
        for (int i = 0; i < MOEC_PANEL; i++) {
            output_text(output, i ? "," : "{");
            output_scale(output, part->scale[i]);
        }
        output_text(output, "}");
        codes = part->steps;
    } else if (type == MOEC_INT4) {
        const MoecInt4 *part = (const MoecInt4 *)parts + at;
        output_rows(output, part->scale, sizeof *part->scale, 1);
        codes = part->steps;
    } else if (type == MOEC_MXFP4) {
        const MoecMxfp4 *part = (const MoecMxfp4 *)parts + at;
        output_rows(output, part->scale, 1, 1);
        codes = part->codes;
    } else if (type == MOEC_NVFP4) {
        const MoecNvfp4 *part = (const MoecNvfp4 *)parts + at;
        output_rows(output, part->scale, 1, 1);
        output_text(output, ", {");
        output_rows(output, part->factor, 1, 2);
        output_text(output, "}");
        codes = part->codes;
    } else {
        const MoecFp8 *part = (const MoecFp8 *)parts + at;
        output_rows(output, part->scale, 1, 1);
        codes = part->codes;
    }
    const bool bytes = type == MOEC_FP8 || type == MOEC_MXFP8;
    output_text(output, ", {");
    output_rows(output, codes, bytes ? 1 : 4, bytes ? MOEC_PANEL_DEPTH : MOEC_PANEL_DEPTH / 8);
    output_text(output, "}},\n");
}

/* ---- tensors ---- */

static void put_floats(Output *output, const float *from, const MoecStored *stored) {
    for (size_t i = 0; i < stored->elements; i++) output_float(output, from[i]);
    for (size_t i = stored->elements; i % 16; i++) output_float(output, 0);
}

/* Elements of a copy, of `bytes` bytes. */
static void put_copy(Output *output, const void *copy, const MoecStored *stored, size_t bytes) {
    for (size_t i = 0; i < stored->elements; i++)
        if (stored->type == MOEC_BF16)
            output_half(output, ((const uint16_t *)copy)[i]);
        else if (!output->text)
            output_bytes(output, (const char *)copy + i * bytes, bytes);
        else if (stored->type == MOEC_INT8)
            output_group(output, (const MoecGroup *)copy + i);
        else
            output_part(output, copy, i, stored->type);
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

/* All tensors of a type. rounded: the weights of the others than MOEC_F32; bytes: of an element. */
static void put_all(Output *output, const FreestandingFolder *folder, const void *rounded, int type,
                    size_t bytes) {
    const MoecFreestanding *program = folder->program;
    for (int i = 0; i < program->stored_count; i++) {
        const MoecStored *stored = &program->stored[i];
        if (stored->type != type) continue;
        begin(output, stored);
        if (type == MOEC_F32)
            put_floats(output, stored_numbers(folder->model, stored), stored);
        else
            put_copy(output, stored_copy(folder->model->table, rounded, stored), stored, bytes);
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
        put_all(output, folder, rounded, program->copies[i].type, program->copies[i].bytes);
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
        put_all(&output, folder, NULL, MOEC_F32, sizeof(float));
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
            put_all(&output, folder, NULL, MOEC_F32, sizeof(float));
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
