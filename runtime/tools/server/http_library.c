#include "tools/server/http_library.h"

#include "base/lazy_library.h"
#include "base/message.h"

#include <dlfcn.h>

HttpLibrary http;

bool http_library_open(void) {
    static const char *const names[] = {"libmicrohttpd.so.12", "libmicrohttpd.so", NULL};
    const LibrarySymbol functions[] = {
#define HTTP_SYMBOL(name) {&http.name, "MHD_" #name},
        HTTP_FUNCTIONS(HTTP_SYMBOL)
#undef HTTP_SYMBOL
    };
    const char *remedy = "install libmicrohttpd12 (Debian package)";
    void *handle = lazy_library_open("", names);
    if (!handle) return error_message(remedy, "moec serve requires libmicrohttpd: %s", dlerror());
    const char *missing =
        lazy_library_take(handle, functions, sizeof functions / sizeof *functions);
    return !missing ||
           error_message(remedy, "libmicrohttpd is too old: function %s is missing", missing);
}
