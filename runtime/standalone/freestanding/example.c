/* example: writes the tokens that follow a prompt, and a checksum of the bits of all logits.
 *
 *     cc -std=c99 -O2 -DPROMPT=3,1,4 -DCOUNT=20 -o example example.c model.c && ./example */
#include "model.h"

#include <stdio.h>
#include <string.h>

#ifndef PROMPT
#define PROMPT 0
#endif
#ifndef COUNT
#define COUNT 16
#endif
#ifndef TEMPERATURE
#define TEMPERATURE 0.0f
#endif
#ifndef SEED
#define SEED 1
#endif

static Model model;
static uint32_t checksum = 2166136261u;

static int step(int32_t token, const float **logits) {
    const int error = model_step(&model, token, logits);
    if (error) {
        printf("\nerror %d\n", error);
        return 0;
    }
    for (long i = 0; i < MODEL_VOCABULARY; i++) {
        uint32_t bits;
        memcpy(&bits, &(*logits)[i], sizeof bits);
        checksum = (checksum ^ bits) * 16777619u;
    }
    return 1;
}

int main(void) {
    static const int32_t prompt[] = {PROMPT};
    const float *logits = NULL;
    model_reset(&model);
    for (size_t i = 0; i < sizeof prompt / sizeof prompt[0]; i++)
        if (!step(prompt[i], &logits)) return 1;
    for (long i = 0; i < COUNT; i++) {
        const int32_t token = model_pick(logits, TEMPERATURE, model_random(SEED, (uint64_t)i));
        printf("%s%ld", i ? " " : "", (long)token);
        if (i + 1 < COUNT && !step(token, &logits)) return 1;
    }
    printf("\nchecksum %08lx\n", (unsigned long)checksum);
    return 0;
}
