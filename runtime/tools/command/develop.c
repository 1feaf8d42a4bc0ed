/* develop: moec lsp, the language server for editors; moec precompile, which compiles the kernels
 * for this machine in advance. */
#include "model/model.h"
#include "tools/command/line/commands.h"
#include "tools/lsp/server.h"

#include <unistd.h>

int command_lsp(const Command *command, int argc, char **argv) {
    bool stdio = true;
    const Option table[] = {
        {OPTION_FLAG, "--stdio", NULL, &stdio, "stdin and stdout as the connection (the default)"},
    };
    int code = arguments_read(command, OPTIONS(table), argc, argv, NULL);
    if (code >= 0) return code;
    Server server = {.wire = {.in = STDIN_FILENO, .out = STDOUT_FILENO}};
    return server_run(&server);
}

int command_precompile(const Command *command, int argc, char **argv) {
    const char *folder;
    int code = arguments_read(command, NULL, 0, argc, argv, &folder);
    if (code >= 0) return code;
    return module_prepare(folder) ? 0 : EXIT_INPUT;
}
