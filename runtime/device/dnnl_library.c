#include "device/dnnl_library.h"

#include "base/lazy_library.h"
#include "base/message.h"

#include <dlfcn.h>

/* Functions differ between major versions, so it is the one that this was built with. */
#define TEXT(number) #number
#define SONAME(number) "libdnnl.so." TEXT(number)
static const char soname[] = SONAME(DNNL_VERSION_MAJOR);

DnnlLibrary dnnl;

static bool open_once(void) {
    static const char *const names[] = {soname, NULL};
    const LibrarySymbol functions[] = {
#define DNNL_SYMBOL(name) {&dnnl.name, "dnnl_" #name},
        DNNL_FUNCTIONS(DNNL_SYMBOL)
#undef DNNL_SYMBOL
    };
    void *handle = lazy_library_open("", names);
    const char *problem = handle ? NULL : dlerror();
    if (handle && lazy_library_take(handle, functions, sizeof functions / sizeof *functions))
        problem = "it lacks functions";
    if (problem) note_message("products go without oneDNN (%s): %s", soname, problem);
    return !problem;
}

bool dnnl_library_open(void) {
    static bool tried, there;
    if (!tried) there = open_once();
    tried = true;
    return there;
}
