/* The resolved settings of a run: values of the configuration file and --set, and defaults of the option table. Set by
 * the main thread before anything starts, constant afterwards. */
#ifndef PIPETRAIN_SETTINGS_H
#define PIPETRAIN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/backend.h"
#include "compute/learning_rate.h"
#include "compute/optimizer.h"
#include "compute/share.h"
#include "loader/augment/augment.h"
#include "loader/images/image.h"
#include "loader/order.h"
#include "sync/sync.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/text/progress.h"

#define TRAIN_BATCH_DEFAULT 128       /* if neither settings nor recipe have a batch */

enum last_batch { LAST_BATCH_KEEP, LAST_BATCH_DROP };
enum on_nan { ON_NAN_STOP, ON_NAN_SKIP, ON_NAN_ROLLBACK };
/* The measure of an evaluation by which train.stop_at, train.patience and the best weights judge it. The numbers are
 * part of checkpoints. */
enum best_by {
    BEST_BY_ACCURACY, BEST_BY_LOSS, BEST_BY_BALANCED_ACCURACY, BEST_BY_MACRO_PRECISION, BEST_BY_MACRO_RECALL,
    BEST_BY_MACRO_F1, BEST_BY_WEIGHTED_PRECISION, BEST_BY_WEIGHTED_F1, BEST_BY_COUNT
};
/* What is kept of the best evaluation: its weights and statistics, or the whole checkpoint. */
enum keep_best { KEEP_BEST_NO, KEEP_BEST_WEIGHTS, KEEP_BEST_CHECKPOINT };
enum on_corrupt { ON_CORRUPT_FAIL, ON_CORRUPT_SKIP };
enum input_source { INPUT_REAL, INPUT_CACHED, INPUT_SYNTHETIC };
enum device_choice { DEVICE_CHOICE_AUTO, DEVICE_CHOICE_CPU, DEVICE_CHOICE_CUDA, DEVICE_CHOICE_NULL };
enum plan_times { PLAN_TIMES_AUTO, PLAN_TIMES_YES, PLAN_TIMES_NO };
enum fuse_choice { FUSE_AUTO, FUSE_YES, FUSE_NO };
enum sync_place { SYNC_PLACE_DEVICE, SYNC_PLACE_CPU };
enum wire { WIRE_FP32, WIRE_BF16 };
enum consistency { CONSISTENCY_STRONG, CONSISTENCY_RELAXED };
enum averaged { AVERAGED_ALL, AVERAGED_PARAMETERS };
enum staleness_rate { STALENESS_RATE_NONE, STALENESS_RATE_INVERSE };
enum backend_choice { BACKEND_CHOICE_AUTO, BACKEND_CHOICE_ONEDNN, BACKEND_CHOICE_REFERENCE };
enum reduce_choice { REDUCE_CHOICE_AUTO, REDUCE_CHOICE_NCCL, REDUCE_CHOICE_NCCL_ALLREDUCE, REDUCE_CHOICE_PEER,
                     REDUCE_CHOICE_IPC, REDUCE_CHOICE_HOST };

#define OPTION_NUMBERS_MAX NET_CHANNELS_MAX

struct numbers {
    uint32_t count;
    double value[OPTION_NUMBERS_MAX];
};

/* Field types by option type: OPTION_STRING and OPTION_NAME char * (owned, never
 * NULL), OPTION_INTEGER, OPTION_DURATION and OPTION_SIZE int64_t, OPTION_NUMBER double, OPTION_NUMBERS struct numbers,
 * OPTION_YES_NO bool, OPTION_CHOICE an enum. */
struct run_settings {
    char *name;                 /* name of the run; settings_finish sets the default, from the name of the file */
    char *dir;                  /* run directory; settings_finish sets the default, runs/NAME */
    char *resume;               /* "auto", "never", or the file or folder of a checkpoint */
    int64_t seed;
};

struct data_settings {
    char *train, *validation;   /* globs, files, directories; "" = none */
    int64_t limit;              /* most records of each set; 0 = all */
    double validation_split;    /* share of the training records used for validation; 0 = none */
    bool allow_overlap;         /* training and validation may use the same shards */
    int64_t classes;            /* number of classes; 0 = that of the model */
    int64_t label_offset;
    char *image_key, *label_key;        /* "" = found from the first record */
    char *class_names;          /* file; "" = a file next to the shards */
    enum pixel_layout image_layout;
    enum image_range_choice image_range;
    enum shuffle shuffle;
    bool balance;               /* training records are sampled so that all classes occur equally often */
    int64_t lanes;              /* shuffle = block: parts of a batch with an order of their own; 1 = one order for all */
    int64_t shuffle_window;     /* bytes shuffled at a time with shuffle = block, 0 = chosen */
    enum last_batch last_batch;
    enum on_corrupt on_corrupt;
    double max_corrupt;         /* below 1: share of the records, else their number */
    bool index_cache;
};

struct input_settings {
    enum input_source source;
    int64_t prefetch_depth;     /* batches per tower on the host */
    int64_t staging_depth;      /* batches per tower on the device */
    int64_t read_threads, decode_threads;       /* 0 = chosen */
    int64_t read_block;         /* bytes read at a time with shuffle = block */
    int64_t chunk;              /* records per work item, 0 = chosen */
    int64_t keep_shards;        /* bytes: data sets up to this size are kept in memory, 0 = none */
    /* The most pixels of an encoded image; 0: limited by memory, at most IMAGE_PIXELS_MAX. */
    int64_t max_pixels;
    int64_t ram_budget;         /* bytes, 0 = no limit */
};

struct augment_settings {
    enum crop crop, evaluation; /* of training and of validation images */
    double evaluation_scale;
    int64_t evaluation_resize;  /* pixels; 0 = use evaluation_scale */
    struct numbers crop_area, crop_aspect;      /* smallest and largest; none: as in torchvision */
    int64_t train_size;         /* height and width of training images; 0 = those of the network's */
    int64_t pad;                /* pixels */
    double shift;               /* as a share of the side */
    bool flip, vertical_flip, colour;
    double rotation;            /* degrees */
    enum policy policy;
    int64_t operations, magnitude;      /* of rand_augment */
    double erase;               /* probability */
    double mixup, cutmix;       /* parameter of the Beta distribution; 0 = none */
    double mixed;               /* share of the mixed images */
    enum filter filter;
    enum orientation_rule orientation;
};

struct model_settings {
    char *name;                 /* "" with a file; set by settings_finish */
    char *file;                 /* see compute/netfile/net_file.h; "" = use name */
    char *weights;              /* safetensors file with initial weights; "" = initialise */
    /* Patterns (stage/text/names.h) of tensors that are not loaded, and of parameters that are not trained. */
    char *skip, *freeze;
    bool weights_differ;        /* continue even if the weights and the configuration contradict each other */
    bool dropout, auxiliary;
    int64_t parts;              /* of the dense layers at the end, which towers share (compute/share.h); 0 = none */
    /* The transform of pixels; if none of these is set, that of the model. Divisor 0 = 255. One number for all
     * channels, or one for each; no number = mean 0, deviation 1. */
    double divisor;
    struct numbers mean, deviation;
};

struct train_settings {
    int64_t epochs;
    int64_t steps;              /* 0 = use epochs */
    char *max_time;             /* a duration as text; "" = no limit */
    uint64_t max_seconds;       /* of max_time, set by settings_finish; 0 = no limit */
    enum on_nan on_nan;
    enum best_by best_by;
    double stop_at;             /* validation accuracy or another measure, 0 ... 1, or loss (best_by); 0 = none */
    int64_t patience;           /* evaluations without a better one; 0 = no limit */
    int64_t batch;              /* of all towers together; 0 = batch_per_tower is set */
    int64_t batch_per_tower;    /* 0 = batch is set */
    int64_t accumulate;         /* batches per step, >= 1 */
    int64_t slices;             /* slices of a batch, whatever the number of towers; 0 = split by towers */
    enum optimizer_kind optimizer;
    double learning_rate, momentum, rho, epsilon, trust, weight_decay;
    struct numbers betas;       /* two numbers */
    enum decay_scope decay_scope;
    double clip_value, clip_norm;       /* 0 = none */
    double label_smoothing;     /* 0 = none */
    char *class_weights;        /* "auto", or a file; "" = all 1 */
    double ema;                 /* decay of the average of weights; 0 = none */
    int64_t rate_batch;         /* batch size for which learning_rate is given; 0 = that of a step */
    double warmup_epochs;       /* 0 = none */
    double warmup_from;         /* share of the rate at the first step of the warm-up */
    enum rate_schedule schedule;
    double schedule_epochs;     /* length of cosine, polynomial, one_cycle; 0 = to the end of the run */
    struct numbers boundaries, factors;         /* epochs, and factors of the rate */
    double decay_factor, decay_epochs, rate_decay, final_rate, power, peak;
    bool staircase;
};

struct checkpoint_settings {
    char *every;                /* text */
    int64_t keep;
    uint64_t steps, seconds;    /* of `every`, set by settings_finish; 0 = unused */
    bool each_epoch;
    enum keep_best keep_best;   /* what is kept of the best evaluation, where there are evaluations */
    bool on_stop;               /* save a checkpoint after the last step of a run that is stopped */
};

#define DEVICES_TOWERS_MAX 256u /* the most towers of a process */

struct device_settings {
    enum device_choice kind;
    int64_t towers;
    int64_t threads_per_tower;  /* 0 = cores / towers, at least 1 */
    char *list;                 /* numbers of the devices to use; "" = all */
    enum precision precision;
    enum graph_use graph;
    int64_t workspace;          /* bytes that a convolution may use in addition to its tensors */
    enum plan_times time_plans;
    enum fuse_choice fuse;
    char *plan_cache;           /* folder; "" = the cache folder of the user, "none" = none */
    enum layout layout;
    enum convolution convolution;
    enum batch_statistics batch_statistics;
    enum backend_choice backend;
    bool bind;
    bool allow_ref;
};

struct sync_settings {
    enum sync_mode mode;        /* as set; settings_sync also considers other settings */
    enum consistency consistency;
    enum wire wire;
    enum sync_place server;
    int64_t max_staleness;      /* async: training steps */
    enum staleness_rate staleness_rate;
    int64_t every;              /* averaging: training steps */
    enum averaged average;      /* averaging: which tensors */
    enum reduce_choice reduce;
    int64_t bucket;             /* bytes, 0 = auto */
    int64_t deadline;           /* seconds */
    int64_t group;              /* neighbouring ranks that sum first; 0: those of a host */
    int64_t report_every;       /* batches whose reports are one message to rank 0 */
};

struct report_settings {
    enum progress_form progress;
    int64_t interval;           /* steps between reports */
    int64_t pace;               /* seconds between progress lines */
    char *trace;                /* file; "" = none */
    char *trace_steps;          /* valid for trace_steps_read */
    char *prometheus;           /* file; "" = none */
    char *histograms;           /* valid for histogram_steps_read */
    char *price;                /* of a machine for an hour, valid for price_read; "" = unknown */
    char *tensorboard;          /* folder; "yes" = in the run directory, "no" and "" = none */
};

/* Where a value was set, and in which line of the file. ORIGIN_DATA: in the data set's description. Origins above
 * ORIGIN_MODEL are the user's. */
enum origin { ORIGIN_DEFAULT, ORIGIN_DATA, ORIGIN_MODEL, ORIGIN_FILE, ORIGIN_COMMAND };
struct option_origin {
    enum origin origin;
    uint32_t line;
    bool is_bad;                /* a problem with this key was already reported */
};

#define OPTIONS_MAX 192

struct settings {
    struct run_settings run;
    struct data_settings data;
    struct input_settings input;
    struct augment_settings augment;
    struct model_settings model;
    struct train_settings train;
    struct checkpoint_settings checkpoint;
    struct device_settings devices;
    struct sync_settings sync;
    struct report_settings report;
    int64_t overfit;            /* samples of --overfit; 0 = a normal run */
    /* The number of this process and the number of processes, in the run and on this host. settings_init sets a single
     * process; a program that a launcher started sets them before settings_finish. */
    uint32_t rank, ranks, local_rank, local_ranks;
    uint32_t core_rank, core_ranks;     /* the same among processes that share its cores (core_share.h) */
    /* Processes of its control group, which share the CPU time that the group permits. */
    uint32_t quota_ranks;
    FILE *result_out;           /* where a quiet run prints its result; NULL = stdout */
    char *config_path;          /* "" = none */
    char *followed;             /* keys changed because a run's directory was moved (run_name_follow); NULL = none */
    bool only_classifies;       /* for evaluate and predict: no training set is needed */
    bool only_feeds;            /* for a feed (feed_settings.h), which takes fewer options and has neither a file nor a
                                 * command line */
    char *model_text;           /* contents of model.file, read by settings_finish; NULL = not read */
    size_t model_bytes;
    struct option_origin origins[OPTIONS_MAX];  /* [row of option_table] */
};

/* Set every field to its default. 0 or -ENOMEM. */
int settings_init(struct settings *settings);
void settings_release(struct settings *settings);
/* Set the computed defaults (run.name, run.dir, the recipe of the model), use the files next to the run.conf of a run,
 * and check keys against each other. Called after the file and all --set options. 0, or with problems added: -EINVAL or
 * -ENOMEM. */
int settings_finish(struct settings *settings, struct problems *problems);
/* The settings that a configuration file at the same path would give that sets only the model. Returns as
 * settings_init; call settings_release in both cases. */
int settings_usual(struct settings *usual, const struct settings *settings);
/* settings_batch: the samples that all towers compute at once. settings_global_batch: the samples of a step,
 * train.accumulate times as many. After settings_finish. */
int64_t settings_batch(const struct settings *settings);
int64_t settings_global_batch(const struct settings *settings);
/* Towers of the run: devices.towers in each process. After settings_finish at most RUN_TOWERS_MAX. */
uint32_t settings_towers(const struct settings *settings);

/* Write a complete configuration file that gives the same settings. 0 or a negative errno. */
int settings_write(const struct settings *settings, FILE *out);

#endif
