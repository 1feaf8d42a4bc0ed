/* passes: the passes over the form of a kernel between its lowering and its text. */
#include "loop/form.h"

#include <string.h>

const FormPass form_passes[] = {
    {"parallel", parallel}, {"owners", owners},     {"shared", shared_rows}, {"licm", hoist},
    {"cse", name_common},   {"vectors", vectors},   {"unroll", unroll},      {"guards", guards},
    {"rolled", rolled},     {"barriers", barriers}, {"unused", unused},
};

const int form_pass_count = sizeof form_passes / sizeof *form_passes;

void form_pass(Arena *arena, const List *forms, const char *name, const Target *target) {
    for (int i = 0; i < form_pass_count; i++)
        for (int j = 0; j < forms->count && strcmp(form_passes[i].name, name) == 0; j++)
            form_passes[i].run(arena, forms->items[j], target);
}
