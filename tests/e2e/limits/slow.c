/* pipetrain with stages made slow: the linker puts these calls in front of its own. PIPETRAIN_SLOW is
 * "STAGE MICROSECONDS [EVERY]": every call of the stage, or every EVERY-th of its thread, waits so long first. Several
 * stages, none of them in the same thread, stand behind each other with "; " between them.
 * "read-busy" and "decode-busy" compute meanwhile, as a stage does that is slow by itself; the others sleep.
 * PIPETRAIN_SLOW_TOLD names a file that is made when one begins to sleep.
 * Energy is read below the folder PIPETRAIN_ROOT, if that is set. PIPETRAIN_SPEND is "FILE MICROJOULES RANGE": before
 * main reads the counters, the one in the file gets so much more, and begins again at 0 after its range. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compute/team.h"
#include "compute/tower.h"
#include "loader/sample.h"
#include "loader/shards/read_batch.h"
#include "stage/clock.h"
#include "stage/host_stream.h"
#include "tools/lib/run/energy.h"
#include "tools/lib/run/report.h"

static void nap(uint64_t us)
{
    const struct timespec time = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000 * 1000) };
    const char *const told = getenv("PIPETRAIN_SLOW_TOLD");
    if (told != NULL)
        close(open(told, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    nanosleep(&time, NULL);
}

static void spin(uint64_t us)
{
    const uint64_t end_ns = clock_now_ns() + us * 1000;
    while (clock_now_ns() < end_ns)
        ;
}

/* The stage behind the one at `asked`, NULL: none. */
static const char *next_of(const char *asked)
{
    const char *const end = strchr(asked, ';');
    return end != NULL ? end + 1 : NULL;
}

/* Is it a stage that is made slow, and this call one of those? */
static bool is_slow(const char *stage, uint64_t *us_out)
{
    static _Thread_local unsigned calls;
    char slow[32] = "";
    unsigned long us = 0;
    const char *asked = getenv("PIPETRAIN_SLOW");
    for (; asked != NULL; asked = next_of(asked)) {
        unsigned every = 1;
        if (sscanf(asked, "%31s %lu %u", slow, &us, &every) < 2 || strcmp(slow, stage) != 0)
            continue;
        *us_out = us;
        return ++calls % every == 0;
    }
    return false;
}

static void delay(const char *stage)
{
    uint64_t us;
    if (is_slow(stage, &us))
        nap(us);
}

static void work(const char *stage)
{
    uint64_t us;
    if (is_slow(stage, &us))
        spin(us);
}

void __real_read_batch_run(struct read_batch *batch);
void __wrap_read_batch_run(struct read_batch *batch);
void __wrap_read_batch_run(struct read_batch *batch)
{
    delay("read");
    work("read-busy");
    __real_read_batch_run(batch);
}

int __real_sample_read(const struct sample_format *format, void *codec, const uint8_t *payload, size_t bytes,
                       const struct sample_target *target, char *problem_out, size_t problem_size);
int __wrap_sample_read(const struct sample_format *format, void *codec, const uint8_t *payload, size_t bytes,
                       const struct sample_target *target, char *problem_out, size_t problem_size);
int __wrap_sample_read(const struct sample_format *format, void *codec, const uint8_t *payload, size_t bytes,
                       const struct sample_target *target, char *problem_out, size_t problem_size)
{
    delay("decode");
    work("decode-busy");
    return __real_sample_read(format, codec, payload, bytes, target, problem_out, problem_size);
}

static void slow_stream(void *us)
{
    nap(*(const uint64_t *)us);
}

int __real_host_call(struct stream *stream, void (*call)(void *arg), void *arg);
int __wrap_host_call(struct stream *stream, void (*call)(void *arg), void *arg);
int __wrap_host_call(struct stream *stream, void (*call)(void *arg), void *arg)
{
    static uint64_t us;
    if (is_slow("reduce", &us))
        (void)__real_host_call(stream, slow_stream, &us);
    return __real_host_call(stream, call, arg);
}

int __real_host_copy(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction);
int __wrap_host_copy(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction);
int __wrap_host_copy(struct stream *stream, void *to, const void *from, size_t bytes, enum copy_direction direction)
{
    static uint64_t us;
    if (direction == COPY_TO_DEVICE && is_slow("copy", &us))
        (void)__real_host_call(stream, slow_stream, &us);
    return __real_host_copy(stream, to, from, bytes, direction);
}

void __real_team_run(uint32_t threads, size_t count, size_t grain, team_work function, void *arg);
void __wrap_team_run(uint32_t threads, size_t count, size_t grain, team_work function, void *arg);
void __wrap_team_run(uint32_t threads, size_t count, size_t grain, team_work function, void *arg)
{
    delay("loop");
    __real_team_run(threads, count, grain, function, arg);
}

int __real_tower_forward(struct tower *tower, struct slot *slot, uint32_t microbatch, bool training);
int __wrap_tower_forward(struct tower *tower, struct slot *slot, uint32_t microbatch, bool training);
int __wrap_tower_forward(struct tower *tower, struct slot *slot, uint32_t microbatch, bool training)
{
    delay("forward");
    return __real_tower_forward(tower, slot, microbatch, training);
}

int __real_tower_backward(struct tower *tower, void (*ready)(void *arg, size_t floats), void *arg);
int __wrap_tower_backward(struct tower *tower, void (*ready)(void *arg, size_t floats), void *arg);
int __wrap_tower_backward(struct tower *tower, void (*ready)(void *arg, size_t floats), void *arg)
{
    delay("backward");
    return __real_tower_backward(tower, ready, arg);
}

int __real_tower_update(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step);
int __wrap_tower_update(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step);
int __wrap_tower_update(struct tower *tower, size_t offset, size_t count, const struct optimizer_step *step)
{
    delay("update");
    return __real_tower_update(tower, offset, count, step);
}

void __real_report_interval(struct report *report, const struct local_batch *local);
void __wrap_report_interval(struct report *report, const struct local_batch *local);
void __wrap_report_interval(struct report *report, const struct local_batch *local)
{
    delay("reports");
    __real_report_interval(report, local);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    delay("fsync");
    return __real_fsync(fd);
}

void __real_energy_open(struct energy *energy, const char *root);
void __wrap_energy_open(struct energy *energy, const char *root);
void __wrap_energy_open(struct energy *energy, const char *root)
{
    const char *const other = getenv("PIPETRAIN_ROOT");
    __real_energy_open(energy, other != NULL ? other : root);
}

/* In place, because the program keeps the file open. */
static void spend(const char *path, unsigned long long step, unsigned long long range)
{
    unsigned long long value;
    FILE *const file = fopen(path, "r+");
    if (file == NULL || fscanf(file, "%llu", &value) != 1)
        abort();
    rewind(file);
    value += step;
    fprintf(file, "%020llu\n", value > range ? value - range : value);
    fclose(file);
}

void __real_energy_read(struct energy *energy);
void __wrap_energy_read(struct energy *energy);
void __wrap_energy_read(struct energy *energy)
{
    const char *const asked = getenv("PIPETRAIN_SPEND");
    char path[256];
    unsigned long long step, range;
    if (asked != NULL && sscanf(asked, "%255s %llu %llu", path, &step, &range) == 3)
        spend(path, step, range);
    __real_energy_read(energy);
}
