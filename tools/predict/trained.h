/* A trained network: its settings, its weights, and the tower that computes. Main thread only. */
#ifndef PIPETRAIN_TRAINED
#define PIPETRAIN_TRAINED

#include <limits.h>

#include "tools/config/settings.h"
#include "tools/predict/inference.h"

/* From the command line; borrowed; NULL: not given. */
struct network_words {
    const char *config;         /* configuration file of the training run */
    const char *weights;        /* file */
    const char *model;          /* a name or a file; without `config`, if the weights do not contain the model */
    char **assignments;         /* of --set; override the others */
    int assignment_count;
};

/* Check which of them are given. 0, or -EINVAL after a message, which shows `example`. */
int network_words_check(const struct network_words *words, const char *command, const char *example);
/* Read the settings, which must be initialised, from the configuration, or from the metadata of the weights if there is
 * none. 0, or an exit code after all messages. */
int network_words_settings(struct settings *settings, const struct network_words *words);

/* Find the weights of a run: weights.safetensors in the run directory of the settings, or in the last of runs/NAME,
 * runs/NAME-2, ... that has it; for a killed run, its newest valid checkpoint, which is logged. Runs without results,
 * or on synthetic input or --overfit, are skipped and logged. 0, or an exit code after a message. */
int found_weights(const struct settings *settings, char path_out[PATH_MAX]);

/* Zero it first; call trained_close after any of the functions below. */
struct trained {
    struct settings *settings;          /* borrowed; changed to one tower for evaluation only */
    const char *weights_path;           /* borrowed */
    struct net *net;
    struct initial_weights *weights;
    struct run_plan plan;
    struct stop *stop;
    struct inference *inference;
};

/* Whether the program may restart itself (tools/run/team_wait.h): the tower computes with a team of threads, and all
 * input can be read again. This may be the first call of the library of a device. */
bool trained_may_restart(const struct settings *settings);

/* Open the network of the settings, and the weights, whose shapes must match it. 0, or an exit code after all
 * messages. */
int trained_open(struct trained *trained, struct settings *settings, const char *weights_path);
/* Choose the device, and plan the evaluation of `samples` >= 1 samples in batches of train.batch. `dataset` is NULL if
 * the samples do not come from a data set. 0, or an exit code after all messages. */
int trained_plan(struct trained *trained, const struct dataset *dataset, uint64_t samples);
void trained_close(struct trained *trained);

/* Print the line "device    cpu, onednn, fp32, 2 threads, batches of 64". */
void trained_print_device(const struct trained *trained, FILE *out);

#endif
