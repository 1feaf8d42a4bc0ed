#include "base/memory.h"

#include <link.h>
#include <malloc.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

size_t memory_of_machine(void) {
    struct sysinfo info;
    return sysinfo(&info) ? SIZE_MAX : ((size_t)info.totalram + info.totalswap) * info.mem_unit;
}

static void out_of_memory(size_t bytes) {
    fprintf(stderr,
            "moec: error: out of memory: cannot allocate %zu bytes\n  help: reduce "
            "train.batch_size or train.context_length\n",
            bytes);
    exit(1);
}

void *memory_new(size_t bytes) {
    void *block = bytes > memory_of_machine() ? NULL : calloc(1, bytes ? bytes : 1);
    if (!block) out_of_memory(bytes);
    return block;
}

void *memory_grow(void *block, size_t bytes) {
    void *grown = realloc(block, bytes ? bytes : 1);
    if (!grown) out_of_memory(bytes);
    return grown;
}

void memory_free_at(void *pointer) {
    void *block;
    memcpy(&block, pointer, sizeof block);
    free(block);
}

static char *format_text(const char *format, va_list arguments) {
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) out_of_memory(0);
    return text;
}

char *memory_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_text(format, arguments);
    va_end(arguments);
    return text;
}

char *memory_append(char *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    AUTO_FREE char *more = format_text(format, arguments);
    va_end(arguments);
    char *longer = memory_format("%s%s", text ? text : "", more);
    free(text);
    return longer;
}

enum { HUGE = 2 << 20 };

/* Huge pages save page faults and table walks in large products; a refusal is harmless. Only pages
 * that the block fills completely are huge: the rest would use memory outside the plan. */
void *memory_map(size_t bytes) {
    if (bytes > memory_of_machine()) return NULL;
    size_t huge = bytes / HUGE * HUGE, more = huge ? HUGE : 0;
    unsigned char *all = mmap(NULL, bytes + more + !bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return NULL;
    if (!huge) return all;
    size_t before = (HUGE - (uintptr_t)all % HUGE) % HUGE, page = (size_t)sysconf(_SC_PAGESIZE),
           after = (before + bytes + page - 1) / page * page;
    if (before) munmap(all, before);
    if (bytes + more > after) munmap(all + after, bytes + more - after);
    madvise(all + before, huge, MADV_HUGEPAGE);
    return all + before;
}

void *memory_reserve(size_t bytes) {
    void *all = mmap(NULL, bytes + !bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return NULL;
    madvise(all, bytes, MADV_NOHUGEPAGE);
    return all;
}

void memory_divide(void *block, size_t bytes, size_t at) {
    const size_t start = at / HUGE * HUGE;
    if (start < at && start + HUGE <= bytes)
        madvise((unsigned char *)block + start, HUGE, MADV_NOHUGEPAGE);
}

#ifndef MADV_COLLAPSE /* since Linux 6.1 */
#define MADV_COLLAPSE 25
#endif

void memory_join_pages(void *block, size_t bytes) {
    enum { MOST = HUGE / 4096 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), count = HUGE / page;
    unsigned char resident[MOST], *at = block, *end = at + bytes;
    at += (HUGE - (uintptr_t)at % HUGE) % HUGE;
    for (; count <= MOST && at + HUGE <= end; at += HUGE) {
        size_t used = 0;
        if (mincore(at, HUGE, resident)) return;
        while (used < count && resident[used] & 1) used++;
        if (used < count || madvise(at, HUGE, MADV_HUGEPAGE)) continue;
        madvise(at, HUGE, MADV_COLLAPSE);
    }
}

void memory_unmap(void *block, size_t bytes) {
    if (block) munmap(block, bytes ? bytes : 1);
}

void memory_release(void *part, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE),
                 before = (page - (uintptr_t)part % page) % page;
    if (bytes >= before + page)
        madvise((unsigned char *)part + before, (bytes - before) / page * page, MADV_DONTNEED);
}

/* Value of a "Name:   123 kB" line of /proc/self/status in bytes. */
static size_t status_line(const char *name) {
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) return 0;
    char line[256];
    size_t kilobytes = 0;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            kilobytes = strtoul(line + strlen(name), NULL, 10);
    fclose(file);
    return kilobytes * 1024;
}

size_t memory_resident(void) {
    return status_line("VmRSS:");
}

size_t memory_peak(void) {
    return status_line("VmHWM:");
}

void memory_reset_peak(void) {
    malloc_trim(0);
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
}

typedef struct LibrarySearch {
    uintptr_t inside;
    size_t bytes; /* for one thread */
} LibrarySearch;

static int visit_library(struct dl_phdr_info *info, size_t size, void *data) {
    LibrarySearch *search = data;
    size_t bytes = 0;
    bool here = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_TLS) bytes = part->p_memsz;
        if (part->p_type == PT_LOAD &&
            search->inside - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
            here = true;
    }
    if (here) search->bytes = bytes;
    return here;
}

size_t memory_of_threads(const void *inside) {
    LibrarySearch search = {.inside = (uintptr_t)inside};
    dl_iterate_phdr(visit_library, &search);
#ifdef _OPENMP
    return search.bytes * (size_t)omp_get_max_threads();
#else
    return search.bytes;
#endif
}
