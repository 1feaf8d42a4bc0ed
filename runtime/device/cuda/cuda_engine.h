/* cuda_engine: the engine, for the files that execute calls. */
#ifndef CUDA_ENGINE_H
#define CUDA_ENGINE_H

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_variants.h"

enum { CAPTURE_LIMIT = 16, PART_LIMIT = 16 };

/* The values that determine all kernel arguments of a call. */
typedef struct CaptureKey {
    const void *what; /* graph or update */
    const void *inputs, *outputs,
        *cache; /* device addresses: the first of each group of adjacent blocks */
    int first_micro_batch, last_micro_batch;
} CaptureKey;

/* The begin or the end of an exchange; its operands. */
typedef struct CapturedExchange {
    const MoecExchange *exchange; /* NULL: none */
    bool ends;
    const void *from;
    const int *table;
    void *to[MOEC_EXCHANGE_RESULTS];
} CapturedExchange;

/* A graph, and the begin or end of an exchange after it. */
typedef struct Segment {
    CudaReady *ready; /* NULL: no work */
    CapturedExchange exchange;
} Segment;

typedef struct Capture {
    CaptureKey key;
    Segment *segments; /* none until the second call */
    int segment_count;
    bool direct; /* the call cannot be captured */
} Capture;

typedef struct CudaEngine {
    Engine base;
    CudaDevice *device;
    const MoecDeviceProgram *program;
    /* parts of the program, fixed kernels, spare kernels loaded later */
    CudaModule *modules[PART_LIMIT + 2];
    int module_count;
    CudaFunction **functions; /* by kernel number of the table; NULL for spare kernels */
    char *spare;              /* source of the spare kernels */
    CudaFunction *square_chunks, *add, *most_likely;
    CudaProducts *products;
    CudaVariants *variants; /* autotuning of kernel variants, or NULL */
    int forced;             /* variant: see cuda_forced_variant */
    char *forced_uses;      /* by kernel number: see count_forced */
    bool *foreign;          /* by kernel number: see MoecPiece */
    bool graphs;            /* repeated calls are captured */
    bool capturing;
    bool overlaps;    /* kernels of a graph may overlap, see moec_begin */
    int refused;      /* error number of a capture, which is given up then */
    bool wants_spare; /* a capture needs a spare kernel */
    /* sums of the chunks, seed, range of an update, tokens, scalars of each parameter group */
    CudaPointer scratch;
    size_t chunks;        /* of all weights */
    CudaProfile *profile; /* not NULL: kernels are timed */
    Capture captures[CAPTURE_LIMIT];
    int capture_count;
    Capture *current; /* while capturing */
    bool has_work;    /* the current segment */
    MoecHost capture_host;
    bool noted;    /* a call that cannot be captured was reported */
    uint64_t seed; /* on the device, if `seeded` */
    bool seeded;
} CudaEngine;

/* Loads the spare kernels after a failure of cuBLASLt. */
bool cuda_load_spare(CudaEngine *engine);

/* ---- cuda_capture.c ---- */

/* A call: see cuda_repeat. */
typedef struct RepeatedCall {
    void (*work)(CudaEngine *, const void *);
    const void *data;
} RepeatedCall;

/* A call that is the same every time: launched directly, then captured, then launched as a
 * graph. */
bool cuda_repeat(CudaEngine *engine, const CaptureKey *key, const RepeatedCall *call);
void cuda_free_segments(const CudaEngine *engine, Capture *capture);

#endif
