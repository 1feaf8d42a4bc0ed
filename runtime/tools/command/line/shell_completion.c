/* shell_completion: moec completion: completion scripts of bash, zsh and fish from the tables of
 * commands. Option paths after --set and models after ':' are queried from `moec reference`. */
#include "tools/command/line/commands.h"
#include "tools/command/line/arguments.h"

#include <stdio.h>
#include <string.h>

/* The values of an option in a script. */
typedef enum Values { VALUES_NONE, VALUES_LIST, VALUES_FILE, VALUES_SET, VALUES_FREE } Values;

static Values values_of(const Option *option) {
    static const char *const files[] = {"FILE", "DATA", "RUN", "DIR"};
    if (option->kind == OPTION_FLAG) return VALUES_NONE;
    if (strchr(option->argument, '|')) return VALUES_LIST;
    if (!strcmp(option->name, "--set")) return VALUES_SET;
    for (int i = 0; i < 4; i++)
        if (!strcmp(option->argument, files[i])) return VALUES_FILE;
    return VALUES_FREE;
}

/* "a|b|c" as "a b c". */
static void print_list(const char *argument) {
    for (; *argument; argument++) putchar(*argument == '|' ? ' ' : *argument);
}

static void print_commands(CommandList all) {
    for (int i = 0; i < all.count && all.rows[i].group; i++) printf("%s ", all.rows[i].name);
    printf("help version");
}

typedef void Each(const Command *command, const Option *options, void *data);

static void each_command(CommandList all, Each *each) {
    for (int i = 0; i < all.count && all.rows[i].group; i++)
        arguments_describe(&all.rows[i], each, NULL);
}

/* ---- bash and zsh ---- */

/* "    train) flags='--data -d ...' ;;" */
static void print_flags(const Command *command, const Option *options, void *data) {
    (void)data;
    printf("    %s) flags='", command->name);
    for (; options->kind != OPTION_END; options++) {
        if (options->kind == OPTION_GROUP) continue;
        const char letter = flag_letter(options->name);
        printf("%s ", options->name);
        if (letter) printf("-%c ", letter);
    }
    printf("' ;;\n");
}

/* "    'dump --mode') values='forward train' ;;" for options with a list; `values=` is empty for
 * other values that are not files. */
static void print_values(const Command *command, const Option *options, void *data) {
    (void)data;
    for (; options->kind != OPTION_END; options++) {
        if (options->kind == OPTION_GROUP) continue;
        const Values kind = values_of(options);
        if (kind != VALUES_LIST && kind != VALUES_FREE) continue;
        const char letter = flag_letter(options->name);
        printf("    '%s %s'", command->name, options->name);
        if (letter) printf("|'%s -%c'", command->name, letter);
        printf(") kind=list values='");
        if (kind == VALUES_LIST) print_list(options->argument);
        printf("' ;;\n");
    }
}

/* The part that bash and zsh share: sets `flags`, `kind` and `values` from `command`, `previous`,
 * and the array `words`, whose first element is moec. */
static void print_tables(CommandList all) {
    printf("_moec_tables() {\n"
           "    flags= values= kind=file spec=\n"
           "    case $command in\n");
    each_command(all, print_flags);
    printf("    help) kind=list values='");
    print_commands(all);
    printf("' ;;\n"
           "    esac\n"
           "    [ \"$command\" = completion ] && kind=list values='bash zsh fish'\n"
           "    case \"$command $previous\" in\n");
    each_command(all, print_values);
    printf("    *' --set')\n"
           "        kind=set\n"
           "        for spec in \"${words[@]}\"; do\n"
           "            case $spec in *.moe | *.moe:*) break ;; esac\n"
           "            [ -d \"$spec\" ] && break\n"
           "        done\n"
           "        values=$(moec reference options \"$spec\" 2>/dev/null | sed 's/$/=/')\n"
           "        ;;\n"
           "    *)\n"
           "        case $word in\n"
           "        -*) kind=list values=$flags ;;\n"
           "        *.moe:*) kind=model values=$(moec reference models \"${word%%:*}\" "
           "2>/dev/null) ;;\n"
           "        esac ;;\n"
           "    esac\n"
           "}\n\n");
}

static void print_bash(CommandList all) {
    printf("# Completion of moec for bash, written by `moec completion bash`.\n\n");
    print_tables(all);
    printf("_moec() {\n"
           "    local line=${COMP_LINE:0:COMP_POINT} word previous command flags values kind spec\n"
           "    local -a words\n"
           "    word=${line##*[[:space:]]}\n"
           "    read -ra words <<<\"${line%%\"$word\"}\"\n"
           "    command=${words[1]-}\n"
           "    previous=${words[${#words[@]} - 1]-}\n"
           "    COMPREPLY=()\n"
           "    if [ ${#words[@]} -le 1 ]; then\n"
           "        COMPREPLY=($(compgen -W '");
    print_commands(all);
    printf("' -- \"$word\"))\n"
           "        return\n"
           "    fi\n"
           "    _moec_tables\n"
           "    case $kind in\n"
           "    file)\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
           "        ;;\n"
           "    model) COMPREPLY=($(compgen -W \"$values\" -- \"${word##*:}\")) ;;\n"
           "    set)\n"
           "        compopt -o nospace 2>/dev/null\n"
           "        COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
           "        ;;\n"
           "    *) COMPREPLY=($(compgen -W \"$values\" -- \"$word\")) ;;\n"
           "    esac\n"
           "}\n\n"
           "complete -F _moec moec\n");
}

static void print_zsh(CommandList all) {
    printf("#compdef moec\n# Completion of moec for zsh, written by `moec completion zsh`.\n\n");
    print_tables(all);
    printf("_moec() {\n"
           "    local word=${words[CURRENT]} previous=${words[CURRENT-1]} command=${words[2]}\n"
           "    local flags values kind spec\n"
           "    if ((CURRENT == 2)); then\n"
           "        compadd -- ");
    print_commands(all);
    printf("\n"
           "        return\n"
           "    fi\n"
           "    _moec_tables\n"
           "    case $kind in\n"
           "    file) _files ;;\n"
           "    model) compadd -p \"${word%%:*}:\" -- ${=values} ;;\n"
           "    set) compadd -S '' -- ${=values} ;;\n"
           "    *) compadd -- ${=values} ;;\n"
           "    esac\n"
           "}\n\n"
           "_moec \"$@\"\n");
}

/* ---- fish ---- */

/* Text in single quotes. */
static void print_quoted(const char *text) {
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

static void print_fish_option(const Command *command, const Option *option) {
    const char letter = flag_letter(option->name);
    printf("complete -c moec -n '__fish_seen_subcommand_from %s' -l %s", command->name,
           option->name + 2);
    if (letter) printf(" -s %c", letter);
    switch (values_of(option)) {
    case VALUES_LIST:
        printf(" -xa '");
        print_list(option->argument);
        printf("'");
        break;
    case VALUES_FILE:
        printf(" -rF");
        break;
    case VALUES_SET:
        printf(" -xa '(__moec_options)'");
        break;
    case VALUES_FREE:
        printf(" -x");
        break;
    case VALUES_NONE:
        break;
    }
    printf(" -d ");
    print_quoted(option->help);
    printf("\n");
}

static void print_fish_command(const Command *command, const Option *options, void *data) {
    (void)data;
    printf("\ncomplete -c moec -f -n __fish_use_subcommand -a %s -d ", command->name);
    print_quoted(command->summary);
    printf("\n");
    for (; options->kind != OPTION_END; options++)
        if (options->kind != OPTION_GROUP) print_fish_option(command, options);
}

static void print_fish(CommandList all) {
    printf("# Completion of moec for fish, written by `moec completion fish`.\n\n"
           "function __moec_options\n"
           "    for word in (commandline -opc)\n"
           "        if string match -qr '\\.moe(:|$)' -- $word; or test -d $word\n"
           "            moec reference options $word 2>/dev/null | sed 's/$/=/'\n"
           "            return\n"
           "        end\n"
           "    end\n"
           "end\n\n"
           "function __moec_models\n"
           "    set -l file (string replace -r ':[^:]*$' '' -- (commandline -ct))\n"
           "    string match -q '*.moe' -- $file\n"
           "    and moec reference models $file 2>/dev/null | sed \"s|^|$file:|\"\n"
           "end\n\n"
           "complete -c moec -n 'not __fish_use_subcommand' -a '(__moec_models)'\n"
           "complete -c moec -n '__fish_seen_subcommand_from completion' -xa 'bash zsh fish'\n");
    each_command(all, print_fish_command);
}

int command_completion(const Command *command, CommandList all, int argc, char **argv) {
    const char *shell;
    int code = arguments_read(command, NULL, 0, argc, argv, &shell);
    if (code >= 0) return code;
    if (!strcmp(shell, "bash"))
        print_bash(all);
    else if (!strcmp(shell, "zsh"))
        print_zsh(all);
    else if (!strcmp(shell, "fish"))
        print_fish(all);
    else
        return arguments_wrong(command, "moec completion bash",
                               "moec completion expects bash, zsh or fish, got '%s'", shell);
    return 0;
}
