/* random: numbers that depend on a seed and a place, never on the order in which they are drawn. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* 64 bits; the next two are made of them. */
uint64_t random_bits(uint64_t seed, uint64_t place);
double random_uniform(uint64_t seed, uint64_t place); /* in [0, 1) */
/* Mean 0, deviation 1; those of `count` places from `first` on. */
double random_normal(uint64_t seed, uint64_t place);
void random_normals(uint64_t seed, uint64_t first, size_t count, double *normals);
/* The image of `value` under a permutation of 0 .. count-1. */
uint64_t random_permuted(uint64_t seed, uint64_t value, uint64_t count);
/* A seed of its own for a name or a purpose. */
uint64_t random_seed_for(uint64_t seed, const char *name);

#endif
