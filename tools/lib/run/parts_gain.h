/* The bytes that towers send each other in a training step, with and without model.parts (doc/training.md, "Dense layers
 * divided among towers"). Called by main for messages. */
#ifndef PIPETRAIN_PARTS_GAIN_H
#define PIPETRAIN_PARTS_GAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/net.h"
#include "compute/share.h"

/* A step of `rows` samples, those of empty places in slices included, on `towers` towers. */
struct parts_step { uint32_t parts, towers, rows; };

/* What each tower sends, if no number is sent twice to a tower and sums are divided among the towers: with N towers,
 * (N - 1) / N of every number that all towers get or whose sum one tower gets, and twice as much of an all-reduce. */
struct parts_gain {
    struct head head;
    uint64_t bytes;             /* with parts: gradients of the trunk; activations and their gradients, statistics of the
                                 * softmax, and labels */
    uint64_t replicated_bytes;  /* without: all gradients */
    uint32_t batch;             /* fewer rows than this send less with parts than without */
};

/* False: the dense layers of the net cannot be divided into so many parts. */
bool parts_gain_find(struct parts_gain *gain_out, const struct net *net, const struct parts_step *step);

#define PARTS_TEXT_SIZE 256
/* Write the names of the divided layers: "fc6, fc7 and fc8". */
void parts_gain_layers(const struct head *head, const struct net *net, char text[PARTS_TEXT_SIZE]);
/* Write "a tower sends 85.3 MB in a step instead of 433.1 MB". */
void parts_gain_describe(const struct parts_gain *gain, char text[PARTS_TEXT_SIZE]);

#endif
