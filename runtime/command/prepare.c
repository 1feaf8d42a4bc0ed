/* prepare: moec prepare: the kernels compiled for this machine, before anybody waits for them. */
#include "command/commands.h"
#include "model/module.h"

#include <stddef.h>

int command_prepare(int argc, char **argv) {
    const Command *command = command_row("prepare");
    const char *folder;
    const Option table[] = {{.kind = OPTION_END}};
    int code = arguments_read(command, table, argc, argv, &folder);
    if (code >= 0) return code;
    return module_prepare(folder) ? 0 : EXIT_INPUT;
}
