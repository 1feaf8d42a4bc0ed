/* folder: files of a published model directory that are kept unchanged with the weights.
 *
 *     tokenizer_config.json  -->  the note "file:tokenizer_config.json"  -->  the same file again
 * */
#ifndef EXCHANGE_FOLDER_H
#define EXCHANGE_FOLDER_H

#include "data/safetensors.h"

/* The texts of these files as "file:NAME" in a new object. bare: without the tokenizer files. NULL
 * after a message. */
json_t *folder_files(const char *folder, bool bare);
/* Writes the files of a checkpoint, except for config.json, which is generated. False after a
 * message. */
bool folder_write_files(const char *folder, const Safetensors *checkpoint);

#endif
