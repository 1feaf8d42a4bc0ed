/* log: moec log: the log of a run for other tools. */
#include "command/commands.h"
#include "experiment/csv.h"
#include "experiment/history.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "" where there is nothing, "nan" of what is no finite number. */
static void write_number(double number) {
    if (isnan(number)) return;
    if (isfinite(number))
        printf("%.9g", number);
    else
        printf("nan");
}

/* The last column names the value that was no finite number when a run diverged. */
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

int command_log(int argc, char **argv) {
    const Command *command = command_row("log");
    const char *folder;
    bool csv = false;
    const Option table[] = {
        {OPTION_FLAG, "--csv", NULL, &csv, "comma separated, one line a step, with a head"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, &folder);
    if (code >= 0) return code;
    if (!csv) return arguments_wrong(command, NULL, "moec log needs --csv");
    History history;
    if (!history_open(&history, folder, true)) return EXIT_INPUT;
    write_csv(&history);
    history_free(&history);
    return 0;
}
