/* The simulated NCCL: two processes add, copy and send blocks of device memory; each planted fault is reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda_opened.h"
#include "device/cuda/cuda_library.h"

enum { COUNT = 1000, SIDE = 64 };

static struct {
    CudaDriver driver;
    CudaCompiler compiler;
    CudaNccl nccl;
    NcclComm *comm;
    CudaStream *work, *copies; /* of kernels, of collectives */
    CudaEvent *event;
    float *block; /* COUNT for each process */
    CudaFunction *set;
    int rank;
} cuda;

#define FIND_DRIVER(member, symbol, arguments) cuda_find(symbol, &cuda.driver.member);
#define FIND_COMPILER(member, symbol, arguments) cuda_find(symbol, &cuda.compiler.member);
#define FIND_NCCL(member, symbol, arguments) cuda_find(symbol, &cuda.nccl.member);

static CudaPointer address(const float *at) {
    return (CudaPointer)(uintptr_t)at;
}

/* A process of a trial ends with 1 after an error that it expects or not. */
static void must(int error) {
    if (error) _exit(1);
}

static float *allocate(void) {
    CudaPointer block;
    must(cuda.driver.allocate(&block, 2 * COUNT * sizeof(float)));
    return (float *)(uintptr_t)block;
}

static void load_kernel(void) {
    static const char text[] = "extern \"C\" __global__ void fill(float *at, float value, int count) {\n"
                               "    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) at[i] = value;\n}\n";
    CudaCompilation *program;
    CudaModule *module;
    size_t bytes;
    must(cuda.compiler.create(&program, text, "fill.cu", 0, NULL, NULL));
    must(cuda.compiler.compile(program, 0, NULL));
    must(cuda.compiler.image_bytes(program, &bytes));
    char *image = malloc(bytes);
    must(cuda.compiler.image(program, image));
    must(cuda.driver.module_load(&module, image));
    must(cuda.driver.function_get(&cuda.set, module, "fill"));
    free(image);
}

/* Sets `count` elements on a stream. */
static int fill(float *at, float value, int count, CudaStream *stream) {
    CudaPointer to = address(at);
    void *arguments[] = {&to, &value, &count};
    if (!cuda.set) load_kernel();
    return cuda.driver.launch(cuda.set, 1, 1, 1, SIDE, 1, 1, 0, stream, arguments, NULL);
}

/* Later work of `after` follows that of `before`. */
static void order(CudaStream *before, CudaStream *after) {
    must(cuda.driver.event_record(cuda.event, before));
    must(cuda.driver.stream_follow(after, cuda.event, 0));
}

static int finish(void) {
    int error = 0;
    must(cuda.driver.stream_wait(cuda.copies));
    must(cuda.nccl.state(cuda.comm, &error));
    return error;
}

static void expect(const float *at, float value) {
    float values[COUNT];
    must(cuda.driver.get(values, address(at), sizeof values, cuda.work));
    must(cuda.driver.stream_wait(cuda.work));
    for (int i = 0; i < COUNT; i++)
        if (values[i] != value) {
            fprintf(stderr, "rank %d: element %d is %g, not %g\n", cuda.rank, i, (double)values[i], (double)value);
            _exit(1);
        }
}

static int sum_of(float *at, size_t count) {
    return cuda.nccl.sum(at, at, count, NCCL_FLOAT, NCCL_SUM, cuda.comm, cuda.copies);
}

static int send_all(const float *from, size_t count, int type, int peer) {
    return cuda.nccl.send(from, count, type, peer, cuda.comm, cuda.copies);
}

static int receive_all(float *to, size_t count, int type, int peer) {
    return cuda.nccl.receive(to, count, type, peer, cuda.comm, cuda.copies);
}

/* Both processes send the first half of their block to the other's second half. */
static int swap(size_t sent, int type) {
    const int peer = 1 - cuda.rank;
    must(cuda.nccl.group_start());
    int error = send_all(cuda.block, sent, type, peer);
    if (!error) error = receive_all(cuda.block + COUNT, COUNT, NCCL_FLOAT, peer);
    if (!error) error = cuda.nccl.group_end();
    return error;
}

/* ---- trials: each runs in two processes ---- */

static void right(void) {
    must(fill(cuda.block, 1 + (float)cuda.rank, COUNT, cuda.work));
    order(cuda.work, cuda.copies);
    must(swap(COUNT, NCCL_FLOAT));
    must(sum_of(cuda.block, COUNT));
    must(cuda.nccl.broadcast(cuda.block + COUNT, cuda.block + COUNT, COUNT, NCCL_FLOAT, 1, cuda.comm, cuda.copies));
    order(cuda.copies, cuda.work);
    expect(cuda.block, 3);
    expect(cuda.block + COUNT, 1);
    must(finish());
    must(fill(cuda.block, 5, COUNT, cuda.work));
    must(cuda.nccl.end(cuda.comm));
}

/* A captured call runs at each launch of its graph. */
static void captured(void) {
    CudaGraph *graph;
    CudaReady *ready;
    must(fill(cuda.block, 1, COUNT, cuda.copies));
    must(cuda.driver.capture_begin(cuda.copies, CUDA_CAPTURE_THREAD));
    must(sum_of(cuda.block, COUNT));
    must(cuda.driver.capture_end(cuda.copies, &graph));
    must(cuda.driver.graph_ready(&ready, graph, 0));
    order(cuda.copies, cuda.work);
    expect(cuda.block, 1);
    order(cuda.work, cuda.copies);
    for (int i = 0; i < 2; i++) must(cuda.driver.graph_launch(ready, cuda.copies));
    order(cuda.copies, cuda.work);
    expect(cuda.block, 4);
    must(finish());
    must(cuda.nccl.end(cuda.comm));
}

/* The processes launch graphs of different lengths. */
static void captured_length(void) {
    CudaGraph *graph;
    CudaReady *ready;
    must(cuda.driver.capture_begin(cuda.copies, CUDA_CAPTURE_THREAD));
    must(sum_of(cuda.block, cuda.rank ? COUNT : COUNT - 1));
    must(cuda.driver.capture_end(cuda.copies, &graph));
    must(cuda.driver.graph_ready(&ready, graph, 0));
    must(cuda.driver.graph_launch(ready, cuda.copies));
    must(finish());
}

static void other_kind(void) {
    must(cuda.rank ? sum_of(cuda.block, COUNT) : swap(COUNT, NCCL_FLOAT));
    must(finish());
}

static void other_order(void) {
    must(cuda.rank ? 0 : sum_of(cuda.block, COUNT));
    must(cuda.nccl.broadcast(cuda.block, cuda.block, COUNT, NCCL_FLOAT, 0, cuda.comm, cuda.copies));
    must(cuda.rank ? sum_of(cuda.block, COUNT) : 0);
    must(finish());
}

static void other_length(void) {
    must(sum_of(cuda.block, cuda.rank ? COUNT : COUNT - 1));
    must(finish());
}

static void other_root(void) {
    must(cuda.nccl.broadcast(cuda.block, cuda.block, COUNT, NCCL_FLOAT, cuda.rank, cuda.comm, cuda.copies));
    must(finish());
}

static void other_sent(void) {
    must(swap(COUNT - 1, NCCL_FLOAT));
    must(finish());
}

static void other_type(void) {
    enum { INT32 = 2 };
    must(swap(COUNT, INT32));
    must(finish());
}

static void not_received(void) {
    const int peer = 1 - cuda.rank;
    must(cuda.nccl.group_start());
    must(send_all(cuda.block, COUNT, NCCL_FLOAT, peer));
    if (cuda.rank) must(receive_all(cuda.block + COUNT, COUNT, NCCL_FLOAT, peer));
    must(cuda.nccl.group_end());
    must(finish());
}

static void host_memory(void) {
    static float block[COUNT];
    must(sum_of(block, COUNT));
}

static void beyond_the_end(void) {
    must(sum_of(cuda.block + COUNT, 2 * COUNT));
}

static void written_before(void) {
    must(fill(cuda.block, 1, COUNT, cuda.work));
    must(sum_of(cuda.block, COUNT)); /* without order(work, copies) */
}

static void read_early(void) {
    must(sum_of(cuda.block, COUNT));
    expect(cuda.block, 0); /* without order(copies, work) */
}

static void written_early(void) {
    must(swap(COUNT, NCCL_FLOAT));
    must(fill(cuda.block, 1, COUNT, cuda.work)); /* the memory that is sent */
}

static void freed_early(void) {
    must(swap(COUNT, NCCL_FLOAT));
    must(cuda.driver.release(address(cuda.block)));
}

static void overlapping(void) {
    must(cuda.nccl.group_start());
    must(send_all(cuda.block, COUNT, NCCL_FLOAT, 1 - cuda.rank));
    must(receive_all(cuda.block + COUNT / 2, COUNT, NCCL_FLOAT, 1 - cuda.rank));
    must(cuda.nccl.group_end());
}

static void mixed_group(void) {
    must(cuda.nccl.group_start());
    must(send_all(cuda.block, COUNT, NCCL_FLOAT, 1 - cuda.rank));
    must(sum_of(cuda.block, COUNT));
}

static void no_group(void) {
    must(cuda.nccl.group_end());
}

static void open_group(void) {
    must(cuda.nccl.group_start());
    must(cuda.nccl.end(cuda.comm));
}

static void closed_early(void) {
    must(sum_of(cuda.block, COUNT));
    must(cuda.nccl.end(cuda.comm));
}

static void no_such_rank(void) {
    must(send_all(cuda.block, COUNT, NCCL_FLOAT, 2));
}

/* `run` in two processes on devices `0` and `second`. */
static void process(void (*run)(void), NcclId id, int rank, int device) {
    CudaContext *context;
    cuda.rank = rank;
    must(cuda.driver.init(0));
    must(cuda.driver.context_retain(&context, device));
    must(cuda.driver.context_set(context));
    must(cuda.driver.stream_new(&cuda.work, 1));
    must(cuda.driver.stream_new(&cuda.copies, 1));
    must(cuda.driver.event_new(&cuda.event, 0));
    cuda.block = allocate();
    must(cuda.driver.set(address(cuda.block), 0, 2 * COUNT * sizeof(float), cuda.work));
    must(cuda.driver.stream_wait(cuda.work));
    must(cuda.nccl.start(&cuda.comm, 2, id, rank));
    run();
    _exit(0);
}

/* Runs a trial. Returns the output of both processes; *failed: number of those that ended with an error. */
static char *trial(void (*run)(void), int second, int *failed) {
    static char output[1 << 16];
    NcclId id;
    int ends[2], status;
    size_t length = 0;
    assert_int_equal(cuda.nccl.id_new(&id), 0);
    assert_int_equal(pipe(ends), 0);
    for (int rank = 0; rank < 2; rank++)
        if (fork() == 0) {
            alarm(60);
            dup2(ends[1], STDERR_FILENO);
            close(ends[0]);
            process(run, id, rank, rank ? second : 0);
        }
    close(ends[1]);
    for (ssize_t part; (part = read(ends[0], output + length, sizeof output - length - 1)) > 0;) length += (size_t)part;
    output[length] = 0;
    close(ends[0]);
    *failed = 0;
    while (wait(&status) > 0) {
        assert_true(WIFEXITED(status)); /* not by the alarm */
        *failed += WEXITSTATUS(status) != 0;
    }
    return output;
}

static void test_right(void **state) {
    (void)state;
    void (*const trials[])(void) = {right, captured};
    for (int i = 0; i < 2; i++) {
        int failed;
        const char *output = trial(trials[i], 1, &failed);
        assert_string_equal(output, "");
        assert_int_equal(failed, 0);
    }
}

static void nothing(void) {
}

static void test_faults(void **state) {
    static const struct {
        void (*run)(void);
        int second;
        const char *report;
    } faults[] = {
        {other_kind, 1, "call 1: all-reduce in rank 1, group of sends and receives in rank 0"},
        {other_order, 1, "call 1: all-reduce in rank 0, broadcast in rank 1"},
        {other_length, 1, "call 1, all-reduce: rank 0 has 999 elements of type 7, operation 0, root 0; rank 1 has 1000"},
        {captured_length, 1, "call 1, all-reduce: rank 0 has 999 elements of type 7, operation 0, root 0; rank 1 has 1000"},
        {other_root, 1, "call 1, broadcast: rank 0 has 1000 elements of type 7, operation 0, root 0; rank 1 has 1000 of type 7, operation 0, root 1"},
        {other_sent, 1, "rank 0 sends 999 elements of type 7 to rank 1, which receives 1000 of type 7"},
        {other_type, 1, "rank 0 sends 1000 elements of type 2 to rank 1, which receives 1000 of type 7"},
        {not_received, 1, "rank 1 sends 1000 elements of type 7 to rank 0, which receives 0"},
        {host_memory, 1, "are not device memory"},
        {beyond_the_end, 1, "call 1 (all-reduce): 8000 bytes"},
        {written_before, 1, "stream 2 (all-reduce) reads device memory that work of stream 1 uses, without waiting for it"},
        {read_early, 1, "stream 1 (copy) reads device memory that work of stream 2 uses, without waiting for it"},
        {written_early, 1, "kernel fill: access to memory of another stream without waiting for it"},
        {freed_early, 1, "memory is freed before call 1 (group of sends and receives), which uses it, has run"},
        {overlapping, 1, "call 1: operands 0 and 1 of a group overlap"},
        {mixed_group, 1, "a group of different collectives, communicators or streams"},
        {no_group, 1, "a group ends that was not started"},
        {open_group, 1, "a communicator ends within a group"},
        {closed_early, 1, "a communicator ends before its call 1 has run"},
        {no_such_rank, 1, "rank 2 of 2 processes"},
        {nothing, 0, "ranks 0 and 1 use the same device"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        int failed;
        const char *output = trial(faults[i].run, faults[i].second, &failed);
        if (!failed || !strstr(output, faults[i].report)) fail_msg("no '%s': %s", faults[i].report, output);
    }
}

int main(void) {
    setenv("MOEC_CUDA", "", 1);
    setenv("MOEC_SIM", "eight", 1);
    unsetenv("DEVICE");
    CUDA_DRIVER_CALLS(FIND_DRIVER)
    CUDA_COMPILER_CALLS(FIND_COMPILER)
    CUDA_NCCL_CALLS(FIND_NCCL)
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right), cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests_name("simulated NCCL", tests, NULL, NULL);
}
