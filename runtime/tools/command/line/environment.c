#include "tools/command/line/environment.h"

static const EnvironmentVariable variables[] = {
    {"MOEC_PATH", "directories for `use` after the directory of the spec, separated by colons"},
    {"MOEC_CC", "C compiler of models, with options (default `cc`)"},
    {"MOEC_CFLAGS", "options of the C compiler after those of moec, separated by spaces"},
    {"MOEC_API_KEY", "API key of `moec serve`; required with a `--host` that is not local"},
    {"MOEC_LIBRARY", "path of `libmoec.so` for the Python package"},
    {"MOEC_CUDA", "CUDA driver library, or directory with it; empty = no GPU"},
    {"MOEC_VARIANT", "variant of GPU kernels: mma, wgmma or wide (default: the fastest one)"},
    {"MOEC_WGMMA", "off = no warpgroup kernels (compute capability 9.0)"},
    {"MOEC_OVERLAP", "off = no overlap of consecutive kernels (compute capability 9.0)"},
    {"MOEC_SIM", "modes of the simulated CUDA driver: unchecked, serial, pair, hopper"},
    {"MOEC_CXX", "C++ compiler of the simulated CUDA driver (default `c++`)"},
    {"OMP_NUM_THREADS", "number of CPU threads; `--threads` overrides it"},
    {"OMP_WAIT_POLICY", "active wait of OpenMP threads; moec sets a short one if it is not set"},
    {"GOMP_SPINCOUNT", "active wait of OpenMP threads of GCC, in iterations"},
    {"XDG_CACHE_HOME", "directory of the cache `moec/` of compiled programs (default `~/.cache`)"},
    {"HOME", "home directory; its `.cache` is the default of `XDG_CACHE_HOME`"},
    {"TMPDIR", "directory of temporary files (default `/tmp`)"},
    {"PATH", "directories of the C compiler, `nvcc` and browsers"},
    {"BROWSER", "program of `moec report --open` (default `xdg-open`)"},
    {"NO_COLOR", "no color in messages, if set to any text"},
    {"TERM", "dumb or unset = no redrawn progress line"},
};

const EnvironmentVariable *environment_variables(int *count) {
    *count = (int)(sizeof variables / sizeof variables[0]);
    return variables;
}
