/* pipetrain's options: names and help. */
#include "tools/lib/config/pipetrain_options.h"

#include <stddef.h>

const struct program_option pipetrain_options[] = {
    { .letter = 'c', .name = "config", .value = "FILE", .help = "configuration file (or pipe) of the training run, of one process or of several",
      .example = "mpirun -n 2 pipetrain -c run.conf" },
    { .letter = WORD_SET, .name = "set", .value = "SECTION.KEY=VALUE",
      .help = "override a key for this run; may be repeated (SECTION. is optional if only one section has KEY)",
      .more = "the last one wins: --set batch=64" },
    { .letter = WORD_CHECK, .name = "check", .help = "check settings and data, do not train" },
    { .letter = WORD_DRY_RUN, .name = "dry-run", .help = "set everything up, print the plan, run one step" },
    { .letter = WORD_OVERFIT, .name = "overfit", .value = "N",
      .help = "sanity check: train on N samples until all are classified correctly",
      .more = "the samples are spread over the training set; augmentation and regularisation are switched off, unless "
              "--set says otherwise. Results are written to run.dir with -overfit appended",
      .example = "pipetrain -c run.conf --overfit=100" },
    { .letter = WORD_ELSEWHERE, .name = "compare", .value = "KEY=VALUE,VALUE...",
      .help = "run variants one after the other and compare speed, time and accuracy (--compare=help)",
      .more = "several --compare options: all combinations. All variants are checked first; only the result is "
              "written. --rounds=N (3) repetitions, --seconds=S (10) of training or --steps=N each; --format=table, "
              "csv or json",
      .example = "pipetrain -c run.conf --compare towers=1,2,4" },
    { .letter = WORD_ELSEWHERE, .name = "tune", .value = "SECONDS", .may_lack_value = true,
      .help = "find the threads and prefetch depths that the input pipeline needs (--tune --help)",
      .more = "takes 60 seconds by default: short runs change one key at a time, the most promising first, and the "
              "best settings alternate with the configuration as it is",
      .example = "pipetrain -c run.conf --tune" },
    { .letter = WORD_ELSEWHERE, .name = "tune-write", .help = "with --tune: write the recommended settings to FILE",
      .more = "the previous FILE is kept as FILE.bak" },
    { .letter = WORD_PROGRESS, .name = "progress", .value = "KIND",
      .help = "bar, line, json or none on stderr (default: bar on a terminal, else line)",
      .more = "the same as report.progress" },
    { .letter = 'q', .name = "quiet", .help = "print only errors and the result" },
    { .letter = WORD_DESCRIBE, .name = "describe", .value = "MODEL", .may_lack_value = true,
      .help = "list the models; or describe the layers and image preprocessing of one, of a file (mine.net), or of the "
              "configuration FILE",
      .more = "a name with a slash, or ending in .net, is a file as for model.file; with devices.kind = cuda also the "
              "GPU memory and kernels of a step, without needing a GPU",
      .example = "pipetrain --describe=lenet --set devices.kind=cuda" },
    { .letter = WORD_NET, .name = "net", .help = "with --describe: print the network as a file for model.file",
      .example = "pipetrain --describe=mnist_cnn --net > mine.net" },
    { .letter = WORD_DOCTOR, .name = "doctor", .value = "json", .may_lack_value = true,
      .help = "check this machine (for the run of FILE) for performance problems: cores, memory, GPUs, disk, libraries",
      .more = "each finding is fine, or says what it costs and what to do. Exit code 0 also with warnings. json: one "
              "object per line",
      .example = "pipetrain --doctor -c run.conf" },
    { .letter = 'h', .name = "help", .value = "KEY", .may_lack_value = true,
      .help = "this text and all keys, or one key or section" },
    { .letter = WORD_VERSION, .name = "version", .help = "the version" },
    { .name = NULL },
};
