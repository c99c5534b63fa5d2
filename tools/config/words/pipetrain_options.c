/* pipetrain's options: what they are called and what is said of them. */
#include "tools/config/words/pipetrain_options.h"

#include <stddef.h>

const struct program_option pipetrain_options[] = {
    { 'c', "config", "FILE", false, "train as FILE says, which may be a pipe", NULL, NULL },
    { WORD_SET, "set", "SECTION.KEY=VALUE", false,
      "change a key for this run; repeat for more (SECTION. may be left out where one section alone has KEY)",
      "the last one wins: --set batch=64", NULL },
    { WORD_CHECK, "check", NULL, false, "check settings and data, start nothing", NULL, NULL },
    { WORD_DRY_RUN, "dry-run", NULL, false, "build everything, print the plan, run one step", NULL, NULL },
    { WORD_OVERFIT, "overfit", "N", false, "can N samples be learnt at all? Train on them until all are right",
      "They are spread over the training set, and what makes learning by heart harder is left out; --set overrules "
      "that. Results go beside those of the run, to its directory's name with -overfit behind it",
      "pipetrain -c run.conf --overfit=100" },
    { WORD_ELSEWHERE, "compare", "KEY=VALUE,VALUE...", false,
      "run variants one after the other, and put speeds, times and accuracy side by side (--compare=help)",
      "several of it: all combinations. Every variant is checked first, and nothing is written but the result. "
      "--rounds=N (3) times each, for --seconds=S (10) of training or --steps=N; --format=table, csv or json",
      "pipetrain -c run.conf --compare towers=1,2,4" },
    { WORD_ELSEWHERE, "tune", "SECONDS", true,
      "find how many threads and how much depth its input pipeline needs (--tune --help)",
      "in 60 seconds by default: short runs change one key at a time, first the one that promises most, and the best "
      "settings run in turns with the configuration as it is", "pipetrain -c run.conf --tune" },
    { WORD_ELSEWHERE, "tune-write", NULL, false, "with --tune: put what it recommends into FILE",
      "FILE as it was stays beside it, with .bak behind its name", NULL },
    { WORD_PROGRESS, "progress", "KIND", false,
      "bar, line, json or none on stderr; else a bar where that is a terminal", "the same as report.progress", NULL },
    { 'q', "quiet", NULL, false, "print nothing but errors and the result", NULL, NULL },
    { WORD_DESCRIBE, "describe", "MODEL", true,
      "the models; or the layers of one, of a file (mine.net) or of FILE's, and what is done to its images",
      "a name with a slash or with .net at its end is a file as model.file takes it; with devices.kind = cuda also "
      "what a step asks of a GPU, which need not be there", "pipetrain --describe=lenet --set devices.kind=cuda" },
    { WORD_NET, "net", NULL, false, "with --describe: as a file for model.file, to be changed", NULL,
      "pipetrain --describe=mnist_cnn --net > mine.net" },
    { WORD_DOCTOR, "doctor", "json", true,
      "what this machine is to a run, or to that of FILE: cores, memory, GPUs, disk, libraries; what costs speed, "
      "and what to do",
      "each finding is fine, or says what it costs and what to do. Exit code 0 also with warnings. json: an object a "
      "line", "pipetrain --doctor -c run.conf" },
    { 'h', "help", "KEY", true, "this text and all keys, or one key or section", NULL, NULL },
    { WORD_VERSION, "version", NULL, false, "the version", NULL, NULL },
    { 0, NULL, NULL, false, NULL, NULL, NULL },
};
