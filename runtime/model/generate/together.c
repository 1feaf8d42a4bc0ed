/* With _FORTIFY_SOURCE, which compilers of Ubuntu define, longjmp ends a program that changes to
 * another stack. */
#undef _FORTIFY_SOURCE

#include "model/generate/batch.h"

#include "base/memory.h"
#include "base/message.h"

#include <omp.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { STACK_BYTES = 1 << 20, MOST_ROWS = 8 };

/* _longjmp changes to another stack without the system calls of swapcontext, which save the signal
 * mask. AddressSanitizer knows only the latter. */
#ifdef __SANITIZE_ADDRESS__
enum { JUMPS = 0 };
#else
enum { JUMPS = 1 };
#endif

/* ThreadSanitizer does not know coroutines. */
#ifdef __SANITIZE_THREAD__
enum { USES_COROUTINES = 0 };
#else
enum { USES_COROUTINES = 1 };
#endif

/* A product that a coroutine waits for. */
typedef struct AwaitedProduct {
    int index; /* -1: none */
    const void *a, *b;
    void *c;
} AwaitedProduct;

/* One piece of work. */
typedef struct Coroutine {
    ucontext_t context;
    jmp_buf jump; /* where it waits */
    unsigned char *stack, *arena;
    TogetherWork *work;
    void *data;
    AwaitedProduct awaited;
    bool good, begun, ended;
} Coroutine;

struct Together {
    Model *model;
    Coroutine *coroutines; /* [most]; NULL: batches are stepped one after the other */
    int most, count;
    size_t arena_bytes;
    Coroutine *current; /* NULL: outside of all */
    ucontext_t outside;
    jmp_buf outside_jump;
    MoecHost host; /* of the model before */
    const OwnProduct *own;
    void *scratch;
    unsigned char *a, *c; /* MOST_ROWS rows */
};

/* ---- shared products ---- */

static size_t value_bytes(MoecType type) {
    return type == MOEC_BF16 ? 2 : 4;
}

/* Computes the products of up to MOST_ROWS coroutines that wait for the same one. */
static void multiply_together(const Together *together, AwaitedProduct *const *awaited, int count) {
    MoecProduct product = together->model->table->products[awaited[0]->index];
    size_t a_row = (size_t)product.k * value_bytes(product.a_type),
           c_row = (size_t)product.n * value_bytes(product.c_type);
    product.m = count;
    product.a_m = product.k;
    product.c_m = product.n;
    for (int i = 0; i < count; i++) {
        memcpy(together->a + (size_t)i * a_row, awaited[i]->a, a_row);
        if (product.accumulate) memcpy(together->c + (size_t)i * c_row, awaited[i]->c, c_row);
    }
    together->own->multiply_rows(&product, together->a, awaited[0]->b, together->c,
                                 together->scratch);
    for (int i = 0; i < count; i++) {
        memcpy(awaited[i]->c, together->c + (size_t)i * c_row, c_row);
        awaited[i]->index = -1;
    }
}

/* Computes all products that coroutines wait for. */
static void multiply_awaited(const Together *together) {
    for (int i = 0; i < together->count; i++) {
        AwaitedProduct *first = &together->coroutines[i].awaited, *same[MOST_ROWS];
        if (first->index < 0) continue;
        long most = together->own->most_rows(&together->model->table->products[first->index]);
        int count = 0;
        for (int k = i; k < together->count && count < most; k++) {
            AwaitedProduct *other = &together->coroutines[k].awaited;
            if (other->index == first->index && other->b == first->b) same[count++] = other;
        }
        multiply_together(together, same, count);
    }
}

/* Continues outside of all coroutines until the next resume. */
static void leave_coroutine(Together *together, Coroutine *current) {
    if (!JUMPS)
        swapcontext(&current->context, &together->outside);
    else if (!_setjmp(current->jump))
        _longjmp(together->outside_jump, 1);
}

static void resume_coroutine(Together *together, Coroutine *coroutine) {
    if (!JUMPS) {
        swapcontext(&together->outside, &coroutine->context);
    } else if (!_setjmp(together->outside_jump)) {
        if (coroutine->begun) _longjmp(coroutine->jump, 1);
        coroutine->begun = true;
        setcontext(&coroutine->context);
    }
}

/* MoecHost.product: a coroutine waits for products that can be shared. */
static int await_product(void *self, int index, const void *a, const void *b, void *c,
                         const MoecEpilogue *epilogue) {
    Together *together = self;
    Coroutine *current = together->current;
    const MoecProduct *product = &together->model->table->products[index];
    if (current && product->a_k == 1 && together->own->most_rows(product) > 1) {
        current->awaited = (AwaitedProduct){index, a, b, c};
        leave_coroutine(together, current);
        return 0;
    }
    return together->host.product
               ? together->host.product(together->host.self, index, a, b, c, epilogue)
               : 1;
}

/* ---- coroutines ---- */

static void run_coroutine(unsigned low, unsigned high) {
    Together *together = (Together *)((uintptr_t)low | (uintptr_t)high << 32);
    Coroutine *current = together->current;
    current->good = current->work(current->data);
    current->ended = true;
    leave_coroutine(together, current);
}

static void begin_coroutine(Together *together, Coroutine *coroutine, Decoder *decoder) {
    uintptr_t self = (uintptr_t)together;
    coroutine->begun = coroutine->ended = false;
    coroutine->awaited.index = -1;
    decoder->step->arena = coroutine->arena;
    if (decoder->prefill) decoder->prefill->arena = coroutine->arena;
    getcontext(&coroutine->context);
    coroutine->context.uc_stack.ss_sp = coroutine->stack;
    coroutine->context.uc_stack.ss_size = STACK_BYTES;
    coroutine->context.uc_link = &together->outside;
    makecontext(&coroutine->context, (void (*)(void))run_coroutine, 2, (unsigned)self,
                (unsigned)(self >> 32));
}

/* Runs all coroutines up to a product or their end; false if all have ended. */
static bool run_coroutines(Together *together) {
    bool waits = false;
    for (int i = 0; i < together->count; i++) {
        Coroutine *coroutine = &together->coroutines[i];
        if (coroutine->ended) continue;
        together->current = coroutine;
        resume_coroutine(together, coroutine);
        together->current = NULL;
        waits = waits || !coroutine->ended;
    }
    return waits;
}

void together_run(Together *together, TogetherWork *work, void *const *data,
                  Decoder *const *decoders, bool *good, int count) {
    if (!together->coroutines) {
        for (int i = 0; i < count; i++) good[i] = work(data[i]);
        return;
    }
    together->count = count;
    for (int i = 0; i < count; i++) {
        together->coroutines[i].work = work;
        together->coroutines[i].data = data[i];
        begin_coroutine(together, &together->coroutines[i], decoders[i]);
    }
    while (run_coroutines(together)) multiply_awaited(together);
    for (int i = 0; i < count; i++) good[i] = together->coroutines[i].good;
}

static bool step_batch(void *batch) {
    return batch_step(batch);
}

void together_step(Together *together, Batch *const *batches, bool *good, int count) {
    AUTO_FREE void **data = memory_new(sizeof *data * ((size_t)count + 1));
    AUTO_FREE Decoder **decoders = memory_new(sizeof *decoders * ((size_t)count + 1));
    for (int i = 0; i < count; i++) {
        data[i] = batches[i];
        decoders[i] = batches[i]->decoder;
    }
    together_run(together, step_batch, data, decoders, good, count);
}

/* ---- from start to end ---- */

static bool open_coroutines(Together *together) {
    const MoecTable *table = together->model->table;
    size_t widest = 1;
    for (int i = 0; i < table->product_count; i++) {
        const MoecProduct *product = &table->products[i];
        if ((size_t)product->k > widest) widest = (size_t)product->k;
        if ((size_t)product->n > widest) widest = (size_t)product->n;
    }
    for (int i = 0; i < table->graph_count; i++)
        if (table->graphs[i].arena_bytes > together->arena_bytes)
            together->arena_bytes = table->graphs[i].arena_bytes;
    together->own = own_product();
    together->a = memory_new(MOST_ROWS * sizeof(float) * widest);
    together->c = memory_new(MOST_ROWS * sizeof(float) * widest);
    together->scratch = memory_map(together->own->scratch * (size_t)omp_get_max_threads());
    together->coroutines = memory_new(sizeof(Coroutine) * (size_t)together->most);
    bool good = together->scratch != NULL;
    for (int i = 0; i < together->most && good; i++) {
        Coroutine *coroutine = &together->coroutines[i];
        coroutine->stack = memory_map(STACK_BYTES);
        coroutine->arena = memory_map(together->arena_bytes);
        good = coroutine->stack && coroutine->arena;
    }
    return good || error_message("reduce --parallel or --context-length",
                                 "out of memory: cannot allocate the memory of %d sequences",
                                 together->most);
}

Together *together_new(Model *model, int most) {
    Together *together = memory_new(sizeof *together);
    MoecHost *host = &model->engine->host;
    together->model = model;
    together->most = most;
    together->host = *host;
    if (!USES_COROUTINES || model->device->apart) return together;
    if (!open_coroutines(together)) {
        together_free(together);
        return NULL;
    }
    host->self = together;
    host->product = await_product;
    return together;
}

void together_free(Together *together) {
    if (!together) return;
    together->model->engine->host = together->host;
    for (int i = 0; i < together->most && together->coroutines; i++) {
        memory_unmap(together->coroutines[i].stack, STACK_BYTES);
        memory_unmap(together->coroutines[i].arena, together->arena_bytes);
    }
    if (together->scratch)
        memory_unmap(together->scratch, together->own->scratch * (size_t)omp_get_max_threads());
    free(together->coroutines);
    free(together->a);
    free(together->c);
    free(together);
}
