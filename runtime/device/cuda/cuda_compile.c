#include "device/cuda/cuda.h"

#include "base/cache.h"
#include "base/message.h"
#include "base/files.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADER_LIMIT = 64, LOG_LIMIT = 4000 };

/* The headers that CUDA source may include, by base name. */
static int take_headers(const char **names, const char **texts) {
    int count = 0;
    for (const EmbeddedFile *file = embedded_files; file->name && count < HEADER_LIMIT; file++) {
        if (!embedded_is_header(file)) continue;
        names[count] = embedded_base(file);
        texts[count++] = file->text;
    }
    return count;
}

void cuda_hash_library(XXH3_state_t *state, const CudaLibrary *library) {
    int version[2] = {0};
    library->compiler.version(&version[0], &version[1]);
    XXH3_128bits_update(state, version, sizeof version);
    cache_add(state, library->place);
    struct stat status;
    if (*library->place && stat(library->place, &status) == 0) {
        XXH3_128bits_update(state, &status.st_size, sizeof status.st_size);
        XXH3_128bits_update(state, &status.st_mtim, sizeof status.st_mtim);
    }
}

/* Path of the cached image, or NULL. */
static char *object_path(const CudaLibrary *library, const CudaText *text) {
    if (!text->keep) return NULL;
    XXH3_state_t *state = cache_begin();
    cache_add(state, text->text);
    cache_add_headers(state);
    const int architecture[] = {text->major, text->minor};
    XXH3_128bits_update(state, architecture, sizeof architecture);
    cuda_hash_library(state, library);
    return cache_path(state, ".cubin");
}

static bool read_cached(const char *path, CudaImage *image) {
    image->bytes = path ? cache_read(path, &image->length) : NULL;
    image->cached = image->bytes != NULL;
    return image->cached;
}

static bool report_failure(const CudaCompiler *compiler, CudaCompilation *program,
                           const CudaText *text) {
    size_t length = 0;
    compiler->log_bytes(program, &length);
    AUTO_FREE char *log = memory_new(length + 1);
    compiler->log(program, log);
    if (text->help)
        error_message(text->help, "%s does not compile:\n%.*s", text->name, LOG_LIMIT, log);
    else
        error_message("please report this with the spec",
                      "NVRTC rejects the generated program %s:\n%.*s", text->name, LOG_LIMIT, log);
    return false;
}

int cuda_architecture(const CudaLibrary *library, int major, int minor) {
    const CudaCompiler *compiler = &library->compiler;
    const int own = 10 * major + minor;
    int count = 0, newest = 0;
    if (compiler->architecture_count(&count) || count < 1) return own;
    AUTO_FREE int *known = memory_new(sizeof *known * (size_t)count);
    if (compiler->architectures(known)) count = 0;
    for (int i = 0; i < count; i++)
        if (known[i] <= own && known[i] > newest) newest = known[i];
    return newest ? newest : own;
}

/* From compute capability 9.0 on, architecture-specific features have separate names. */
static char *architecture_option(const CudaText *text, int architecture, bool is_own) {
    return memory_format("--gpu-architecture=%s_%d%s", is_own ? "sm" : "compute", architecture,
                         is_own && text->major >= 9 ? "a" : "");
}

/* The image for the device, or for another architecture the PTX assembly, which the driver
 * compiles. */
static bool read_image(const CudaCompiler *compiler, CudaCompilation *program, bool is_own,
                       CudaImage *image) {
    if (is_own ? compiler->image_bytes(program, &image->length)
               : compiler->assembly_bytes(program, &image->length))
        return false;
    image->bytes = memory_new(image->length + 1);
    return image->length && (is_own ? compiler->image(program, image->bytes)
                                    : compiler->assembly(program, image->bytes)) == 0;
}

static bool make_object(const CudaLibrary *library, const CudaText *text, CudaImage *image) {
    const CudaCompiler *compiler = &library->compiler;
    const char *names[HEADER_LIMIT], *texts[HEADER_LIMIT];
    int count = take_headers(names, texts);
    CudaCompilation *program = NULL;
    int error = compiler->create(&program, text->text, text->name, count, texts, names);
    if (error)
        return error_message("check the installation of NVRTC and the free memory",
                             "NVRTC cannot create the program %s", text->name);
    const int architecture = cuda_architecture(library, text->major, text->minor);
    const bool is_own = architecture == 10 * text->major + text->minor;
    AUTO_FREE char *option = architecture_option(text, architecture, is_own);
    const char *const options[] = {option, "--std=c++17", "--extra-device-vectorization"};
    bool good =
        compiler->compile(program, 3, options) == 0 || report_failure(compiler, program, text);
    if (good)
        good = read_image(compiler, program, is_own, image) ||
               error_message("update NVRTC and the driver to the same CUDA version",
                             "NVRTC cannot produce an image of %s", text->name);
    compiler->destroy(&program);
    return good;
}

bool cuda_compile(const CudaLibrary *library, const CudaText *text, CudaImage *image) {
    *image = (CudaImage){0};
    AUTO_FREE char *path = object_path(library, text);
    bool good = read_cached(path, image) || make_object(library, text, image);
    if (good && path && !image->cached) cache_write(path, image->bytes, image->length);
    if (!good) {
        free(image->bytes);
        image->bytes = NULL;
    }
    return good;
}

/* ---- cuda_parts ---- */

static bool is_shared_part(const MoecPiece *piece) {
    return piece->kernel == MOEC_EVERY_KERNEL;
}

bool *cuda_pieces(const MoecKernels *kernels, const bool *spare, bool wants_spare) {
    bool *wanted = memory_new(sizeof *wanted * (size_t)kernels->count);
    for (int i = 0; i < kernels->count; i++) {
        int kernel = kernels->pieces[i].kernel;
        wanted[i] = kernel != MOEC_EVERY_KERNEL && spare[kernel] == wants_spare;
    }
    return wanted;
}

int cuda_kernels(const MoecKernels *kernels, const bool *wanted) {
    int count = 0;
    for (int i = 0; i < kernels->count; i++)
        count += !is_shared_part(&kernels->pieces[i]) && wanted[i];
    return count;
}

char *cuda_part(const MoecKernels *kernels, const bool *wanted, int part, int parts) {
    char *text = memory_new(strlen(kernels->text) + 1), *to = text;
    size_t begin = 0;
    for (int i = 0, number = 0; i < kernels->count; i++) {
        const MoecPiece *piece = &kernels->pieces[i];
        if (is_shared_part(piece) || (wanted[i] && number++ % parts == part)) {
            memcpy(to, kernels->text + begin, piece->end - begin);
            to += piece->end - begin;
        }
        begin = piece->end;
    }
    return text;
}

/* ---- one launch ---- */

bool cuda_launch_once(Device *device, const DeviceKernel *kernel) {
    CudaDevice *cuda = (CudaDevice *)(void *)device;
    const CudaDriver *driver = &cuda->library->driver;
    const CudaText text = {.name = kernel->title,
                           .text = kernel->text,
                           .major = cuda->major,
                           .minor = cuda->minor,
                           .keep = true,
                           .help = kernel->help};
    CudaImage image;
    CudaModule *module = NULL;
    CudaFunction *function = NULL;
    cuda_enter(cuda);
    if (!cuda_compile(cuda->library, &text, &image)) return false;
    const bool good =
        cuda_good(cuda, driver->module_load(&module, image.bytes), "load the kernel") &&
        cuda_good(cuda, driver->function_get(&function, module, kernel->name), "find the kernel") &&
        (!kernel->blocks ||
         cuda_good(cuda,
                   driver->launch(function, (unsigned)kernel->blocks, 1, 1,
                                  (unsigned)kernel->threads, 1, 1, (unsigned)kernel->shared,
                                  cuda->stream, kernel->arguments, NULL),
                   "launch the kernel")) &&
        cuda_good(cuda, driver->stream_wait(cuda->stream), "run the kernel");
    if (module && !cuda->failed) driver->module_free(module);
    free(image.bytes);
    return good;
}
