/* mixture: training samples of one or several data sources in fixed shares. The source and the
 * sample of each position are functions of the seed and the position alone.
 *
 *     "web.bin=0.7,code.bin=0.3"      of 1000 consecutive samples, 700 and 300, shuffled
 *
 * Each source has its own epochs: a small source with a large share repeats more often. */
#ifndef MIXTURE_H
#define MIXTURE_H

#include "data/data.h"
#include "data/order.h"

enum { MIXTURE_PERIOD = 1000, MIXTURE_LIMIT = 64 };

typedef struct DataSource {
    char *path;
    double share;           /* of the samples; all shares add up to 1 */
    uint64_t before, quota; /* samples per period: those of earlier sources, and its own */
    Data *data;
    Order order;
} DataSource;

typedef struct Mixture {
    DataSource sources[MIXTURE_LIMIT];
    int count;
    uint64_t seed;
} Mixture;

/* Reads the paths and weights of --data: PATH, or PATH=WEIGHT,PATH=WEIGHT. An existing file has
 * precedence. The data are not opened. False after a message. */
bool mixture_read(Mixture *mixture, const char *text);
/* Sets the shares in proportion to weights and the samples per period, at least one each. */
void mixture_share(Mixture *mixture, const double *weights);
void mixture_close(Mixture *mixture);
/* Reads `length` tokens from token `offset` of a sample on; false after a message. */
bool mixture_sample(const Mixture *mixture, uint64_t sample, uint64_t offset, size_t length,
                    int32_t *tokens);
/* Tokens of all sources; whether all of them are bytes of text. */
uint64_t mixture_tokens(const Mixture *mixture);
bool mixture_is_bytes(const Mixture *mixture);

#endif
