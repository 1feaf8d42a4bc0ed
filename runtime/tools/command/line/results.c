#include "tools/command/line/commands.h"

#include "abi/json_make.h"
#include "base/files.h"

#include <stdio.h>

void json_result_print(json_t *result) {
    json_dumpf(result, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(result);
}

void json_result_written(const char *path, json_t *others) {
    json_t *result =
        json_make("{s:o, s:I}", "path", json_escaped(path), "bytes", (json_int_t)file_bytes(path));
    json_object_update(result, others);
    json_decref(others);
    json_result_print(result);
}

int json_result_check(const Command *command, bool json, const char *out) {
    if (!json || !out || !file_is_standard(out)) return -1;
    return arguments_wrong(command, "choose a file for --out",
                           "--json and --out - exclude each other");
}

void pass_times_print(MoecCompiler *compiler) {
    int count;
    const MoecPassTime *times = moec_pass_times(compiler, &count);
    fprintf(stderr, "%-18s %6s %10s\n", "pass", "runs", "ms");
    for (int i = 0; i < count; i++)
        if (times[i].runs)
            fprintf(stderr, "%-18s %6d %10.2f\n", times[i].name, times[i].runs,
                    1e3 * times[i].seconds);
}
