/* decode: what the files of the pass share. kv_cache.c keeps all earlier places, ring_cache.c the
 * last few, recurrent_state.c the last one; absorb.c attends to what is cached; store_caches.c says
 * as what it is kept. */
#ifndef DECODE_H
#define DECODE_H

#include "analysis/causal.h"

/* A tensor over the new places and what stands for it over all places so far. */
typedef struct Kept {
    Tensor *tensor, *past;
} Kept;

/* How far a tensor is looked back at. */
typedef struct Back {
    long places;   /* at most so many; 0: not at all */
    bool any;      /* or at any place */
    Tensor *cache; /* of so many places; NULL: none yet */
    Block *block;  /* that writes the tensor, or the program's own */
    bool written;
} Back;

typedef struct Decode {
    Program *program;
    Past all;   /* of the whole sequence */
    Axis *past; /* all places; the sequence axis as it was elaborated */
    Axis *step; /* the new places */
    Tensor *position;
    List kept;    /* Kept *: caches, and what is computed again from them */
    List windows; /* Axis *: rows of rings that attention sees through a window */
    List rings;   /* Kept *: those rings */
    List joins;   /* Join *: see absorb.c */
    List states;  /* Kept *: what the last place of a scan left behind */
    List scales;  /* Kept *: of a cache of bytes, what its rows are times */
    Back *back;   /* by tensor id: see ring_cache.c */
    int count;    /* of those tensors */
} Decode;

/* A block with the repeat that it is the body of, or NULL. */
typedef struct Region {
    Block *block;
    Statement *repeat;
    Statement *scan; /* over the sequence, whose body is being rewritten, or NULL */
} Region;

/* kv_cache.c */
/* What stands for the tensor among those, or NULL; one more. */
Tensor *find_kept(const List *list, const Tensor *tensor);
void keep(Program *program, List *list, Tensor *tensor, Tensor *past);
/* place + position, for a place among the new ones. */
Expr *place_in_time(Decode *decode, Expr *place);
/* The tensor over all places; made, and filled from `tensor`, when it is wanted for the first time.
 * `user` reads it. */
Tensor *kv_cache(Decode *decode, Tensor *tensor, const Region *region, const Statement *user);
Tensor *cache(Decode *decode, Tensor *tensor);
/* The rows of rings that hold what the attention sees through its window; NULL where it reads all
 * places. */
Axis *window_rows(Decode *decode, const Statement *attend, const Region *region);
/* The ring of a tensor that attention reads: place p is at row p % rows. */
Tensor *window_cache(Decode *decode, Tensor *tensor, Axis *rows);
/* A read of `tensor` made into one of its cache, with the place `sub`. */
Expr *history_read(Decode *decode, const Expr *read, Tensor *past, Expr *sub,
                   const Statement *repeat);

/* Whether a statement writes the tensor: where, or NULL. */
const Expr *written(const Statement *statement, const Tensor *tensor);

void insert(Decode *decode, Block *block, int position, Statement *statement);
/* The only statement of the block that writes the tensor, a plain equation; else NULL. */
Statement *only_writer(const Block *block, const Tensor *tensor);
/* Whether the tensor can be had from what `cache` was said of. */
bool follows(Decode *decode, const Tensor *tensor, const Region *region);

/* absorb.c */
/* Attention to keys and values that are linear in what is cached becomes one to that, where that is
 * less. */
void absorb(Decode *decode, Statement *attend, const Region *region);

/* ring_cache.c */
/* Looks at all reads of earlier places, before any is rewritten. */
void find_back(Decode *decode);
/* A read of a place a few places back, as it stood there and with its subscripts rewritten; NULL
 * where the cache has to hold all places. */
Expr *ring_read(Decode *decode, const Expr *raw, Expr *read, const Region *region);

/* store_caches.c */
/* Keys, values and what they are computed of are stored as program->caches says. */
void store_caches(Decode *decode);

/* recurrent_state.c */
/* A read of what an earlier place of a scan defined. */
Expr *state_read(Decode *decode, Expr *read, const Region *region);
/* Whether the scan defines the tensor. */
bool is_scanned(const Statement *scan, const Tensor *tensor);

#endif
