/* cortex_m: a freestanding model on a Cortex-M under QEMU, without a C library: start, output by
 * semihosting, and the largest depth of the stack.
 *
 *     arm-none-eabi-gcc -nostdlib -T cortex_m.ld cortex_m.c model.c -lgcc */
#include "model.h"

#include <stddef.h>

extern unsigned char stack_begin[], stack_end[], data_from[], data_begin[], data_end[], bss_begin[],
    bss_end[];

enum { SYS_WRITE0 = 0x04, SYS_EXIT = 0x18, STOPPED_BY_APPLICATION = 0x20026, PAINT = 0xA5 };

/* Compilers call these. */
void *memset(void *to, int value, size_t count) {
    unsigned char *byte = to;
    while (count--) *byte++ = (unsigned char)value;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t count) {
    unsigned char *byte = to;
    const unsigned char *source = from;
    while (count--) *byte++ = *source++;
    return to;
}

void *memmove(void *to, const void *from, size_t count) {
    unsigned char *byte = to;
    const unsigned char *source = from;
    if (byte <= source) return memcpy(to, from, count);
    while (count--) byte[count] = source[count];
    return to;
}

static void call_host(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

static void put_number(uint32_t number, uint32_t base, const char *end) {
    char digits[12], *at = digits + 11;
    *at = 0;
    do *--at = "0123456789abcdef"[number % base];
    while (number /= base);
    call_host(SYS_WRITE0, at);
    call_host(SYS_WRITE0, end);
}

static Model model;

/* The tokens after the prompt, and a checksum of all logits, as example.c writes them. */
static void generate(void) {
    static const int32_t prompt[] = {PROMPT};
    const float *logits = NULL;
    uint32_t checksum = 2166136261u;
    const long given = sizeof prompt / sizeof prompt[0];
    model_reset(&model);
    for (long i = 0; i < given + COUNT - 1; i++) {
        const int32_t token =
            i < given ? prompt[i]
                      : model_pick(logits, TEMPERATURE, model_random(SEED, (uint64_t)(i - given)));
        if (i >= given) put_number((uint32_t)token, 10, " ");
        if (model_step(&model, token, &logits)) call_host(SYS_WRITE0, "error\n");
        for (long j = 0; j < MODEL_VOCABULARY; j++) {
            const union {
                float value;
                uint32_t bits;
            } both = {logits[j]};
            checksum = (checksum ^ both.bits) * 16777619u;
        }
    }
    put_number((uint32_t)model_pick(logits, TEMPERATURE, model_random(SEED, COUNT - 1)), 10,
               "\nchecksum ");
    put_number(checksum, 16, "\n");
}

/* Before any function that may save registers of the floating-point unit: enables it. */
__attribute__((naked, noreturn)) void start(void) {
    __asm__("ldr r0, =0xE000ED88\n ldr r1, [r0]\n orr r1, r1, #0xF00000\n str r1, [r0]\n dsb\n "
            "isb\n b begin");
}

__attribute__((noreturn, used)) void begin(void) {
    memcpy(data_begin, data_from, (size_t)(data_end - data_begin));
    memset(bss_begin, 0, (size_t)(bss_end - bss_begin));
    unsigned char *here = __builtin_frame_address(0);
    memset(stack_begin, PAINT, (size_t)(here - 256 - stack_begin));
    generate();
    const unsigned char *used = stack_begin;
    while (*used == PAINT) used++;
    call_host(SYS_WRITE0, "stack ");
    put_number((uint32_t)(here - used), 10, "\n");
    call_host(SYS_EXIT, (void *)STOPPED_BY_APPLICATION);
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {
    stack_end, (const void *)start};
