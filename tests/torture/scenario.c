/* The table of scenarios, and their folders before and after. */
#include "tests/torture/scenario.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/clock.h"
#include "tests/torture/tree.h"

#define ARGUMENTS_MAX 24u
#define PREPARE_LIMIT_US 120000000u

#define SMALL_RUN "--set=train.steps=2"
#define KEEPS_WEIGHTS(folder) \
    .kept = folder "/weights.safetensors", .kept_later = folder "/weights.previous.safetensors"

const struct scenario scenarios[] = {
    { .name = "train", .program = "pipetrain", .arguments = { "-c", "run.conf", SMALL_RUN }, .catches = true,
      .outlasts_power = true, .results = "run", KEEPS_WEIGHTS("run") },
    { .name = "train-teams", .program = "pipetrain", .catches = true, .has_teams = true,
      .arguments = { "-c", "run.conf", SMALL_RUN, "--set=devices.towers=2", "--set=devices.threads_per_tower=2" },
      .results = "run", KEEPS_WEIGHTS("run") },
    { .name = "train-save", .program = "pipetrain", .catches = true, .outlasts_power = true,
      .results = "saved", KEEPS_WEIGHTS("saved"), .begun = "--set=train.steps=1",
      .arguments = { "-c", "run.conf", "--set=train.steps=3", "--set=run.dir=saved", "--set=run.resume=auto",
                     "--set=checkpoint.every=1", "--set=checkpoint.keep=1" } },
    { .name = "train-images", .program = "pipetrain", .catches = true, .results = "run", KEEPS_WEIGHTS("run"),
      .arguments = { "-c", "run.conf", SMALL_RUN, "--set=data.train=images/train-*",
                     "--set=data.validation=images/validation-*" } },
    { .name = "train-on", .program = "pipetrain", .arguments = { "-c", "run.conf", "--set=train.epochs=100000" },
      .is_endless = true, .catches = true, KEEPS_WEIGHTS("run") },
    { .name = "check", .program = "pipetrain", .arguments = { "-c", "run.conf", "--check" }, .has_earlier = true,
      .changes_nothing = true, .catches = true, .ends_with_reader = true },
    { .name = "evaluate", .program = "pipetrain", .has_earlier = true, .changes_nothing = true,
      .waits_for_reader = true,
      .arguments = { "evaluate", "-c", "run.conf", "-w", "run/weights.safetensors" } },
    { .name = "predict", .program = "pipetrain", .has_earlier = true, .changes_nothing = true,
      .waits_for_reader = true,
      .arguments = { "predict", "-w", "run/weights.safetensors", "data/validation-00000-of-00001" } },
    { .name = "report", .program = "pipetrain-report", .has_earlier = true, .changes_nothing = true,
      .waits_for_reader = true, .arguments = { "run", "-o", "-" } },
    { .name = "describe", .program = "pipetrain", .arguments = { "--describe=resnet20_v1" }, .changes_nothing = true },
    { .name = "convert", .program = "pipetrain-convert", .catches = true, .ends_with_reader = true, .results = "shards",
      .arguments = { "digits", "-o", "shards", "--force", "--train=60", "--validation=20", "--shards=3", "--jobs=2" } },
    { .name = "convert-over", .program = "pipetrain-convert", .has_earlier = true, .catches = true,
      .ends_with_reader = true, .results = "data",
      .arguments = { "digits", "-o", "data", "--force", "--train=60", "--validation=20", "--shards=3", "--jobs=2" } },
    { .name = "convert-on", .program = "pipetrain-convert", .is_endless = true, .catches = true,
      .arguments = { "digits", "-o", "shards", "--force", "--train=4000000", "--validation=20", "--shards=3",
                     "--jobs=2" } },
};
const uint32_t scenario_count = sizeof(scenarios) / sizeof(scenarios[0]);

static const char settings[] = "[data]\ntrain = data/train-*\nvalidation = data/validation-*\n"
                               "[train]\nbatch = 16\n"
                               "[run]\ndir = run\nresume = never\n"
                               "[devices]\nkind = cpu\nthreads_per_tower = 1\n"
                               "[report]\ninterval = 1\nprogress = none\n";

void stand_folder(const struct stand *stand, const char *kind, const char *name, char *path_out, size_t path_size)
{
    snprintf(path_out, path_size, "%s/%s/%s", stand->work, kind, name);
}

char *const *stand_command(const struct stand *stand, const struct scenario *scenario)
{
    static char program[PATH_MAX];
    static char *argv[ARGUMENTS_MAX];
    uint32_t count = 0;
    snprintf(program, sizeof(program), "%s/%s", stand->build, scenario->program);
    argv[count++] = program;
    for (uint32_t i = 0; scenario->arguments[i] != NULL; i++)
        argv[count++] = (char *)scenario->arguments[i];
    argv[count] = NULL;
    return argv;
}

bool stand_allows(const struct stand *stand, const struct scenario *scenario)
{
    return !(stand->refuses_teams && scenario->has_teams) &&
           (stand->only == NULL || strcmp(stand->only, scenario->name) == 0);
}

static int run_in(const char *folder, char *const *argv)
{
    struct child child;
    const struct child_spec spec = { .folder = folder, .argv = argv };
    if (child_start(&child, &spec) != 0)
        return -errno;
    const struct child_end end = child_end(&child, PREPARE_LIMIT_US);
    if (!end.is_late && end.signal == 0 && end.code == 0)
        return 0;
    struct content said = content_read(folder, "err");
    fprintf(stderr, "torture: %s in %s fails by itself: exit %d, signal %d: %s\n", argv[0], folder, end.code,
            end.signal, said.bytes != NULL ? said.bytes : "");
    content_release(&said);
    return -EPROTO;
}

static int write_settings(const char *folder)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/run.conf", folder);
    FILE *const out = fopen(path, "w");
    const int written = out != NULL ? fputs(settings, out) : EOF;
    return out != NULL && fclose(out) == 0 && written != EOF ? 0 : -EIO;
}

/* Data, settings, and the results of an earlier run with another seed. */
static int make_trainings(const struct stand *stand, const char *folder)
{
    char convert[PATH_MAX], train[PATH_MAX], maker[PATH_MAX];
    snprintf(convert, sizeof(convert), "%s/pipetrain-convert", stand->build);
    snprintf(train, sizeof(train), "%s/pipetrain", stand->build);
    snprintf(maker, sizeof(maker), "%s/tests/e2e/use/jpeg_maker", stand->build);
    char *const data[] = { convert, "digits", "-o", "data", "--train=48", "--validation=16", "--shards=2", NULL };
    char *const photos[] = { maker, "photos", "10", "6", NULL };
    char *const images[] = { convert, "folder", "photos", "-o", "images", "--validation=0.25", "--shards=2", NULL };
    char *const earlier[] = { train, "-c", "run.conf", SMALL_RUN, "--set=run.seed=7", NULL };
    char *const *const commands[] = { data, photos, images, earlier };
    int rc = write_settings(folder);
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands) && rc == 0; i++)
        rc = run_in(folder, commands[i]);
    return rc;
}

/* Run the command with its option `begun`. */
static int begin_it(const struct stand *stand, const struct scenario *scenario, const char *begin)
{
    char *argv[ARGUMENTS_MAX + 1];
    char *const *const command = stand_command(stand, scenario);
    uint32_t count = 0;
    for (; command[count] != NULL; count++)
        argv[count] = command[count];
    argv[count++] = (char *)scenario->begun;
    argv[count] = NULL;
    return run_in(begin, argv);
}

static int prepare(const struct stand *stand, const struct scenario *scenario, const char *earlier, uint64_t *took_us)
{
    char begin[PATH_MAX], done[PATH_MAX];
    stand_folder(stand, "begin", scenario->name, begin, sizeof(begin));
    stand_folder(stand, "done", scenario->name, done, sizeof(done));
    const bool has_earlier = scenario->kept != NULL || scenario->has_earlier;
    int rc = has_earlier ? tree_copy(earlier, begin) : mkdir(begin, 0777) == 0 ? 0 : -errno;
    if (rc == 0 && scenario->begun != NULL)
        rc = begin_it(stand, scenario, begin);
    if (rc == 0)
        rc = tree_copy(begin, done);
    const uint64_t began_ns = clock_now_ns();
    if (rc == 0 && !scenario->is_endless)
        rc = run_in(done, stand_command(stand, scenario));
    *took_us = (clock_now_ns() - began_ns) / 1000;
    return rc;
}

int stand_prepare(const struct stand *stand, uint64_t *took_us)
{
    static const char *const kinds[] = { "begin", "done", "try", "broken", "earlier" };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        stand_folder(stand, kinds[i], "", path, sizeof(path));
        if (mkdir(path, 0777) != 0)
            return -errno;
    }
    int rc = make_trainings(stand, path);
    for (uint32_t i = 0; i < scenario_count && rc == 0; i++)
        if (stand_allows(stand, &scenarios[i]))
            rc = prepare(stand, &scenarios[i], path, &took_us[i]);
    return rc;
}
