/* Threads on libmoec for tsan_library.sh: library_threads RUN. All threads share one model; each also loads, uses, saves and
 * frees private models. */
#include "library/moec.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 3, CALLS = 4 };

typedef struct Caller {
    const char *run;
    MoecModel *shared;
    int number, wrong;
} Caller;

static int ok(int result) {
    if (result) fprintf(stderr, "%s\n", moec_message());
    return result == 0;
}

static int on_text(void *context, const char *bytes, size_t length) {
    (void)bytes;
    *(size_t *)context += length;
    return 0;
}

/* Every function once. Results of the shared model are not read: other threads overwrite them. */
static int use(MoecModel *model, const char *path) {
    const size_t count = (size_t)(moec_batch(model) * (moec_context(model) + 1) * moec_accumulation(model));
    int32_t *windows = calloc(count, sizeof *windows), *tokens = NULL;
    const float *logits;
    double loss;
    char *text = NULL, *decoded = NULL;
    size_t length = 0, received = 0;
    MoecArray array;
    const MoecGeneration how = {.tokens = 4, .temperature = 1, .seed = 5, .on_text = on_text, .context = &received};
    for (size_t i = 0; i < count; i++) windows[i] = (int32_t)(i * i % 251);
    int result = ok(moec_logits(model, windows, &logits)) && ok(moec_loss(model, windows, &loss)) &&
                 ok(moec_gradients(model, windows, &loss)) && ok(moec_step(model, windows, &loss)) &&
                 ok(moec_generate(model, "layer", &how, &text)) && strlen(text) <= received &&
                 ok(moec_encode(model, "layer", 5, &tokens, &length)) &&
                 ok(moec_decode(model, tokens, length, &decoded, &length)) && length == 5 &&
                 ok(moec_array(model, MOEC_RUN_OUTPUT, 0, &array)) &&
                 ok(moec_bind(model, MOEC_RUN_OUTPUT, 0, NULL)) && ok(moec_run(model, 1)) &&
                 ok(moec_differentiate(model, 1)) && (!path || ok(moec_save(model, path)));
    result = result && moec_logits(model, NULL, &logits) == 1 && strstr(moec_message(), "'tokens' is NULL");
    moec_release(text);
    moec_release(decoded);
    moec_release(tokens);
    free(windows);
    return result;
}

static void *call(void *data) {
    Caller *caller = data;
    const MoecLoad load = {.can = MOEC_CAN_RUN | MOEC_CAN_TRAIN | MOEC_CAN_GENERATE};
    char path[4096];
    snprintf(path, sizeof path, "%s/of_thread_%d.safetensors", caller->run, caller->number);
    for (int round = 0; round < ROUNDS; round++) {
        MoecModel *own, *none;
        for (int i = 0; i < CALLS; i++) caller->wrong += !use(caller->shared, NULL);
        if (ok(moec_load(caller->run, &load, &own)))
            caller->wrong += !use(own, path);
        else
            caller->wrong++;
        moec_free(own);
        caller->wrong += moec_load("nothing/at/all", NULL, &none) != 1 || !strstr(moec_message(), "nothing/at/all");
        caller->wrong += moec_load(NULL, &(MoecLoad){.spec = "model m = nothing {}"}, &none) != 1;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: library_threads RUN\n"), 2;
    const MoecLoad load = {.can = MOEC_CAN_RUN | MOEC_CAN_TRAIN | MOEC_CAN_GENERATE};
    pthread_t threads[THREADS];
    Caller callers[THREADS];
    int wrong = 0;
    MoecModel *model = NULL;
    for (int i = 0; i < THREADS; i++) callers[i] = (Caller){.run = argv[1], .number = i};
    if (!ok(moec_load(argv[1], &load, &model))) return 1;
    for (int i = 0; i < THREADS; i++) {
        callers[i].shared = model;
        if (pthread_create(&threads[i], NULL, call, &callers[i]) != 0) return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        wrong += callers[i].wrong;
    }
    moec_free(model);
    printf("%d threads, %d failed calls\n", THREADS, wrong);
    return wrong != 0;
}
