/* Cost of an ordered reduction, with the gathering of its result, compared with MPI_Reduce_scatter and MPI_Allgatherv of the same
 * ranges. bench/mesh.sh compiles it with the mpicc of an implementation and starts it. */
#include "mesh/internal.h"

#include "../../runtime/mesh/mpi_shim.c"

#include <stdio.h>

enum { ROUNDS = 20 };

static double ordered(Mesh *mesh, float *block, size_t count) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    mesh_reduce_ranges(mesh, "sum", block, count);
    mesh_gather_ranges(mesh, "sum", block, count);
    return MPI_Wtime() - began;
}

static double by_library(const Mesh *mesh, float *block, float *part, size_t count) {
    int lengths[64], starts[64];
    for (int rank = 0; rank < mesh->size; rank++) {
        const MeshRange range = mesh_range(mesh, count, rank);
        starts[rank] = (int)range.start;
        lengths[rank] = (int)(range.end - range.start);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    MPI_Reduce_scatter(block, part, lengths, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgatherv(part, lengths[mesh->rank], MPI_FLOAT, block, lengths, starts, MPI_FLOAT, MPI_COMM_WORLD);
    return MPI_Wtime() - began;
}

/* The slowest process counts; the fastest round. */
static void keep_least(double *least, double seconds) {
    double slowest;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (*least == 0 || slowest < *least) *least = slowest;
}

int main(void) {
    char version[LIBRARY_TEXT];
    Mesh mesh = {.here = &moec_mpi, .there = &moec_mpi};
    if (moec_mpi.start(&mesh.rank, &mesh.size, version) || mesh.size > 64) return 1;
    Engine engine = {.device = device_open("cpu")};
    mesh.engine = &engine;
    for (size_t bytes = 16000000; bytes <= 64000000; bytes *= 2) {
        const size_t count = bytes / sizeof(float);
        float *block = malloc(bytes), *part = malloc(bytes);
        double least[2] = {0};
        for (int round = 0; round < ROUNDS; round++)
            for (int kind = 0; kind < 2; kind++) {
                for (size_t i = 0; i < count; i++) block[i] = 1;
                keep_least(&least[kind], kind ? by_library(&mesh, block, part, count) : ordered(&mesh, block, count));
                if (block[0] != (float)mesh.size || block[count - 1] != (float)mesh.size) return 1;
            }
        if (!mesh.rank)
            printf("%zu MB, %d processes: ordered %.1f ms, library %.1f ms: ratio %.2f\n", bytes / 1000000, mesh.size, 1e3 * least[0],
                   1e3 * least[1], least[0] / least[1]);
        free(block);
        free(part);
    }
    return moec_mpi.end();
}
