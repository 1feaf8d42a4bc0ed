/* npz: a ZIP archive of arrays in the format of NumPy, without compression. Sizes are limited to
 * 4 GB, as in the original format of ZIP. */
#include "inspect.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/message.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER = 256 };

typedef struct Archive {
    unsigned char *bytes;
    size_t length;
} Archive;

static void zip_bytes(Archive *archive, const void *bytes, size_t length) {
    archive->bytes = memory_grow(archive->bytes, archive->length + length + 1);
    memcpy(archive->bytes + archive->length, bytes, length);
    archive->length += length;
}

/* Little-endian, `bytes` of them. */
static void zip_number(Archive *archive, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)(number >> 8 * i);
        zip_bytes(archive, &byte, 1);
    }
}

static uint32_t crc_of(const unsigned char *bytes, size_t length) {
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1)));
    }
    return ~crc;
}

/* The array as a file: magic number, version 1.0, a header padded to 64 bytes, the values. */
static Archive array_of(const ShownTensor *tensor) {
    Archive array = {0};
    char header[HEADER];
    int length =
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < tensor->rank; i++)
        length +=
            snprintf(header + length, sizeof header - (size_t)length, "%ld, ", tensor->shape[i]);
    length += snprintf(header + length, sizeof header - (size_t)length, "), }");
    while ((length + 11) % 64) header[length++] = ' ';
    header[length++] = '\n';
    zip_bytes(&array, "\x93NUMPY\x01\x00", 8);
    zip_number(&array, (uint64_t)length, 2);
    zip_bytes(&array, header, (size_t)length);
    zip_bytes(&array, tensor->values, tensor->count * sizeof(float));
    return array;
}

/* The fields that the entry of a file and its row in the directory share. */
static void add_fields(Archive *archive, const Archive *array, size_t name_length) {
    zip_number(archive, 20, 2); /* version */
    zip_number(archive, 0, 2);  /* flags */
    zip_number(archive, 0, 2);  /* stored */
    zip_number(archive, 0, 2);
    zip_number(archive, 0x21, 2); /* the first date of the format */
    zip_number(archive, crc_of(array->bytes, array->length), 4);
    zip_number(archive, array->length, 4);
    zip_number(archive, array->length, 4);
    zip_number(archive, name_length, 2);
    zip_number(archive, 0, 2);
}

static void add_zip_entry(Archive *archive, Archive *directory, const ShownTensor *tensor) {
    Archive array = array_of(tensor);
    AUTO_FREE char *name = memory_format("%s.npy", tensor->name);
    const size_t start = archive->length, length = strlen(name);
    zip_bytes(archive, "PK\x03\x04", 4);
    add_fields(archive, &array, length);
    zip_bytes(archive, name, length);
    zip_bytes(archive, array.bytes, array.length);
    zip_bytes(directory, "PK\x01\x02", 4);
    zip_number(directory, 20, 2);
    add_fields(directory, &array, length);
    zip_number(directory, 0, 8); /* comment, disk, attributes */
    zip_number(directory, 0, 2);
    zip_number(directory, start, 4);
    zip_bytes(directory, name, length);
    free(array.bytes);
}

bool npz_write(const char *path, const ShownList *list) {
    Archive archive = {0}, directory = {0};
    for (int i = 0; i < list->count; i++) add_zip_entry(&archive, &directory, &list->items[i]);
    const size_t start = archive.length;
    zip_bytes(&archive, directory.bytes ? directory.bytes : (unsigned char *)"", directory.length);
    zip_bytes(&archive, "PK\x05\x06", 4);
    zip_number(&archive, 0, 4);
    zip_number(&archive, (uint64_t)list->count, 2);
    zip_number(&archive, (uint64_t)list->count, 2);
    zip_number(&archive, directory.length, 4);
    zip_number(&archive, start, 4);
    zip_number(&archive, 0, 2);
    const bool good =
        archive.length <= UINT32_MAX
            ? file_write(path, archive.bytes, archive.length)
            : error_message("show fewer tensors, or slices of them", "%s would exceed 4 GB", path);
    free(archive.bytes);
    free(directory.bytes);
    return good;
}
