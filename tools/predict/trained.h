/* A trained network that is put to use: what the settings make of it, its weights, and the tower that computes.
 * Used by main only. */
#ifndef PIPETRAIN_TRAINED_H
#define PIPETRAIN_TRAINED_H

#include "tools/predict/inference.h"
#include "tools/predict/network_words.h"

/* Begins as zeros; trained_close after any of what follows. */
struct trained {
    struct settings *settings;          /* lent; changed to one tower that only evaluates */
    const char *weights_path;           /* lent */
    struct net *net;
    struct initial_weights *weights;
    struct run_plan plan;
    struct stop *stop;
    struct inference *inference;
};

/* The settings of the words' configuration with those of the command line, checked; and as an evaluation needs them.
 * Settings that were initialised. 0, or an exit code after all messages. */
int trained_read_settings(struct settings *settings, const struct network_words *words);
/* Will the tower compute with a team of threads, and can all that was read be read again? Then the program may start
 * itself once more (tools/run/team_wait.h). May be the first call of a device's library. */
bool trained_may_restart(const struct settings *settings);

/* The network of the settings and the weights at the path, which have to fit it. 0, or an exit code after all
 * messages. */
int trained_open(struct trained *trained, struct settings *settings, const char *weights_path);
/* Choose the device, and plan the evaluation of `samples` >= 1 samples in batches of train.batch: of a data set, or
 * with NULL of what comes from elsewhere. 0, or an exit code after all messages. */
int trained_plan(struct trained *trained, const struct dataset *dataset, uint64_t samples);
void trained_close(struct trained *trained);

/* What computes, on a line: "device    cpu, onednn, fp32, 2 threads, batches of 64". */
void trained_print_device(const struct trained *trained, FILE *out);

#endif
