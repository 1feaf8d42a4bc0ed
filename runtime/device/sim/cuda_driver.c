/* cuda_driver: the CUDA driver functions that the runtime uses, for the simulated device. */
#include "block.h"
#include "clocks.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC visibility push(default)

typedef int Result;
typedef unsigned long long Pointer;
enum {
    GOOD = 0,
    INVALID_VALUE = 1,
    NO_MEMORY = 2,
    NO_DEVICE = 101,
    NO_CONTEXT = 201,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
    NOT_READY = 600,
    NOT_IN_CAPTURE = 900,
    CAPTURE_ENDED = 901,
    UNJOINED = 904
};
enum { IMAGE_MARK = 8 }; /* size of the mark and of the length before the object in an image */

typedef struct Function Function;

typedef struct Image {
    struct Image *next;  /* previously loaded image */
    Function *functions; /* all functions requested so far */
    char path[64];
    void *handle;
    unsigned char *start, *end, *statics, *statics_end;
} Image;

/* Without cuFuncSetAttribute. */
enum { SHARED_BY_DEFAULT = 48 << 10 };

struct Function {
    Image *image;
    const SimKernel *kernel;
    Function *next;
    unsigned shared; /* most bytes of shared memory that a launch may request */
};

/* Kinds of work recorded during a stream capture. */
typedef enum WorkKind {
    WORK_LAUNCH,
    WORK_PUT,
    WORK_GET,
    WORK_COPY,
    WORK_SET,
    WORK_HOST,
    WORK_CALL
} WorkKind;

typedef struct StreamWork {
    WorkKind kind;
    const Function *function;
    SimIndex grid, block;
    size_t shared;
    bool overlaps;
    void *arguments[SIM_ARGUMENTS]; /* copies */
    void *to;
    const void *from;
    size_t bytes;
    int value;
    void (*host)(void *); /* called with `to` */
    SimCall *call;        /* the same; the graph owns it */
    SimStream *stream;    /* NULL: that of the launch */
} StreamWork;

typedef struct SimGraph {
    StreamWork *work;
    int count, capacity;
    bool ready;   /* executable; destroyed by cuGraphExecDestroy */
    bool invalid; /* a call was not permitted during the capture */
    SimStream *origin;
    /* by stream: it follows work of the capture; its last work; the work that the origin follows */
    bool takes_part[SIM_STREAMS];
    int last[SIM_STREAMS], joined[SIM_STREAMS];
} SimGraph;

static SimGraph *captured; /* not NULL: work is recorded */
static Image *images;      /* all loaded images */
static bool broken;        /* a launch has failed; later calls do nothing */
static bool retained;      /* a context exists: each thread must set it before use */
/* initial-exec: the leak checker of GCC 12 crashes on thread-local blocks of loaded libraries. */
static _Thread_local bool entered __attribute__((tls_model("initial-exec")));

/* The error of a call in this state of the thread, or GOOD. waits: the call is not permitted during
 * a capture, which it ends. */
static Result stopped(bool waits) {
    if (retained && !entered) return NO_CONTEXT;
    if (!captured) return GOOD;
    if (captured->invalid) return CAPTURE_ENDED;
    captured->invalid = waits;
    return waits ? NOT_IN_CAPTURE : GOOD;
}

static bool has_mode(const char *word) {
    const char *words = getenv("MOEC_SIM");
    return words && strstr(words, word);
}

bool sim_capturing(void) {
    return captured != NULL;
}

/* ---- images ---- */

typedef struct FunctionSearch {
    Image *image;
    ElfW(Addr) base;
} FunctionSearch;

static int take_segments(struct dl_phdr_info *info, size_t size, void *data) {
    FunctionSearch *search = data;
    (void)size;
    if (info->dlpi_addr != search->base) return 0;
    unsigned char *fixed = NULL; /* end of the memory that only the loader writes */
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        unsigned char *start = (unsigned char *)(info->dlpi_addr + part->p_vaddr); // NOLINT
        if (part->p_type == PT_GNU_RELRO) fixed = start + part->p_memsz;
        if (part->p_type != PT_LOAD) continue;
        if (!search->image->start || start < search->image->start) search->image->start = start;
        if (start + part->p_memsz > search->image->end) search->image->end = start + part->p_memsz;
        if (part->p_flags & PF_W) {
            search->image->statics = start;
            search->image->statics_end = start + part->p_memsz;
        }
    }
    if (fixed && fixed > search->image->statics && fixed < search->image->statics_end)
        search->image->statics = fixed;
    return 1;
}

static bool load_object(Image *image) {
    image->handle = dlopen(image->path, RTLD_NOW | RTLD_LOCAL);
    struct link_map *map;
    if (!image->handle || dlinfo(image->handle, RTLD_DI_LINKMAP, &map)) {
        fprintf(stderr, "sim: error: %s\n", dlerror());
        return false;
    }
    FunctionSearch search = {image, map->l_addr};
    dl_iterate_phdr(take_segments, &search);
    return image->start != NULL;
}

Result cuModuleLoadData(Image **loaded, const unsigned char *bytes) {
    unsigned long long length;
    const Result error = stopped(true);
    if (error) return error;
    if (memcmp(bytes, "SIMULATE", IMAGE_MARK) != 0) return INVALID_IMAGE;
    memcpy(&length, bytes + IMAGE_MARK, sizeof length);
    Image *image = calloc(1, sizeof *image);
    if (!image) return NO_MEMORY;
    strcpy(image->path, "/tmp/moec-sim.XXXXXX");
    int file = mkstemp(image->path);
    bool good = file >= 0;
    for (size_t done = 0; good && done < length;) {
        ssize_t part = write(file, bytes + 2 * IMAGE_MARK + done, length - done);
        good = part > 0;
        done += good ? (size_t)part : 0;
    }
    if (file >= 0) close(file);
    if (!good || !load_object(image)) {
        unlink(image->path);
        free(image);
        return INVALID_IMAGE;
    }
    image->next = images;
    images = image;
    *loaded = image;
    return GOOD;
}

Result cuModuleUnload(Image *image) {
    while (image->functions) {
        Function *next = image->functions->next;
        free(image->functions);
        image->functions = next;
    }
    Image **place = &images;
    while (*place != image) place = &(*place)->next;
    *place = image->next;
    dlclose(image->handle);
    unlink(image->path);
    free(image);
    return GOOD;
}

/* Removes the files of images that were not unloaded. */
__attribute__((destructor)) static void remove_files(void) {
    for (const Image *image = images; image; image = image->next) unlink(image->path);
}

Result cuModuleGetFunction(Function **found, Image *image, const char *name) {
    char symbol[512];
    snprintf(symbol, sizeof symbol, "sim_kernel_%s", name);
    const SimKernel *kernel = dlsym(image->handle, symbol);
    Function *function = kernel ? calloc(1, sizeof *function) : NULL;
    if (!function) return NOT_FOUND;
    *function = (Function){image, kernel, image->functions, SHARED_BY_DEFAULT};
    image->functions = function;
    *found = function;
    return GOOD;
}

/* ---- work ---- */

static StreamWork *record(WorkKind kind, SimStream *stream) {
    if (captured->count == captured->capacity) {
        captured->capacity = captured->capacity * 2 + 64;
        captured->work =
            realloc(captured->work, sizeof *captured->work * (size_t)captured->capacity);
        if (!captured->work) abort();
    }
    StreamWork *work = &captured->work[captured->count++];
    *work = (StreamWork){.kind = kind, .stream = stream == captured->origin ? NULL : stream};
    captured->last[stream->number] = captured->count;
    if (!captured->takes_part[stream->number]) {
        fprintf(stderr, "sim: error: work of stream %d during a capture that it does not follow\n",
                stream->number);
        captured->invalid = true;
    }
    return work;
}

const void *sim_capture(void) {
    return captured;
}

int sim_record(SimStream *stream, SimCall *call, const void *data, size_t bytes) {
    StreamWork *work = record(WORK_CALL, stream);
    work->call = call;
    work->to = malloc(bytes);
    if (!work->to) abort();
    memcpy(work->to, data, bytes);
    return captured->count;
}

void sim_follow(const SimStream *stream, const SimStream *other, int number) {
    captured->takes_part[stream->number] = true;
    if (stream == captured->origin && number > captured->joined[other->number])
        captured->joined[other->number] = number;
}

static Result move(SimStream *stream, WorkKind kind, void *to, const void *from, size_t bytes) {
    const Result error = stopped(false);
    if (error) return error;
    if (broken) return LAUNCH_FAILED;
    if ((kind != WORK_GET && !memory_holds(to, bytes)) ||
        (kind != WORK_PUT && !memory_holds(from, bytes)))
        return INVALID_VALUE;
    if (captured) {
        StreamWork *work = record(kind, stream);
        work->to = to;
        work->from = from;
        work->bytes = bytes;
        return GOOD;
    }
    stream_begin(stream);
    if ((kind != WORK_PUT && !stream_touch_range(from, bytes, false, "copy")) ||
        (kind != WORK_GET && !stream_touch_range(to, bytes, true, "copy")))
        return broken = true, LAUNCH_FAILED;
    memmove(to, from, bytes);
    return GOOD;
}

static Result launch_grid(SimStream *stream, const Function *function, SimIndex grid,
                          SimIndex block, size_t shared, bool overlaps, void **arguments) {
    const Image *image = function->image;
    SimLaunch one = {.kernel = function->kernel,
                     .arguments = arguments,
                     .grid = grid,
                     .block = block,
                     .object = image->path,
                     .image = image->start,
                     .image_end = image->end,
                     .statics = image->statics,
                     .statics_end = image->statics_end,
                     .dynamic_bytes = shared,
                     .overlaps = overlaps};
    stream_launch(stream, overlaps);
    if (!broken && !block_run(&one)) broken = true;
    return broken ? LAUNCH_FAILED : GOOD;
}

static Result launch_or_record(SimStream *stream, const Function *function, SimIndex grid,
                               SimIndex block, unsigned shared, bool overlaps, void **arguments) {
    unsigned threads = block.x * block.y * block.z;
    const Result error = stopped(false);
    if (error) return error;
    if (!threads || threads > SIM_THREADS || !grid.x || !grid.y || !grid.z || grid.y > 65535 ||
        shared > function->shared) {
        fprintf(stderr,
                "sim: error: kernel %s: launched with grid (%u, %u), %u threads, %u bytes of "
                "shared memory; %u bytes are allowed\n",
                function->kernel->name, grid.x, grid.y, threads, shared, function->shared);
        return INVALID_VALUE;
    }
    if (!captured) return launch_grid(stream, function, grid, block, shared, overlaps, arguments);
    StreamWork *work = record(WORK_LAUNCH, stream);
    work->function = function;
    work->grid = grid;
    work->block = block;
    work->shared = shared;
    work->overlaps = overlaps;
    for (int i = 0; i < function->kernel->argument_count; i++) {
        work->arguments[i] = malloc(function->kernel->argument_bytes[i]);
        if (!work->arguments[i]) return NO_MEMORY;
        memcpy(work->arguments[i], arguments[i], function->kernel->argument_bytes[i]);
    }
    return GOOD;
}

Result cuLaunchKernel(const Function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                      void *stream, void **arguments, void **extra) {
    (void)extra;
    const SimIndex grid = {grid_x, grid_y, grid_z}, block = {block_x, block_y, block_z};
    return launch_or_record(stream_of(stream), function, grid, block, shared, false, arguments);
}

/* CUlaunchConfig with one attribute: see CudaLaunchShape of cuda_library.h. */
typedef struct LaunchShape {
    SimIndex grid, block;
    unsigned shared;
    void *stream;
    const struct Attribute {
        int kind;
        long long value[8];
    } * attributes;
    unsigned attribute_count;
} LaunchShape;

Result cuLaunchKernelEx(const LaunchShape *shape, const Function *function, void **arguments,
                        void **extra) {
    enum { OVERLAPS = 6 };
    (void)extra;
    bool overlaps = false;
    for (unsigned i = 0; i < shape->attribute_count; i++)
        overlaps |= shape->attributes[i].kind == OVERLAPS && shape->attributes[i].value[0];
    if (overlaps && captured && has_mode("serial")) return NOT_SUPPORTED; /* drivers before 12.3 */
    return launch_or_record(stream_of(shape->stream), function, shape->grid, shape->block,
                            shape->shared, overlaps, arguments);
}

Result cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    return move(stream_of(stream), WORK_PUT, to, from, bytes);
}

Result cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    return move(stream_of(stream), WORK_GET, to, from, bytes);
}

Result cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    return move(stream_of(stream), WORK_COPY, to, from, bytes);
}

Result cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream) {
    const Result error = stopped(false);
    if (error) return error;
    if (broken) return LAUNCH_FAILED;
    if (!memory_holds(to, bytes)) return INVALID_VALUE;
    if (captured) {
        StreamWork *work = record(WORK_SET, stream_of(stream));
        work->to = to;
        work->value = value;
        work->bytes = bytes;
        return GOOD;
    }
    stream_begin(stream_of(stream));
    if (!stream_touch_range(to, bytes, true, "memset")) return broken = true, LAUNCH_FAILED;
    memset(to, value, bytes);
    return GOOD;
}

/* For simulated CUDA libraries, whose work runs through this function. */
Result cuLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
    if (broken) return LAUNCH_FAILED;
    if (captured) {
        StreamWork *work = record(WORK_HOST, stream_of(stream));
        work->host = function;
        work->to = data;
    } else {
        function(data);
    }
    return GOOD;
}

/* ---- graphs ---- */

Result cuGraphExecDestroy(SimGraph *graph) {
    for (int i = 0; i < graph->count; i++) {
        for (int j = 0; j < SIM_ARGUMENTS; j++) free(graph->work[i].arguments[j]);
        if (graph->work[i].kind == WORK_CALL) free(graph->work[i].to);
    }
    free(graph->work);
    free(graph);
    return GOOD;
}

Result cuStreamBeginCapture_v2(void *stream, int mode) {
    (void)mode;
    if (captured) return INVALID_VALUE;
    captured = calloc(1, sizeof *captured);
    if (!captured) return NO_MEMORY;
    captured->origin = stream_of(stream);
    captured->takes_part[captured->origin->number] = true;
    return GOOD;
}

Result cuStreamIsCapturing(void *stream, int *status) {
    (void)stream;
    *status = captured != NULL;
    return GOOD;
}

Result cuStreamEndCapture(void *stream, SimGraph **graph) {
    (void)stream;
    Result error = !captured ? INVALID_VALUE : captured->invalid ? CAPTURE_ENDED : GOOD;
    for (int i = 0; i < SIM_STREAMS && !error; i++)
        if (i != captured->origin->number && captured->last[i] > captured->joined[i])
            error = UNJOINED;
    if (error && captured) cuGraphExecDestroy(captured);
    *graph = error ? NULL : captured;
    captured = NULL;
    return error;
}

/* An executable graph is the graph itself. */
Result cuGraphInstantiateWithFlags(SimGraph **ready, SimGraph *graph, unsigned long long flags) {
    (void)flags;
    if (has_mode("direct")) return NOT_SUPPORTED;
    *ready = graph;
    graph->ready = true;
    return GOOD;
}

Result cuGraphDestroy(SimGraph *graph) {
    return graph->ready ? GOOD : cuGraphExecDestroy(graph);
}

Result cuGraphLaunch(SimGraph *graph, void *stream) {
    Result result = GOOD;
    for (int i = 0; i < graph->count && !result; i++) {
        StreamWork *work = &graph->work[i];
        SimStream *own = work->stream ? work->stream : stream_of(stream);
        result =
            work->kind == WORK_LAUNCH ? launch_grid(own, work->function, work->grid, work->block,
                                                    work->shared, work->overlaps, work->arguments)
            : work->kind == WORK_SET
                ? cuMemsetD8Async(work->to, (unsigned char)work->value, work->bytes, own)
            : work->kind == WORK_HOST ? cuLaunchHostFunc(own, work->host, work->to)
            : work->kind == WORK_CALL ? work->call(own, work->to)
                                      : move(own, work->kind, work->to, work->from, work->bytes);
    }
    return result;
}

/* ---- other functions: one device, one context, synchronous execution ---- */

Result cuInit(unsigned flags) {
    Dl_info own;
    (void)flags;
    /* Kernels find the simulator among the global symbols. */
    if (dladdr(&sim_place, &own)) dlopen(own.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    return GOOD;
}

Result cuDriverGetVersion(int *version) {
    *version = 12000;
    return GOOD;
}

static int devices(void) {
    return has_mode("eight") ? 8 : has_mode("pair") ? 2 : 1;
}

Result cuDeviceGetCount(int *count) {
    *count = devices();
    return GOOD;
}

Result cuDeviceGet(int *device, int number) {
    *device = number;
    return number < devices() ? GOOD : NO_DEVICE;
}

Result cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    snprintf(name, (size_t)length, "simulated device");
    return GOOD;
}

Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 75: /* major compute capability; MOEC_SIM=hopper has warpgroups, old has no bf16 */
        *value = has_mode("future") ? 15 : has_mode("hopper") ? 9 : has_mode("old") ? 7 : 8;
        break;
    case 76: /* minor compute capability */
        *value = 0;
        break;
    case 97: /* maximum shared memory per block */
        *value = 166912;
        break;
    case 16: /* number of multiprocessors */
        *value = 4;
        break;
    default:
        return INVALID_VALUE;
    }
    return GOOD;
}

Result cuDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, (size_t)length, "0000:%02x:00.0", device);
    return GOOD;
}

static int opened; /* number of the device */

int sim_device(void) {
    return opened;
}

Result cuDevicePrimaryCtxRetain(void **context, int device) {
    static int only;
    opened = device;
    *context = &only;
    retained = true;
    return GOOD;
}

Result cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    return GOOD;
}

Result cuCtxSetCurrent(void *context) {
    entered = context != NULL;
    return GOOD;
}

Result cuMemAlloc_v2(void **block, size_t bytes) {
    const Result error = stopped(true);
    if (error) return error;
    *block = bytes ? memory_take(bytes) : NULL;
    return *block ? GOOD : bytes ? NO_MEMORY : INVALID_VALUE;
}

Result cuMemFree_v2(void *block) {
    const Result error = stopped(true);
    if (error) return error;
    if (nccl_uses(block)) return broken = true, LAUNCH_FAILED;
    return memory_give(block) ? GOOD : INVALID_VALUE;
}

Result cuMemHostRegister_v2(void *block, size_t bytes, unsigned flags) {
    (void)flags;
    return block && bytes ? GOOD : INVALID_VALUE;
}

Result cuMemHostUnregister(void *block) {
    return block ? GOOD : INVALID_VALUE;
}

Result cuMemGetInfo_v2(size_t *left, size_t *whole) {
    *whole = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    *left = *whole / 2;
    return GOOD;
}

Result cuStreamSynchronize(void *stream) {
    const Result error = stopped(true);
    if (error) return error;
    if (sim_now.endless) {
        fputs("sim: error: a call waits for a kernel that never ends\n", stderr);
        abort();
    }
    nccl_progress(stream_of(stream), true);
    stream_join_host(stream_of(stream));
    return broken ? LAUNCH_FAILED : GOOD;
}

Result cuStreamQuery(void *stream) {
    const Result error = stopped(true);
    if (error) return error;
    if (broken) return LAUNCH_FAILED;
    if (sim_now.endless || !nccl_progress(stream_of(stream), false)) return NOT_READY;
    stream_join_host(stream_of(stream));
    return GOOD;
}

Result cuFuncSetAttribute(Function *function, int attribute, int value) {
    enum { SHARED = 8 };
    if (attribute != SHARED) return GOOD;
    if (value < 0 || value > SIM_SHARED) return INVALID_VALUE;
    function->shared = (unsigned)value;
    return GOOD;
}

Result cuFuncGetAttribute(int *value, int attribute, const Function *function) {
    (void)attribute, (void)function;
    *value = 0;
    return GOOD;
}

Result cuGetErrorString(Result result, const char **text) {
    *text = result == LAUNCH_FAILED    ? "a kernel failed"
            : result == NO_MEMORY      ? "out of memory"
            : result == INVALID_VALUE  ? "invalid value"
            : result == NOT_FOUND      ? "not found"
            : result == NO_DEVICE      ? "no such device"
            : result == NO_CONTEXT     ? "the thread has no context"
            : result == NOT_SUPPORTED  ? "not supported"
            : result == NOT_IN_CAPTURE ? "not permitted during a stream capture"
            : result == CAPTURE_ENDED  ? "an earlier call ended the stream capture"
                                       : "simulated error";
    return GOOD;
}
