#include "data/mixture.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"
#include "data/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The weight after the last "=" of a part; NaN: there is none. */
static double source_weight(const char *part, size_t length, size_t *path) {
    size_t at = length;
    while (at && part[at - 1] != '=') at--;
    *path = at ? at - 1 : length;
    if (!at || at == length) return NAN;
    char *text = memory_format("%.*s", (int)(length - at), part + at), *end;
    double weight = strtod(text, &end);
    if (*end) weight = NAN;
    free(text);
    return weight;
}

static bool add_data_source(Mixture *mixture, const char *path, size_t length) {
    if (mixture->count == MIXTURE_LIMIT)
        return error_message("merge some of them", "--data has more than %d sources",
                             MIXTURE_LIMIT);
    mixture->sources[mixture->count++].path = memory_format("%.*s", (int)length, path);
    return true;
}

static bool report_weight(const char *part, size_t length) {
    return error_message("write PATH=WEIGHT,PATH=WEIGHT, for example web.bin=0.7,code.bin=0.3",
                         "--data: '%.*s' has no weight above 0", (int)length, part);
}

bool mixture_read(Mixture *mixture, const char *text) {
    double weights[MIXTURE_LIMIT];
    size_t length, path;
    *mixture = (Mixture){0};
    if (file_exists(text) || !strchr(text, '=')) {
        weights[0] = 1;
        add_data_source(mixture, text, strlen(text));
    }
    for (const char *part = mixture->count ? "" : text; *part; part += length + !!part[length]) {
        length = strcspn(part, ",");
        const double weight = source_weight(part, length, &path);
        if (!(weight > 0) || !isfinite(weight) || !path) return report_weight(part, length);
        if (!add_data_source(mixture, part, path)) return false;
        weights[mixture->count - 1] = weight;
    }
    mixture_share(mixture, weights);
    return true;
}

/* Largest remainders: the quotas add up to the period. */
void mixture_share(Mixture *mixture, const double *weights) {
    double total = 0;
    uint64_t left = MIXTURE_PERIOD;
    for (int i = 0; i < mixture->count; i++) total += weights[i];
    for (int i = 0; i < mixture->count; i++) {
        DataSource *source = &mixture->sources[i];
        source->share = weights[i] / total;
        source->quota = (uint64_t)floor(source->share * MIXTURE_PERIOD);
        if (!source->quota) source->quota = 1;
        left -= source->quota;
    }
    while (left) {
        DataSource *most = NULL;
        double lack = -INFINITY;
        const int step = left > MIXTURE_PERIOD ? -1 : 1; /* below 0: too many small sources */
        for (int i = 0; i < mixture->count; i++) {
            DataSource *source = &mixture->sources[i];
            const double own = step * (source->share * MIXTURE_PERIOD - (double)source->quota);
            if ((step < 0 && source->quota == 1) || own <= lack) continue;
            most = source, lack = own;
        }
        most->quota += (uint64_t)step;
        left -= (uint64_t)step;
    }
    for (int i = 1; i < mixture->count; i++)
        mixture->sources[i].before = mixture->sources[i - 1].before + mixture->sources[i - 1].quota;
}

void mixture_close(Mixture *mixture) {
    for (int i = 0; i < mixture->count; i++) {
        free(mixture->sources[i].path);
        data_close(mixture->sources[i].data);
    }
    mixture->count = 0;
}

/* Each period is shuffled by itself; a source numbers its samples over all periods. */
static const DataSource *mixed_source(const Mixture *mixture, uint64_t sample, uint64_t *own) {
    const uint64_t period = sample / MIXTURE_PERIOD,
                   seed = random_bits(mixture->seed ^ 0x6D6978u, period);
    const uint64_t slot = random_permuted(seed, sample % MIXTURE_PERIOD, MIXTURE_PERIOD);
    const DataSource *source = mixture->sources;
    while (slot >= source->before + source->quota) source++;
    *own = period * source->quota + slot - source->before;
    return source;
}

bool mixture_sample(const Mixture *mixture, uint64_t sample, uint64_t offset, size_t length,
                    int32_t *tokens) {
    const DataSource *source = mixture->sources;
    if (mixture->count > 1) source = mixed_source(mixture, sample, &sample);
    return data_read(source->data, order_start(&source->order, sample) + offset, length, tokens);
}

uint64_t mixture_tokens(const Mixture *mixture) {
    uint64_t tokens = 0;
    for (int i = 0; i < mixture->count; i++) tokens += mixture->sources[i].data->count;
    return tokens;
}

bool mixture_is_bytes(const Mixture *mixture) {
    for (int i = 0; i < mixture->count; i++)
        if (!mixture->sources[i].data->bytes) return false;
    return true;
}
