/* mesh_library: the functions of a library by which processes communicate: MPI (mpi_shim.c), NCCL
 * (nccl.c), or sockets (rendezvous.c). The mpicc of the cluster compiles mpi_shim.c at the first
 * use, because each implementation of MPI has its own ABI. Building moec needs no MPI. */
#ifndef MESH_LIBRARY_H
#define MESH_LIBRARY_H

#include <stdatomic.h>
#include <stddef.h>

enum { MESH_LIBRARY_ABI = 3, LIBRARY_TEXT = 512 };

/* One transfer between this process and another one. */
typedef struct MeshTransfer {
    int peer;
    int sends; /* 1: sends, 0: receives */
    void *bytes;
    size_t length;
} MeshTransfer;

/* Each function returns 0 or an error code of the library. One thread at a time calls them. The
 * operands of NCCL are in device memory and contain floats, those of the others in host memory. */
typedef struct MeshLibrary {
    int abi;
    const char *name;
    /* version: of the library, LIBRARY_TEXT bytes. NULL for NCCL. */
    int (*start)(int *rank, int *size, char *version);
    int (*end)(void);
    /* all: `length` bytes of every process in order of rank; the own part is set. NULL for NCCL. */
    int (*gather)(void *all, size_t length);
    int (*broadcast)(void *bytes, size_t length, int root);
    /* The values become the sums over all processes, added in an order that the library chooses.
     * NULL for sockets. */
    int (*sum)(float *values, size_t count);
    /* Runs all transfers at once; those between two processes match in order. Sockets: only those
     * of process 0. */
    int (*transfer)(const MeshTransfer *transfers, int count);
    /* text: of an error code, LIBRARY_TEXT bytes */
    void (*describe)(int error, char *text);
    /* Whether another thread than that of `start` may call `transfer`: 0 or 1. While *computing
     * is 1, `transfer` leaves the processor to other threads. NULL: it may not. */
    int (*share)(const atomic_int *computing);
} MeshLibrary;

#endif
