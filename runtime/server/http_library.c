#include "server/http_library.h"

#include "base/message.h"

#include <dlfcn.h>
#include <string.h>

HttpLibrary http;

bool http_library_open(void) {
    const char *remedy = "install libmicrohttpd12 (named as in Debian)";
    void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!handle) handle = dlopen("libmicrohttpd.so", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return error_message(remedy, "serving needs libmicrohttpd: %s", dlerror());
    struct {
        void *member;
        const char *name;
    } functions[] = {
#define HTTP_SYMBOL(name) {&http.name, "MHD_" #name},
        HTTP_FUNCTIONS(HTTP_SYMBOL)
#undef HTTP_SYMBOL
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = dlsym(handle, functions[i].name);
        if (!address)
            return error_message(remedy, "libmicrohttpd is too old: it has no %s",
                                 functions[i].name);
        memcpy(functions[i].member, &address, sizeof address);
    }
    return true;
}
