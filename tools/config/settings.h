/* The settings of a run, resolved: what the configuration file and --set say, with
 * the defaults of the option table for the rest. Filled in by main before anything
 * starts, constant afterwards. */
#ifndef PIPETRAIN_SETTINGS_H
#define PIPETRAIN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/backend.h"
#include "compute/learning_rate.h"
#include "compute/optimizer.h"
#include "loader/augment/augment.h"
#include "loader/images/image.h"
#include "loader/order.h"
#include "sync/sync.h"
#include "tools/config/problems.h"

#define TRAIN_BATCH_DEFAULT 128       /* where neither the settings nor a recipe say it */

enum last_batch { LAST_BATCH_KEEP, LAST_BATCH_DROP };
enum on_nan { ON_NAN_STOP, ON_NAN_SKIP, ON_NAN_ROLLBACK };
enum on_corrupt { ON_CORRUPT_FAIL, ON_CORRUPT_SKIP };
enum input_source { INPUT_REAL, INPUT_CACHED, INPUT_SYNTHETIC };
enum device_choice { DEVICE_CHOICE_AUTO, DEVICE_CHOICE_CPU, DEVICE_CHOICE_CUDA, DEVICE_CHOICE_NULL };
enum plan_times { PLAN_TIMES_AUTO, PLAN_TIMES_YES, PLAN_TIMES_NO };
enum sync_place { SYNC_PLACE_DEVICE, SYNC_PLACE_CPU };
enum wire { WIRE_FP32, WIRE_BF16 };
enum consistency { CONSISTENCY_STRONG, CONSISTENCY_RELAXED };
enum averaged { AVERAGED_ALL, AVERAGED_PARAMETERS };
enum staleness_rate { STALENESS_RATE_NONE, STALENESS_RATE_INVERSE };
enum backend_choice { BACKEND_CHOICE_AUTO, BACKEND_CHOICE_ONEDNN, BACKEND_CHOICE_REFERENCE };
enum reduce_choice { REDUCE_CHOICE_AUTO, REDUCE_CHOICE_NCCL, REDUCE_CHOICE_PEER, REDUCE_CHOICE_HOST };
enum progress { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_LINE, PROGRESS_JSON, PROGRESS_NONE };

#define OPTION_NUMBERS_MAX NET_CHANNELS_MAX

struct numbers {
    uint32_t count;
    double value[OPTION_NUMBERS_MAX];
};

/* Field types by option type: OPTION_STRING and OPTION_NAME char * (owned, never
 * NULL), OPTION_INTEGER and OPTION_SIZE int64_t, OPTION_NUMBER double, OPTION_NUMBERS struct numbers,
 * OPTION_YES_NO bool, OPTION_CHOICE an enum. */
struct run_settings {
    char *name;                 /* of the run; settings_finish fills in the file's name */
    char *dir;                  /* run directory; settings_finish fills in runs/NAME */
    char *resume;               /* "auto", "never", or a saved state's file or folder */
    int64_t seed;
};

struct data_settings {
    char *train, *validation;   /* globs, files, directories; "" = none */
    int64_t limit;              /* records of each set at most; 0 = all */
    double validation_split;    /* share of the training records to validate on; 0 = none */
    bool allow_overlap;         /* of the two */
    int64_t classes;            /* 0 = the model's own number */
    int64_t label_offset;
    char *image_key, *label_key;        /* "" = found from the first record */
    char *class_names;          /* file; "" = one beside the shards */
    enum pixel_layout image_layout;
    enum image_range_choice image_range;
    enum shuffle shuffle;
    int64_t shuffle_window;     /* bytes that are mixed at a time with shuffle = block, 0 = chosen */
    enum last_batch last_batch;
    enum on_corrupt on_corrupt;
    double max_corrupt;         /* below 1 a share of the records, else a count */
    bool index_cache;
};

struct input_settings {
    enum input_source source;
    int64_t prefetch_depth;     /* batches per tower on the host */
    int64_t staging_depth;      /* batches per tower on the device */
    int64_t read_threads, decode_threads;       /* 0 = chosen */
    int64_t read_block;         /* bytes read at a time with shuffle = block */
    int64_t chunk;              /* records per piece of work, 0 = chosen */
    int64_t keep_shards;        /* bytes: data sets up to this size stay in memory as read, 0 = none */
    int64_t max_pixels;         /* of an encoded image; 0: as memory allows, at most IMAGE_PIXELS_MAX */
    int64_t ram_budget;         /* bytes, 0 = no limit of its own */
};

struct augment_settings {
    enum crop crop, evaluation; /* of training and of validation images */
    double evaluation_scale;
    int64_t evaluation_resize;  /* pixels; 0 = evaluation_scale decides */
    int64_t pad;                /* pixels */
    double shift;               /* share of the side */
    bool flip, colour;
    double mixup, cutmix;       /* of Beta; 0 = none */
    double mixed;               /* share of the images that are */
    enum filter filter;
};

struct model_settings {
    char *name;                 /* "" where a file describes it; settings_finish sees to that */
    char *file;                 /* compute/netfile/net_file.h; "" = it has a name */
    char *weights;              /* safetensors file to begin with; "" = as the model begins */
    char *skip, *freeze;        /* patterns (stage/text/names.h) of tensors that are not taken from it, and of
                                 * parameters that training leaves as they are */
    bool dropout, auxiliary;
    /* The transform of pixels: the model's own without any of these; divisor 0 = 255. One number for all channels, or
     * one for each; none = mean 0, deviation 1. */
    double divisor;
    struct numbers mean, deviation;
};

struct train_settings {
    int64_t epochs;
    int64_t steps;              /* 0 = the epochs decide */
    char *max_time;             /* as given; "" = any */
    uint64_t max_seconds;       /* settings_finish reads them from it; 0 = any */
    enum on_nan on_nan;
    double stop_at;             /* validation accuracy, a share; 0 = none */
    int64_t patience;           /* evaluations without a better accuracy; 0 = any */
    int64_t batch;              /* of all towers together; 0 = batch_per_tower is given */
    int64_t batch_per_tower;    /* 0 = batch is given */
    int64_t accumulate;         /* batches of a step, >= 1 */
    enum optimizer_kind optimizer;
    double learning_rate, momentum, rho, epsilon, trust, weight_decay;
    struct numbers betas;       /* two */
    enum decay_scope decay_scope;
    double clip_value, clip_norm;       /* 0 = none */
    double label_smoothing;     /* 0 = none */
    double ema;                 /* decay of averages of weights; 0 = none */
    int64_t rate_batch;         /* samples that learning_rate is meant for; 0 = those of a step */
    double warmup_epochs;       /* 0 = none */
    enum rate_schedule schedule;
    double schedule_epochs;     /* of cosine, polynomial, one_cycle; 0 = to the end of the run */
    struct numbers boundaries, factors;         /* epochs, and factors of the rate */
    double decay_factor, decay_epochs, rate_decay, final_rate, power, peak;
    bool staircase;
};

struct checkpoint_settings {
    char *every;                /* as given */
    int64_t keep;
    uint64_t steps, seconds;    /* settings_finish reads them from `every`; 0 = not by them */
    bool each_epoch;
    bool keep_best;             /* the state of the best evaluation */
    bool on_stop;               /* a state behind the last step of a run that ends before its end */
};

struct device_settings {
    enum device_choice kind;
    int64_t towers;
    int64_t threads_per_tower;  /* 0 = cores / towers, at least 1 */
    char *list;                 /* numbers of the devices to use; "" = all there are */
    enum precision precision;
    enum graph_use graph;
    int64_t workspace;          /* bytes a convolution may use beside its tensors */
    enum plan_times time_plans;
    char *plan_cache;           /* folder; "" = the user's cache folder, "none" = none */
    enum layout layout;
    enum convolution convolution;
    enum backend_choice backend;
    bool bind;
    bool allow_ref;
};

struct sync_settings {
    enum sync_mode mode;        /* as its name says: settings_sync looks at what decides besides */
    enum consistency consistency;
    enum wire wire;
    enum sync_place server;
    int64_t max_staleness;      /* async: training steps */
    enum staleness_rate staleness_rate;
    int64_t every;              /* averaging: training steps */
    enum averaged average;      /* averaging: what of the towers */
    enum reduce_choice reduce;
    int64_t bucket;             /* bytes, 0 = auto */
    int64_t deadline;           /* seconds */
};

struct report_settings {
    enum progress progress;
    int64_t interval;           /* steps between reports */
    int64_t pace;               /* seconds between lines of progress */
    char *trace;                /* the file of the trace; "" = none */
    char *trace_steps;          /* trace_steps_read has read it without an error */
    char *prometheus;           /* the file of the metrics; "" = none */
    char *histograms;           /* histogram_steps_read has read it without an error */
    char *tensorboard;          /* the folder for events; "yes" = in the run's directory, "no" and "" = none */
};

/* Where a value came from, and in which line of the file. ORIGIN_DATA: the data set's description. What is above
 * ORIGIN_MODEL was given by the user. */
enum origin { ORIGIN_DEFAULT, ORIGIN_DATA, ORIGIN_MODEL, ORIGIN_FILE, ORIGIN_COMMAND };
struct option_origin {
    enum origin origin;
    uint32_t line;
    bool is_bad;                /* a problem with this key was already reported */
};

#define OPTIONS_MAX 128

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
    int64_t overfit;            /* samples to be learnt by heart (overfit.h); 0 = a run as others */
    FILE *result_out;           /* where a quiet run prints its result; NULL = on stdout, with all the rest */
    char *config_path;          /* the file that was read, "" = none */
    char *model_text;           /* what model.file held when settings_finish read it; NULL = it was not read */
    size_t model_bytes;
    struct option_origin origins[OPTIONS_MAX];  /* by row of option_table */
};

/* Every field at its default. 0 or -ENOMEM. */
int settings_init(struct settings *settings);
void settings_release(struct settings *settings);
/* The computed defaults (run.name, run.dir, the model's recipe) and the checks between keys.
 * After the file and all --set options. 0, or with problems added: -EINVAL, or -ENOMEM. */
int settings_finish(struct settings *settings, struct problems *problems);
/* What a configuration file in the place of the one of `settings` gives that names the same model and says nothing
 * else. As settings_init; settings_release after either. */
int settings_usual(struct settings *usual, const struct settings *settings);
/* Samples that all towers compute at once, and those of a full step: train.accumulate times as many. After
 * settings_finish. */
int64_t settings_batch(const struct settings *settings);
int64_t settings_global_batch(const struct settings *settings);

/* A complete configuration file that reads back as the same settings. 0, or a
 * negative errno from writing. */
int settings_write(const struct settings *settings, FILE *out);

#endif
