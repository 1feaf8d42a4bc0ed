#include "random.h"

#include <math.h>

/* The finaliser of splitmix64. */
static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t random_bits(uint64_t seed, uint64_t place) {
    return mix(mix(seed + 0x9E3779B97F4A7C15u * (place + 1)) ^ seed);
}

double random_uniform(uint64_t seed, uint64_t place) {
    return (double)(random_bits(seed, place) >> 11) * 0x1p-53;
}

double random_normal(uint64_t seed, uint64_t place) {
    double radius = sqrt(-2 * log(1 - random_uniform(seed, 2 * place)));
    return radius * cos(6.283185307179586 * random_uniform(seed, 2 * place + 1));
}

/* Four rounds of a Feistel network on the smallest even number of bits that holds count; a value
 * that falls outside is sent round again, which ends because the network is a permutation. */
uint64_t random_permuted(uint64_t seed, uint64_t value, uint64_t count) {
    int half = 1;
    while (half < 31 && ((uint64_t)1 << (2 * half)) < count) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t left = value >> half, right = value & mask;
            value = (right << half) | ((left ^ random_bits(seed + round, right)) & mask);
        }
    } while (value >= count);
    return value;
}

uint64_t random_seed_for(uint64_t seed, const char *name) {
    uint64_t hash = 0xCBF29CE484222325u ^ mix(seed);
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    return mix(hash);
}
