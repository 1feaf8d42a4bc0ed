/* memory_limits: compares a freestanding program with the memory of a device, and finds a smaller
 * program of the same model that fits. */
#include "tools/command/freestanding/plain_folder.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>

static bool fits_memory(const DeviceMemory *memory, const MoecFreestanding *program) {
    return (!memory->flash || freestanding_flash_bytes(program) <= (size_t)memory->flash) &&
           (!memory->ram || freestanding_ram_bytes(program) <= (size_t)memory->ram);
}

/* "50000 bytes of flash, 10000 more than --flash" if `limit` is less. A new string. */
static char *need_text(size_t bytes, long limit, const char *name, const char *flag) {
    const size_t allowed = limit ? (size_t)limit : bytes;
    return bytes > allowed ? memory_format("%zu bytes of %s, %zu more than %s", bytes, name,
                                           bytes - allowed, flag)
                           : memory_format("%zu bytes of %s", bytes, name);
}

/* The longest of the halved context lengths that fits; 0: none. */
static long fitting_context(const DeviceMemory *memory, MoecCompiler *compiler, long context,
                            const MoecFreestanding **found) {
    for (; context > 0; context /= 2) {
        MoecProgram *decoding = moec_compile(compiler, MOEC_DECODE, 1, context, 1);
        *found = decoding ? moec_emit_freestanding(compiler, decoding) : NULL;
        if (*found && fits_memory(memory, *found)) break;
    }
    return context;
}

/* Settings that fit, the largest type of weights first; no ternary weights, which need training as
 * such. A new string. */
static char *advice(const DeviceMemory *memory, const MoecFreestanding *program, OpenVariant open,
                    const void *context) {
    static const char *const types[] = {"f32", "bf16", "int8", "int4"};
    char *text = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types && !text; i++) {
        AUTO_FREE char *set = memory_format("inference.weight_dtype=%s", types[i]);
        AUTO(MoecCompiler) *compiler = open(context, set);
        const MoecFreestanding *found = NULL;
        long length = compiler ? fitting_context(memory, compiler, program->context, &found) : 0;
        if (length)
            text = memory_format("--weight-dtype %s --context-length %ld fits: %zu bytes of flash, "
                                 "%zu bytes of RAM",
                                 types[i], length, freestanding_flash_bytes(found),
                                 freestanding_ram_bytes(found));
    }
    return text ? text : memory_format("no type of weights fits: use a smaller model");
}

bool device_memory_holds(const DeviceMemory *memory, const MoecFreestanding *program,
                         OpenVariant open, const void *context) {
    if (fits_memory(memory, program)) return true;
    AUTO_FREE char *flash = need_text(freestanding_flash_bytes(program), memory->flash, "flash",
                                      "--flash"),
                   *ram = need_text(freestanding_ram_bytes(program), memory->ram, "RAM", "--ram"),
                   *help = advice(memory, program, open, context);
    error_message(help, "the device is too small: the program needs %s, and %s", flash, ram);
    return false;
}
