/* Time to compile the training program of a process of a mesh, up to its schedule, compared with that of one process. CPU time; the
 * fastest of several alternated rounds counts.
 *
 *     mesh_compile SPEC MODEL MESH BATCH */
#include "driver/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 7 };

static double seconds(const char *const *arguments, long batch, int on_mesh) {
    MoecCompiler *compiler = moec_open(arguments[1], arguments[2], NULL, 0, NULL);
    const clock_t began = clock();
    if (on_mesh && !moec_set_mesh(compiler, arguments[3], 0)) exit(1);
    Program *program = on_mesh ? moec_compile_local(compiler, MOEC_TRAIN, batch, 0) : moec_compile(compiler, MOEC_TRAIN, batch, 0, 0);
    if (program) moec_lower(compiler, program, &target_device);
    if (!program || !moec_schedule(compiler, program) || moec_failed(compiler)) {
        fputs(moec_reports(compiler), stderr);
        exit(1);
    }
    const double spent = (double)(clock() - began) / CLOCKS_PER_SEC;
    moec_close(compiler);
    return spent;
}

int main(int argc, char **argv) {
    double least[2] = {1e9, 1e9};
    if (argc != 5) return 1;
    for (int round = 0; round < ROUNDS; round++)
        for (int on_mesh = 0; on_mesh < 2; on_mesh++) {
            const double spent = seconds((const char *const *)argv, atol(argv[4]), on_mesh);
            if (spent < least[on_mesh]) least[on_mesh] = spent;
        }
    printf("%s, %s: compiled in %.1f ms, without a mesh %.1f ms: ratio %.2f\n", argv[2], argv[3], 1e3 * least[1], 1e3 * least[0],
           least[1] / least[0]);
    return 0;
}
