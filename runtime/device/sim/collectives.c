/* collectives: NCCL for the simulated device. The processes of a communicator meet in /dev/shm,
 * whose files have no name once all have opened them.
 *
 * A call of a collective, or a group of sends and receives, has a number in its communicator. It
 * runs when something waits for its stream: each process publishes its description and its data,
 * and checks that those of all others fit. NCCL tolerates some faults, or waits forever; each of
 * these is an error here:
 *
 *     another kind, length, type, operation or root in another process; a send without its receive
 *     memory that is not on the device, or is freed before the call has run
 *     accesses by other streams that have not waited: see clocks.h
 *     a receive that overlaps another operand of its group
 *     a group without its end, a communicator closed before its calls have run
 *     two processes on one device */
#include "block.h"
#include "clocks.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)

typedef enum NcclResult {
    GOOD = 0,
    SYSTEM_ERROR = 2,
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5
} NcclResult;

enum {
    PROCESSES = 64,
    HOST_LENGTH = 65,
    OPERANDS = 256,
    VERSION = 22000,
    FLOAT = 7,
    MAX_TYPE = 11,
    SUM = 0
};

typedef enum NcclKind { TRANSFERS, ALL_REDUCE, BROADCAST } NcclKind;

/* One buffer of a call. peer: of a send or receive. */
typedef struct NcclOperand {
    int peer, type;
    bool sends;
    size_t count, offset; /* of the data in the file */
    void *at;
} NcclOperand;

/* A call as other processes see it; the operands and their data follow in the file. */
typedef struct Description {
    NcclKind kind;
    int root, operation, count;
} Description;

/* State of a process in the shared file. */
typedef struct Seat {
    atomic_int present, device;
    char host[HOST_LENGTH];
    atomic_long posted, done; /* numbers of calls */
} Seat;

typedef struct NcclCall {
    struct NcclCall *next;
    Description what;
    NcclOperand operands[OPERANDS];
    SimStream *stream;
    long number;
    bool posted;
    unsigned char *data; /* of the operands that are sent, copied at the call */
    size_t data_bytes;
} NcclCall;

typedef struct Communicator {
    struct Communicator *next;
    int rank, size;
    Seat *seats;
    int files[PROCESSES]; /* data of each process */
    long last;            /* number of the last call */
    NcclCall *first;      /* not run yet, in order */
    NcclResult error;
} Communicator;

typedef struct UniqueId {
    char text[128];
} UniqueId;

static Communicator *all;
static int depth;            /* of open groups */
static NcclCall *open_group; /* of the calls since the outermost ncclGroupStart, or NULL */
static Communicator *group_of;

static NcclResult nccl_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
static NcclResult nccl_report(const char *format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fprintf(stderr, "sim: error: NCCL: %s\n", text);
    return INVALID_USAGE;
}

static size_t size_of(int type) {
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return sizes[type];
}

static size_t nccl_bytes(const NcclOperand *one) {
    return one->count * size_of(one->type);
}

static void pause_shortly(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* ---- communicators ---- */

static int open_file(const char *id, int number, bool creates) {
    char path[200];
    snprintf(path, sizeof path, "/dev/shm/moec-nccl-%s-%d", id, number);
    return open(path, O_RDWR | O_CLOEXEC | (creates ? O_CREAT : 0), 0600);
}

static void remove_file(const char *id, int number) {
    char path[200];
    snprintf(path, sizeof path, "/dev/shm/moec-nccl-%s-%d", id, number);
    unlink(path);
}

static void wait_until_present(const Communicator *one, int value) {
    for (int i = 0; i < one->size; i++)
        while (atomic_load(&one->seats[i].present) < value) pause_shortly();
}

NcclResult ncclGetVersion(int *version);
NcclResult ncclGetUniqueId(UniqueId *id);
NcclResult ncclCommInitRank(Communicator **made, int size, UniqueId id, int rank);
NcclResult ncclCommDestroy(Communicator *one);
NcclResult ncclCommGetAsyncError(const Communicator *one, NcclResult *error);
const char *ncclGetErrorString(NcclResult result);

NcclResult ncclGetVersion(int *version) {
    *version = VERSION;
    return GOOD;
}

NcclResult ncclGetUniqueId(UniqueId *id) {
    uint64_t words[2];
    if (getrandom(words, sizeof words, 0) < 0) return SYSTEM_ERROR;
    memset(id, 0, sizeof *id);
    snprintf(id->text, sizeof id->text, "%016llx%016llx", (unsigned long long)words[0],
             (unsigned long long)words[1]);
    return GOOD;
}

/* Two processes of one device; NCCL distinguishes hosts by their names. */
static NcclResult compare_devices(const Communicator *one) {
    for (int i = 0; i < one->size; i++)
        for (int j = 0; j < i; j++)
            if (atomic_load(&one->seats[i].device) == atomic_load(&one->seats[j].device) &&
                strcmp(one->seats[i].host, one->seats[j].host) == 0)
                return nccl_report("ranks %d and %d use the same device", j, i);
    return GOOD;
}

NcclResult ncclCommInitRank(Communicator **made, int size, UniqueId id, int rank) {
    if (rank < 0 || rank >= size || size > PROCESSES)
        return nccl_report("rank %d of %d processes", rank, size);
    Communicator *one = calloc(1, sizeof *one);
    const size_t bytes = sizeof(Seat) * PROCESSES;
    const int file = open_file(id.text, PROCESSES, true);
    if (!one || file < 0 || ftruncate(file, (off_t)bytes) != 0) return SYSTEM_ERROR;
    one->seats = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (one->seats == MAP_FAILED) return SYSTEM_ERROR;
    one->rank = rank;
    one->size = size;
    one->files[rank] = open_file(id.text, rank, true);
    atomic_store(&one->seats[rank].device, sim_device());
    gethostname(one->seats[rank].host, HOST_LENGTH - 1);
    atomic_store(&one->seats[rank].present, 1);
    wait_until_present(one, 1);
    for (int i = 0; i < size; i++)
        if (i != rank) one->files[i] = open_file(id.text, i, false);
    atomic_store(&one->seats[rank].present, 2);
    wait_until_present(one, 2);
    if (rank == 0) remove_file(id.text, PROCESSES);
    remove_file(id.text, rank);
    one->next = all;
    all = one;
    *made = one;
    return one->error = compare_devices(one);
}

NcclResult ncclCommDestroy(Communicator *one) {
    if (depth) return nccl_report("a communicator ends within a group");
    if (one->first)
        return nccl_report("a communicator ends before its call %ld has run", one->first->number);
    Communicator **place = &all;
    while (*place != one) place = &(*place)->next;
    *place = one->next;
    for (int i = 0; i < one->size; i++) close(one->files[i]);
    munmap(one->seats, sizeof(Seat) * PROCESSES);
    free(one);
    return GOOD;
}

NcclResult ncclCommGetAsyncError(const Communicator *one, NcclResult *error) {
    *error = one->error;
    return GOOD;
}

const char *ncclGetErrorString(NcclResult result) {
    return result == INVALID_USAGE      ? "invalid usage"
           : result == INVALID_ARGUMENT ? "invalid argument"
           : result == SYSTEM_ERROR     ? "system error"
                                        : "simulated error";
}

/* ---- running ---- */

static const char *name_of(const Description *what) {
    return what->kind == ALL_REDUCE  ? "all-reduce"
           : what->kind == BROADCAST ? "broadcast"
                                     : "group of sends and receives";
}

static NcclResult nccl_fail(Communicator *one, NcclResult error) {
    if (!one->error) one->error = error;
    return error;
}

static bool all_have(const Communicator *one, bool posted, long number) {
    for (int i = 0; i < one->size; i++) {
        const Seat *seat = &one->seats[i];
        if (atomic_load(posted ? &seat->posted : &seat->done) < number) return false;
    }
    return true;
}

/* The others have read the previous call by now. */
static bool post(Communicator *one, NcclCall *call) {
    const int file = one->files[one->rank];
    const size_t head = sizeof call->what + sizeof call->operands;
    bool good = pwrite(file, &call->what, sizeof call->what, 0) == (ssize_t)sizeof call->what &&
                pwrite(file, call->operands, sizeof call->operands, sizeof call->what) ==
                    (ssize_t)sizeof call->operands;
    for (size_t done = 0; good && done < call->data_bytes;) {
        const ssize_t part =
            pwrite(file, call->data + done, call->data_bytes - done, (off_t)(head + done));
        good = part > 0;
        done += good ? (size_t)part : 0;
    }
    if (!good) nccl_fail(one, SYSTEM_ERROR);
    atomic_store(&one->seats[one->rank].posted, call->number);
    return call->posted = true;
}

/* A call of another process. */
typedef struct Other {
    Description what;
    NcclOperand operands[OPERANDS];
} Other;

static bool read_file_at(int file, void *to, size_t bytes, size_t from) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t part = pread(file, (char *)to + done, bytes - done, (off_t)(from + done));
        if (part <= 0) return false;
        done += (size_t)part;
    }
    return true;
}

static bool read_data(const Communicator *one, int rank, const NcclOperand *from, void *to) {
    return read_file_at(one->files[rank], to, nccl_bytes(from),
                        sizeof(Description) + sizeof(NcclOperand) * OPERANDS + from->offset);
}

/* The operand of another process for the n-th send to this one, or receive from it. */
static const NcclOperand *matching_operand(const Other *other, int rank, bool sends, int n) {
    for (int i = 0; i < other->what.count; i++)
        if (other->operands[i].peer == rank && other->operands[i].sends == sends && !n--)
            return &other->operands[i];
    return NULL;
}

/* Compares the transfers with one process, and receives. */
static NcclResult match_transfers(Communicator *one, NcclCall *call, int rank, const Other *other) {
    int counts[2] = {0, 0};
    for (int i = 0; i < call->what.count; i++) {
        const NcclOperand *own = &call->operands[i];
        if (own->peer != rank) continue;
        const NcclOperand *theirs =
            matching_operand(other, one->rank, !own->sends, counts[own->sends]++);
        if (!theirs || theirs->count != own->count || theirs->type != own->type)
            return nccl_report(
                "call %ld: rank %d %s %zu elements of type %d %s rank %d, which %s %zu of "
                "type %d",
                call->number, one->rank, own->sends ? "sends" : "receives", own->count, own->type,
                own->sends ? "to" : "from", rank, own->sends ? "receives" : "sends",
                theirs ? theirs->count : 0, theirs ? theirs->type : 0);
        if (!own->sends && !read_data(one, rank, theirs, own->at)) return SYSTEM_ERROR;
    }
    for (int sends = 0; sends < 2; sends++)
        if (matching_operand(other, one->rank, !sends, counts[sends]))
            return nccl_report("call %ld: rank %d %s rank %d, which does not %s", call->number,
                               rank, sends ? "receives from" : "sends to", one->rank,
                               sends ? "send" : "receive");
    return GOOD;
}

/* In order of rank; NCCL itself has another order. */
static NcclResult add_theirs(const Communicator *one, const NcclOperand *own,
                             const NcclOperand *theirs, int rank) {
    float *sum = own->at, *values = malloc(nccl_bytes(own) + 1);
    if (!values || !read_data(one, rank, theirs, values)) return free(values), SYSTEM_ERROR;
    for (size_t i = 0; i < own->count; i++) sum[i] = rank ? sum[i] + values[i] : values[i];
    free(values);
    return GOOD;
}

static NcclResult match_collective(const Communicator *one, NcclCall *call, int rank,
                                   const Other *other) {
    const NcclOperand *own = &call->operands[0], *theirs = &other->operands[0];
    if (own->count != theirs->count || own->type != theirs->type ||
        call->what.root != other->what.root || call->what.operation != other->what.operation)
        return nccl_report(
            "call %ld, %s: rank %d has %zu elements of type %d, operation %d, root %d; "
            "rank %d has %zu of type %d, operation %d, root %d",
            call->number, name_of(&call->what), one->rank, own->count, own->type,
            call->what.operation, call->what.root, rank, theirs->count, theirs->type,
            other->what.operation, other->what.root);
    if (call->what.kind == ALL_REDUCE) return add_theirs(one, own, theirs, rank);
    return rank != call->what.root || read_data(one, rank, theirs, own->at) ? GOOD : SYSTEM_ERROR;
}

static NcclResult run_nccl_call(Communicator *one, NcclCall *call) {
    NcclResult error = one->error;
    Other *other = malloc(sizeof *other);
    for (int rank = 0; rank < one->size && !error; rank++) {
        if (!other || !read_file_at(one->files[rank], other, sizeof *other, 0))
            error = SYSTEM_ERROR;
        else if (other->what.kind != call->what.kind)
            error = nccl_report("call %ld: %s in rank %d, %s in rank %d", call->number,
                                name_of(&call->what), one->rank, name_of(&other->what), rank);
        else
            error = call->what.kind == TRANSFERS ? match_transfers(one, call, rank, other)
                                                 : match_collective(one, call, rank, other);
    }
    free(other);
    return error;
}

/* Whether the first call has run. */
static bool progress_first(Communicator *one) {
    NcclCall *call = one->first;
    if (!call->posted && !(all_have(one, false, call->number - 1) && post(one, call))) return false;
    if (!all_have(one, true, call->number)) return false;
    const NcclResult error = run_nccl_call(one, call);
    if (error) nccl_fail(one, error);
    atomic_store(&one->seats[one->rank].done, call->number);
    one->first = call->next;
    free(call->data);
    free(call);
    return true;
}

static bool has_calls(const Communicator *one, const SimStream *stream) {
    for (const NcclCall *call = one->first; call; call = call->next)
        if (call->stream == stream) return true;
    return false;
}

bool nccl_progress(const SimStream *stream, bool wait) {
    for (Communicator *one = all; one; one = one->next)
        while (has_calls(one, stream))
            if (!progress_first(one)) {
                if (one->error) return true;
                if (!wait) return false;
                pause_shortly();
            }
    return true;
}

bool nccl_uses(const void *block) {
    size_t first;
    for (const Communicator *one = all; one; one = one->next)
        for (const NcclCall *call = one->first; call; call = call->next)
            for (int i = 0; i < call->what.count; i++)
                if (memory_traces(call->operands[i].at, 1, &first) &&
                    sim_now.recent[0].start == block) {
                    nccl_report("memory is freed before call %ld (%s), which uses it, has run",
                                call->number, name_of(&call->what));
                    return true;
                }
    return false;
}

/* ---- calls ---- */

static bool operands_overlap(const NcclOperand *one, const NcclOperand *other) {
    const unsigned char *a = one->at, *b = other->at;
    return a < b + nccl_bytes(other) && b < a + nccl_bytes(one);
}

static NcclResult check_operand_memory(const NcclCall *call) {
    for (int i = 0; i < call->what.count; i++) {
        const NcclOperand *one = &call->operands[i];
        if (!memory_holds(one->at, nccl_bytes(one)))
            return nccl_report("call %ld (%s): %zu bytes at %p are not device memory", call->number,
                               name_of(&call->what), nccl_bytes(one), one->at);
        for (int j = 0; j < i; j++)
            if ((!one->sends || !call->operands[j].sends) &&
                operands_overlap(one, &call->operands[j]))
                return nccl_report("call %ld: operands %d and %d of a group overlap", call->number,
                                   j, i);
    }
    return GOOD;
}

/* Copies the data to send; received memory has no values until the call has run. */
static NcclResult take_data(NcclCall *call) {
    for (int i = 0; i < call->what.count; i++) {
        NcclOperand *one = &call->operands[i];
        one->offset = call->data_bytes;
        call->data_bytes += one->sends ? nccl_bytes(one) : 0;
    }
    call->data = malloc(call->data_bytes + 1);
    if (!call->data) return SYSTEM_ERROR;
    for (int i = 0; i < call->what.count; i++) {
        const NcclOperand *one = &call->operands[i];
        const bool keeps = call->what.kind == TRANSFERS && one->sends;
        if (!stream_touch_range(one->at, nccl_bytes(one), false, name_of(&call->what)) ||
            (!keeps && !stream_touch_range(one->at, nccl_bytes(one), true, name_of(&call->what))))
            return INVALID_USAGE;
        if (one->sends) memcpy(call->data + one->offset, one->at, nccl_bytes(one));
        if (!keeps) memset(one->at, 0xff, nccl_bytes(one));
    }
    return GOOD;
}

/* Adds a complete call to the queue of its communicator, which then owns it. */
static NcclResult enqueue_now(Communicator *one, NcclCall *call) {
    NcclResult error = one->error;
    call->number = ++one->last;
    if (!error) error = check_operand_memory(call);
    if (!error) {
        nccl_progress(call->stream, true);
        stream_begin(call->stream);
        error = take_data(call);
    }
    if (error) {
        free(call->data);
        free(call);
        return nccl_fail(one, error);
    }
    NcclCall **last = &one->first;
    while (*last) last = &(*last)->next;
    *last = call;
    return GOOD;
}

typedef struct CapturedCall {
    Communicator *one;
    NcclCall call;
} CapturedCall;

static int enqueue_captured(SimStream *stream, void *data) {
    const CapturedCall *captured = data;
    NcclCall *call = malloc(sizeof *call);
    if (!call) return SYSTEM_ERROR;
    *call = captured->call;
    call->stream = stream;
    return enqueue_now(captured->one, call);
}

static NcclResult enqueue(Communicator *one, NcclCall *call) {
    if (!sim_capture()) return enqueue_now(one, call);
    const CapturedCall captured = {one, *call};
    sim_record(call->stream, enqueue_captured, &captured, sizeof captured);
    free(call);
    return GOOD;
}

static NcclResult nccl_add_operand(Communicator *one, Description what, const NcclOperand *operand,
                                   void *stream) {
    NcclCall *call = open_group;
    if (operand->type < 0 || operand->type > MAX_TYPE) return INVALID_ARGUMENT;
    if (call && (call->what.kind != TRANSFERS || what.kind != TRANSFERS || group_of != one ||
                 call->stream != stream_of(stream)))
        return nccl_report("a group of different collectives, communicators or streams");
    if (!call) call = calloc(1, sizeof *call);
    if (!call || call->what.count == OPERANDS) return SYSTEM_ERROR;
    what.count = call->what.count + 1;
    call->what = what;
    call->operands[what.count - 1] = *operand;
    call->stream = stream_of(stream);
    if (!depth) return enqueue(one, call);
    open_group = call;
    group_of = one;
    return GOOD;
}

NcclResult ncclGroupStart(void);
NcclResult ncclGroupEnd(void);
NcclResult ncclSend(const void *from, size_t count, int type, int peer, Communicator *one,
                    void *stream);
NcclResult ncclRecv(void *to, size_t count, int type, int peer, Communicator *one, void *stream);
NcclResult ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                         Communicator *one, void *stream);
NcclResult ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                         Communicator *one, void *stream);

NcclResult ncclGroupStart(void) {
    depth++;
    return GOOD;
}

NcclResult ncclGroupEnd(void) {
    NcclCall *call = open_group;
    if (!depth) return nccl_report("a group ends that was not started");
    if (--depth || !call) return GOOD;
    open_group = NULL;
    return enqueue(group_of, call);
}

static NcclResult nccl_add_transfer(const NcclOperand *operand, Communicator *one, void *stream) {
    if (operand->peer < 0 || operand->peer >= one->size)
        return nccl_report("rank %d of %d processes", operand->peer, one->size);
    return nccl_add_operand(one, (Description){.kind = TRANSFERS}, operand, stream);
}

NcclResult ncclSend(const void *from, size_t count, int type, int peer, Communicator *one,
                    void *stream) {
    return nccl_add_transfer(
        &(const NcclOperand){peer, type, true, count, 0, (void *)(uintptr_t)from}, one, stream);
}

NcclResult ncclRecv(void *to, size_t count, int type, int peer, Communicator *one, void *stream) {
    return nccl_add_transfer(&(const NcclOperand){peer, type, false, count, 0, to}, one, stream);
}

/* The simulated collectives replace their operand. */
static NcclResult in_place(const void *from, const void *to) {
    return from == to ? GOOD : nccl_report("only operands that are replaced are simulated");
}

NcclResult ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                         Communicator *one, void *stream) {
    const NcclOperand operand = {0, type, true, count, 0, to};
    if (type != FLOAT || operation != SUM) return nccl_report("only sums of floats are simulated");
    return in_place(from, to) ? INVALID_USAGE
                              : nccl_add_operand(one, (Description){ALL_REDUCE, 0, operation, 0},
                                                 &operand, stream);
}

NcclResult ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                         Communicator *one, void *stream) {
    const NcclOperand operand = {0, type, true, count, 0, to};
    return in_place(from, to)
               ? INVALID_USAGE
               : nccl_add_operand(one, (Description){BROADCAST, root, 0, 0}, &operand, stream);
}
