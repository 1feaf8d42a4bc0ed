/* plain_folder: folders of moec emit --profile freestanding: a model as one translation unit of C99
 * with its header, for machines without an operating system.
 *
 *     model.h, model.c          the interface; the program
 *     weights.inc, rounded.inc  the weights as initializers of arrays, or
 *     weights.bin, weights.S    the same as bytes, for the assembler
 *     example.c, README.md
 */
#ifndef PLAIN_FOLDER_H
#define PLAIN_FOLDER_H

#include "moec.h"
#include "model/model.h"
#include "tokenizer/text/text.h"

#include <stdbool.h>

typedef struct FreestandingFolder {
    const char *out;
    const char *origin; /* a sentence about the weights */
    MoecCompiler *compiler;
    const Model *model; /* with the weights */
    const MoecFreestanding *program;
    bool apart; /* weights as bytes */
} FreestandingFolder;

/* The largest array of weights without --weights=array: a compiler needs many times its size. */
enum { FREESTANDING_ARRAY_BYTES = 16 << 20 };

/* Bytes of the constant weights. */
size_t freestanding_weight_bytes(const MoecFreestanding *program);
size_t freestanding_rounded_bytes(const MoecFreestanding *program); /* all but f32 */

/* With code and tables; state and stack. */
size_t freestanding_flash_bytes(const MoecFreestanding *program);
size_t freestanding_ram_bytes(const MoecFreestanding *program);

/* Writes the folder. False after a message. */
bool freestanding_write(const FreestandingFolder *folder);

/* ---- memory_limits.c ---- */

/* Bytes; 0: no limit. */
typedef struct DeviceMemory {
    long flash, ram;
} DeviceMemory;

/* Opens the model with one more setting, "inference.weight_dtype=int8". NULL after an error. */
typedef MoecCompiler *(*OpenVariant)(const void *context, const char *set);

/* Whether the program fits into the memory. If not, the message states the missing bytes and a type
 * of weights and a context length that fit. */
bool device_memory_holds(const DeviceMemory *memory, const MoecFreestanding *program,
                         OpenVariant open, const void *context);

/* ---- web_page.c ---- */

/* Weights of more bytes do not fit into a page: browsers limit the length of a text. */
enum { PAGE_WEIGHT_BYTES = 256 << 20 };

/* A file of this folder's templates. */
const char *freestanding_template(const char *name);
/* Compiles a folder of freestanding_write with weights as bytes, and tokenizer.bin if there is one,
 * and writes the page. False after a message. */
bool page_write(const FreestandingFolder *folder, const char *page);

/* ---- amalgamate.c ---- */

/* The declarations of the headers, in their order, that the program needs: a new string. */
char *amalgamate(const char *const *headers, const char *program);
/* The first function "moec_..." that the program calls and the text does not define; NULL: none. */
const char *amalgamate_missing(const char *text, const char *program, size_t *length);

/* ---- stored.c ---- */

/* Whether all weights are finite. False after a message. */
bool stored_check(const FreestandingFolder *folder);
/* Writes the weights in the form of the folder. False after a message. */
bool stored_write(const FreestandingFolder *folder);

#endif
