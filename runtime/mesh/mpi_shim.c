/* Compiled by mpicc as a shared object, see mesh_library.h. */
#include "mesh_library.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Counts of MPI are of type int before version 4: longer messages are sent in pieces. */
enum { PIECE = 1 << 26 };

/* Time between two looks at transfers while the program computes. */
static const struct timespec interval = {.tv_nsec = 50000};

static MPI_Comm all_processes;
static int provided;                /* support of threads */
static const atomic_int *computing; /* NULL: never */

static int start(int *rank, int *size, char *version) {
    int length, error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (error) return error;
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    MPI_Get_library_version(text, &length);
    strncpy(version, text, LIBRARY_TEXT - 1);
    version[LIBRARY_TEXT - 1] = 0;
    error = MPI_Comm_dup(MPI_COMM_WORLD, &all_processes);
    if (error) return error;
    MPI_Comm_set_errhandler(all_processes, MPI_ERRORS_RETURN);
    MPI_Comm_rank(all_processes, rank);
    return MPI_Comm_size(all_processes, size);
}

static int end(void) {
    return MPI_Finalize();
}

static int gather(void *all, size_t length) {
    return MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, (int)length, MPI_BYTE,
                         all_processes);
}

static int piece_of(size_t left) {
    return left < PIECE ? (int)left : PIECE;
}

static int broadcast(void *bytes, size_t length, int root) {
    int error = 0;
    for (size_t done = 0; done < length && !error; done += PIECE)
        error =
            MPI_Bcast((char *)bytes + done, piece_of(length - done), MPI_BYTE, root, all_processes);
    return error;
}

static int sum(float *values, size_t count) {
    int error = 0;
    for (size_t done = 0; done < count && !error; done += PIECE)
        error = MPI_Allreduce(MPI_IN_PLACE, values + done, piece_of(count - done), MPI_FLOAT,
                              MPI_SUM, all_processes);
    return error;
}

static int permit_thread(const atomic_int *flag) {
    if (provided < MPI_THREAD_SERIALIZED) return 0;
    computing = flag;
    return 1;
}

/* MPI_Waitall keeps a processor busy. */
static int wait_for_all(int count, MPI_Request *requests) {
    int done = 0, error = 0;
    while (!done && !error && computing && atomic_load(computing)) {
        error = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        if (!done && !error) nanosleep(&interval, NULL);
    }
    return done || error ? error : MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static int transfer(const MeshTransfer *transfers, int count) {
    int requests = 0, error = 0;
    for (int i = 0; i < count; i++) requests += (int)((transfers[i].length + PIECE - 1) / PIECE);
    MPI_Request *all = malloc(sizeof *all * (size_t)(requests + 1));
    requests = 0;
    for (int i = 0; i < count && !error; i++) {
        const MeshTransfer *one = &transfers[i];
        for (size_t done = 0; done < one->length && !error; done += PIECE) {
            char *bytes = (char *)one->bytes + done;
            int length = piece_of(one->length - done);
            MPI_Request *request = &all[requests++];
            error = one->sends
                        ? MPI_Isend(bytes, length, MPI_BYTE, one->peer, 0, all_processes, request)
                        : MPI_Irecv(bytes, length, MPI_BYTE, one->peer, 0, all_processes, request);
        }
    }
    if (!error) error = wait_for_all(requests, all);
    free(all);
    return error;
}

static void error_text(int error, char *text) {
    char own[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(error, own, &length);
    strncpy(text, own, LIBRARY_TEXT - 1);
    text[LIBRARY_TEXT - 1] = 0;
}

extern const MeshLibrary moec_mpi;
const MeshLibrary moec_mpi = {MESH_LIBRARY_ABI, "MPI", start,    end,        gather,
                              broadcast,        sum,   transfer, error_text, permit_thread};
