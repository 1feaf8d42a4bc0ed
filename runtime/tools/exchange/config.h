/* config: a config.json as a list of values, and back.
 *
 *     {"dim": 64, "rope": {"theta": 1e4}}   -->   "dim" 64, "rope.theta" 10000
 */
#ifndef EXCHANGE_CONFIG_H
#define EXCHANGE_CONFIG_H

#include "moec.h"

#include <jansson.h>

typedef struct Config {
    char *path;
    MoecPair *pairs; /* keys and texts are owned */
    int count;
} Config;

/* NULL after a message. */
Config *config_open(const char *path);
/* The values of an object that was read from `path`. */
Config *config_of(const char *path, json_t *object);
void config_close(Config *config);
/* The text of a value, or NULL. */
const char *config_text(const Config *config, const char *key);
/* A configuration to write. type: of the tensors, "float32". before: text of the original
 * configuration, or NULL; its keys that do not describe the model, such as the end-of-text token,
 * are kept. */
typedef struct NewConfig {
    const MoecPair *pairs;
    int count;
    const char *type, *before, *layout;
    MoecCompiler *layouts;
} NewConfig;
/* Writes a file; false after a message. */
bool config_write(const char *path, const NewConfig *config);

#endif
