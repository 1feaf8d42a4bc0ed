/* report: moec report: an HTML file about several runs. */
#include "tools/report/report.h"

#include "abi/json_make.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "tools/command/line/commands.h"
#include "training/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Opens the file with $BROWSER, else xdg-open. */
static bool open_page(const char *path) {
    const char *browser = getenv("BROWSER");
    AUTO_FREE char *absolute = realpath(path, NULL);
    fflush(NULL);
    pid_t process = absolute ? fork() : -1;
    if (process == 0) {
        execlp(browser && *browser ? browser : "xdg-open", "open", absolute, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    bool good = process > 0 && waitpid(process, &status, 0) == process && status == 0;
    return good ||
           error_message("open it in a browser, or set BROWSER", "no program opens %s", path);
}

typedef struct ReportOptions {
    const char *base, *out;
    bool opens, force, json;
} ReportOptions;

static void print_report_path(const Gathering *gathering, int base, const char *path) {
    int runs = 0;
    for (int i = 0; i < gathering->count; i++) runs += gathering->groups[i].count;
    json_result_written(path, json_make("{s:s, s:i, s:i, s:s}", "experiment", gathering->experiment,
                                        "models", gathering->count, "runs", runs, "baseline",
                                        gathering->groups[base < 0 ? 0 : base].name));
}

static bool report(const TextList *folders, const ReportOptions *options) {
    const char *base = options->base, *out = options->out;
    AUTO(Gathering) gathering;
    AUTO_FREE char *path =
        out ? memory_format("%s", out) : path_join(folders->items[0], "report.html");
    bool good = gather(&gathering, folders->items, folders->count);
    int number = good && base ? gathering_find(&gathering, base) : -1;
    good = good && (!base || number >= 0);
    if (good) {
        json_auto_t *data = report_json(&gathering, number);
        good = report_write(path, data);
        if (good) written_message(path, options->opens ? NULL : "xdg-open %s", path);
        if (good && options->json) print_report_path(&gathering, number, path);
        if (good && options->opens) good = open_page(path);
    }
    return good;
}

int command_report(const Command *command, int argc, char **argv) {
    ReportOptions options = {0};
    TextList folders = {0};
    const Option table[] = {
        {OPTION_TEXT, "--out", "FILE", &options.out,
         "HTML file, - for stdout (default: report.html in the first directory)"},
        {OPTION_FLAG, "--force", NULL, &options.force, "replacement of an existing file"},
        {OPTION_TEXT, "--baseline", "NAME", &options.base,
         "model to compare with (default: the first one)"},
        {OPTION_FLAG, "--open", NULL, &options.opens, "the report in a browser"},
        {OPTION_FLAG, "--json", NULL, &options.json, "path, size and number of runs as JSON"},
    };
    int code = arguments_read_all(command, OPTIONS(table), argc, argv, &folders);
    if (code >= 0) return code;
    if ((code = json_result_check(command, options.json, options.out)) >= 0) return code;
    if (options.out && !spec_may_write(options.out, options.force)) return EXIT_INPUT;
    return report(&folders, &options) ? 0 : EXIT_INPUT;
}
