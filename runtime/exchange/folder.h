/* folder: the files of a published folder that travel with the weights as they are.
 *
 *     tokenizer_config.json  -->  the note "file:tokenizer_config.json"  -->  the same file again
 */
#ifndef EXCHANGE_FOLDER_H
#define EXCHANGE_FOLDER_H

#include "data/safetensors.h"

/* The texts of those that the folder has: "file:NAME", a new object. bare: without those that
 * belong to its tokenizer. NULL after a message. */
json_t *folder_files(const char *folder, bool bare);
/* Writes those that a checkpoint has, but for config.json, which is another one. False after a
 * message. */
bool folder_write_files(const char *folder, const Safetensors *checkpoint);

#endif
