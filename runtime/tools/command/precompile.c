/* precompile: moec precompile: compiles the kernels for this machine in advance. */
#include "tools/command/line/commands.h"
#include "model/module.h"

#include <stddef.h>

int command_precompile(const Command *command, int argc, char **argv) {
    const char *folder;
    const Option table[] = {{.kind = OPTION_END}};
    int code = arguments_read(command, table, argc, argv, &folder);
    if (code >= 0) return code;
    return module_prepare(folder) ? 0 : EXIT_INPUT;
}
