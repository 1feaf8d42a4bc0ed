/* mpi_shim: the functions of MPI that moec uses. The mpicc of the cluster compiles mpi_shim.c at
 * the first use, because each implementation of MPI has its own ABI. Building moec needs no MPI. */
#ifndef MPI_SHIM_H
#define MPI_SHIM_H

#include <stddef.h>

enum { MPI_SHIM_ABI = 1, MPI_SHIM_TEXT = 512 };

/* One transfer between this process and another one. */
typedef struct MpiTransfer {
    int peer;
    int sends; /* 1: sends, 0: receives */
    void *bytes;
    size_t length;
} MpiTransfer;

/* Each function returns 0 or an error code of MPI. Only one thread calls them. */
typedef struct MpiShim {
    int abi;
    /* version: of the library, MPI_SHIM_TEXT bytes */
    int (*start)(int *rank, int *size, char *version);
    int (*end)(void);
    /* all: `length` bytes of every process in order of rank; the own part is set */
    int (*gather)(void *all, size_t length);
    int (*broadcast)(void *bytes, size_t length, int root);
    /* The values become the sums over all processes, added in an order that the library chooses. */
    int (*sum)(float *values, size_t count);
    /* Runs all transfers at once; those between two processes match in order. */
    int (*transfer)(const MpiTransfer *transfers, int count);
    /* text: of an error code, MPI_SHIM_TEXT bytes */
    void (*describe)(int error, char *text);
} MpiShim;

#endif
