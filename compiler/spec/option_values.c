/* option_values: the options of a model by their paths, under current or former names, because a
 * checkpoint may hold an older standard library. */
#include "spec/compiler.h"

#include "elaborate/elaborate.h"

#include <string.h>

static const Setting *setting_at(const MoecCompiler *compiler, const char *path) {
    return list_named(&compiler->settings, offsetof(Setting, path), path);
}

/* ---- settings under other names, as in a checkpoint with an older library ---- */

static bool has_group(const MoecCompiler *compiler, const char *path) {
    size_t length = strlen(path);
    for (int i = 0; i < compiler->settings.count; i++) {
        const char *one = ((const Setting *)compiler->settings.items[i])->path;
        if (!strncmp(one, path, length) && one[length] == '.') return true;
    }
    return false;
}

/* Former names of `name`, and names of options that were called so. */
static List other_names(MoecCompiler *compiler, const char *name) {
    List names = {0};
    const List *declared = &standard_unit(compiler->unit)->declared;
    for (int i = 0; i < declared->count; i++) {
        const Node *body = layer_body(declared->items[i]);
        for (int j = 0; j < body->count; j++) {
            const Node *option = body->kids[j], *aliases = option->aliases;
            for (int a = 0; option->kind == NODE_OPTION && aliases && a < aliases->count; a++) {
                const Node *alias = aliases->kids[a];
                if (alias->number == 1 || alias->count) continue;
                if (!strcmp(option->name, name))
                    list_push(compiler->arena, &names, (void *)alias->name);
                if (!strcmp(alias->name, name))
                    list_push(compiler->arena, &names, (void *)option->name);
            }
        }
    }
    return names;
}

/* `done` is known, `rest` has to be found below it. */
static const Setting *setting_below(MoecCompiler *compiler, const char *done, const char *rest) {
    size_t length = strcspn(rest, ".");
    const char *head = arena_copy(compiler->arena, rest, length);
    List names = other_names(compiler, head);
    for (int i = -1; i < names.count; i++) {
        const char *name = i < 0 ? head : names.items[i];
        const char *path = *done ? arena_format(compiler->arena, "%s.%s", done, name) : name;
        const Setting *found = !rest[length] ? setting_at(compiler, path)
                               : has_group(compiler, path)
                                   ? setting_below(compiler, path, rest + length + 1)
                                   : NULL;
        if (found) return found;
    }
    return NULL;
}

const Setting *find_setting(MoecCompiler *compiler, const char *path) {
    const Setting *setting = setting_at(compiler, path);
    if (setting || !compiler->unit || !compiler->settings.count) return setting;
    const char *dot = strrchr(path, '.');
    List names = other_names(compiler, dot ? dot + 1 : path);
    for (int i = 0; i < names.count && !setting; i++) /* it was in another group */
        if (strchr(names.items[i], '.')) setting = setting_at(compiler, names.items[i]);
    if (setting) return setting;
    return setting_below(compiler, "", path);
}

const char *moec_option(MoecCompiler *compiler, const char *path) {
    const Setting *setting = find_setting(compiler, path);
    return setting ? setting->text : NULL;
}

bool moec_option_real(MoecCompiler *compiler, const char *path) {
    const Setting *setting = find_setting(compiler, path);
    return setting && setting->real;
}

double moec_option_number(MoecCompiler *compiler, const char *path, double otherwise) {
    const Setting *setting = find_setting(compiler, path);
    return setting && setting->kind == VALUE_NUMBER ? setting->number : otherwise;
}

/* ---- comparison ---- */

/* Whether an option of this name had the value `old` for `now`. */
static bool value_was(Unit *unit, const char *name, const char *old, const char *now) {
    const List *declared = &standard_unit(unit)->declared;
    for (int i = 0; i < declared->count; i++) {
        const Node *option = option_called(declared->items[i], name);
        const Node *alias = option ? alias_find(option, old, false) : NULL;
        if (alias && alias->count && !strcmp(alias->kids[0]->name, now)) return true;
    }
    return false;
}

static const char *last_part(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Of layers, only the names are compared. Their options are settings, too. */
bool same_value(Unit *unit, const Setting *one, const Setting *other) {
    const char *text = one->text;
    size_t length = strcspn(text, " {");
    if (one->kind == VALUE_OTHER && *text != '[' && length == strcspn(other->text, " {"))
        return !strncmp(text, other->text, length);
    return !strcmp(text, other->text) || value_was(unit, last_part(one->path), other->text, text) ||
           value_was(unit, last_part(other->path), text, other->text);
}

bool moec_rounded(MoecCompiler *compiler) {
    const char *precision = moec_option(compiler, "train.precision");
    return precision && strcmp(precision, "f32") != 0;
}

bool moec_rounded_coarsely(MoecCompiler *compiler) {
    const OperandFormats *formats = operand_formats_find(moec_option(compiler, "train.precision"));
    return formats && operand_formats_are_coarse(formats);
}
