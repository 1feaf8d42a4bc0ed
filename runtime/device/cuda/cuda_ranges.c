/* cuda_ranges: NVTX ranges around launches, for profilers such as Nsight Systems. Off unless
 * MOEC_NVTX is set. The library is loaded at first use: its ranges cost nothing without it. */
#include "device/cuda/cuda.h"

#include "base/lazy_library.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

typedef struct Ranges {
    int (*push)(const char *name);
    int (*pop)(void);
} Ranges;

static const Ranges *load_ranges(void) {
    static const char *const usual[] = {"libnvtx3interop.so.1", "libnvToolsExt.so.1", NULL};
    static Ranges ranges;
    const LibrarySymbol symbols[] = {{&ranges.push, "nvtxRangePushA"},
                                     {&ranges.pop, "nvtxRangePop"}};
    const char *asked = getenv("MOEC_NVTX"), *const own[] = {asked, NULL};
    if (!asked || !*asked || !strcmp(asked, "off")) return NULL;
    void *library = lazy_library_open("", strchr(asked, '/') ? own : usual);
    if (library && !lazy_library_take(library, symbols, 2)) return &ranges;
    note_message("MOEC_NVTX: no library with nvtxRangePushA; set it to the path of "
                 "libnvtx3interop.so.1 (package nvidia-nvtx) or libnvToolsExt.so.1");
    return NULL;
}

static const Ranges *ranges_of_process(void) {
    static const Ranges *ranges;
    static bool known;
    if (!known) ranges = load_ranges();
    known = true;
    return ranges;
}

bool cuda_ranges_on(void) {
    return ranges_of_process() != NULL;
}

void cuda_range_push(const char *name) {
    const Ranges *ranges = ranges_of_process();
    if (ranges) ranges->push(name);
}

void cuda_range_pop(void) {
    const Ranges *ranges = ranges_of_process();
    if (ranges) ranges->pop();
}
