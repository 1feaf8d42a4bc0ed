/* config: a config.json as a list of values, and back.
 *
 *     {"dim": 64, "rope": {"theta": 1e4}}   -->   "dim" 64, "rope.theta" 10000
 */
#ifndef EXCHANGE_CONFIG_H
#define EXCHANGE_CONFIG_H

#include "moec.h"

typedef struct Config {
    char *path;
    MoecPair *pairs; /* keys and texts are owned */
    int count;
} Config;

/* NULL after a message. */
Config *config_open(const char *path);
void config_close(Config *config);
/* The text of a value, or NULL. */
const char *config_text(const Config *config, const char *key);
/* Writes a file; `type` is that of the tensors, "float32". False after a message. */
bool config_write(const char *path, const MoecPair *pairs, int count, const char *type);

#endif
