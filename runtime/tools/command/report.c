/* report: moec report: an HTML file about several runs. */
#include "tools/report/report.h"

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
    char *absolute = realpath(path, NULL);
    fflush(NULL);
    pid_t process = absolute ? fork() : -1;
    if (process == 0) {
        execlp(browser && *browser ? browser : "xdg-open", "open", absolute, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    bool good = process > 0 && waitpid(process, &status, 0) == process && status == 0;
    free(absolute);
    return good ||
           error_message("open it in a browser, or set BROWSER", "no program opens %s", path);
}

static bool report(const TextList *folders, const char *base, const char *out, bool opens) {
    Gathering gathering;
    char *path = out ? memory_format("%s", out) : path_join(folders->items[0], "report.html");
    bool good = gather(&gathering, folders->items, folders->count);
    int number = good && base ? gathering_find(&gathering, base) : -1;
    good = good && (!base || number >= 0);
    if (good) {
        json_t *data = report_json(&gathering, number);
        good = report_write(path, data);
        json_decref(data);
        if (good) written_message(path, opens ? NULL : "xdg-open %s", path);
        if (good && opens) good = open_page(path);
    }
    gathering_free(&gathering);
    free(path);
    return good;
}

int command_report(const Command *command, int argc, char **argv) {
    const char *base = NULL, *out = NULL;
    bool opens = false, force = false;
    TextList folders = {0};
    const Option table[] = {
        {OPTION_TEXT, "--out", "FILE", &out,
         "HTML file, - for stdout (default: report.html in the first directory)"},
        {OPTION_FLAG, "--force", NULL, &force, "replacement of an existing file"},
        {OPTION_TEXT, "--baseline", "NAME", &base,
         "model to compare with (default: the first one)"},
        {OPTION_FLAG, "--open", NULL, &opens, "the report in a browser"},
        {.kind = OPTION_END},
    };
    int code = arguments_read_all(command, table, argc, argv, &folders);
    if (code >= 0) return code;
    if (out && !spec_may_write(out, force)) return EXIT_INPUT;
    return report(&folders, base, out, opens) ? 0 : EXIT_INPUT;
}
