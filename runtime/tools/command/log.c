/* log: moec log: the log of a run as CSV or JSON. */
#include "abi/json_make.h"
#include "tools/command/line/commands.h"
#include "tools/experiment/experiment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Empty for a missing value, "nan" for a value that is not finite. */
static void write_number(double number) {
    if (isnan(number)) return;
    if (isfinite(number))
        printf("%.9g", number);
    else
        printf("nan");
}

/* The last column names the value that was not finite when the run diverged. */
static void write_csv(const History *history) {
    for (int i = 0; i < history->columns; i++) {
        if (i) putchar(',');
        csv_text(stdout, history->names[i]);
    }
    printf(",diverged\n");
    for (long row = 0; row < history->rows; row++) {
        for (int i = 0; i < history->columns; i++) {
            if (i) putchar(',');
            write_number(history->values[i][row]);
        }
        bool last = row == history->rows - 1;
        putchar(',');
        csv_text(stdout, last && history->diverged ? history->diverged : "");
        putchar('\n');
    }
}

/* Values that are not finite are null. */
static void write_json(const History *history) {
    for (long row = 0; row < history->rows; row++) {
        json_auto_t *line = json_object();
        for (int i = 0; i < history->columns; i++) {
            const double value = history->values[i][row];
            bool step = !strcmp(history->names[i], "step");
            if (!isnan(value))
                json_object_set_new(line, history->names[i],
                                    step ? json_integer((json_int_t)value) : json_number(value));
        }
        if (history->diverged && row == history->rows - 1)
            json_object_set_new(line, "diverged", json_text(history->diverged));
        json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        putchar('\n');
    }
}

int command_log(const Command *command, int argc, char **argv) {
    const char *folder;
    bool csv = false, json = false;
    const Option table[] = {
        {OPTION_FLAG, "--csv", NULL, &csv, "CSV with a header, one line per step (the default)"},
        {OPTION_FLAG, "--json", NULL, &json, "JSON object per line"},
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, &folder);
    if (code >= 0) return code;
    if (csv && json)
        return arguments_wrong(command, "omit one of them", "--csv and --json exclude each other");
    AUTO(History) history;
    if (!history_open(&history, folder, true)) return EXIT_INPUT;
    (json ? write_json : write_csv)(&history);
    return 0;
}
