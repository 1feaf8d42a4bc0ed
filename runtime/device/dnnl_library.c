#include "device/dnnl_library.h"

#include "base/lazy_library.h"
#include "base/message.h"

#include <dlfcn.h>
#include <pthread.h>

/* The API differs between major versions: only the version of the build is loaded. */
#define TEXT(number) #number
#define SONAME(number) "libdnnl.so." TEXT(number)
static const char soname[] = SONAME(DNNL_VERSION_MAJOR);

DnnlLibrary dnnl;

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static bool is_open;

static void open_library(void) {
    static const char *const names[] = {soname, NULL};
    const LibrarySymbol functions[] = {
#define DNNL_SYMBOL(name) {&dnnl.name, "dnnl_" #name},
        DNNL_FUNCTIONS(DNNL_SYMBOL)
#undef DNNL_SYMBOL
    };
    void *handle = lazy_library_open("", names);
    const char *problem = handle ? NULL : dlerror();
    if (handle && lazy_library_take(handle, functions, sizeof functions / sizeof *functions))
        problem = "a function is missing";
    if (problem) note_message("matrix products run without oneDNN (%s): %s", soname, problem);
    is_open = !problem;
}

/* Several threads can load models at the same time. */
bool dnnl_library_open(void) {
    pthread_once(&opened, open_library);
    return is_open;
}
