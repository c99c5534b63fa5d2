/* Configuration files and --set: what is read, and that every mistake is named. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/options.h"

/* A reading of one text. */
struct trial {
    struct settings settings;
    struct problems problems;
};

static void trial_open(struct trial *trial)
{
    assert_int_equal(settings_init(&trial->settings), 0);
    problems_init(&trial->problems);
}

static void trial_close(struct trial *trial)
{
    settings_release(&trial->settings);
    problems_release(&trial->problems);
}

static int trial_parse_bytes(struct trial *trial, const char *text, size_t bytes)
{
    const size_t before = trial->problems.count;
    const int rc = config_parse(&trial->settings, "run.conf", text, bytes, &trial->problems);
    assert_int_equal(rc, trial->problems.count > before ? -EINVAL : 0);
    return rc;
}

static int trial_parse(struct trial *trial, const char *text)
{
    return trial_parse_bytes(trial, text, strlen(text));
}

static void expect_problem(const struct trial *trial, size_t place, const char *line)
{
    assert_true(place < trial->problems.count);
    assert_string_equal(trial->problems.lines[place], line);
}

/* Reading `text` gives exactly this one problem. */
static void expect_only(const char *text, const char *line)
{
    struct trial trial;
    trial_open(&trial);
    trial_parse(&trial, text);
    expect_problem(&trial, 0, line);
    assert_int_equal(trial.problems.count, 1);
    trial_close(&trial);
}

static void expect_train(const char *text, const char *value)
{
    struct trial trial;
    trial_open(&trial);
    assert_int_equal(trial_parse(&trial, text), 0);
    assert_string_equal(trial.settings.data.train, value);
    trial_close(&trial);
}

TEST(reads_sections_keys_comments_and_quotes)
{
    expect_train("[data]\ntrain = a b # c\n", "a b");
    expect_train("[data]\ntrain=a\n", "a");
    expect_train("  [ data ]  ; x\n\t train \t=\t a \t; b\n", "a");
    expect_train("[data]\ntrain = a#b;c\n", "a#b;c");
    expect_train("[data]\ntrain = a=b\n", "a=b");
    expect_train("[data]\ntrain = \"a # b\" # c\n", "a # b");
    expect_train("[data]\ntrain = \" \\\"a\\\\ \"\n", " \"a\\ ");
    expect_train("[data]\ntrain = \"\"\n", "");
    expect_train("[data]\ntrain =\n", "");
    expect_train("[data]\ntrain = # nothing\n", "");
    expect_train("# x\n; y\n\n   # z\n[data]\ntrain = a", "a");
    expect_train("[run]\n[data]\n[model]\n[data]\ntrain = a\n", "a");
    expect_train("[data]\ntrain = a\"b\"\n", "a\"b\"");
    expect_train("[data]\r\ntrain = a\r\n", "a");
    expect_train("\xef\xbb\xbf[data]\ntrain = \xc3\xa4\n", "\xc3\xa4");
}

TEST(an_empty_file_is_all_defaults)
{
    struct trial trial;
    trial_open(&trial);
    assert_int_equal(trial_parse(&trial, ""), 0);
    assert_int_equal(trial_parse(&trial, "\n\r\n# only a comment"), 0);
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        assert_int_equal(trial.settings.origins[option_index(option)].origin, ORIGIN_DEFAULT);
    trial_close(&trial);
}

TEST(unknown_names_come_with_the_nearest)
{
    expect_only("[input]\nprefetch_dept = 4\n",
                "run.conf:2: unknown key 'prefetch_dept' in [input] (did you mean 'prefetch_depth'?)");
    expect_only("[inptu]\nprefetch_depth = 4\n", "run.conf:1: unknown section [inptu] (did you mean [input]?)");
    expect_only("[quux]\nfoo = 4\n", "run.conf:1: unknown section [quux]");
    expect_only("[train]\n\nshuffle = none\n", "run.conf:3: unknown key 'shuffle' in [train] (it belongs in [data])");
    expect_only("[data]\nname = x\n", "run.conf:2: unknown key 'name' in [data] (it belongs in [run] or [model])");
    expect_only("[data]\nepoch = 3\n", "run.conf:2: unknown key 'epoch' in [data] (did you mean 'epochs' in [train]?)");
    expect_only("[train]\nEpochs = 3\n", "run.conf:2: unknown key 'Epochs' in [train] (did you mean 'epochs'?)");
    expect_only("[train]\nzzzzzzzzz = 3\n", "run.conf:2: unknown key 'zzzzzzzzz' in [train]");
    expect_only("epochs = 3\n", "run.conf:1: key 'epochs' comes before the first [section] (it belongs in [train])");
}

TEST(broken_lines_are_named)
{
    expect_only("[train]\nepochs 3\n", "run.conf:2: '=' is missing after 'epochs 3'");
    expect_only("[train]\nepochs # = 3\n", "run.conf:2: '=' is missing after 'epochs'");
    expect_only("[train]\n= 3\n", "run.conf:2: the key before '=' is missing");
    expect_only("[train\nepochs = 3\n", "run.conf:1: ']' is missing");
    expect_only("[train] x\nepochs = 3\n", "run.conf:1: there is text after ']'");
    expect_only("[train]\nepochs =\n", "run.conf:2: epochs: the value is missing");
    expect_only("[train]\nepochs = # 3\n", "run.conf:2: epochs: the value is missing");
    expect_only("[data]\ntrain = \"a\n", "run.conf:2: the closing quote is missing");
    expect_only("[data]\ntrain = \"a\" b\n", "run.conf:2: there is text after the closing quote");
    expect_only("[data]\ntrain = \"a\"# b\n", "run.conf:2: there is text after the closing quote");
    expect_only("[data]\ntrain = \"a\\n\"\n", "run.conf:2: in quotes, '\\' may stand only before '\"' and '\\'");
    expect_only("[data]\ntrain = a\x1b[31m\n", "run.conf:2: train: the value holds a control character (byte 0x1b)");
    expect_only("[data]\ntrai\x1b = a\n", "run.conf:2: unknown key 'trai\\x1b' in [data] (did you mean 'train'?)");
    expect_only("[train]\nepochs = 3\nbatch = 1\nepochs = 3\n",
                "run.conf:4: duplicate key 'epochs' in [train] (first in line 2)");
}

TEST(bad_values_are_named_with_what_is_allowed)
{
    expect_only("[devices]\ntowers = 0\n", "run.conf:2: towers: 0 is out of range (1 to 256)");
    expect_only("[train]\nlearning_rate = 1,5\n", "run.conf:2: learning_rate: '1,5' is not a number");
    expect_only("[train]\nlearning_rate = 1e400\n", "run.conf:2: learning_rate: 1e400 is out of range (0 to 1e+30)");
    expect_only("[train]\nmomentum = nan\n", "run.conf:2: momentum: 'nan' is not a number");
    expect_only("[train]\nbatch = 0x10\n", "run.conf:2: batch: '0x10' is not a whole number");
    expect_only("[model]\ndropout = maybe\n", "run.conf:2: dropout: 'maybe' is neither yes nor no");
    expect_only("[train]\noptimizer = adamax\n",
                "run.conf:2: optimizer: 'adamax' is not one of: sgd, momentum, nesterov, adadelta, rmsprop, "
                "rmsprop_keras, adam, adamw, lars, rmsprop_pytorch (did you mean 'adam'?)");
    expect_only("[train]\noptimizer = Adam\n",
                "run.conf:2: optimizer: 'Adam' is not one of: sgd, momentum, nesterov, adadelta, rmsprop, "
                "rmsprop_keras, adam, adamw, lars, rmsprop_pytorch (did you mean 'adam'?)");
    expect_only("[train]\noptimizer = lion\n",
                "run.conf:2: optimizer: 'lion' is not one of: sgd, momentum, nesterov, adadelta, rmsprop, "
                "rmsprop_keras, adam, adamw, lars, rmsprop_pytorch");
    expect_only("[sync]\nbucket = 1 Mbit\n",
                "run.conf:2: bucket: '1 Mbit' is not a size (auto, bytes, or a number with a unit such as 64 KiB, 1.5 GiB or "
                "64M; 500 MB is decimal)");
}

TEST(all_problems_are_reported_at_once_in_order)
{
    struct trial trial;
    trial_open(&trial);
    trial_parse(&trial,
                "[data]\ntrain = x\nshufle = none\n[train]\nepochs = many\n\nbatch\n[inpt]\nprefetch_depth = -1\n");
    config_set(&trial.settings, "devices.tower=2", &trial.problems);
    assert_int_equal(trial.problems.count, 6);
    expect_problem(&trial, 0, "run.conf:3: unknown key 'shufle' in [data] (did you mean 'shuffle'?)");
    expect_problem(&trial, 1, "run.conf:5: epochs: 'many' is not a whole number");
    expect_problem(&trial, 2, "run.conf:7: '=' is missing after 'batch'");
    expect_problem(&trial, 3, "run.conf:8: unknown section [inpt] (did you mean [input]?)");
    expect_problem(&trial, 4, "run.conf:9: prefetch_depth: -1 is out of range (1 to 1024)");
    expect_problem(&trial, 5, "--set devices.tower: unknown key 'tower' in [devices] (did you mean 'towers'?)");
    trial_close(&trial);
}

TEST(more_problems_than_fit_are_counted)
{
    char text[4096] = "";
    for (int i = 0; i < PROBLEMS_MAX + 5; i++)
        strcat(text, "x\n");
    struct trial trial;
    trial_open(&trial);
    trial_parse(&trial, text);
    static char printed[1u << 16];
    struct capture capture;
    capture_begin(&capture);
    problems_print(&trial.problems);
    capture_end(&capture, printed, sizeof(printed));
    assert_non_null(strstr(printed, "run.conf:100: "));
    assert_null(strstr(printed, "run.conf:101: "));
    assert_non_null(strstr(printed, "\nand 5 more problems\n"));
    trial_close(&trial);
}

TEST(bytes_that_are_no_text_are_named)
{
    struct trial trial;
    trial_open(&trial);
    static const char nul[] = "[data]\ntrain = a\0b\n";
    trial_parse_bytes(&trial, nul, sizeof(nul) - 1);
    expect_problem(&trial, 0, "run.conf:2: byte 10 of the line is NUL");
    static const char *const invalid[] = { "\xff", "\xc3", "\xc3(", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                           "\xe2\x82", "\x80", "\xf8\x88\x80\x80\x80" };
    for (size_t i = 0; i < sizeof(invalid) / sizeof(*invalid); i++) {
        char text[64];
        snprintf(text, sizeof(text), "[data]\n# %s\n", invalid[i]);
        trial_parse(&trial, text);
        assert_int_equal(trial.problems.count, i + 2);
        assert_non_null(strstr(trial.problems.lines[i + 1], "run.conf:2: byte 3 of the line (0x"));
    }
    trial_close(&trial);
}

TEST(lines_are_whole_up_to_the_limit_and_named_above_it)
{
    static const size_t lengths[] = { 100, 199, 200, 201, 1023, 4096, 4097, 20000, OPTION_STRING_MAX };
    char *text = malloc(3 * CONFIG_LINE_MAX);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        char *end = stpcpy(text, "[data]\ntrain = ");
        memset(end, 'x', lengths[i]);
        strcpy(end + lengths[i], "\nvalidation = y\n");
        struct trial trial;
        trial_open(&trial);
        assert_int_equal(trial_parse(&trial, text), 0);
        assert_int_equal(strlen(trial.settings.data.train), lengths[i]);
        assert_string_equal(trial.settings.data.validation, "y");
        trial_close(&trial);
    }
    char *end = stpcpy(text, "[data]\n#");
    memset(end, 'x', CONFIG_LINE_MAX - 1);
    strcpy(end + CONFIG_LINE_MAX - 1, "\ntrain = a\n");
    expect_train(text, "a");
    strcpy(end + CONFIG_LINE_MAX - 1, "x\ntrain = a\n");
    expect_only(text, "run.conf:2: the line is longer than 65536 bytes");
    free(text);
}

/* Is `name` a key of the section? Then a changed spelling of another key is no mistake. */
static bool is_key(enum section section, const char *name)
{
    return option_find(section, name) != NULL;
}

/* Reading [section] NAME = VALUE is refused in its line. */
static void expect_refused(enum section section, const char *name, const char *value)
{
    if (is_key(section, name))
        return;
    char text[256], begin[256];
    snprintf(text, sizeof(text), "# first\n[%s]\n\n%s = %s\n", section_name(section), name, value);
    snprintf(begin, sizeof(begin), "run.conf:4: unknown key '%s' in [%s]", name, section_name(section));
    if (*name == '\0')
        snprintf(begin, sizeof(begin), "run.conf:4: the key before '=' is missing");
    struct trial trial;
    trial_open(&trial);
    assert_int_equal(trial_parse(&trial, text), -EINVAL);
    assert_int_equal(trial.problems.count, 1);
    assert_int_equal(strncmp(trial.problems.lines[0], begin, strlen(begin)), 0);
    trial_close(&trial);
}

TEST(every_key_with_a_character_dropped_added_or_swapped_is_refused)
{
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        const size_t length = strlen(option->key);
        char name[128];
        for (size_t i = 0; i < length; i++) {
            snprintf(name, sizeof(name), "%.*s%s", (int)i, option->key, option->key + i + 1);
            expect_refused(option->section, name, "1");
            snprintf(name, sizeof(name), "%.*sq%s", (int)i, option->key, option->key + i);
            expect_refused(option->section, name, "1");
            snprintf(name, sizeof(name), "%s", option->key);
            if (i + 1 < length && name[i] != name[i + 1]) {
                name[i] = option->key[i + 1];
                name[i + 1] = option->key[i];
                expect_refused(option->section, name, "1");
            }
        }
    }
}

TEST(names_of_other_programs_come_with_ours)
{
    static const char *const names[] = {
        "accumulation_steps", "amp", "batch_size", "clip_grad_norm", "cutmix_alpha", "data_dir", "dtype",
        "early_stop", "early_stopping", "ema_decay", "every_n_steps", "gpus", "grad_accum", "grad_clip",
        "gradient_accumulation", "gradient_accumulation_steps", "init", "keep_last", "log_interval", "lr",
        "lr_schedule", "max_epochs", "max_grad_norm",
        "max_steps", "mixup_alpha", "num_classes", "num_epochs", "num_gpus", "num_workers", "opt",
        "prefetch_factor", "pretrained", "print_freq", "save_best", "save_every", "save_steps", "scheduler",
        "smoothing", "warmup", "warmup_steps", "wd", "workers"
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char text[64];
        struct trial trial;
        snprintf(text, sizeof(text), "[data]\n%s = 1\n", names[i]);
        trial_open(&trial);
        trial_parse(&trial, text);
        assert_int_equal(trial.problems.count, 1);
        assert_non_null(strstr(trial.problems.lines[0], " (pipetrain calls it '"));
        trial_close(&trial);
    }
    for (size_t i = 0; i < 4; i++) {
        static const char *const batch[] = { "batchsize", "batch-size", "BatchSize", "bach_size" };
        static const char *const hints[] = { "pipetrain calls it 'batch'", "did you mean 'batch'?" };
        char text[64], line[128];
        snprintf(text, sizeof(text), "[train]\n%s = 1\n", batch[i]);
        snprintf(line, sizeof(line), "run.conf:2: unknown key '%s' in [train] (%s)", batch[i], hints[i == 3]);
        expect_only(text, line);
    }
    expect_only("[train]\nlr = 1\n", "run.conf:2: unknown key 'lr' in [train] (pipetrain calls it 'learning_rate')");
    expect_only("[train]\nnum_workers = 4\n",
                "run.conf:2: unknown key 'num_workers' in [train] (pipetrain calls it 'decode_threads' in [input])");
}

TEST(every_single_slip_is_met_with_the_right_name)
{
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        const size_t length = strlen(option->key);
        for (size_t i = 0; i < length && length > 4; i++) {
            char name[64], text[256], hint[128];
            snprintf(name, sizeof(name), "%.*s%s", (int)i, option->key, option->key + i + 1);
            snprintf(text, sizeof(text), "[%s]\n%s = 1\n", section_name(option->section), name);
            snprintf(hint, sizeof(hint), "(did you mean '%s'?)", option->key);
            struct trial trial;
            trial_open(&trial);
            trial_parse(&trial, text);
            assert_true(strstr(trial.problems.lines[0], hint) != NULL ||
                        strstr(trial.problems.lines[0], "belongs in") != NULL);
            trial_close(&trial);
        }
    }
}

static int set(struct trial *trial, const char *assignment)
{
    return config_set(&trial->settings, assignment, &trial->problems);
}

TEST(set_overrides_the_file_and_the_last_one_wins)
{
    struct trial trial;
    trial_open(&trial);
    trial_parse(&trial, "[train]\nepochs = 3\n");
    assert_int_equal(set(&trial, "train.epochs=4"), 0);
    assert_int_equal(set(&trial, " train.epochs = 5 "), 0);
    assert_int_equal(set(&trial, "data.train=a # \"b"), 0);
    assert_int_equal(trial.settings.train.epochs, 5);
    assert_string_equal(trial.settings.data.train, "a # \"b");
    assert_int_equal(set(&trial, "epochs=6"), 0);
    assert_int_equal(trial.settings.train.epochs, 6);
    assert_int_equal(trial.problems.count, 0);
    trial_close(&trial);
}

TEST(wrong_set_options_are_named)
{
    static const struct { const char *assignment, *line; } cases[] = {
        { "input.prefetch_dept=4",
          "--set input.prefetch_dept: unknown key 'prefetch_dept' in [input] (did you mean 'prefetch_depth'?)" },
        { "inptu.prefetch_depth=4", "--set inptu.prefetch_depth: unknown section [inptu] (did you mean [input]?)" },
        { "zzzz.prefetch_depth=4", "--set zzzz.prefetch_depth: unknown section [zzzz]" },
        { "name=4", "--set name: 'name' is ambiguous: run.name or model.name" },
        { "epoch=4", "--set epoch: unknown key 'epoch' (did you mean 'epochs' in [train]?)" },
        { "batchsize=4", "--set batchsize: unknown key 'batchsize' (pipetrain calls it 'batch' in [train])" },
        { "epochs=x", "--set epochs: 'x' is not a whole number" },
        { "train.epochs", "--set train.epochs: '=' is missing: section.key=value" },
        { "train.epochs=", "--set train.epochs: the value is missing" },
        { "train.epochs=x", "--set train.epochs: 'x' is not a whole number" },
        { "data.train=\xff", "--set data.train: the value is not UTF-8" },
        { "data.train=a\nb", "--set data.train: the value holds a control character (byte 0x0a)" },
        { "", "--set : '=' is missing: section.key=value" },
        { "=", "--set : the key is missing: section.key=value" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct trial trial;
        trial_open(&trial);
        assert_int_equal(set(&trial, cases[i].assignment), -EINVAL);
        assert_int_equal(trial.problems.count, 1);
        assert_string_equal(trial.problems.lines[0], cases[i].line);
        trial_close(&trial);
    }
}

/* settings_finish on `text` adds exactly this problem, none when NULL. */
static void expect_finish(const char *text, const char *line)
{
    struct trial trial;
    trial_open(&trial);
    trial_parse(&trial, text);
    const size_t before = trial.problems.count;
    assert_int_equal(settings_finish(&trial.settings, &trial.problems), line == NULL ? 0 : -EINVAL);
    assert_int_equal(trial.problems.count - before, line == NULL ? 0 : 1);
    if (line != NULL)
        expect_problem(&trial, before, line);
    trial_close(&trial);
}

TEST(keys_are_checked_against_each_other)
{
    expect_finish("[data]\ntrain = x\n", NULL);
    expect_finish("[input]\nsource = synthetic\n", NULL);
    expect_finish("", "run.conf: train: is missing: set it in [data], or source = synthetic in [input]");
    expect_finish("[data]\ntrain =\n",
                  "run.conf:2: train: is missing: set it in [data], or source = synthetic in [input]");
    expect_finish("[data]\ntrian = x\n", NULL);
    expect_finish("[data]\ntrain = x\n[model]\nname = mnist_cn\n",
                  "run.conf:4: name: there is no model 'mnist_cn' (did you mean 'mnist_cnn' or 'mnist_cnn2'?)");
    expect_finish("[data]\ntrain = x\n[model]\nname = zzz\n",
                  "run.conf:4: name: there is no model 'zzz' (pipetrain --describe lists them)");
    expect_finish("[data]\ntrain = x\n[train]\nbatch = 1\nbatch_per_tower = 2\n",
                  "run.conf:5: batch_per_tower: batch is set as well: set only one of them");
    expect_finish("[data]\ntrain = x\n[train]\nbatch_per_tower = 1048576\n[devices]\ntowers = 2\n",
                  "run.conf:4: batch_per_tower: 2097152 samples of a step in all towers together are over the limit of "
                  "1048576");
    expect_finish("[data]\ntrain = x\n[train]\nbatch = 1024\naccumulate = 1025\n",
                  "run.conf:5: accumulate: 1049600 samples of a step in all towers together are over the limit of "
                  "1048576");
    expect_finish("[data]\ntrain = x\n[train]\nbatch = 1\n[augment]\nmixup = 0.2\n",
                  "run.conf:6: mixup: has nothing to mix with in batches of one sample: use a larger batch");
    expect_finish("[data]\ntrain = x\n[train]\nbatch = 1\naccumulate = 2\n[augment]\nmixup = 0.2\n", NULL);
    expect_finish("[data]\ntrain = x\n[train]\nmax_time = 90 x\n",
                  "run.conf:4: max_time: '90 x' is not a duration of whole seconds, at least one (seconds, or "
                  "numbers with units such as 90 s, 15 min, 1.5 h or 1h30m)");
    expect_finish("[data]\ntrain = x\n[model]\nname = mnist_cnn\nfreeze = , ,,\n",
                  "run.conf:5: freeze: names no tensor: a pattern is missing, as in fc.*");
    expect_finish("[data]\ntrain = x\n[model]\nname = mnist_cnn\nfreeze =\n", NULL);
}

TEST(a_checkpoint_rule_is_steps_or_a_duration)
{
    static const struct { const char *text; uint64_t steps, seconds; } cases[] = {
        { "500", 500, 0 }, { "500 steps", 500, 0 }, { "1 step", 1, 0 }, { "10 minutes", 0, 600 }, { "2h", 0, 7200 },
        { "1h30m", 0, 5400 }, { "1.5 hours", 0, 5400 }, { "90s", 0, 90 }, { "1000000000", 1000000000, 0 },
    };
    static const char *const wrong[] = { "0", "0 s", "-5", "1.5", "1.5 s", "1e3", "nan", "10 epochs", "1000000001",
                                        "9999999999999 hours", "steps" };
    char text[96], said[192];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct trial trial;
        trial_open(&trial);
        snprintf(text, sizeof(text), "[data]\ntrain = x\n[checkpoint]\nevery = %s\n", cases[i].text);
        trial_parse(&trial, text);
        assert_int_equal(settings_finish(&trial.settings, &trial.problems), 0);
        assert_int_equal(trial.settings.checkpoint.steps, cases[i].steps);
        assert_int_equal(trial.settings.checkpoint.seconds, cases[i].seconds);
        trial_close(&trial);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        snprintf(text, sizeof(text), "[data]\ntrain = x\n[checkpoint]\nevery = %s\n", wrong[i]);
        snprintf(said, sizeof(said), "run.conf:4: every: '%s' is not one of: never, epoch, a number of steps from 1 on "
                 "(500), a duration (10 minutes, 1h30m)", wrong[i]);
        expect_finish(text, said);
    }
}

static int64_t global_batch(const char *text, const char *assignment)
{
    struct trial trial;
    trial_open(&trial);
    trial_parse(&trial, text);
    if (assignment != NULL)
        assert_int_equal(set(&trial, assignment), 0);
    assert_int_equal(set(&trial, "data.train=x"), 0);
    assert_int_equal(settings_finish(&trial.settings, &trial.problems), 0);
    const int64_t batch = settings_global_batch(&trial.settings);
    trial_close(&trial);
    return batch;
}

TEST(the_global_batch_comes_from_the_key_that_is_given)
{
    assert_int_equal(global_batch("", NULL), 128);
    assert_int_equal(global_batch("[train]\nbatch = 64\n[devices]\ntowers = 3\n", NULL), 64);
    assert_int_equal(global_batch("[train]\nbatch_per_tower = 64\n[devices]\ntowers = 3\n", NULL), 192);
    assert_int_equal(global_batch("[train]\nbatch_per_tower = 64\n[devices]\ntowers = 3\n", "train.batch=10"), 10);
    assert_int_equal(global_batch("[train]\nbatch = 64\n[devices]\ntowers = 3\n", "train.batch_per_tower=10"), 30);
    assert_int_equal(global_batch("[train]\nbatch = 64\n[devices]\ntowers = 3\n", "train.accumulate=4"), 256);
    assert_int_equal(global_batch("[train]\nbatch_per_tower = 64\n[devices]\ntowers = 3\n", "train.accumulate=4"), 768);
}

static void expect_name(const char *path, const char *name, const char *dir)
{
    struct trial trial;
    trial_open(&trial);
    const char *text = "[data]\ntrain = x\n";
    assert_int_equal(config_parse(&trial.settings, path, text, strlen(text), &trial.problems), 0);
    assert_int_equal(settings_finish(&trial.settings, &trial.problems), 0);
    assert_string_equal(trial.settings.run.name, name);
    assert_string_equal(trial.settings.run.dir, dir);
    trial_close(&trial);
}

TEST(the_run_is_called_after_the_file)
{
    expect_name("run.conf", "run", "runs/run");
    expect_name("a/b/mnist.v2.conf", "mnist.v2", "runs/mnist.v2");
    expect_name("my run.conf", "my-run", "runs/my-run");
    expect_name("/x/.conf", "run", "runs/run");
    expect_name("...conf", "run", "runs/run");
    expect_name("", "run", "runs/run");
    expect_name("0123456789012345678901234567890123456789012345678901234567890123456789.conf",
                "0123456789012345678901234567890123456789012345678901234567890123",
                "runs/0123456789012345678901234567890123456789012345678901234567890123");
}

static char *written(const struct settings *settings)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(settings_write(settings, out), 0);
    fclose(out);
    return text;
}

/* What is written reads back without a problem and is then written the same. */
static void expect_round_trip(struct trial *trial)
{
    char *first = written(&trial->settings);
    struct trial again;
    trial_open(&again);
    trial_parse(&again, first);
    assert_int_equal(again.problems.count, 0);
    char *second = written(&again.settings);
    assert_string_equal(first, second);
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        struct option_text a, b;
        assert_string_equal(option_format(option, &trial->settings, &a), option_format(option, &again.settings, &b));
    }
    free(first);
    free(second);
    trial_close(&again);
}

TEST(the_resolved_copy_reads_back_the_same)
{
    static const char *const assignments[] = {
        "data.train=a b#c", "data.train=a # b", "data.train=\"quoted\"", "data.train=\\", "data.train=a\\\" ; \\\\",
        "data.train=[x]", "data.train=x = y", "data.validation=\xe2\x82\xac", "run.dir=;x", "run.dir=#",
        "train.learning_rate=0.1", "train.epsilon=1e-30", "train.rho=0.30000000000000004", "input.ram_budget=3 GiB",
        "sync.bucket=1234567", "run.seed=9223372036854775807", "data.label_offset=-1", "model.dropout=no",
        "data.shuffle=none", "train.batch=7" };
    struct trial trial;
    trial_open(&trial);
    expect_round_trip(&trial);
    for (size_t i = 0; i < sizeof(assignments) / sizeof(*assignments); i++) {
        assert_int_equal(set(&trial, assignments[i]), 0);
        expect_round_trip(&trial);
    }
    assert_int_equal(settings_finish(&trial.settings, &trial.problems), 0);
    expect_round_trip(&trial);
    trial_close(&trial);
}

TEST(a_blank_at_either_end_survives_the_resolved_copy)
{
    struct trial trial;
    trial_open(&trial);
    trial_parse(&trial, "[data]\ntrain = \" a\"\nvalidation = \"b\t\"\n");
    assert_string_equal(trial.settings.data.train, " a");
    assert_string_equal(trial.settings.data.validation, "b\t");
    expect_round_trip(&trial);
    trial_close(&trial);
}

TEST(files_that_cannot_be_read_are_named)
{
    struct trial trial;
    trial_open(&trial);
    assert_int_equal(config_read(&trial.settings, "/nonexistent/x.conf", &trial.problems), -ENODATA);
    expect_problem(&trial, 0, "/nonexistent/x.conf: cannot be read: No such file or directory");
    assert_int_equal(config_read(&trial.settings, "/", &trial.problems), -ENODATA);
    expect_problem(&trial, 1, "/: cannot be read: Is a directory");
    trial_close(&trial);
}

TEST(reads_a_file_and_refuses_one_that_is_far_too_large)
{
    const char *folder = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof(path), "%s/pipetrain-config-XXXXXX", folder == NULL ? "/tmp" : folder);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "[train]\nepochs = 17\n";
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    struct trial trial;
    trial_open(&trial);
    assert_int_equal(config_read(&trial.settings, path, &trial.problems), 0);
    assert_int_equal(trial.settings.train.epochs, 17);
    assert_string_equal(trial.settings.config_path, path);
    assert_int_equal(ftruncate(fd, CONFIG_FILE_MAX + 1), 0);
    assert_int_equal(config_read(&trial.settings, path, &trial.problems), -ENODATA);
    assert_non_null(strstr(trial.problems.lines[0], "this is not a configuration file"));
    trial_close(&trial);
    close(fd);
    unlink(path);
}

/* As if the program had been found in PATH: printed commands have no folder. */
static int found_in_path(void **state)
{
    static char name[] = "pipetrain";
    (void)state;
    program_invocation_name = name;
    return 0;
}

TESTS_MAIN(found_in_path, NULL)
