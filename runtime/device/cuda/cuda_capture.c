/* cuda_capture: calls that are repeated as CUDA graphs.
 *
 * The first call of a graph launches its kernels one by one. The second call is captured as a CUDA
 * graph, and later calls launch that graph. A call that cannot be captured is launched kernel by
 * kernel every time. Nothing is loaded or allocated during a capture. Values that change between
 * calls (inputs, seed, optimizer scalars) are in device memory, never in kernel arguments.
 *
 * A call with exchanges between processes becomes several graphs if the numbers of rows depend on
 * the data. In between, the host begins or ends an exchange, and has to know these numbers. */
#include "device/cuda/cuda_engine.h"

#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

void cuda_free_segments(const CudaEngine *engine, Capture *capture) {
    for (int i = 0; i < capture->segment_count; i++)
        if (capture->segments[i].ready)
            engine->device->library->driver.ready_free(capture->segments[i].ready);
    free(capture->segments);
    capture->segments = NULL;
    capture->segment_count = 0;
}

/* The capture with this key; *known: it was called before. NULL if there are too many. */
static Capture *find_capture(CudaEngine *engine, const CaptureKey *key, bool *known) {
    for (int i = 0; i < engine->capture_count; i++) {
        const CaptureKey *other = &engine->captures[i].key;
        *known = other->what == key->what && other->inputs == key->inputs &&
                 other->outputs == key->outputs && other->cache == key->cache &&
                 other->first_micro_batch == key->first_micro_batch &&
                 other->last_micro_batch == key->last_micro_batch;
        if (*known) return &engine->captures[i];
    }
    *known = false;
    if (engine->capture_count == CAPTURE_LIMIT) return NULL;
    Capture *capture = &engine->captures[engine->capture_count++];
    capture->key = *key;
    return capture;
}

static int begin_segment(CudaEngine *engine) {
    engine->has_work = false;
    return engine->device->library->driver.capture_begin(engine->device->stream,
                                                         CUDA_CAPTURE_THREAD);
}

/* Adds the work since begin_segment to the capture. Returns 0, or an error number. */
static int end_segment(CudaEngine *engine, const CapturedExchange *exchange) {
    const CudaDriver *driver = &engine->device->library->driver;
    Capture *capture = engine->current;
    CudaGraph *graph = NULL;
    CudaReady *ready = NULL;
    int error = driver->capture_end(engine->device->stream, &graph);
    if (engine->refused) error = engine->refused;
    if (!error && engine->has_work) error = driver->graph_ready(&ready, graph, 0);
    if (graph) driver->graph_free(graph);
    if (error) return error;
    capture->segments = memory_grow(capture->segments, sizeof *capture->segments *
                                                           (size_t)(capture->segment_count + 1));
    capture->segments[capture->segment_count++] = (Segment){ready, *exchange};
    return 0;
}

/* The exchange is between two segments. */
static void capture_exchange(CudaEngine *engine, const CapturedExchange *exchange) {
    if (engine->refused) return;
    engine->refused = end_segment(engine, exchange);
    if (!engine->refused) engine->refused = begin_segment(engine);
}

static void capture_exchange_begin(void *self, const MoecExchange *exchange, const void *from,
                                   const int *table, void *const *to) {
    CapturedExchange one = {.exchange = exchange, .from = from, .table = table};
    memcpy(one.to, to, sizeof one.to); /* see run_exchange */
    capture_exchange(self, &one);
}

static void capture_exchange_end(void *self, const MoecExchange *exchange) {
    capture_exchange(self, &(const CapturedExchange){.exchange = exchange, .ends = true});
}

/* Captures a call. Returns 0, or an error number; then nothing was executed. */
static int make_graph(CudaEngine *engine, Capture *capture, const RepeatedCall *call) {
    engine->capture_host = engine->base.host;
    engine->capture_host.exchange_begin = capture_exchange_begin;
    engine->capture_host.exchange_end = capture_exchange_end;
    engine->capture_host.mesh = engine;
    engine->current = capture;
    int error = begin_segment(engine);
    if (error) return error;
    engine->capturing = true;
    call->work(engine, call->data);
    engine->capturing = false;
    error = end_segment(engine, &(const CapturedExchange){.exchange = NULL});
    engine->refused = 0;
    if (error) cuda_free_segments(engine, capture);
    return error;
}

/* Launches the graphs of a call. */
static bool run_segments(CudaEngine *engine, const Capture *capture) {
    const MoecHost *host = &engine->base.host;
    CudaDevice *device = engine->device;
    bool good = true;
    for (int i = 0; i < capture->segment_count && good; i++) {
        const Segment *segment = &capture->segments[i];
        const CapturedExchange *exchange = &segment->exchange;
        good =
            !segment->ready ||
            cuda_good(device, device->library->driver.graph_launch(segment->ready, device->stream),
                      "run the program");
        if (!good || !exchange->exchange) continue;
        if (exchange->ends)
            host->exchange_end(host->mesh, exchange->exchange);
        else
            host->exchange_begin(host->mesh, exchange->exchange, exchange->from, exchange->table,
                                 exchange->to);
    }
    return good;
}

/* Captures a call, again with the spare kernels if it needs them, again without overlap if the
 * driver refuses it. */
static void capture_call(CudaEngine *engine, Capture *capture, const RepeatedCall *call) {
    const CudaDevice *device = engine->device;
    int first = make_graph(engine, capture, call), error = first;
    if (first && engine->wants_spare && cuda_load_spare(engine))
        first = error = make_graph(engine, capture, call);
    if (first && engine->overlaps) {
        engine->overlaps = false;
        error = make_graph(engine, capture, call);
        engine->overlaps = error != 0;
    }
    capture->direct = error != 0;
    if (error && engine->noted) return;
    if (error)
        note_message("%s: cannot create a CUDA graph: %s; kernels are launched one by one",
                     device->base.name, cuda_error(device, error));
    else if (first)
        note_message("%s: kernels of a CUDA graph do not overlap: %s", device->base.name,
                     cuda_error(device, first));
    engine->noted |= error != 0;
}

bool cuda_repeat(CudaEngine *engine, const CaptureKey *key, const RepeatedCall *call) {
    CudaDevice *device = engine->device;
    bool known = false;
    Capture *capture =
        engine->profile || !engine->graphs ? NULL : find_capture(engine, key, &known);
    if (known && !capture->segments && !capture->direct) capture_call(engine, capture, call);
    if (known && capture->segments) return run_segments(engine, capture);
    call->work(engine, call->data);
    return cuda_good(device, 0, "");
}
