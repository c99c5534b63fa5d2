/* A trained network: its settings, its weights, its data, the pipeline that evaluates it, and the common part of the
 * commands that use one. Main thread only. */
#ifndef PIPETRAIN_TRAINED_H
#define PIPETRAIN_TRAINED_H

#include <limits.h>

#include "loader/loader.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/results/weights_agree.h"
#include "tools/lib/run/pipeline.h"
#include "tools/predict/found_weights.h"

/* The arguments of the command line; borrowed; NULL: not given. */
struct network_arguments {
    struct config_arguments config; /* the configuration of the training run, and --set, which overrides all others */
    const char *weights;        /* a file, or a run directory, which network_command_run replaces by a file there */
    const char *model;          /* a name or a file, used without `config` if the weights do not contain the model */
    bool wants_last;            /* the last weights of a run, not the best ones */
    bool wants_help;
    const char *folder;         /* this and the next member are set by network_command_run: the run directory in */
    char in_folder[PATH_MAX];   /* `weights`, and the path of the file there */
};

/* Check that the given arguments can be combined. 0, or -EINVAL after a message, which contains `example`. */
int network_arguments_check(const struct network_arguments *arguments, const char *command, const char *example);
/* Warn of options of --set that the command does not use. `uses`: one of enum command_use. */
void network_arguments_warn(const struct network_arguments *arguments, const struct settings *settings,
                            const char *command, unsigned uses);

/* A command that uses a trained network. `arguments` is the struct that its options fill; its first member is a struct
 * network_arguments. */
struct network_command {
    const struct program_command *line;
    void (*print_usage)(FILE *out);
    /* Check the arguments, and the `count` words after the options. 0, or -EINVAL after a message. */
    int (*check)(void *arguments, char **words, int count);
    /* Run the command with the settings of the configuration, or of the weights' metadata. Returns the exit code. */
    int (*run)(struct settings *settings, const void *arguments, char **argv, uint64_t process_start_ns);
};

/* Parse the command line, in which argv[1] is the command, and run it. Returns the exit code. */
int network_command_run(const struct network_command *command, struct network_arguments *arguments, int argc,
                        char **argv, uint64_t process_start_ns);
/* Report that there is no memory for `what`. Returns EXIT_CODE_MEMORY. */
int network_no_memory(const char *what);
/* Call signals_start. 0, or an exit code after a message. */
int network_command_start_signals(void);

/* The weights that the arguments name, or those of the run of the settings; what this chooses besides the best or last
 * ones is logged. 0, or an exit code after a message. */
int network_weights(const struct network_arguments *arguments, const struct settings *settings,
                    struct found_weights *found_out);
/* Refuse an output that is a file which the command reads, even with --force. 0, or an exit code after a message. */
int network_output_check(const struct settings *settings, const char *weights, const char *output);

/* Zero it first; call trained_close after any of the functions below. */
struct trained {
    struct settings *settings;          /* borrowed; changed to one tower for evaluation only */
    const char *weights_path;           /* borrowed */
    struct net *net;
    struct initial_weights *weights;
    struct dataset *dataset;            /* NULL: samples are from another input */
    struct run_plan plan;
    struct stop *stop;
    struct pipeline *pipeline;
    struct loader_counts counts;        /* this and the next member are set by trained_evaluate */
    uint64_t wall_ns;
};

/* Set the settings to an evaluation in batches of `batch` samples, on one tower and in one pass over the data in their
 * order, whatever they contain about training. */
void trained_set_batch(struct settings *settings, int64_t batch);

/* Restart the program (tools/lib/run/team_wait.h) if the tower computes with a team of threads and all input can be
 * read again; then print which settings are not used as written. This function may be the first in the process that
 * calls a device's library. */
void trained_settle(const struct settings *settings, char **argv, uint64_t process_start_ns);

/* Open the network of the settings, and the weights, whose shapes must match it. 0, or an exit code after all
 * messages. */
int trained_open(struct trained *trained, struct settings *settings, const char *weights_path, enum weights_use use);
/* Open the validation set of the settings; is_any_label_taken: labels out of range are accepted. 0, or an exit code
 * after all messages. */
int trained_open_data(struct trained *trained, bool is_any_label_taken);
/* Choose the device, plan the evaluation of `samples` >= 1 samples in batches of train.batch, and check that there is
 * memory for it, which is not allocated yet. `input` provides encoded images if there is no data set; otherwise NULL.
 * 0, or an exit code after all messages. */
int trained_plan(struct trained *trained, uint64_t samples, const struct pipeline_input *input);
/* Evaluate the samples. add(arg, report) is called for every batch with its outputs, in order, and ends the evaluation
 * by returning false. 0, or an exit code after a message, or that of a signal. */
int trained_evaluate(struct trained *trained, bool (*add)(void *arg, const struct step_report *report), void *arg);
void trained_close(struct trained *trained);

/* Print the line "device    cpu, onednn, fp32, 2 threads, batches of 64". */
void trained_print_device(const struct trained *trained, FILE *out);

#endif
