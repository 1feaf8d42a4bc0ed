/* reference: moec reference: CLI.md, man pages and the queries of shell completion, from the tables
 * of commands, flags and environment variables. */
#include "base/memory.h"
#include "base/build.h"
#include "tools/command/line/commands.h"
#include "tools/command/line/arguments.h"
#include "training/spec.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- CLI.md ---- */

/* Text of a table cell: '|' and '<' are escaped. */
static void print_cell(const char *text) {
    for (; *text; text++) {
        if (strchr("|<*", *text)) putchar('\\');
        putchar(*text);
    }
}

static void print_code(const char *text) {
    putchar('`');
    for (; *text; text++) {
        if (*text == '|') putchar('\\');
        putchar(*text);
    }
    putchar('`');
}

static void print_option_row(const Option *option) {
    AUTO_FREE char *flag = help_flag(option);
    printf("| ");
    print_code(flag + strspn(flag, " "));
    printf(" | ");
    print_cell(option->help);
    printf(" |\n");
}

/* Common options are described once, before the commands. */
static bool is_common(const Option *option) {
    return option->kind == OPTION_GROUP && !strcmp(option->name, "common options");
}

static void print_common(const Command *command, const Option *options, void *data) {
    (void)command, (void)data;
    while (!is_common(options)) options++;
    printf("| flag | meaning |\n|---|---|\n");
    for (options++; options->kind != OPTION_END; options++) print_option_row(options);
    printf("\n");
}

static void print_section(const Command *command, const Option *options, void *data) {
    (void)data;
    printf("### moec %s\n\n%s\n\n```text\nmoec %s %s\n```\n", command->name, command->summary,
           command->name, command->forms);
    bool any = false;
    for (; options->kind != OPTION_END && !is_common(options); options++) {
        if (options->kind == OPTION_GROUP) {
            printf("\n| %s | |\n|---|---|\n", options->name);
            any = true;
            continue;
        }
        if (!any) printf("\n| flag | meaning |\n|---|---|\n");
        any = true;
        print_option_row(options);
    }
    printf("\n```sh\nmoec %s\nmoec %s\n```\n", command->examples[0], command->examples[1]);
    if (command->failure) printf("\nExit code 1: %s.\n", command->failure);
    printf("\n");
}

static void print_groups(const Command *commands, int count) {
    printf("| group | commands |\n|---|---|\n");
    for (int i = 0; i < count && commands[i].group; i++) {
        bool first = !i || strcmp(commands[i].group, commands[i - 1].group) != 0;
        if (first) printf("%s| %s |", i ? " |\n" : "", commands[i].group);
        printf(" [`%s`](#moec-%s)", commands[i].name, commands[i].name);
    }
    printf(" |\n\n");
}

static void print_operands(void) {
    static const char *const names[] = {"SPEC", "RUN", "DATA", "INPUT"};
    printf("| argument | meaning |\n|---|---|\n");
    for (int i = 0; i < 4; i++) printf("| `%s` | %s |\n", names[i], help_operand(names[i]));
    printf("\n");
}

static void print_environment(void) {
    int count;
    const EnvironmentVariable *variables = environment_variables(&count);
    printf("## Environment variables\n\n| variable | meaning |\n|---|---|\n");
    for (int i = 0; i < count; i++)
        printf("| `%s` | %s |\n", variables[i].name, variables[i].meaning);
    printf("\n");
}

static void print_settings(void) {
    int count;
    const FlagSetting *settings = flag_settings(&count);
    printf("## Precedence of settings\n\n"
           "A flag overrides `--set`, `--set` overrides the spec, a later `--set` overrides an "
           "earlier one.\n"
           "[EXPERIMENTS.md](../stdlib/EXPERIMENTS.md#precedence-of-settings) has the complete "
           "table.\n"
           "These flags set options of the spec:\n\n| flag | option |\n|---|---|\n");
    for (int i = 0; i < count; i++) printf("| `%s` | `%s` |\n", settings[i].name, settings[i].path);
    printf("\n");
}

static int print_cli(CommandList all) {
    const Command *commands = all.rows;
    const int count = all.count;
    printf("# Command line\n\n"
           "`moec COMMAND --help` prints the section of a command. `moec completion bash` prints "
           "shell completion.\n"
           "The source of this page is `runtime/tools/command/line/`; `moec reference cli` writes "
           "it.\n"
           "Results go to stdout. Progress, notes and errors go to stderr.\n\n## Commands\n\n");
    print_groups(commands, count);
    print_operands();
    printf("A path `-` reads stdin (specs, data, prompts, questions) or writes "
           "stdout (`-o -` for a file, not for a directory).\n\n"
           "## Flags of every command\n\n");
    arguments_describe(commands, print_common, NULL);
    for (int i = 0; i < count && commands[i].group; i++) {
        if (!i || strcmp(commands[i].group, commands[i - 1].group))
            printf("## %s\n\n", commands[i].group);
        arguments_describe(&commands[i], print_section, NULL);
    }
    printf("## Exit codes\n\n| code | meaning |\n|---|---|\n| 0 | success |\n"
           "| 1 | invalid input, failed verification or diverged training |\n| 2 | usage error |\n"
           "| 130, 143 | SIGINT, SIGTERM; `moec train` writes a checkpoint first. `moec serve` "
           "returns 0 |\n\n");
    print_environment();
    print_settings();
    printf("Next: [guides](../examples/guides/README.md).\n");
    return 0;
}

/* ---- man pages ---- */

/* Escapes '-' and '\', and a control character at the start of a line. */
static void print_roff(const char *text) {
    if (*text == '.' || *text == '\'') printf("\\&");
    for (; *text; text++) {
        if (*text == '`') continue;
        if (*text == '-')
            printf("\\-");
        else if (*text == '\\')
            printf("\\e");
        else
            putchar(*text);
    }
}

static void print_roff_pair(const char *left, const char *right) {
    printf(".TP\n.B ");
    print_roff(left);
    printf("\n");
    print_roff(right);
    printf("\n");
}

static void print_title(const char *name, const char *summary) {
    printf(".TH ");
    for (const char *at = name; *at; at++) putchar(toupper((unsigned char)*at));
    printf(" 1 \"\" \"moec %s\" \"User Commands\"\n.SH NAME\n", MOEC_VERSION);
    print_roff(name);
    printf(" \\- ");
    print_roff(summary);
    printf("\n");
}

static void print_page(const Command *command, const Option *options, void *data) {
    (void)data;
    AUTO_FREE char *name = memory_format("moec-%s", command->name),
                   *codes = help_exit_codes(command);
    char names[OPERAND_LIMIT][OPERAND_BYTES];
    int count = help_operands(command, names);
    print_title(name, command->summary);
    printf(".SH SYNOPSIS\n.B moec %s\n", command->name);
    print_roff(command->forms);
    printf("\n");
    if (count) printf(".SH ARGUMENTS\n");
    for (int i = 0; i < count; i++) print_roff_pair(names[i], help_operand(names[i]));
    printf(".SH OPTIONS\n");
    for (; options->kind != OPTION_END; options++) {
        if (options->kind == OPTION_GROUP) {
            printf(".SS %s\n", options->name);
            continue;
        }
        AUTO_FREE char *flag = help_flag(options);
        print_roff_pair(flag + strspn(flag, " "), options->help);
    }
    printf(".SH EXAMPLES\n.nf\n");
    for (int i = 0; i < 2; i++) {
        printf("moec ");
        print_roff(command->examples[i]);
        printf("\n");
    }
    printf(".fi\n.SH EXIT STATUS\n");
    print_roff(codes);
    printf("\n.SH SEE ALSO\n.BR moec (1)\n");
}

static int print_overview_page(CommandList all) {
    int variable_count;
    const EnvironmentVariable *variables = environment_variables(&variable_count);
    print_title("moec", "compiler and runtime for sequence models");
    printf(".SH SYNOPSIS\n.B moec\n.I COMMAND\n[options]\n.SH COMMANDS\n");
    for (int i = 0; i < all.count && all.rows[i].group; i++) {
        AUTO_FREE char *page = memory_format("moec-%s(1)", all.rows[i].name);
        print_roff_pair(page, all.rows[i].summary);
    }
    printf(".SH EXIT STATUS\n0 success; 1 invalid input, failed verification or diverged training; "
           "2 usage error; 130 or 143 after SIGINT or SIGTERM\n.SH ENVIRONMENT\n");
    for (int i = 0; i < variable_count; i++)
        print_roff_pair(variables[i].name, variables[i].meaning);
    return 0;
}

/* ---- queries of shell completion ---- */

static void print_names(const char *const *names, int count) {
    for (int i = 0; i < count; i++) puts(names[i]);
}

/* Models and experiments of a file. */
static int print_models(const char *file) {
    const TextList sets = {0};
    AUTO(MoecCompiler) *compiler = spec_open_quietly(file, &sets);
    int count;
    if (!compiler) return EXIT_INPUT;
    const char *const *models = moec_models(compiler, &count);
    print_names(models, count);
    const char *const *experiments = moec_experiments(compiler, &count);
    print_names(experiments, count);
    return 0;
}

/* Paths of the options of a model. */
static int print_page_options(const char *operand) {
    const TextList sets = {0};
    AUTO(MoecCompiler) *compiler = spec_open_quietly(operand, &sets);
    const char *text = compiler && !moec_failed(compiler) ? moec_options_json(compiler) : NULL;
    json_t *options = json_loads(text ? text : "{}", 0, NULL), *value;
    const char *path;
    json_object_foreach(options, path, value) puts(path);
    json_decref(options);
    return text ? 0 : EXIT_INPUT;
}

/* "train --val --val-data": each old flag of a command, for tests. */
static void print_old_flags(const Command *command, const Option *options, void *data) {
    int count;
    const RenamedFlag *renamed = flags_renamed(&count);
    (void)data;
    for (int i = 0; i < count; i++) {
        if (flag_renamed(command->name, renamed[i].old) != &renamed[i]) continue;
        for (const Option *option = options; option->kind != OPTION_END; option++)
            if (option->kind != OPTION_GROUP && !strcmp(option->name, renamed[i].name))
                printf("%s %s %s\n", command->name, renamed[i].old, renamed[i].name);
    }
}

static int print_old_names(CommandList all) {
    for (int i = 0; i < all.count; i++) arguments_describe(&all.rows[i], print_old_flags, NULL);
    return 0;
}

static const Command *find_command(CommandList all, const char *name) {
    for (int i = 0; i < all.count; i++)
        if (!strcmp(all.rows[i].name, name)) return &all.rows[i];
    return NULL;
}

int command_reference(const Command *command, CommandList all, int argc, char **argv) {
    TextList operands = {0};
    int code = arguments_read_all(command, NULL, 0, argc, argv, &operands);
    if (code >= 0) return code;
    const char *form = operands.items[0], *name = operands.count > 1 ? operands.items[1] : NULL;
    const Command *page = name ? find_command(all, name) : NULL;
    if (!strcmp(form, "cli")) return print_cli(all);
    if (!strcmp(form, "renamed")) return print_old_names(all);
    if (!strcmp(form, "man") && !name) return print_overview_page(all);
    if (!strcmp(form, "man") && page) {
        arguments_describe(page, print_page, NULL);
        return 0;
    }
    if (!strcmp(form, "models") && name) return print_models(name);
    if (!strcmp(form, "options") && name) return print_page_options(name);
    return arguments_wrong(command, NULL, "unknown reference '%s'", form);
}
