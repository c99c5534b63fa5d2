/* The option table, and functions that find options in it. */
#include "tools/lib/config/options.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "stage/text/names.h"

#define FIELD(name) .offset = offsetof(struct settings, name)
#define RANGE(from, to) .least = (from), .most = (to)
#define AT_LEAST(from) .least = (from), .most = INT64_MAX

#define IF(section_, key_, values_) { .section = (section_), .key = (key_), .values = (values_) }
/* The option has an effect only with some optimizers. */
#define SOME_OPTIMIZERS .uses = { { .section = SECTION_TRAIN, .key = "optimizer", .keys_of = optimizer_keys } }
#define SCHEDULES(values_) .uses = { IF(SECTION_TRAIN, "schedule", values_) }
#define MODES(values_) .uses = { IF(SECTION_SYNC, "mode", values_) }
#define KINDS(values_) .uses = { IF(SECTION_DEVICES, "kind", values_) }

#define BATCH_MAX (1 << 20)
#define THREADS_MAX 1024
#define TIB (INT64_C(1) << 40)

static const struct option_choice shuffle_choices[] = {
    { "full", SHUFFLE_FULL }, { "block", SHUFFLE_BLOCK }, { "none", SHUFFLE_NONE }, { NULL, 0 }
};
static const struct option_choice image_layout_choices[] = {
    { "auto", PIXEL_LAYOUT_AUTO }, { "hwc", PIXEL_LAYOUT_HWC }, { "chw", PIXEL_LAYOUT_CHW }, { NULL, 0 }
};
static const struct option_choice image_range_choices[] = {
    { "auto", IMAGE_RANGE_AUTO }, { "0..1", IMAGE_RANGE_UNIT }, { "-0.5..0.5", IMAGE_RANGE_HALF },
    { "-1..1", IMAGE_RANGE_SIGNED }, { "0..255", IMAGE_RANGE_BYTE }, { "0..65535", IMAGE_RANGE_WORD },
    { NULL, 0 }
};
static const struct option_choice last_batch_choices[] = {
    { "keep", LAST_BATCH_KEEP }, { "drop", LAST_BATCH_DROP }, { NULL, 0 }
};
static const struct option_choice on_corrupt_choices[] = {
    { "fail", ON_CORRUPT_FAIL }, { "skip", ON_CORRUPT_SKIP }, { NULL, 0 }
};
static const struct option_choice source_choices[] = {
    { "real", INPUT_REAL }, { "cached", INPUT_CACHED }, { "synthetic", INPUT_SYNTHETIC }, { NULL, 0 }
};
static const struct option_choice crop_choices[] = {
    { "auto", CROP_AUTO }, { "none", CROP_NONE }, { "central", CROP_CENTRAL }, { "resized", CROP_RESIZED },
    { "box", CROP_BOX }, { "pad", CROP_PAD }, { "shift", CROP_SHIFT }, { "evaluated", CROP_EVALUATED }, { NULL, 0 }
};
static const struct option_choice policy_choices[] = {
    { "none", POLICY_NONE }, { "trivial_augment_wide", POLICY_TRIVIAL_AUGMENT_WIDE },
    { "rand_augment", POLICY_RAND_AUGMENT }, { "auto_augment", POLICY_AUTO_AUGMENT }, { NULL, 0 }
};
static const struct option_choice evaluation_choices[] = {
    { "auto", CROP_AUTO }, { "none", CROP_NONE }, { "central", CROP_CENTRAL }, { NULL, 0 }
};
static const struct option_choice filter_choices[] = {
    { "bilinear", FILTER_BILINEAR }, { "area", FILTER_AREA }, { "bicubic", FILTER_BICUBIC },
    { "nearest", FILTER_NEAREST }, { NULL, 0 }
};
static const struct option_choice orientation_choices[] = {
    { "none", ORIENTATION_NONE }, { "exif", ORIENTATION_EXIF }, { NULL, 0 }
};
static const struct option_choice decay_choices[] = {
    { "no_norms", DECAY_NO_NORMS }, { "all", DECAY_ALL }, { "weights", DECAY_WEIGHTS }, { NULL, 0 }
};
static const struct option_choice schedule_choices[] = {
    { "constant", RATE_CONSTANT }, { "piecewise", RATE_PIECEWISE }, { "exponential", RATE_EXPONENTIAL },
    { "inverse_time", RATE_INVERSE_TIME }, { "cosine", RATE_COSINE }, { "polynomial", RATE_POLYNOMIAL },
    { "one_cycle", RATE_ONE_CYCLE }, { NULL, 0 }
};
static const struct option_choice best_by_choices[] = {
    { "accuracy", BEST_BY_ACCURACY }, { "loss", BEST_BY_LOSS }, { "balanced_accuracy", BEST_BY_BALANCED_ACCURACY },
    { "macro_precision", BEST_BY_MACRO_PRECISION }, { "macro_recall", BEST_BY_MACRO_RECALL },
    { "macro_f1", BEST_BY_MACRO_F1 }, { "weighted_precision", BEST_BY_WEIGHTED_PRECISION },
    { "weighted_f1", BEST_BY_WEIGHTED_F1 }, { NULL, 0 }
};
/* Of two names of a value the first one is written to run.conf. */
static const struct option_choice keep_best_choices[] = {
    { "weights", KEEP_BEST_WEIGHTS }, { "checkpoint", KEEP_BEST_CHECKPOINT }, { "yes", KEEP_BEST_CHECKPOINT },
    { "no", KEEP_BEST_NO }, { NULL, 0 }
};
static const struct option_choice on_nan_choices[] = {
    { "stop", ON_NAN_STOP }, { "skip", ON_NAN_SKIP }, { "rollback", ON_NAN_ROLLBACK }, { NULL, 0 }
};
static const struct option_choice kind_choices[] = {
    { "auto", DEVICE_CHOICE_AUTO }, { "cpu", DEVICE_CHOICE_CPU }, { "cuda", DEVICE_CHOICE_CUDA },
    { "null", DEVICE_CHOICE_NULL }, { NULL, 0 }
};
static const struct option_choice precision_choices[] = {
    { "fp32", PRECISION_FP32 }, { "tf32", PRECISION_TF32 }, { "bf16", PRECISION_BF16 }, { "fp16", PRECISION_FP16 },
    { NULL, 0 }
};
static const struct option_choice graph_choices[] = {
    { "auto", GRAPH_AUTO }, { "on", GRAPH_ON }, { "off", GRAPH_OFF }, { NULL, 0 }
};
static const struct option_choice time_plans_choices[] = {
    { "auto", PLAN_TIMES_AUTO }, { "yes", PLAN_TIMES_YES }, { "no", PLAN_TIMES_NO }, { NULL, 0 }
};
static const struct option_choice fuse_choices[] = {
    { "auto", FUSE_AUTO }, { "yes", FUSE_YES }, { "no", FUSE_NO }, { NULL, 0 }
};
static const struct option_choice reduce_choices[] = {
    { "auto", REDUCE_CHOICE_AUTO }, { "nccl", REDUCE_CHOICE_NCCL },
    { "nccl_allreduce", REDUCE_CHOICE_NCCL_ALLREDUCE }, { "peer", REDUCE_CHOICE_PEER },
    { "ipc", REDUCE_CHOICE_IPC }, { "host", REDUCE_CHOICE_HOST }, { NULL, 0 }
};
static const struct option_choice convolution_choices[] = {
    { "auto", CONVOLUTION_AUTO }, { "direct", CONVOLUTION_DIRECT }, { "winograd", CONVOLUTION_WINOGRAD }, { NULL, 0 }
};
static const struct option_choice batch_statistics_choices[] = {
    { "exact", BATCH_STATISTICS_EXACT }, { "fused", BATCH_STATISTICS_FUSED }, { NULL, 0 }
};
static const struct option_choice layout_choices[] = {
    { "auto", LAYOUT_AUTO }, { "nhwc", LAYOUT_NHWC }, { "nchw", LAYOUT_NCHW }, { NULL, 0 }
};
static const struct option_choice backend_choices[] = {
    { "auto", BACKEND_CHOICE_AUTO }, { "onednn", BACKEND_CHOICE_ONEDNN },
    { "reference", BACKEND_CHOICE_REFERENCE }, { NULL, 0 }
};
static const struct option_choice mode_choices[] = {
    { "replicated", SYNC_REPLICATED }, { "independent", SYNC_INDEPENDENT },
    { "averaging", SYNC_AVERAGING }, { "parameter_server", SYNC_SERVER_DEVICE }, { "async", SYNC_ASYNC }, { NULL, 0 }
};
static const struct option_choice consistency_choices[] = {
    { "strong", CONSISTENCY_STRONG }, { "relaxed", CONSISTENCY_RELAXED }, { NULL, 0 }
};
static const struct option_choice wire_choices[] = { { "fp32", WIRE_FP32 }, { "bf16", WIRE_BF16 }, { NULL, 0 } };
static const struct option_choice average_choices[] = {
    { "parameters+optimizer", AVERAGED_ALL }, { "parameters", AVERAGED_PARAMETERS }, { NULL, 0 }
};
static const struct option_choice server_choices[] = {
    { "device", SYNC_PLACE_DEVICE }, { "cpu", SYNC_PLACE_CPU }, { NULL, 0 }
};
static const struct option_choice staleness_choices[] = {
    { "none", STALENESS_RATE_NONE }, { "inverse", STALENESS_RATE_INVERSE }, { NULL, 0 }
};
static const struct option_choice progress_choices[] = {
    { "auto", PROGRESS_AUTO }, { "bar", PROGRESS_BAR }, { "line", PROGRESS_LINE }, { "json", PROGRESS_JSON },
    { "none", PROGRESS_NONE }, { NULL, 0 }
};

const struct option_row option_table[] = {
    { SECTION_RUN, "name", OPTION_NAME, EFFECT_NONE, .initial = "", .initial_note = "the configuration file's name",
      FIELD(run.name), .help = "name of the run",
      .used_by = USED_OF_RUN },
    { SECTION_RUN, "dir", OPTION_STRING, EFFECT_NONE, .initial = "", .initial_note = "runs/NAME",
      FIELD(run.dir), .help = "directory for the results",
      .in_trials = "", .used_by = USED_OF_RUN },
    { SECTION_RUN, "resume", OPTION_STRING, EFFECT_NONE, .initial = "auto",
      FIELD(run.resume), .help = "resume from the checkpoint in run.dir (auto), never, or from FILE",
      .in_trials = "never", .in_overfit = "never" },
    { SECTION_RUN, "seed", OPTION_INTEGER, EFFECT_RUN, .initial = "1", AT_LEAST(0),
      FIELD(run.seed), .help = "seed of sample order, augmentation, initial weights and dropout",
      .is_hyperparameter = true,
      .not_of_feeds = "the seed is an option of its own" },

    { SECTION_DATA, "train", OPTION_STRING, EFFECT_RUN, .initial = "",
      FIELD(data.train), .help = "training shards: globs, files, directories, DIRECTORY:SPLIT, comma-separated",
      .other_names = "data_dir", .may_differ = true, .line = LINE_ELSEWHERE, .is_hyperparameter = true,
      .used_by = USED_BY_EVALUATE | USED_WITH_CONFIG,
      .not_of_feeds = "the shards are an option of their own" },
    { SECTION_DATA, "validation", OPTION_STRING, EFFECT_RUN, .initial = "", .initial_note = "no evaluation",
      FIELD(data.validation), .help = "validation shards, written as for train",
      .may_differ = true, .line = LINE_ELSEWHERE, .used_by = USED_BY_EVALUATE | USED_WITH_CONFIG,
      .not_of_feeds = "open another feed for it" },
    { SECTION_DATA, "validation_split", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .high = 1, .high_is_open = true,
      FIELD(data.validation_split), .help = "fraction of the training records held out for validation",
      .in_overfit = "0", .used_by = USED_BY_EVALUATE },
    { SECTION_DATA, "limit", OPTION_INTEGER, EFFECT_RUN, .unit = "records", .initial = "0",
      .initial_note = "all", AT_LEAST(0),
      FIELD(data.limit), .help = "use at most this many records of each set, spread evenly over it",
      .is_hyperparameter = true, .used_by = USED_ON_SHARDS },
    { SECTION_DATA, "allow_overlap", OPTION_YES_NO, EFFECT_NONE, .initial = "no",
      FIELD(data.allow_overlap), .help = "allow validation shards that are trained on, instead of refusing them",
      .in_overfit = "yes", .used_by = USED_BY_EVALUATE,
      .not_of_feeds = "a feed reads one set" },
    { SECTION_DATA, "classes", OPTION_INTEGER, EFFECT_RUN, .initial = "0",
      .initial_note = "from dataset.json, or the model's", RANGE(0, BATCH_MAX), FIELD(data.classes),
      .help = "number of classes",
      .other_names = "num_classes", .used_by = USED_ALWAYS },
    { SECTION_DATA, "label_offset", OPTION_INTEGER, EFFECT_RUN, .initial = "0", RANGE(-BATCH_MAX, BATCH_MAX),
      FIELD(data.label_offset), .help = "added to every stored label (-1 if labels start at 1)",
      .used_by = USED_ALWAYS },
    { SECTION_DATA, "image_key", OPTION_STRING, EFFECT_RUN, .initial = "",
      .initial_note = "detected from the first record",
      FIELD(data.image_key), .help = "feature that contains the image",
      .used_by = USED_ON_SHARDS },
    { SECTION_DATA, "label_key", OPTION_STRING, EFFECT_RUN, .initial = "",
      .initial_note = "detected from the first record",
      FIELD(data.label_key), .help = "feature that contains the label",
      .used_by = USED_ON_SHARDS },
    { SECTION_DATA, "class_names", OPTION_STRING, EFFECT_REPORTED, .initial = "",
      .initial_note = "dataset.json or labels.txt next to the shards",
      FIELD(data.class_names), .help = "file with the class names, one a line; labels may be these names",
      .may_differ = true, .used_by = USED_ALWAYS },
    { SECTION_DATA, "image_layout", OPTION_CHOICE, EFFECT_RUN, .initial = "auto", .choices = image_layout_choices,
      FIELD(data.image_layout), .help = "layout of raw pixels: height x width x channels, or channels first",
      .used_by = USED_ON_SHARDS },
    { SECTION_DATA, "image_range", OPTION_CHOICE, EFFECT_RUN, .initial = "auto", .choices = image_range_choices,
      FIELD(data.image_range),
      .help = "range of pixel values, black to white; auto: detected",
      .used_by = USED_ON_SHARDS },
    { SECTION_DATA, "shuffle", OPTION_CHOICE, EFFECT_RUN, .initial = "full", .choices = shuffle_choices,
      FIELD(data.shuffle),
      .help = "order of training records: full or block shuffle in each epoch, or as stored",
      .is_hyperparameter = true },
    { SECTION_DATA, "balance", OPTION_YES_NO, EFFECT_RUN, .initial = "no", FIELD(data.balance),
      .help = "train on all classes equally often: records of rare ones repeat",
      .uses = { IF(SECTION_INPUT, "source", "real cached") }, .in_overfit = "no" },
    { SECTION_DATA, "lanes", OPTION_INTEGER, EFFECT_RUN, .initial = "1", RANGE(1, LANES_MAX), FIELD(data.lanes),
      .help = "shuffle = block: cut the order in lanes, so that a rank reads only its own",
      .uses = { IF(SECTION_DATA, "shuffle", "block"), IF(SECTION_INPUT, "source", "real cached") },
      .in_overfit = "1" },
    { SECTION_DATA, "shuffle_window", OPTION_SIZE, EFFECT_RUN, .initial = "0",
      .initial_note = "128 MiB, or a quarter of input.ram_budget", AT_LEAST(0), FIELD(data.shuffle_window),
      .help = "shuffle = block: bytes shuffled together; needs twice the memory",
      .uses = { IF(SECTION_DATA, "shuffle", "block") }, .line = LINE_IF_USED, .unclear = "0" },
    { SECTION_DATA, "last_batch", OPTION_CHOICE, EFFECT_RUN, .initial = "keep", .choices = last_batch_choices,
      FIELD(data.last_batch), .help = "keep or drop the last, partial training batch of an epoch",
      .in_overfit = "keep" },
    { SECTION_DATA, "on_corrupt", OPTION_CHOICE, EFFECT_REPORTED, .initial = "fail", .choices = on_corrupt_choices,
      FIELD(data.on_corrupt), .help = "on a damaged record: fail, or skip it and list it in quarantine.jsonl",
      .used_by = USED_BY_EVALUATE },
    { SECTION_DATA, "max_corrupt", OPTION_NUMBER, EFFECT_REPORTED, .unit = "records", .initial = "0.001",
      .initial_note = "0.1 % of all records", .high = 1e15,
      FIELD(data.max_corrupt), .help = "damaged records to accept; below 1: fraction of all records",
      .uses = { IF(SECTION_DATA, "on_corrupt", "skip") }, .used_by = USED_BY_EVALUATE },
    { SECTION_DATA, "index_cache", OPTION_YES_NO, EFFECT_NONE, .initial = "yes",
      FIELD(data.index_cache), .help = "keep the index of each shard for the next run, and use a catalog of the set",
      .used_by = USED_ON_SHARDS },

    { SECTION_INPUT, "source", OPTION_CHOICE, EFFECT_RUN, .initial = "real", .choices = source_choices,
      FIELD(input.source), .help = "real: read shards; cached: keep shards in memory; synthetic: no shards",
      .unclear = "cached", .unknown_if_missing = true, .is_hyperparameter = true },
    { SECTION_INPUT, "prefetch_depth", OPTION_INTEGER, EFFECT_NONE, .unit = "batches", .initial = "4",
      RANGE(1, OPTIONS_DEPTH_MAX),
      FIELD(input.prefetch_depth), .help = "batches prefetched on the host, per tower",
      .other_names = "prefetch_factor", .used_by = USED_WHERE_COMPUTED },
    { SECTION_INPUT, "staging_depth", OPTION_INTEGER, EFFECT_NONE, .unit = "batches", .initial = "2",
      RANGE(1, OPTIONS_DEPTH_MAX),
      FIELD(input.staging_depth), .help = "batches prefetched on the device, per tower",
      .used_by = USED_WHERE_COMPUTED,
      .not_of_feeds = "batches are in host memory" },
    { SECTION_INPUT, "read_threads", OPTION_INTEGER, EFFECT_NONE, .initial = "0", .initial_note = "automatic",
      RANGE(0, THREADS_MAX), FIELD(input.read_threads), .help = "threads that read records",
      .used_by = USED_ON_SHARDS },
    { SECTION_INPUT, "decode_threads", OPTION_INTEGER, EFFECT_NONE, .initial = "0", .initial_note = "automatic",
      RANGE(0, THREADS_MAX), FIELD(input.decode_threads), .help = "threads that decode records into samples",
      .other_names = "num_workers workers", .used_by = USED_WHERE_COMPUTED },
    { SECTION_INPUT, "read_block", OPTION_SIZE, EFFECT_RUN, .initial = "4 MiB", RANGE(1, TIB),
      FIELD(input.read_block), .help = "shuffle = block: bytes read at once, and moved as one block",
      .uses = { IF(SECTION_DATA, "shuffle", "block") }, .line = LINE_IF_USED, .unknown_if_missing = true },
    { SECTION_INPUT, "chunk", OPTION_INTEGER, EFFECT_NONE, .unit = "records", .initial = "0",
      .initial_note = "automatic",
      RANGE(0, BATCH_MAX), FIELD(input.chunk), .help = "records that a reader passes to a decoder at once",
      .used_by = USED_ON_SHARDS },
    { SECTION_INPUT, "keep_shards", OPTION_SIZE, EFFECT_NONE, .initial = "128 MiB",
      AT_LEAST(0), FIELD(input.keep_shards),
      .help = "data sets up to this size are read once and kept in memory; 0: none",
      .used_by = USED_ON_SHARDS },
    { SECTION_INPUT, "max_pixels", OPTION_INTEGER, EFFECT_REPORTED, .unit = "pixels", .initial = "0",
      .initial_note = "67108864, less if memory is short", RANGE(0, UINT32_MAX), FIELD(input.max_pixels),
      .help = "refuse larger JPEG and PNG images before decoding them",
      .used_by = USED_WHERE_COMPUTED },
    { SECTION_INPUT, "ram_budget", OPTION_SIZE, EFFECT_RUN, .initial = "0",
      .initial_note = "the memory of the machine",
      AT_LEAST(0), FIELD(input.ram_budget), .help = "refuse to start if the run needs more host memory",
      .line = LINE_ELSEWHERE, .used_by = USED_WHERE_COMPUTED,
      .not_of_feeds = "input.keep_shards, data.shuffle_window and the number of batches set its memory" },

    { SECTION_AUGMENT, "crop", OPTION_CHOICE, EFFECT_RUN, .initial = "auto", .choices = crop_choices,
      FIELD(augment.crop), .help = "crop of training images; auto: none if the size fits, else resized",
      .in_overfit = "evaluated" },
    { SECTION_AUGMENT, "crop_area", OPTION_NUMBERS, EFFECT_RUN, .initial = "", .initial_note = "0.08 1", .high = 1,
      FIELD(augment.crop_area), .help = "crop = resized: smallest and largest area, as a share of the image",
      .other_names = "scale", .uses = { IF(SECTION_AUGMENT, "crop", "auto resized") } },
    { SECTION_AUGMENT, "crop_aspect", OPTION_NUMBERS, EFFECT_RUN, .initial = "", .initial_note = "0.75 1.333", .high = 100,
      FIELD(augment.crop_aspect), .help = "crop = resized: smallest and largest width / height of the crop",
      .other_names = "ratio", .uses = { IF(SECTION_AUGMENT, "crop", "auto resized") } },
    { SECTION_AUGMENT, "train_size", OPTION_INTEGER, EFFECT_RUN, .unit = "pixels", .initial = "0",
      .initial_note = "the network's", RANGE(0, 8192), FIELD(augment.train_size),
      .help = "height and width of training images, if not those of evaluation",
      .other_names = "train_crop_size train_image_size", .in_overfit = "0",
      .not_of_feeds = "height and width are options of their own" },
    { SECTION_AUGMENT, "flip", OPTION_YES_NO, EFFECT_RUN, .initial = "no",
      FIELD(augment.flip), .help = "flip half of the training images horizontally",
      .in_overfit = "no" },
    { SECTION_AUGMENT, "vertical_flip", OPTION_YES_NO, EFFECT_RUN, .initial = "no",
      FIELD(augment.vertical_flip), .help = "flip half of the training images vertically",
      .other_names = "flip_vertical vflip", .in_overfit = "no" },
    { SECTION_AUGMENT, "rotation", OPTION_NUMBER, EFFECT_RUN, .unit = "degrees", .initial = "0", .high = 180,
      FIELD(augment.rotation), .help = "rotate training images by up to this angle to either side",
      .other_names = "degrees rotate random_rotation", .in_overfit = "0" },
    { SECTION_AUGMENT, "policy", OPTION_CHOICE, EFFECT_RUN, .initial = "none", .choices = policy_choices,
      FIELD(augment.policy), .help = "automatic augmentation of training images, with torchvision's operations",
      .other_names = "auto_augment_policy aa", .in_overfit = "none" },
    { SECTION_AUGMENT, "operations", OPTION_INTEGER, EFFECT_RUN, .initial = "2", RANGE(1, POLICY_OPERATIONS_MAX),
      FIELD(augment.operations), .help = "policy = rand_augment: number of operations per image",
      .other_names = "num_ops", .uses = { IF(SECTION_AUGMENT, "policy", "rand_augment") } },
    { SECTION_AUGMENT, "magnitude", OPTION_INTEGER, EFFECT_RUN, .initial = "9", RANGE(0, POLICY_MAGNITUDE_MAX),
      FIELD(augment.magnitude), .help = "policy = rand_augment: strength of the operations, 30 is the strongest",
      .other_names = "ra_magnitude", .uses = { IF(SECTION_AUGMENT, "policy", "rand_augment") } },
    { SECTION_AUGMENT, "colour", OPTION_YES_NO, EFFECT_RUN, .initial = "no",
      FIELD(augment.colour), .help = "colour jitter: brightness, saturation, hue and contrast of training images",
      .in_overfit = "no" },
    { SECTION_AUGMENT, "erase", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .initial_note = "none", .high = 1,
      FIELD(augment.erase), .help = "random erasing: probability that a box of a training image is erased",
      .other_names = "random_erase random_erasing erase_prob reprob", .in_overfit = "0" },
    { SECTION_AUGMENT, "mixup", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .initial_note = "none", .high = 1000,
      FIELD(augment.mixup), .help = "alpha of mixup: blend pairs of training images, weights from Beta(alpha, alpha)",
      .other_names = "mixup_alpha", .in_overfit = "0" },
    { SECTION_AUGMENT, "cutmix", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .initial_note = "none", .high = 1000,
      FIELD(augment.cutmix), .help = "alpha of CutMix: paste a box of another image, area from Beta(alpha, alpha)",
      .other_names = "cutmix_alpha", .in_overfit = "0" },
    { SECTION_AUGMENT, "mixed", OPTION_NUMBER, EFFECT_RUN, .initial = "1", .high = 1,
      FIELD(augment.mixed), .help = "mixup and CutMix: fraction of the images that is mixed" },
    { SECTION_AUGMENT, "pad", OPTION_INTEGER, EFFECT_RUN, .unit = "pixels", .initial = "4", RANGE(0, 64),
      FIELD(augment.pad), .help = "crop = pad: zero padding on each side before the random crop",
      .uses = { IF(SECTION_AUGMENT, "crop", "pad") } },
    { SECTION_AUGMENT, "shift", OPTION_NUMBER, EFFECT_RUN, .initial = "0.1", .high = 0.5,
      FIELD(augment.shift), .help = "crop = shift: largest shift, as a fraction of the side",
      .uses = { IF(SECTION_AUGMENT, "crop", "shift") } },
    { SECTION_AUGMENT, "evaluation", OPTION_CHOICE, EFFECT_RUN, .initial = "auto", .choices = evaluation_choices,
      FIELD(augment.evaluation), .help = "crop of validation images; auto: none if the size fits, else central",
      .used_by = USED_ALWAYS },
    { SECTION_AUGMENT, "evaluation_scale", OPTION_NUMBER, EFFECT_RUN, .initial = "1.145", .low = 1, .high = 8,
      FIELD(augment.evaluation_scale), .help = "central crop: scale to this many times the network's size, then crop",
      .uses = { IF(SECTION_AUGMENT, "evaluation", "auto central"), IF(SECTION_AUGMENT, "evaluation_resize", "0") },
      .used_by = USED_ALWAYS },
    { SECTION_AUGMENT, "evaluation_resize", OPTION_INTEGER, EFFECT_RUN, .unit = "pixels", .initial = "0",
      .initial_note = "evaluation_scale decides", RANGE(0, 8192), FIELD(augment.evaluation_resize),
      .help = "central crop: resize the shorter side to this, as torchvision does (256)",
      .uses = { IF(SECTION_AUGMENT, "evaluation", "auto central") }, .used_by = USED_ALWAYS },
    { SECTION_AUGMENT, "orientation", OPTION_CHOICE, EFFECT_RUN, .initial = "none", .choices = orientation_choices,
      FIELD(augment.orientation), .help = "exif: turn JPEG images upright as their EXIF data say, in all commands",
      .other_names = "exif exif_orientation exif_transpose", .used_by = USED_ALWAYS },
    { SECTION_AUGMENT, "filter", OPTION_CHOICE, EFFECT_RUN, .initial = "bilinear", .choices = filter_choices,
      FIELD(augment.filter), .help = "filter that scales images to the network's size",
      .used_by = USED_ALWAYS },

    { SECTION_MODEL, "name", OPTION_STRING, EFFECT_RUN, .initial = "mnist_cnn",
      .initial_note = "mnist_cnn, unless file is set",
      FIELD(model.name), .help = "model (pipetrain --describe lists them)",
      .used_by = USED_ALWAYS },
    { SECTION_MODEL, "file", OPTION_STRING, EFFECT_RUN, .initial = "",
      FIELD(model.file), .help = "file that describes the network, instead of a model (doc/model-files.md)",
      .may_differ = true, .line = LINE_ELSEWHERE, .used_by = USED_ALWAYS },
    { SECTION_MODEL, "weights", OPTION_STRING, EFFECT_RUN, .initial = "", .initial_note = "random",
      FIELD(model.weights), .help = "initial weights: a safetensors file of pipetrain or PyTorch",
      .other_names = "init pretrained", .may_differ = true },
    { SECTION_MODEL, "skip", OPTION_STRING, EFFECT_RUN, .initial = "", .initial_note = "loads all weights",
      FIELD(model.skip), .help = "tensors not to load from weights, but to initialise randomly: fc.*",
      .uses = { IF(SECTION_MODEL, "weights", NULL) } },
    { SECTION_MODEL, "weights_differ", OPTION_YES_NO, EFFECT_NONE, .initial = "no",
      FIELD(model.weights_differ), .help = "load weights whose input, network or classes are others, not refuse them",
      .used_by = USED_ALWAYS },
    { SECTION_MODEL, "freeze", OPTION_STRING, EFFECT_RUN, .initial = "", .initial_note = "trains all parameters",
      FIELD(model.freeze), .help = "parameters not to train: conv1.* layer1.*" },
    { SECTION_MODEL, "dropout", OPTION_YES_NO, EFFECT_RUN, .initial = "yes",
      FIELD(model.dropout), .help = "use the model's dropout layers",
      .in_overfit = "no" },
    { SECTION_MODEL, "auxiliary", OPTION_YES_NO, EFFECT_RUN, .initial = "no",
      FIELD(model.auxiliary), .help = "also train the model's auxiliary classifier, if it has one",
      .used_by = USED_BY_NAME },
    { SECTION_MODEL, "parts", OPTION_INTEGER, EFFECT_REPORTED, .initial = "0", .initial_note = "every tower has all",
      RANGE(0, SHARE_PARTS_MAX), FIELD(model.parts),
      .help = "model parallelism: divide the dense layers at the end into so many parts: 4",
      .other_names = "model_parallel model_parallelism tensor_parallel",
      .uses = { IF(SECTION_TRAIN, "slices", NULL) } },
    { SECTION_MODEL, "divisor", OPTION_NUMBER, EFFECT_RUN, .initial = "0",
      .initial_note = "the model's; 255 if mean or deviation is set", .high = 1e6,
      FIELD(model.divisor), .help = "normalisation: the input is (pixel / divisor - mean) / deviation",
      .used_by = USED_ALWAYS },
    { SECTION_MODEL, "mean", OPTION_NUMBERS, EFFECT_RUN, .initial = "",
      .initial_note = "the model's; 0 if divisor or deviation is set", .low = -1e6, .high = 1e6,
      FIELD(model.mean), .help = "normalisation: one number per channel, or one for all",
      .used_by = USED_ALWAYS },
    { SECTION_MODEL, "deviation", OPTION_NUMBERS, EFFECT_RUN, .initial = "",
      .initial_note = "the model's; 1 if divisor or mean is set", .low = 1e-6, .high = 1e6,
      FIELD(model.deviation), .help = "normalisation: one number per channel, or one for all",
      .used_by = USED_ALWAYS },

    { SECTION_TRAIN, "epochs", OPTION_INTEGER, EFFECT_REPORTED, .initial = "10",
      .initial_note = "10, or what steps needs", RANGE(1, 1000000),
      FIELD(train.epochs), .help = "passes over the training records",
      .other_names = "max_epochs num_epochs", .in_trials = "1000000" },
    { SECTION_TRAIN, "steps", OPTION_INTEGER, EFFECT_REPORTED, .initial = "0", .initial_note = "epochs decides",
      AT_LEAST(0), FIELD(train.steps),
      .help = "stop training after this many steps, or after epochs if that is set and sooner",
      .other_names = "max_steps", .in_trials = "0", .in_overfit = "0" },
    { SECTION_TRAIN, "max_time", OPTION_STRING, EFFECT_REPORTED, .initial = "", .initial_note = "no limit",
      FIELD(train.max_time), .help = "stop after this time since the start of the program: 90 minutes, 1h30m",
      .in_trials = "" },
    { SECTION_TRAIN, "best_by", OPTION_CHOICE, EFFECT_REPORTED, .initial = "accuracy", .choices = best_by_choices,
      FIELD(train.best_by), .help = "measure of evaluations for stop_at, patience and the best checkpoint",
      .in_trials = "accuracy", .in_overfit = "accuracy" },
    { SECTION_TRAIN, "stop_at", OPTION_NUMBER, EFFECT_REPORTED, .initial = "0", .initial_note = "no limit",
      .high = 1e6, FIELD(train.stop_at),
      .help = "stop after the evaluation that reaches this accuracy (or best_by), e.g. 0.99",
      .in_trials = "0", .in_overfit = "1" },
    { SECTION_TRAIN, "patience", OPTION_INTEGER, EFFECT_REPORTED, .unit = "epochs", .initial = "0",
      .initial_note = "no limit",
      RANGE(0, 1000000), FIELD(train.patience),
      .help = "stop after this many epochs without improvement (early stopping)",
      .other_names = "early_stop early_stopping", .in_trials = "0", .in_overfit = "0" },
    { SECTION_TRAIN, "on_nan", OPTION_CHOICE, EFFECT_REPORTED, .initial = "stop", .choices = on_nan_choices,
      FIELD(train.on_nan), .help = "on NaN or Inf: stop, skip the step, or roll back to the last checkpoint",
      .in_overfit = "stop" },
    { SECTION_TRAIN, "batch", OPTION_INTEGER, EFFECT_RUN, .unit = "samples", .initial = "0",
      .initial_note = "the model's, unless batch_per_tower is set", RANGE(0, BATCH_MAX),
      FIELD(train.batch), .help = "batch size: samples per step, over all towers",
      .other_names = "batch_size", .used_by = USED_BY_EVALUATE },
    { SECTION_TRAIN, "batch_per_tower", OPTION_INTEGER, EFFECT_RUN, .unit = "samples", .initial = "0",
      .initial_note = "batch decides", RANGE(0, BATCH_MAX),
      FIELD(train.batch_per_tower), .help = "samples per step and tower, instead of batch",
      .line = LINE_ELSEWHERE, .used_by = USED_WITH_EVALUATE },
    { SECTION_TRAIN, "accumulate", OPTION_INTEGER, EFFECT_RUN, .unit = "batches", .initial = "1", RANGE(1, BATCH_MAX),
      FIELD(train.accumulate), .help = "gradient accumulation: batches per step",
      .other_names = "accumulation_steps grad_accum gradient_accumulation gradient_accumulation_steps" },
    { SECTION_TRAIN, "slices", OPTION_INTEGER, EFFECT_RUN, .initial = "0", .initial_note = "off",
      RANGE(0, TOWER_SLICES_MAX), FIELD(train.slices),
      .help = "cut batches into so many slices: the same weights on 1, 2, 4, ... towers",
      .used_by = USED_WITH_EVALUATE },
    { SECTION_TRAIN, "optimizer", OPTION_CHOICE, EFFECT_RUN, .initial = "adadelta", .initial_note = "the model's",
      .choice_name = optimizer_name,
      FIELD(train.optimizer), .help = "optimizer; rmsprop is TensorFlow's",
      .other_names = "opt" },
    { SECTION_TRAIN, "learning_rate", OPTION_NUMBER, EFFECT_RUN, .initial = "1",
      .initial_note = "the model's; else sgd, momentum, rmsprop 0.01, adam 0.001, adadelta 1", .high = 1e30,
      FIELD(train.learning_rate), .help = "learning rate",
      .other_names = "lr" },
    { SECTION_TRAIN, "momentum", OPTION_NUMBER, EFFECT_RUN, .initial = "0.9", .high = 1, .high_is_open = true,
      FIELD(train.momentum), .help = "momentum, nesterov, rmsprop, rmsprop_pytorch, lars: momentum",
      SOME_OPTIMIZERS },
    { SECTION_TRAIN, "rho", OPTION_NUMBER, EFFECT_RUN, .initial = "0.95",
      .initial_note = "0.95; rmsprop and its forms 0.9",
      .high = 1, .high_is_open = true,
      FIELD(train.rho), .help = "adadelta, rmsprop and its forms: decay of the running averages",
      SOME_OPTIMIZERS },
    { SECTION_TRAIN, "betas", OPTION_NUMBERS, EFFECT_RUN, .initial = "0.9 0.999", .high = 1, .high_is_open = true,
      FIELD(train.betas), .help = "adam, adamw: decay of the averages of gradients and of their squares",
      SOME_OPTIMIZERS },
    { SECTION_TRAIN, "epsilon", OPTION_NUMBER, EFFECT_RUN, .initial = "1e-08", .initial_note = "1e-08; rmsprop 1",
      .low = 1e-30, .high = 1,
      FIELD(train.epsilon), .help = "adadelta, rmsprop: added inside the square root; other optimizers: outside",
      SOME_OPTIMIZERS },
    { SECTION_TRAIN, "trust", OPTION_NUMBER, EFFECT_RUN, .initial = "0.001", .high = 1e6,
      FIELD(train.trust), .help = "LARS trust coefficient",
      SOME_OPTIMIZERS },
    { SECTION_TRAIN, "weight_decay", OPTION_NUMBER, EFFECT_RUN, .initial = "0",
      .initial_note = "the model's, else 0; adamw 0.01", .high = 1e6,
      FIELD(train.weight_decay), .help = "L2 penalty (adamw: decoupled weight decay)",
      .other_names = "wd", .in_overfit = "0" },
    { SECTION_TRAIN, "decay_scope", OPTION_CHOICE, EFFECT_RUN, .initial = "no_norms", .choices = decay_choices,
      FIELD(train.decay_scope), .help = "decay all but parameters of norms, all, or only weights (no biases)",
      .uses = { IF(SECTION_TRAIN, "weight_decay", NULL) } },
    { SECTION_TRAIN, "clip_value", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .initial_note = "no limit", .high = 1e30,
      FIELD(train.clip_value), .help = "clip each element of the gradient to this magnitude" },
    { SECTION_TRAIN, "clip_norm", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .initial_note = "no limit", .high = 1e30,
      FIELD(train.clip_norm), .help = "clip the global norm of the gradient",
      .other_names = "clip_grad_norm grad_clip max_grad_norm" },
    { SECTION_TRAIN, "label_smoothing", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .high = 1, .high_is_open = true,
      FIELD(train.label_smoothing), .help = "label smoothing: weight of the uniform distribution",
      .other_names = "smoothing", .in_overfit = "0" },
    { SECTION_TRAIN, "class_weights", OPTION_STRING, EFFECT_RUN, .initial = "", .initial_note = "all 1",
      FIELD(train.class_weights), .help = "weights of classes in the loss: auto (rare ones weigh more), or a file",
      .in_overfit = "" },
    { SECTION_TRAIN, "ema", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .initial_note = "no average", .high = 1,
      .high_is_open = true, FIELD(train.ema),
      .help = "decay of the moving average of weights, which is evaluated and saved",
      .other_names = "ema_decay", .in_overfit = "0" },
    { SECTION_TRAIN, "rate_batch", OPTION_INTEGER, EFFECT_RUN, .unit = "samples", .initial = "0",
      .initial_note = "not scaled", RANGE(0, BATCH_MAX), FIELD(train.rate_batch),
      .help = "batch size that learning_rate is for: scaled by batch / rate_batch" },
    { SECTION_TRAIN, "warmup_epochs", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .high = 1e6,
      FIELD(train.warmup_epochs), .help = "epochs of linear warm-up",
      .other_names = "warmup warmup_steps", .in_overfit = "0" },
    { SECTION_TRAIN, "warmup_from", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .high = 1,
      FIELD(train.warmup_from), .help = "share of the learning rate at which the warm-up begins",
      .other_names = "lr_warmup_decay start_factor warmup_decay warmup_factor",
      .uses = { IF(SECTION_TRAIN, "warmup_epochs", NULL) } },
    { SECTION_TRAIN, "schedule", OPTION_CHOICE, EFFECT_RUN, .initial = "constant", .initial_note = "the model's",
      .choices = schedule_choices,
      FIELD(train.schedule), .help = "learning rate schedule (doc/training.md)",
      .other_names = "lr_schedule scheduler", .in_overfit = "constant" },
    { SECTION_TRAIN, "schedule_epochs", OPTION_NUMBER, EFFECT_RUN, .initial = "0",
      .initial_note = "until the end of the run",
      .high = 1e6,
      FIELD(train.schedule_epochs), .help = "cosine, polynomial, one_cycle: length of the schedule",
      SCHEDULES("cosine polynomial one_cycle") },
    { SECTION_TRAIN, "boundaries", OPTION_NUMBERS, EFFECT_RUN, .unit = "epochs", .initial = "", .high = 1e6,
      FIELD(train.boundaries), .help = "piecewise: epochs after which the learning rate changes",
      SCHEDULES("piecewise"), .in_overfit = "" },
    { SECTION_TRAIN, "factors", OPTION_NUMBERS, EFFECT_RUN, .initial = "", .high = 1e6,
      FIELD(train.factors), .help = "piecewise: factor of learning_rate after each boundary",
      SCHEDULES("piecewise"), .in_overfit = "" },
    { SECTION_TRAIN, "decay_factor", OPTION_NUMBER, EFFECT_RUN, .initial = "0.1", .high = 1,
      FIELD(train.decay_factor), .help = "exponential: factor of the learning rate every decay_epochs",
      SCHEDULES("exponential") },
    { SECTION_TRAIN, "decay_epochs", OPTION_NUMBER, EFFECT_RUN, .initial = "30", .low = 1e-6, .high = 1e6,
      FIELD(train.decay_epochs), .help = "exponential: epochs per decay_factor",
      SCHEDULES("exponential") },
    { SECTION_TRAIN, "staircase", OPTION_YES_NO, EFFECT_RUN, .initial = "yes",
      FIELD(train.staircase), .help = "exponential: change every decay_epochs (yes) or at every step (no)",
      SCHEDULES("exponential") },
    { SECTION_TRAIN, "rate_decay", OPTION_NUMBER, EFFECT_RUN, .initial = "1e-06", .high = 1e6,
      FIELD(train.rate_decay), .help = "inverse_time: the learning rate is divided by 1 + rate_decay * step",
      SCHEDULES("inverse_time") },
    { SECTION_TRAIN, "final_rate", OPTION_NUMBER, EFFECT_RUN, .initial = "0", .high = 1e30,
      FIELD(train.final_rate), .help = "cosine, polynomial: learning rate at the end",
      SCHEDULES("cosine polynomial") },
    { SECTION_TRAIN, "power", OPTION_NUMBER, EFFECT_RUN, .initial = "1", .low = 1e-3, .high = 1e3,
      FIELD(train.power), .help = "polynomial: exponent (1: linear)",
      SCHEDULES("polynomial") },
    { SECTION_TRAIN, "peak", OPTION_NUMBER, EFFECT_RUN, .initial = "0.3", .high = 1,
      FIELD(train.peak), .help = "one_cycle: fraction of the steps before the highest learning rate",
      SCHEDULES("one_cycle") },

    { SECTION_CHECKPOINT, "every", OPTION_STRING, EFFECT_NONE, .initial = "never",
      FIELD(checkpoint.every), .help = "save a checkpoint: never, epoch, 500 (steps), 10 minutes",
      .other_names = "every_n_steps save_every save_steps", .in_trials = "never", .in_overfit = "never" },
    { SECTION_CHECKPOINT, "keep", OPTION_INTEGER, EFFECT_NONE, .unit = "checkpoints", .initial = "2", RANGE(1, 1000),
      FIELD(checkpoint.keep), .help = "newest checkpoints to keep",
      .other_names = "keep_last" },
    { SECTION_CHECKPOINT, "keep_best", OPTION_CHOICE, EFFECT_NONE, .initial = "weights", .choices = keep_best_choices,
      FIELD(checkpoint.keep_best),
      .help = "what best.safetensors keeps of the best evaluation: weights, checkpoint, no",
      .other_names = "save_best", .in_trials = "no", .in_overfit = "no" },
    { SECTION_CHECKPOINT, "on_stop", OPTION_YES_NO, EFFECT_NONE, .initial = "yes",
      FIELD(checkpoint.on_stop), .help = "save a checkpoint when the run is stopped or its time is over",
      .in_trials = "no", .in_overfit = "no" },

    { SECTION_DEVICES, "kind", OPTION_CHOICE, EFFECT_REPORTED, .initial = "auto", .choices = kind_choices,
      FIELD(devices.kind), .help = "device; auto: cuda if there is one, else cpu; null: no computation",
      .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "list", OPTION_STRING, EFFECT_REPORTED, .initial = "", .initial_note = "all",
      FIELD(devices.list), .help = "CUDA devices to use, e.g. 0,1; the towers of all ranks of a host take turns",
      KINDS("auto cuda"), .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "towers", OPTION_INTEGER, EFFECT_REPORTED, .initial = "1", RANGE(1, DEVICES_TOWERS_MAX),
      FIELD(devices.towers), .help = "replicas of the network (data parallel); each computes a share of every batch",
      .other_names = "gpus num_gpus", .is_hyperparameter = true, .used_by = USED_WITH_EVALUATE },
    { SECTION_DEVICES, "threads_per_tower", OPTION_INTEGER, EFFECT_REPORTED, .initial = "0",
      .initial_note = "cores / towers",
      RANGE(0, THREADS_MAX), FIELD(devices.threads_per_tower), .help = "CPU threads per tower",
      .line = LINE_IF_CPU, .decides_slices = true, .unknown_if_missing = true, .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "precision", OPTION_CHOICE, EFFECT_RUN, .initial = "fp32", .choices = precision_choices,
      FIELD(devices.precision),
      .help = "precision of the computation (cpu: fp32, some bf16); weights are fp32",
      .other_names = "amp dtype", .is_hyperparameter = true, .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "graph", OPTION_CHOICE, EFFECT_REPORTED, .initial = "auto", .choices = graph_choices,
      FIELD(devices.graph), .help = "CUDA graphs for steps; auto: for small steps of many layers",
      KINDS("auto cuda"), .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "workspace", OPTION_SIZE, EFFECT_REPORTED, .initial = "256 MiB", RANGE(0, TIB),
      FIELD(devices.workspace),
      .help = "largest workspace of a convolution (CPU: for Winograd)",
      .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "time_plans", OPTION_CHOICE, EFFECT_REPORTED, .initial = "auto", .choices = time_plans_choices,
      FIELD(devices.time_plans),
      .help = "CUDA: time algorithms of products; auto: in runs of 5000 steps or more",
      KINDS("auto cuda"), .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "fuse", OPTION_CHOICE, EFFECT_REPORTED, .initial = "auto", .choices = fuse_choices,
      FIELD(devices.fuse),
      .help = "bf16, fp16: convolutions add gradients of branches; auto: from 5000 steps",
      KINDS("auto cuda"), .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "plan_cache", OPTION_STRING, EFFECT_REPORTED, .initial = "",
      .initial_note = "the user's cache folder",
      FIELD(devices.plan_cache), .help = "CUDA: folder that caches the chosen algorithms, or none",
      KINDS("auto cuda"), .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "layout", OPTION_CHOICE, EFFECT_REPORTED, .initial = "auto", .choices = layout_choices,
      FIELD(devices.layout), .help = "memory layout of activations, for experiments",
      .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "convolution", OPTION_CHOICE, EFFECT_REPORTED, .initial = "auto", .choices = convolution_choices,
      FIELD(devices.convolution),
      .help = "CPU: Winograd for 3 x 3 convolutions where it is faster, never or always",
      KINDS("auto cpu"), .line = LINE_IF_USED, .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "batch_statistics", OPTION_CHOICE, EFFECT_REPORTED, .initial = "exact",
      .choices = batch_statistics_choices, FIELD(devices.batch_statistics),
      .help = "fused (CUDA, bf16, fp16): by convolutions, less exact (doc/numerics.md)" },
    { SECTION_DEVICES, "backend", OPTION_CHOICE, EFFECT_REPORTED, .initial = "auto", .choices = backend_choices,
      FIELD(devices.backend), .help = "implementation of the layers; reference is simple and slow",
      .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "bind", OPTION_YES_NO, EFFECT_NONE, .initial = "no",
      FIELD(devices.bind), .help = "pin each tower's threads to their own cores",
      .used_by = USED_WHERE_COMPUTED },
    { SECTION_DEVICES, "allow_ref", OPTION_YES_NO, EFFECT_REPORTED, .initial = "no",
      FIELD(devices.allow_ref), .help = "accept oneDNN's reference kernels, which are a thousand times slower",
      .used_by = USED_WHERE_COMPUTED },

    { SECTION_SYNC, "mode", OPTION_CHOICE, EFFECT_RUN, .initial = "replicated", .choices = mode_choices,
      FIELD(sync.mode), .help = "how towers share parameters and synchronise (doc/sync.md)",
      .is_hyperparameter = true },
    { SECTION_SYNC, "consistency", OPTION_CHOICE, EFFECT_RUN, .initial = "strong", .choices = consistency_choices,
      FIELD(sync.consistency), .help = "relaxed: apply gradients one step late, which overlaps the all-reduce" },
    { SECTION_SYNC, "wire", OPTION_CHOICE, EFFECT_RUN, .initial = "fp32", .choices = wire_choices,
      FIELD(sync.wire), .help = "precision of gradients in transfer; bf16: half the bytes, summed in fp32",
      .line = LINE_IF_TOWERS },
    { SECTION_SYNC, "every", OPTION_INTEGER, EFFECT_RUN, .unit = "steps", .initial = "10", RANGE(1, 1000000000),
      FIELD(sync.every), .help = "averaging: steps between two averages",
      MODES("averaging"), .is_hyperparameter = true },
    { SECTION_SYNC, "average", OPTION_CHOICE, EFFECT_RUN, .initial = "parameters+optimizer", .choices = average_choices,
      FIELD(sync.average), .help = "averaging: average the weights, with the optimizer's buffers or without",
      MODES("averaging"), .line = LINE_IF_USED },
    { SECTION_SYNC, "server", OPTION_CHOICE, EFFECT_REPORTED, .initial = "device", .choices = server_choices,
      FIELD(sync.server), .help = "parameter_server: parameters are spread over the devices, or in host memory",
      MODES("parameter_server") },
    { SECTION_SYNC, "max_staleness", OPTION_INTEGER, EFFECT_RUN, .unit = "steps", .initial = "1", RANGE(0, 100),
      FIELD(sync.max_staleness), .help = "async: a tower this many steps ahead of another's updates waits",
      MODES("async"), .line = LINE_IF_USED },
    { SECTION_SYNC, "staleness_rate", OPTION_CHOICE, EFFECT_RUN, .initial = "none", .choices = staleness_choices,
      FIELD(sync.staleness_rate), .help = "async: inverse divides the learning rate of an update by its staleness",
      MODES("async"), .line = LINE_IF_USED },
    { SECTION_SYNC, "reduce", OPTION_CHOICE, EFFECT_REPORTED, .initial = "auto", .choices = reduce_choices,
      FIELD(sync.reduce), .help = "who sums over towers: GPUs by nccl, peer, ipc; or the CPU: host (doc/sync.md)" },
    { SECTION_SYNC, "deadline", OPTION_DURATION, EFFECT_NONE, .unit = "seconds", .initial = "120", RANGE(1, 86400),
      FIELD(sync.deadline), .help = "stop the run if a device does not respond for this long",
      .used_by = USED_WHERE_COMPUTED },
    { SECTION_SYNC, "bucket", OPTION_SIZE, EFFECT_REPORTED, .initial = "auto",
      .initial_note = "one bucket up to 2 MiB, else 1 MiB and growing",
      RANGE(0, TIB), FIELD(sync.bucket), .help = "smallest gradient bucket that is reduced at once" },
    { SECTION_SYNC, "group", OPTION_INTEGER, EFFECT_NONE, .initial = "0", .initial_note = "ranks of a host",
      RANGE(0, 32768), FIELD(sync.group),
      .help = "ranks near each other, which sum first; a power of two; 1: none" },
    { SECTION_SYNC, "report_every", OPTION_INTEGER, EFFECT_NONE, .unit = "steps", .initial = "1", RANGE(1, 64),
      FIELD(sync.report_every), .help = "several ranks: steps that a rank reports to rank 0 in one message" },

    { SECTION_REPORT, "progress", OPTION_CHOICE, EFFECT_NONE, .initial = "auto", .choices = progress_choices,
      FIELD(report.progress), .help = "progress on stderr; auto: a bar on a terminal, else lines",
      .may_differ = true, .in_trials = "none" },
    { SECTION_REPORT, "pace", OPTION_DURATION, EFFECT_NONE, .unit = "seconds", .initial = "10", RANGE(0, 86400),
      FIELD(report.pace), .help = "time between two progress lines of text or JSON; 0: after every step" },
    { SECTION_REPORT, "interval", OPTION_INTEGER, EFFECT_NONE, .unit = "steps", .initial = "0",
      .initial_note = "100, or a tenth of an epoch or run", RANGE(0, 1000000000),
      FIELD(report.interval), .help = "steps between two rows of metrics.jsonl",
      .other_names = "log_interval print_freq" },
    { SECTION_REPORT, "trace", OPTION_STRING, EFFECT_NONE, .initial = "", .initial_note = "none",
      FIELD(report.trace), .help = "trace file of all threads, for ui.perfetto.dev, e.g. trace.json",
      .in_trials = "" },
    { SECTION_REPORT, "trace_steps", OPTION_STRING, EFFECT_NONE, .initial = "", .initial_note = "the last ones",
      FIELD(report.trace_steps), .help = "steps to trace, counted from 1: 100..299" },
    { SECTION_REPORT, "prometheus", OPTION_STRING, EFFECT_NONE, .initial = "", .initial_note = "none",
      FIELD(report.prometheus), .help = "metrics for Prometheus: the file to write, such as m/run.prom",
      .in_trials = "" },
    { SECTION_REPORT, "tensorboard", OPTION_STRING, EFFECT_NONE, .initial = "no",
      FIELD(report.tensorboard), .help = "TensorBoard events; yes: in the run directory, or a folder: logs/a",
      .in_trials = "no" },
    { SECTION_REPORT, "histograms", OPTION_STRING, EFFECT_NONE, .initial = "none",
      FIELD(report.histograms),
      .help = "TensorBoard histograms of weights and gradients: none, epoch, or e.g. 500 steps",
      .uses = { IF(SECTION_REPORT, "tensorboard", NULL) }, .in_trials = "none" },
    { SECTION_REPORT, "price", OPTION_STRING, EFFECT_NONE, .initial = "", .initial_note = "unknown",
      FIELD(report.price), .help = "price of a machine for an hour, such as 3.06 EUR: what the run costs" },

    { .key = NULL }
};

#define OPTION_COUNT (sizeof(option_table) / sizeof(*option_table) - 1)
_Static_assert(OPTION_COUNT <= OPTIONS_MAX, "settings.origins has a place for every option");

static const struct {
    const char *name, *help;
    bool are_hyperparameters, are_of_feeds;
} section_table[SECTION_COUNT] = {
    [SECTION_RUN] = { .name = "run", .help = "name and results of the run" },
    [SECTION_DATA] = { .name = "data", .help = "the data set", .are_of_feeds = true },
    [SECTION_INPUT] = { .name = "input", .help = "the input pipeline", .are_of_feeds = true },
    [SECTION_AUGMENT] = { .name = "augment", .help = "cropping, scaling and augmentation of images",
        .are_hyperparameters = true, .are_of_feeds = true },
    [SECTION_MODEL] = { .name = "model", .help = "the network and its initial weights",
        .are_hyperparameters = true },
    [SECTION_TRAIN] = { .name = "train", .help = "length of the training, optimizer, learning rate",
        .are_hyperparameters = true },
    [SECTION_CHECKPOINT] = { .name = "checkpoint", .help = "checkpoints, from which a run resumes" },
    [SECTION_DEVICES] = { .name = "devices", .help = "devices and precision" },
    [SECTION_SYNC] = { .name = "sync", .help = "synchronisation of towers" },
    [SECTION_REPORT] = { .name = "report", .help = "progress and metrics" },
};

const char *section_name(enum section section)
{
    return section_table[section].name;
}

const char *section_help(enum section section)
{
    return section_table[section].help;
}

enum section section_find(const char *name)
{
    enum section section = 0;
    while (section < SECTION_COUNT && strcmp(section_table[section].name, name) != 0)
        section++;
    return section;
}

const struct option_row *option_find(enum section section, const char *key)
{
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (option->section == section && strcmp(option->key, key) == 0)
            return option;
    return NULL;
}

size_t option_find_key(const char *key, const struct option_row **option_out, char *names, size_t names_size)
{
    size_t found = 0;
    *names = '\0';
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        if (strcmp(option->key, key) != 0)
            continue;
        const size_t used = strlen(names);
        snprintf(names + used, names_size - used, "%s%s.%s", found > 0 ? " or " : "", section_name(option->section),
                 key);
        *option_out = option;
        found++;
    }
    return found;
}

/* Compare words without case and separators: batch_size, batch-size, batchsize, BatchSize. */
static bool is_same_word(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a != '\0' && !isalnum((unsigned char)*a))
            a++;
        while (*b != '\0' && !isalnum((unsigned char)*b))
            b++;
        if (*a == '\0' || tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return *a == *b;
    }
}

const struct option_row *option_find_other(const char *word)
{
    char name[PATTERN_BYTES];
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        for (const char *at = option->other_names; at != NULL && patterns_next(&at, name);)
            if (is_same_word(name, word))
                return option;
    return NULL;
}

bool option_is_hyperparameter(const struct option_row *option)
{
    return option->is_hyperparameter || section_table[option->section].are_hyperparameters;
}

bool option_is_of_feeds(const struct option_row *option)
{
    return section_table[option->section].are_of_feeds && option->not_of_feeds == NULL;
}

size_t option_index(const struct option_row *option)
{
    assert(option >= option_table && option < option_table + OPTION_COUNT);
    return (size_t)(option - option_table);
}

void *option_field(const struct option_row *option, struct settings *settings)
{
    return (char *)settings + option->offset;
}

const void *option_value(const struct option_row *option, const struct settings *settings)
{
    return (const char *)settings + option->offset;
}
