#include "tools/experiment/experiment.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Frees the text. last: the message suggests the next command. */
static bool write_result_file(const char *folder, const char *name, char *text, bool last) {
    char *path = path_join(folder, name);
    bool good = file_write(path, text, strlen(text));
    if (good) written_message(path, last ? "moec report %s" : NULL, folder);
    free(path);
    free(text);
    return good;
}

bool table_write(const Plan *plan) {
    Gathering gathering;
    bool good = gather(&gathering, &plan->out, 1);
    if (good) {
        json_t *all = comparison_json(&gathering, -1, false),
               *lasting = comparison_json(&gathering, -1, true);
        char *text = comparison_text(all);
        if (!plan->result) printf("\n%s\n", text);
        if (plan->result) json_object_set(plan->result, "comparison", all);
        free(text);
        good =
            write_result_file(plan->out, "table.json",
                              json_write(lasting, JSON_INDENT(2) | JSON_REAL_PRECISION(9)), false);
        good = write_result_file(plan->out, "table.csv", comparison_csv(lasting), true) && good;
        json_decref(all);
        json_decref(lasting);
    }
    gathering_free(&gathering);
    return good;
}
