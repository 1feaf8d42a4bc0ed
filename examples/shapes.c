/* shapes: draws small images, squares, discs, crosses and rings, as data for a diffusion
 * transformer, and shows images.
 *
 *     cc -O2 -o shapes examples/shapes.c -lm
 *     ./shapes draw 4000 shapes.safetensors        "image" [4000, 16, 4], "label" [4000]
 *     moec train models/dit.moe:dit_small --data shapes.safetensors --out run
 *     moec sample run --out drawn.safetensors --count 8
 *     ./shapes show drawn.safetensors
 *     moec emit run --mode sample --out model       the same as C: model/draw --out FILE
 *
 * An image is 8 by 8 numbers, -1 outside and 1 inside a shape, cut into 16 patches of 2 by 2.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, PATCH = 2, ACROSS = SIDE / PATCH, PIXELS = SIDE * SIDE, SHOWN = 8 };

static double uniform(uint64_t *state, double low, double high) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(*state >> 11) / 9007199254740992.0;
}

/* Index of a pixel in the patches of its image. */
static int place(int y, int x) {
    return ((y / PATCH) * ACROSS + x / PATCH) * PATCH * PATCH + y % PATCH * PATCH + x % PATCH;
}

static int inside(int shape, double x, double y, double radius) {
    double far = fmax(fabs(x), fabs(y)), near = fmin(fabs(x), fabs(y)), round = sqrt(x * x + y * y);
    switch (shape) {
    case 0:
        return far < radius; /* square */
    case 1:
        return round < radius; /* disc */
    case 2:
        return near < 0.8; /* cross */
    default:
        return fabs(round - radius) < 0.7; /* ring */
    }
}

static void draw(float *image, int shape, uint64_t *state) {
    double cx = uniform(state, 2.5, 4.5), cy = uniform(state, 2.5, 4.5),
           radius = uniform(state, 1.5, 3);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            image[place(y, x)] = inside(shape, x - cx, y - cy, radius) ? 1 : -1;
}

static int write_images(int count, const char *path) {
    size_t images = sizeof(float) * PIXELS * (size_t)count, labels = sizeof(float) * (size_t)count;
    float *values = malloc(images + labels);
    FILE *file = fopen(path, "wb");
    if (!values || !file) return 1;
    uint64_t state = 1;
    for (int i = 0; i < count; i++) {
        draw(values + (size_t)i * PIXELS, i % 4, &state);
        values[(size_t)count * PIXELS + (size_t)i] = (float)(i % 4);
    }
    char header[256];
    int length =
        snprintf(header, sizeof header,
                 "{\"image\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d],\"data_offsets\":[0,%zu]},"
                 "\"label\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%zu,%zu]}}",
                 count, ACROSS * ACROSS, PATCH * PATCH, images, count, images, images + labels);
    while (length % 8) header[length++] = ' ';
    uint64_t size = (uint64_t)length; /* little-endian, as this machine */
    int good = fwrite(&size, sizeof size, 1, file) == 1 &&
               fwrite(header, (size_t)length, 1, file) == 1 &&
               fwrite(values, images + labels, 1, file) == 1;
    free(values);
    return fclose(file) != 0 || !good;
}

/* The first images of a file, side by side. */
static int show(const char *path) {
    FILE *file = fopen(path, "rb");
    static char header[65536];
    uint64_t size = 0;
    int good = file && fread(&size, sizeof size, 1, file) == 1 && size < sizeof header &&
               fread(header, size, 1, file) == 1;
    const char *entry = good ? strstr(header, "\"image\"") : NULL,
               *offsets = entry ? strstr(entry, "data_offsets") : NULL;
    long start = offsets ? strtol(strchr(offsets, '[') + 1, NULL, 10) : -1;
    static float images[SHOWN][PIXELS];
    size_t count = start >= 0 && fseek(file, start, SEEK_CUR) == 0
                       ? fread(images, sizeof images[0], SHOWN, file)
                       : 0;
    for (int y = 0; y < SIDE; y++) {
        for (size_t i = 0; i < count; i++) {
            for (int x = 0; x < SIDE; x++) putchar(images[i][place(y, x)] > 0 ? '#' : '.');
            fputs(i + 1 < count ? "  " : "\n", stdout);
        }
    }
    if (file) fclose(file);
    return count == 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "draw") && atoi(argv[2]) > 0)
        return write_images(atoi(argv[2]), argv[3]);
    if (argc == 3 && !strcmp(argv[1], "show")) return show(argv[2]);
    fputs("shapes draw COUNT FILE | shapes show FILE\n", stderr);
    return 2;
}
