/* Uses a trained model from C: loss of a text, two training steps on it, and a completion.
 *
 *     cc examples/library.c -Iruntime/library -Lbuild -lmoec -Wl,-rpath,$PWD/build -o library
 *     ./library run "In the beginning"
 */
#include "moec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int result) {
    if (!result) return;
    fputs(moec_message(), stderr);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: library RUN TEXT\n"), 2;
    const MoecLoad load = {.can = MOEC_CAN_RUN | MOEC_CAN_TRAIN | MOEC_CAN_GENERATE, .batch = 1};
    MoecModel *model;
    check(moec_load(argv[1], &load, &model));

    /* As many tokens as a window has, the text again and again. */
    int32_t *tokens;
    size_t count, wanted = (size_t)moec_context(model) + 1;
    check(moec_encode(model, argv[2], strlen(argv[2]), &tokens, &count));
    int32_t *window = malloc(wanted * sizeof *window);
    for (size_t i = 0; i < wanted; i++) window[i] = tokens[i % count];

    double loss;
    check(moec_loss(model, window, &loss));
    printf("loss %.4f, %d parameter tensors\n", loss, moec_count(model, MOEC_WEIGHT));
    char *text;
    check(moec_generate(model, argv[2], &(MoecGeneration){.tokens = 8}, &text));
    printf("%s%s\n", argv[2], text);

    for (int i = 0; i < 2; i++) check(moec_step(model, window, &loss));
    check(moec_loss(model, window, &loss));
    printf("loss %.4f after two steps\n", loss);

    moec_release(text);
    moec_release(tokens);
    free(window);
    moec_free(model);
    return 0;
}
