/* list_tensors: moec tensors: the tensors of a safetensors file, a model directory or a run. */
#include "abi/json_make.h"
#include "abi/quantity.h"
#include "base/memory.h"
#include "tools/command/line/commands.h"
#include "data/shards.h"
#include "training/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Control characters in names are printed as question marks. */
static void print_tensor_name(const char *name, int width) {
    for (; *name; name++, width--)
        putchar((unsigned char)*name < ' ' || *name == 127 ? '?' : *name);
    printf("%*s", width > 0 ? width : 0, "");
}

static void print_tensor_row(const TensorEntry *entry, int width) {
    print_tensor_name(entry->name, width);
    printf("  %-5s [", safetensors_type(entry));
    for (int i = 0; i < entry->rank; i++) printf("%s%ld", i ? ", " : "", entry->shape[i]);
    printf("]  %zu\n", entry->bytes);
}

static json_t *entry_json(const TensorEntry *entry) {
    return json_make("{s:s, s:s, s:o, s:I}", "name", entry->name, "type", safetensors_type(entry),
                     "shape", json_integers(entry->shape, entry->rank), "bytes",
                     (json_int_t)entry->bytes);
}

static void print_tensors_json(const Shards *shards) {
    json_t *list = json_array();
    for (int i = 0; i < shards->count; i++)
        json_array_append_new(list, entry_json(shards->entries[i]));
    json_result_print(list);
}

static void print_table(const Shards *shards) {
    size_t width = 0;
    double bytes = 0, elements = 0;
    for (int i = 0; i < shards->count; i++) {
        const TensorEntry *entry = shards->entries[i];
        size_t length = strlen(entry->name);
        width = length > width ? length : width;
        double count = 1;
        for (int j = 0; j < entry->rank; j++) count *= (double)entry->shape[j];
        elements += count;
        bytes += (double)entry->bytes;
    }
    for (int i = 0; i < shards->count; i++) print_tensor_row(shards->entries[i], (int)width);
    printf("%d tensors, %.0f elements, %s\n", shards->count, elements, quantity(bytes, "B").text);
}

/* The checkpoint of a run, or the path itself: a new string. */
static char *tensor_path(const char *operand) {
    char *run = file_is_folder(operand) ? checkpoint_path(operand) : NULL;
    return run ? run : memory_format("%s", operand);
}

int command_tensors(const Command *command, int argc, char **argv) {
    const char *operand;
    bool json = false;
    const Option table[] = {
        {OPTION_FLAG, "--json", NULL, &json, "list of name, type, shape and bytes as JSON"},
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &operand);
    if (code >= 0) return code;
    AUTO_FREE char *path = tensor_path(operand);
    AUTO(Shards) *shards = shards_open(path);
    if (!shards) return EXIT_INPUT;
    if (json)
        print_tensors_json(shards);
    else
        print_table(shards);
    return 0;
}
