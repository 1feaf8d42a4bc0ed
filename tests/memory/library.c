/* library: repeated use of libmoec in one process: valid specs, invalid specs, bundles, every mode. Run by tests/valgrind.sh,
 * which reports leaks. */
#include "moec.h"

#include <stdio.h>
#include <string.h>

enum { RUNS = 5 };

static int use(MoecCompiler *compiler) {
    MoecProgram *programs[4];
    int count = 0, passes = 0;
    for (MoecGraph graph = MOEC_FORWARD; graph <= MOEC_UPDATE; graph++) {
        programs[count] = moec_compile(compiler, graph, 0, 0, 0);
        if (programs[count]) count++;
    }
    MoecKernels device = {0};
    const char *text = moec_emit_c(compiler, programs, count, true);
    int ok = count == 4 && text && moec_cost_json(compiler) && moec_cost_text(compiler) && moec_format(compiler);
    const char *const *names = moec_passes(&passes);
    for (int i = 0; i < passes; i++) ok = ok && moec_dump(compiler, MOEC_TRAIN, names[i], moec_target("c"));
    MoecProgram *again = moec_compile(compiler, MOEC_FORWARD, 1, 4, 0);
    MoecInterpreter *eval = again ? moec_interpreter_new(compiler, again) : NULL;
    ok = ok && eval;
    moec_interpreter_free(eval);
    MoecDeviceProgram *lists = again ? moec_device_program(compiler, &again, 1) : NULL;
    moec_device_program_free(lists);
    return ok && lists && moec_emit_cuda(compiler, &again, 1, &device) && device.text;
}

static int use_bundle(MoecCompiler *compiler) {
    const char *bundle = moec_bundle(compiler);
    MoecCompiler *other = moec_open_bundle(bundle, strlen(bundle), NULL, 0);
    int ok = !moec_failed(other) && moec_compile(other, MOEC_FORWARD, 0, 0, 0);
    moec_close(other);
    other = moec_open_bundle(bundle, strlen(bundle) / 2, NULL, 0);
    ok = ok && moec_failed(other) && *moec_reports(other);
    moec_close(other);
    return ok;
}

/* An unknown option: an error with its reports. */
static int use_wrong(const char *file) {
    const char *const sets[] = {"attention.heads.q = 3 +", "no.such.thing = 1"};
    MoecCompiler *compiler = moec_open(file, NULL, sets, 2, NULL);
    int ok = moec_failed(compiler) && *moec_reports(compiler) && *moec_reports_json(compiler) &&
               !moec_compile(compiler, MOEC_TRAIN, 0, 0, 0);
    moec_close(compiler);
    compiler = moec_open("no/such/file.moe", NULL, NULL, 0, NULL);
    ok = ok && moec_failed(compiler);
    moec_close(compiler);
    return ok;
}

int main(int count, char **arguments) {
    for (int run = 0; run < RUNS * (count - 1); run++) {
        const char *file = arguments[1 + run % (count - 1)];
        MoecCompiler *compiler = moec_open(file, NULL, NULL, 0, NULL);
        int ok = !moec_failed(compiler) && use(compiler) && use_bundle(compiler) && use_wrong(file);
        if (!ok) fprintf(stderr, "%s: run %d failed: %s\n", file, run, moec_reports(compiler));
        moec_close(compiler);
        if (!ok) return 1;
    }
    return 0;
}
