/* random: counter-based random numbers: a function of seed and counter (`place`), independent of
 * the order of the calls. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* 64 random bits; the two functions below derive from them. */
uint64_t random_bits(uint64_t seed, uint64_t place);
double random_uniform(uint64_t seed, uint64_t place); /* in [0, 1) */
/* Standard normal; random_normals: for the counters first .. first+count-1. */
double random_normal(uint64_t seed, uint64_t place);
void random_normals(uint64_t seed, uint64_t first, size_t count, double *normals);
/* The image of `value` under a permutation of 0 .. count-1. */
uint64_t random_permuted(uint64_t seed, uint64_t value, uint64_t count);
/* A derived seed for a name or a purpose. */
uint64_t random_seed_for(uint64_t seed, const char *name);

#endif
