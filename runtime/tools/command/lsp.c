/* lsp: moec lsp, the language server for editors. */
#include "tools/command/line/commands.h"
#include "tools/lsp/server.h"

#include <unistd.h>

int command_lsp(const Command *command, int argc, char **argv) {
    bool stdio = true;
    const Option table[] = {
        {OPTION_FLAG, "--stdio", NULL, &stdio, "stdin and stdout as the connection (the default)"},
        {.kind = OPTION_END},
    };
    int code = arguments_read(command, table, argc, argv, NULL);
    if (code >= 0) return code;
    Server server = {.wire = {.in = STDIN_FILENO, .out = STDOUT_FILENO}};
    return server_run(&server);
}
