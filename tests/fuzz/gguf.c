/* gguf: any bytes as a GGUF file: the reader ends, and every declared tensor can be read. */
#include "data/shards.h"
#include "tools/exchange/exchange.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the first and the last element of each tensor. */
static void read_tensors(const GgufFile *file) {
    for (int i = 0; i < file->count; i++) {
        const TensorEntry *entry = &file->entries[i];
        volatile float seen = 0;
        if (entry->number == NUMBER_I32 || entry->number > NUMBER_BLOCKS) continue;
        seen = safetensors_float(entry, 0) + safetensors_float(entry, entry_elements(entry) - 1);
        (void)seen;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char path[64];
    if (!*path) {
        snprintf(path, sizeof path, "/dev/shm/moec-fuzz-%d.gguf", (int)getpid());
        if (!freopen("/dev/null", "w", stdout)) return 0;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) exit(2);
    close(fd);
    GgufFile *file = gguf_open(path);
    if (file) {
        bool none;
        read_tensors(file);
        config_close(gguf_config(file));
        json_decref(gguf_tokenizer_json(file, &none));
        json_decref(gguf_files(file, false));
        gguf_close(file);
    }
    unlink(path);
    return 0;
}
