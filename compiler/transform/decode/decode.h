/* decode: declarations shared by the files of the pass. kv_cache.c caches all earlier positions,
 * ring_cache.c the last few, recurrent_state.c the last one. absorb.c attends to cached tensors.
 * store_caches.c sets their types. */
#ifndef DECODE_H
#define DECODE_H

#include "analysis/past.h"

/* A tensor over the new positions and its counterpart over all positions so far. */
typedef struct Kept {
    Tensor *tensor, *past;
} Kept;

/* The earlier positions at which a tensor is read. */
typedef struct Back {
    long places;   /* maximum distance; 0: not read */
    bool any;      /* or at any position */
    Tensor *cache; /* of that many positions; NULL: not created yet */
    Block *block;  /* that writes the tensor, or the body of the program */
    bool written;
} Back;

typedef struct Decode {
    Program *program;
    Past all;   /* of the whole sequence */
    Axis *past; /* all positions; the sequence axis of the elaborated program */
    Axis *step; /* the new positions */
    Tensor *position;
    List kept;    /* Kept *: caches, and tensors recomputed from them */
    List windows; /* Axis *: rows of ring buffers of sliding-window attention */
    List rings;   /* Kept *: these ring buffers */
    List joins;   /* Join *: see absorb.c */
    List states;  /* Kept *: states of scans after the last position */
    List scales;  /* Kept *: scales of the rows of int8 caches */
    List spread;  /* Tensor *: rows of blocks of queries, see attend_decode.c */
    Back *back;   /* by tensor id: see ring_cache.c */
    int count;    /* number of these tensors */
} Decode;

/* A block and the repeat whose body it is, or NULL. */
typedef struct Region {
    Block *block;
    Statement *repeat;
    Statement *scan; /* over the sequence, whose body is rewritten, or NULL */
} Region;

/* decode.c */
/* Removes statements and tensors that the outputs do not need. */
void drop_unused(Program *program);

/* kv_cache.c: true if a subscript of the sequence reads earlier positions: it is computed, or runs
 * over all of them. */
bool looks_elsewhere(const Decode *decode, const Expr *read);

/* kv_cache.c */
/* find_kept: the counterpart of a tensor in a list, or NULL. keep: adds one. */
Tensor *find_kept(const List *list, const Tensor *tensor);
void keep(Program *program, List *list, Tensor *tensor, Tensor *past);
/* `position + position`, for one of the new positions. */
Expr *absolute_position(Decode *decode, Expr *position);
/* The tensor over all positions, created and filled from `tensor` at its first use. `user` reads
 * it. */
Tensor *kv_cache(Decode *decode, Tensor *tensor, const Region *region, const Statement *user);
Tensor *cache(Decode *decode, Tensor *tensor);
/* A tensor of ROLE_CACHE for a tensor over the new positions: with the axis `rows` instead of
 * theirs, or without it (NULL); with the axis of the repeat first, unless it is NULL. */
Tensor *cache_new(Decode *decode, const char *name, const Tensor *tensor, Axis *rows,
                  const Statement *repeat);
/* The rows of the ring buffers that hold the window of the attention; NULL if it reads all
 * positions. */
Axis *window_rows(Decode *decode, const Statement *attend, const Region *region);
/* The ring buffer of a tensor that attention reads: position p is in row p % rows. */
Tensor *window_cache(Decode *decode, Tensor *tensor, Axis *rows);
/* Converts a read of `tensor` into one of its cache, with `sub` as position. */
Expr *history_read(Decode *decode, const Expr *read, Tensor *past, Expr *sub,
                   const Statement *repeat);

/* The target with which a statement writes the tensor, or NULL. */
const Expr *written(const Statement *statement, const Tensor *tensor);

void insert(Decode *decode, Block *block, int position, Statement *statement);
/* The only statement of the block that writes the tensor, a plain equation; else NULL. */
Statement *only_writer(const Block *block, const Tensor *tensor);
/* True if the tensor can be recomputed from tensors named by `cache`. */
bool follows(Decode *decode, const Tensor *tensor, const Region *region);

/* position_values.c */
/* Replaces reads at later positions of values that depend on the position alone; true if there are
 * some. */
bool position_values(Decode *decode);

/* absorb.c */
/* Attention to keys and values that are linear in cached tensors attends to these instead, if that
 * costs less. */
void absorb(Decode *decode, Statement *attend, const Region *region);

/* ring_cache.c */
/* Analyzes all reads of earlier positions, before any is rewritten. */
void find_back(Decode *decode);
/* A read a few positions back, in its original form and with rewritten subscripts; NULL if the
 * cache must hold all positions. */
Expr *ring_read(Decode *decode, const Expr *raw, Expr *read, const Region *region);

/* store_caches.c */
/* Sets the type of a cache, and its scale if it has one. */
void store_cache(Decode *decode, Tensor *cache);
/* Sets the type of keys, values and the tensors that they are computed from to program->caches. */
void store_caches(Decode *decode);

/* recurrent_state.c */
/* A cache of the last value of a tensor, without its position; the element for a read of it. */
Tensor *state_cache(Decode *decode, Tensor *tensor, const Statement *repeat);
Expr *state_element(const Decode *decode, Tensor *cache, const Expr *read, const Statement *repeat);
/* A read of a value that an earlier position of a scan defined. */
Expr *state_read(Decode *decode, Expr *read, const Region *region);
/* True if the scan defines the tensor. */
bool is_scanned(const Statement *scan, const Tensor *tensor);

#endif
