/* print_update: the optimizer as text: the learning-rate factor, the settings of each group of
 * parameters, the step of one parameter or of all, and its entry of the table. */
#include "print/print.h"

/* ---- the learning rate ---- */

/* Its result is that of the last output. */
static void print_rate(Text *text, const Update *update) {
    const char *result = NULL;
    text_add(text, "/* Learning-rate factor at zero-based `step` of `steps`. */\n"
                   "static double update_rate(double step, double steps)\n{\n    (void)step, "
                   "(void)steps;\n");
    LIST_EACH(const UpdateArray, array, &update->rate_arrays) {
        if (array->tensor->role == ROLE_OUTPUT)
            print_format(text, 1, "float %s[1];", result = array->name);
        else
            print_format(text, 1, "const float %s[1] = {(float)%s};", array->name,
                         array->tensor->scalar == MOEC_SCALAR_SCHEDULE_STEP ? "step" : "steps");
    }
    print_block(text, &update->rate->form.block, 1);
    text_add(text, result ? "    return (double)%s[0];\n}\n\n" : "    return 1;\n}\n\n", result);
}

/* ---- inputs ---- */

static void print_group_settings(Text *text, const Update *update) {
    const List *scalars = &update->scalars;
    text_add(text, "/* Settings per parameter group:");
    for (int i = 0; i < scalars->count; i++)
        text_add(text, "%s %s", i ? "," : "", ((Tensor *)scalars->items[i])->path);
    text_add(text, ". */\nstatic const float update_own[] = {\n");
    for (int i = 0; i < update->groups; i++) {
        text_add(text, "   ");
        for (int j = 0; j < scalars->count; j++)
            text_add(text, " %.9g,", (double)update->settings[i * scalars->count + j]);
        text_add(text, "%s\n", scalars->count ? "" : " 0,");
    }
    text_add(text, "};\n\n");
}

static void print_state_names(Text *text, const char *array, const List *tensors) {
    if (!tensors->count) return;
    text_add(text, "static const char *const %s[] = {", array);
    for (int i = 0; i < tensors->count; i++)
        text_add(text, "%s%s", i ? ", " : "",
                 quoted(text->arena, ((Tensor *)tensors->items[i])->path));
    text_add(text, "};\n");
}

static void print_scalars(Text *text, const List *scalars) {
    if (!scalars->count) return;
    text_add(text, "static const MoecUpdateScalar update_scalars[] = {\n");
    LIST_EACH(const Tensor, scalar, scalars)
        text_add(text, "    {%s, %s},\n", scalar_text(scalar->scalar),
                 quoted(text->arena, scalar->path));
    text_add(text, "};\n");
}

static void print_arrays(Text *text, const Update *update, const char *rounded) {
    LIST_EACH(const UpdateArray, array, &update->arrays) {
        if (array->tensor->role == ROLE_INPUT)
            print_format(text, 1, "const float *const %s = scalars + %d;", array->name,
                         array->index);
        else if (array->tensor->role == ROLE_STATE)
            print_format(text, 1, "float *const %s = state[%d];", array->name, array->index);
        else
            print_format(text, 1, "MoecBf16 *const %s = %s;", array->name, rounded);
    }
}

/* ---- the step ---- */

/* Without line breaks. */
static void print_step_equations(Text *text, const List *statements) {
    for (int i = 0; i < statements->count; i++)
        text_add(text, "%s %s%s\n", i ? "  " : "/*",
                 equation_text(text->arena, statements->items[i]),
                 i == statements->count - 1 ? " */" : "");
}

/* Of one parameter, for the host. */
static void print_run_update(Text *text, const Update *update) {
    print_step_equations(text, &update->statements);
    text_add(text, "static void run_update(float *weight, const float *gradient, float *const "
                   "*state, long elements,\n"
                   "                       const float *scalars, void *moec_rounded)\n{\n"
                   "    (void)weight, (void)gradient, (void)state, (void)elements, "
                   "(void)scalars, (void)moec_rounded;\n");
    print_arrays(text, update, "moec_rounded");
    print_block(text, &update->step->form.block, 1);
    text_add(text, "}\n\n");
}

/* ---- a GPU kernel over all parameters ---- */

static void print_shares(Text *text, const List *shares) {
    text_add(text, "static __device__ const MoecShare update_shares[] = {\n");
    LIST_EACH(const UpdateShare, share, shares) {
        text_add(text, "    {%ld, %zu, %ld, %d}, /* %s */\n", share->block, share->first,
                 share->count, share->group, share->tensor->name);
    }
    if (!shares->count) text_add(text, "    {0, 0, 0, 0},\n");
    text_add(text, "};\n\n");
}

/* The span of a parameter that a block updates. */
static void print_span(Text *text, const Update *update) {
    const int shares = update->shares.count;
    int step = 1;
    while (2 * step < shares) step *= 2;
    text_add(
        text,
        "    int moec_at = 0; /* last share that starts at or before this block */\n"
        "    for (int step = %d; step > 0; step /= 2)\n"
        "        if (moec_at + step < %d && update_shares[moec_at + step].block <= moec_block())\n"
        "            moec_at += step;\n"
        "    const MoecShare moec_share = update_shares[moec_at];\n",
        step, shares);
    if (update->each)
        text_add(text,
                 "    const long moec_before = (moec_block() - moec_share.block) * %ld;\n"
                 "    long moec_from = moec_share.first + moec_before;\n"
                 "    long elements = moec_least(moec_share.count - moec_before, %ld);\n",
                 update->each, update->each);
    else
        text_add(text, "    long moec_from = moec_share.first, elements = moec_share.count;\n");
    text_add(text, "    moec_clip(&moec_from, &elements, moec_range);\n"
                   "    if (elements <= 0) return;\n"
                   "    float *const weight = moec_weights + moec_from;\n"
                   "    const float *const gradient = moec_gradients + moec_from;\n");
    text_add(text, "    const float *const scalars = moec_numbers + moec_share.group * %d;\n",
             update->scalars.count);
    for (int i = 0; i < update->states.count; i++)
        text_add(text, "%smoec_state_%d + moec_from", i ? ", " : "    float *const state[] = {", i);
    if (update->states.count) text_add(text, "};\n");
}

static void print_update_kernel(Text *text, const Module *module, const Update *update) {
    print_step_equations(text, &update->statements);
    print_shares(text, &update->shares);
    text_add(text,
             "extern \"C\" __global__ void __launch_bounds__(%d) update_step(\n"
             "        float *moec_weights, const float *moec_gradients",
             update->step->launch.threads);
    for (int i = 0; i < update->states.count; i++) text_add(text, ", float *moec_state_%d", i);
    text_add(text,
             ",\n        const float *moec_numbers, const long long *moec_range%s)\n"
             "{\n    moec_begin();\n",
             module->rounded ? ", MoecBf16 *moec_rounded" : "");
    print_span(text, update);
    print_arrays(text, update, "moec_rounded + moec_from");
    print_block(text, &update->step->form.block, 1);
    text_add(text, "}\n\n");
}

static void print_update_launch(Text *text, const Module *module, const Update *update) {
    text_add(
        text,
        "static void launch_update(const MoecHost *host, float *weights, const float *gradients,\n"
        "                          float *const *states, const float *scalars, void *rounded)\n"
        "{\n    const long long *range = NULL; /* all */\n    (void)states, (void)rounded;\n"
        "    moec_launch_on(host, update_step, %ld, %d,\n"
        "                   MOEC_ARGUMENTS(&weights, &gradients",
        update->blocks, update->step->launch.threads);
    for (int i = 0; i < update->states.count; i++) text_add(text, ", &states[%d]", i);
    text_add(text, ", &scalars, &range%s));\n}\n\n", module->rounded ? ", &rounded" : "");
}

void print_update(Text *text, const Module *module, const Update *update, bool device) {
    const bool apart = module->apart;
    if (device) {
        print_update_kernel(text, module, update);
        return;
    }
    print_rate(text, update);
    print_group_settings(text, update);
    if (apart)
        print_update_launch(text, module, update);
    else
        print_run_update(text, update);
    print_state_names(text, "update_states", &update->states);
    print_scalars(text, &update->scalars);
    text_add(text,
             "static const MoecUpdate update = {\n"
             "    .%s, .rate = update_rate, .state_names = %s, .state_count = %d,\n"
             "    .scalars = %s, .scalar_count = %d,\n"
             "    .own = update_own, .group_count = %d,\n};\n\n",
             apart ? "launch = launch_update" : "run = run_update",
             update->states.count ? "update_states" : "NULL", update->states.count,
             update->scalars.count ? "update_scalars" : "NULL", update->scalars.count,
             update->groups);
}
