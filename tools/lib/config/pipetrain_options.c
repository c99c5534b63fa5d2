/* The options of pipetrain, and the check which of them can be combined. */
#include "tools/lib/config/pipetrain_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "stage/log.h"
#include "stage/text/names.h"
#include "stage/text/program_folder.h"

#define FIELD(name) .offset = offsetof(struct pipetrain_arguments, name)
/* pipetrain.c calls these commands before it reads the other options. */
#define COMMAND .refused = "is a command of its own"

const struct program_option pipetrain_options[] = {
    { .letter = 'c', .name = "config", .value = "FILE", .store = STORE_TEXT, FIELD(config.path),
      .instead = "--set SECTION.KEY=VALUE adds to a file",
      .help = "configuration file (or pipe) of the training run, of one process or of several",
      .example = "mpirun -n 2 pipetrain -c run.conf" },
    { .name = "set", .value = "SECTION.KEY=VALUE", .store = STORE_LIST, FIELD(config.assignments),
      .help = "override a key for this run; may be repeated (SECTION. is optional if only one section has KEY)",
      .more = "the last one wins: --set batch=64" },
    { .name = "check", .store = STORE_FLAG, FIELD(check),
      .help = "check settings and data, do not train" },
    { .name = "dry-run", .store = STORE_FLAG, FIELD(dry_run),
      .help = "set everything up, print the plan, run one step" },
    { .name = "overfit", .value = "N", .store = STORE_NUMBER, .least = 1, .most = INT64_MAX, FIELD(overfit),
      .help = "sanity check: train on N samples until all are classified correctly",
      .more = "the samples are spread over the training set; augmentation and regularisation are switched off, unless "
              "--set says otherwise. Results are written to run.dir with -overfit appended",
      .example = "pipetrain -c run.conf --overfit=100" },
    { .name = "compare", .value = "KEY=VALUE,VALUE...", COMMAND,
      .help = "run variants one after the other and compare speed, time and accuracy (--compare=help)",
      .more = "several --compare options: all combinations. All variants are checked first; only the result is "
              "written. --rounds=N (3) repetitions, --seconds=S (10) of training or --steps=N each; --format=table, "
              "csv or json",
      .example = "pipetrain -c run.conf --compare towers=1,2,4" },
    { .name = "tune", .value = "SECONDS", .may_lack_value = true, COMMAND,
      .help = "find the threads and prefetch depths that the input pipeline needs (--tune --help)",
      .more = "takes 60 seconds by default: short runs change one key at a time, the most promising first, and the "
              "best settings alternate with the configuration as it is",
      .example = "pipetrain -c run.conf --tune" },
    { .name = "tune-write", COMMAND, .help = "with --tune: write the recommended settings to FILE",
      .more = "the previous FILE is kept as FILE.bak" },
    { .name = "progress", .value = "KIND",
      .help = "bar, line, json or none on stderr (default: bar on a terminal, else line)",
      .more = "the same as report.progress" },
    { .letter = 'q', .name = "quiet", .store = STORE_FLAG, FIELD(quiet), .help = "print only errors and the result" },
    { .name = "describe", .value = "MODEL", .may_lack_value = true, .store = STORE_TEXT, FIELD(describe),
      .instead = "describe one model at a time",
      .help = "list the models; or describe the layers and image preprocessing of one, of a file (mine.net), or of the "
              "configuration FILE",
      .more = "a name with a slash, or ending in .net, is a file as for model.file; with devices.kind = cuda also the "
              "GPU memory and kernels of a step, without needing a GPU",
      .example = "pipetrain --describe=lenet --set devices.kind=cuda" },
    { .name = "net", .store = STORE_FLAG, FIELD(net),
      .help = "with --describe: print the network as a file for model.file",
      .example = "pipetrain --describe=mnist_cnn --net > mine.net" },
    { .name = "doctor", .value = "json", .may_lack_value = true, .store = STORE_TEXT, FIELD(doctor),
      .help = "check this machine (for the run of FILE) for performance problems: cores, memory, GPUs, disk, libraries",
      .more = "each finding is fine, or says what it costs and what to do. Exit code 0 also with warnings. json: one "
              "object per line",
      .example = "pipetrain --doctor -c run.conf" },
    { .letter = 'h', .name = "help", .value = "KEY", .may_lack_value = true, .store = STORE_TEXT, FIELD(help),
      .help = "this text and all keys, or one key or section" },
    { .name = "version", .store = STORE_FLAG, FIELD(version),
      .help = "the version" },
    { .name = NULL },
};

/* --progress=VALUE is short for an assignment; a value that is too long for it is not valid either. */
static int store_progress(void *out, const struct program_option *option, const char *value)
{
    struct pipetrain_arguments *const words = out;
    snprintf(words->progress, sizeof(words->progress), "report.progress=%s", value);
    return program_list_add(&words->config.assignments, option->name, words->progress);
}

static const struct program_command command_line = {
    .usage = "pipetrain", .options = pipetrain_options, .store = store_progress,
};

/* Check that the options can be combined. 0, or -EINVAL after a message. */
static int check_together(const struct pipetrain_arguments *words)
{
    const bool runs = words->check || words->dry_run || words->overfit > 0;
    const bool names_model = words->describe != NULL && (*words->describe != '\0' || words->config.path != NULL);
    if (words->overfit > 0 && (words->check || words->dry_run))
        log_message(LOG_ERROR, "--overfit trains: use it without --check and --dry-run");
    else if (words->check && words->dry_run)
        log_message(LOG_ERROR, "--check starts nothing and --dry-run runs a step: use one of them");
    else if (words->doctor != NULL && (runs || words->describe != NULL))
        log_message(LOG_ERROR, "--doctor runs nothing: use it without --check, --dry-run, --overfit and --describe");
    else if (words->net && !names_model)
        log_message(LOG_ERROR, "--net prints a model: %spipetrain --describe=MODEL --net", program_folder());
    else
        return 0;
    return -EINVAL;
}

/* "--describe MODEL" and "--help KEY" are accepted with a space, too. */
static void take_value(const char **value, char **argv, int argc, int *first)
{
    if (*first < argc && *value != NULL && **value == '\0')
        *value = argv[(*first)++];
}

/* The command that the first word may mean, before its options are refused as unknown ones; or NULL. */
static const char *misspelt_command(const char *word)
{
    static const char *const commands[] = { "evaluate", "predict", "export" };
    struct nearest nearest = { .name = word };
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        nearest_offer(&nearest, commands[i], commands[i]);
    return nearest.best;
}

int pipetrain_arguments_read(struct pipetrain_arguments *words_out, int argc, char **argv)
{
    int first;
    *words_out = (struct pipetrain_arguments){ .check = false };
    const char *const meant = argc > 1 && *argv[1] != '-' ? misspelt_command(argv[1]) : NULL;
    if (meant != NULL) {
        log_message(LOG_ERROR, "'%s' is no command (did you mean '%s'?)", argv[1], meant);
        return -EINVAL;
    }
    int rc = program_options_read(&command_line, argc, argv, words_out, &first);
    if (rc != 0)
        return rc;
    take_value(&words_out->describe, argv, argc, &first);
    take_value(&words_out->help, argv, argc, &first);
    rc = check_together(words_out);
    if (rc != 0 || first == argc)
        return rc;
    log_message(LOG_ERROR, "unexpected argument '%s' (a configuration file follows -c)", argv[first]);
    return -EINVAL;
}
