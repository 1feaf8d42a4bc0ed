/* describe: cost of a model, shared by its JSON and its table. */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include "driver/driver.h"

/* Bytes unless stated otherwise. */
typedef struct Summary {
    Program *forward, *train; /* train: forward without a loss or training options */
    const Cost *cost;
    double flops_train; /* per token: see training_flops */
    Decoding decoding;
    bool trains; /* the model has a loss and training options */
    double weights, gradients, optimizer, activations;
    double compute_weights; /* bf16 copy of the weights */
    double states;          /* of layers, such as router biases */
    double total;
    const List *stages; /* Stage *: of the training */
} Summary;

/* Of the tensors with this role, as f32, without gradients of frozen parameters. */
double role_bytes(const Program *program, Role role);
/* Bytes of the optimizer state for `weights` bytes of parameters. */
double optimizer_bytes(MoecCompiler *compiler, double weights);
/* False after a reported error. */
bool describe(MoecCompiler *compiler, Summary *summary);
/* Warns about predictions that depend on the tokens that they predict. `forward`: the model. */
void warn_of_leaks(MoecCompiler *compiler, const Program *forward);

#endif
