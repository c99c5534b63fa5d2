/* Verifies checkpoints, and loads them into towers. */
#include "tools/lib/results/checkpoint_reader.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/floats.h"
#include "compute/snapshot.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "tools/lib/results/tensor_file.h"

#define LENGTH_BYTES 8u
#define PROBLEM(...) (snprintf(problem->text, sizeof(problem->text), __VA_ARGS__), -EBADMSG)

/* ---- verifying ---- */

static int check_header(const struct checkpoint_reader *reader, struct checkpoint_problem *problem)
{
    const size_t bytes = reader->file.data_at - LENGTH_BYTES;
    char *const header = malloc(bytes + 1);
    int rc = header == NULL ? -ENOMEM : file_read_at(reader->file.fd, LENGTH_BYTES, header, bytes);
    if (rc == 0 && !checkpoint_header_is_intact(header, bytes))
        rc = PROBLEM("its header is damaged");
    free(header);
    return rc;
}

static int check_tensors(const struct checkpoint_reader *reader, struct checkpoint_problem *problem)
{
    const struct safetensors_tensor *damaged;
    const int rc = tensor_file_verify(&reader->file, &damaged);
    return rc == -EILSEQ ? PROBLEM("its tensor '%.80s' is damaged", damaged->name) : rc;
}

/* ---- metadata ---- */

static const char *text_of(const struct checkpoint_reader *reader, const char *key)
{
    const char *const text = safetensors_index_text(&reader->file.index, key);
    return text != NULL ? text : "";
}

static int read_metadata(struct checkpoint_reader *reader, struct checkpoint_problem *problem)
{
    struct checkpoint_metadata *const metadata = &reader->metadata;
    if (safetensors_index_text(&reader->file.index, CHECKPOINT_KEY_VERSION) == NULL)
        return PROBLEM("holds weights only, which is not enough to resume a run: model.weights = FILE starts a "
                       "run with them");
    if (strcmp(text_of(reader, CHECKPOINT_KEY_VERSION), CHECKPOINT_VERSION) != 0)
        return PROBLEM("is not a checkpoint that this version can read (" CHECKPOINT_KEY_VERSION " '%.20s')",
                       text_of(reader, CHECKPOINT_KEY_VERSION));
    uint64_t epoch = 0, towers = 0;
    const bool has_position =
        sscanf(text_of(reader, CHECKPOINT_KEY_POSITION), "%" SCNu64 " %" SCNu64 " %" SCNu64, &epoch,
               &metadata->position.step, &metadata->position.evaluated) == 3;
    const bool has_lines = sscanf(text_of(reader, CHECKPOINT_KEY_LINES), "%" SCNu64 " %" SCNu64,
                                  &metadata->lines_bytes[RUN_METRICS], &metadata->lines_bytes[RUN_QUARANTINE]) == 2;
    const bool has_towers = sscanf(text_of(reader, CHECKPOINT_KEY_TOWERS), "%" SCNu64, &towers) == 1;
    if (!has_position || !has_lines || !has_towers)
        return PROBLEM("does not contain its position in the run");
    if (epoch > UINT32_MAX)
        return PROBLEM("its " CHECKPOINT_KEY_POSITION " is '%.60s', but a run has at most %" PRIu32 " epochs",
                       text_of(reader, CHECKPOINT_KEY_POSITION), UINT32_MAX);
    if (towers < 1 || towers > CHECKPOINT_TOWERS_MAX)
        return PROBLEM("its " CHECKPOINT_KEY_TOWERS " is %.20s, but a run has 1 to %u towers",
                       text_of(reader, CHECKPOINT_KEY_TOWERS), CHECKPOINT_TOWERS_MAX);
    metadata->position.epoch = (uint32_t)epoch;
    reader->settings = text_of(reader, CHECKPOINT_KEY_SETTINGS);
    reader->towers = (uint32_t)towers;
    snprintf(metadata->sums, sizeof(metadata->sums), "%s", text_of(reader, CHECKPOINT_KEY_SUMS));
    snprintf(metadata->progress, sizeof(metadata->progress), "%s", text_of(reader, CHECKPOINT_KEY_PROGRESS));
    return 0;
}

/* ---- opening ---- */

/* Open `path`, or if fd >= 0 take over that. */
static int open_file(struct checkpoint_reader **reader_out, int fd, const char *path,
                     struct checkpoint_problem *problem)
{
    struct checkpoint_reader *const reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        if (fd >= 0)
            close(fd);
        return -ENOMEM;
    }
    snprintf(reader->path, sizeof(reader->path), "%s", path);
    reader->file.fd = -1;
    problem->text[0] = '\0';
    int rc = fd >= 0 ? tensor_file_take(&reader->file, fd, problem->text, sizeof(problem->text))
                     : tensor_file_open(&reader->file, path, problem->text, sizeof(problem->text));
    if (rc == 0)
        rc = read_metadata(reader, problem);
    if (rc == 0)
        rc = check_header(reader, problem);
    if (rc == 0)
        rc = check_tensors(reader, problem);
    if (rc != 0 && problem->text[0] == '\0')
        snprintf(problem->text, sizeof(problem->text), "%s", strerror(-rc));
    if (rc == 0)
        *reader_out = reader;
    else
        checkpoint_reader_close(reader);
    return rc;
}

int checkpoint_reader_open(struct checkpoint_reader **reader_out, const char *path, struct checkpoint_problem *problem)
{
    return open_file(reader_out, -1, path, problem);
}

int checkpoint_reader_take(struct checkpoint_reader **reader_out, int fd, const char *path,
                           struct checkpoint_problem *problem)
{
    return open_file(reader_out, fd, path, problem);
}

void checkpoint_reader_close(struct checkpoint_reader *reader)
{
    if (reader == NULL)
        return;
    tensor_file_close(&reader->file);
    free(reader);
}

/* Find the largest step below `before`; UINT64_MAX: there is none. */
static int find_before(const char *folder, uint64_t before, uint64_t *step_out)
{
    DIR *const entries = opendir(folder);
    *step_out = UINT64_MAX;
    if (entries == NULL)
        return errno == ENOENT ? 0 : -errno;
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        const uint64_t step = checkpoint_file_step(entry->d_name);
        if (step < before && (*step_out == UINT64_MAX || step > *step_out))
            *step_out = step;
    }
    closedir(entries);
    return 0;
}

int checkpoint_reader_find(struct checkpoint_reader **reader_out, const char *folder, uint64_t before,
                           struct checkpoint_problem *problem)
{
    char path[PATH_MAX], name[CHECKPOINT_FILE_BYTES];
    uint64_t step = before;
    int found = -ENOENT;
    for (;;) {
        const int rc = find_before(folder, step, &step);
        if (rc != 0 || step == UINT64_MAX)
            return rc != 0 ? rc : found;
        checkpoint_file_name(step, name);
        if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
            return -ENAMETOOLONG;
        found = checkpoint_reader_open(reader_out, path, problem);
        if (found == 0 || found == -ENOMEM)
            return found;
        log_message(LOG_RUN, "%s: %s: skipped", path, problem->text);
        found = -EBADMSG;
    }
}

/* ---- loading towers ---- */

static const struct safetensors_tensor *find_tensor(const struct checkpoint_reader *reader, const struct net *net,
                                                    struct checkpoint_place place)
{
    char name[TENSOR_NAME_BYTES];
    checkpoint_name(net, place, name);
    return tensor_find(&reader->file.index, name);
}

/* Fail if weights or statistics are not finite, which are never saved so. Optimizer buffers may overflow without
 * harm. */
static int check_finite(const struct net *net, struct checkpoint_place place, const float *numbers,
                        struct checkpoint_problem *problem)
{
    const size_t count = net->parameters[place.parameter].count, first = floats_find_nonfinite(numbers, count);
    char name[TENSOR_NAME_BYTES];
    if (place.part == CHECKPOINT_STATE || first == count)
        return 0;
    checkpoint_name(net, place, name);
    return PROBLEM("its tensor '%.80s' holds a number that " FINITE_WORDS " (%g at index %zu): "
                   "no run saves such a checkpoint", name, (double)numbers[first], first);
}

static int read_numbers(const struct checkpoint_reader *reader, const struct net *net, struct checkpoint_place place,
                        const struct safetensors_tensor *tensor, float *numbers, struct checkpoint_problem *problem)
{
    const size_t bytes = net->parameters[place.parameter].count * sizeof(*numbers);
    if (tensor != NULL && strcmp(tensor->dtype, "F32") == 0 && tensor->bytes == bytes) {
        const int rc = tensor_file_read(&reader->file, tensor, numbers);
        return rc != 0 ? rc : check_finite(net, place, numbers, problem);
    }
    char name[TENSOR_NAME_BYTES];
    checkpoint_name(net, place, name);
    (void)PROBLEM(tensor == NULL ? "has no tensor '%.80s'" : "its tensor '%.80s' has another shape", name);
    return -EINVAL;
}

/* Read the mean of a tensor over the towers of the file, which contains it either for all towers or for tower 0 only.
 * `sum` and `numbers` have space for the parameter. */
static int read_mean(const struct checkpoint_reader *reader, const struct net *net, struct checkpoint_place place,
                     float *numbers, double *sum, struct checkpoint_problem *problem)
{
    const uint64_t count = net->parameters[place.parameter].count;
    uint32_t towers = 0;
    memset(sum, 0, count * sizeof(*sum));
    for (place.tower = 0; place.tower < reader->towers; place.tower++) {
        const struct safetensors_tensor *const tensor = find_tensor(reader, net, place);
        if (tensor == NULL && place.tower > 0)
            break;
        const int rc = read_numbers(reader, net, place, tensor, numbers, problem);
        if (rc != 0)
            return rc;
        for (uint64_t i = 0; i < count; i++)
            sum[i] += numbers[i];
        towers++;
    }
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = (float)(sum[i] / towers);
    return 0;
}

static int read_place(const struct checkpoint_reader *reader, const struct net *net, struct checkpoint_place place,
                      bool is_own, float *numbers, double *sum, struct checkpoint_problem *problem)
{
    if (!is_own && reader->towers > 1)
        return read_mean(reader, net, place, numbers, sum, problem);
    const struct safetensors_tensor *tensor = find_tensor(reader, net, place);
    if (tensor == NULL) {
        place.tower = 0;
        tensor = find_tensor(reader, net, place);
    }
    return read_numbers(reader, net, place, tensor, numbers, problem);
}

static int write_carried(const struct checkpoint_reader *reader, struct tower *tower, uint32_t index, bool is_own,
                         struct checkpoint_problem *problem)
{
    const struct checkpoint_place place = { .part = CHECKPOINT_CARRIED, .tower = is_own ? index : 0 };
    const struct safetensors_tensor *const tensor = find_tensor(reader, tower_spec(tower)->net, place);
    const size_t bytes = tensor != NULL ? tensor->bytes : 0;
    void *const carried = malloc(bytes + 1);
    int rc = carried == NULL ? -ENOMEM : 0;
    if (rc == 0 && tensor != NULL)
        rc = tensor_file_read(&reader->file, tensor, carried);
    if (rc == 0)
        rc = snapshot_write_carried(tower, carried, bytes);
    if (rc == -EINVAL)
        (void)PROBLEM("its tensor 'carried' is for another device or precision");
    free(carried);
    return rc;
}

/* Write the parts of a parameter of the whole net that the tower has. */
static int write_average(struct tower *tower, uint32_t parameter, const float *numbers)
{
    uint32_t i = NET_NO_PARAMETER;
    int rc = 0;
    while (rc == 0 && (i = tower_piece(tower, parameter, i)) != NET_NO_PARAMETER)
        rc = snapshot_write_average(tower, i, numbers + tower_piece_first(tower, i));
    return rc;
}

static int write_state(struct tower *tower, uint32_t state, uint32_t parameter, const float *numbers)
{
    uint32_t i = NET_NO_PARAMETER;
    int rc = 0;
    while (rc == 0 && (i = tower_piece(tower, parameter, i)) != NET_NO_PARAMETER)
        rc = snapshot_write_state(tower, state, i, numbers + tower_piece_first(tower, i));
    return rc;
}

/* Load a value. If there are averages, they have the plain name. */
static int write_values(const struct checkpoint_reader *reader, struct tower *tower, struct checkpoint_place place,
                        bool is_own, float *numbers, double *sum, struct checkpoint_problem *problem)
{
    const struct tower_spec *const spec = tower_spec(tower);
    int rc = read_place(reader, spec->net, place, is_own, numbers, sum, problem);
    if (rc == 0 && spec->average_decay > 0) {
        rc = write_average(tower, place.parameter, numbers);
        place.part = CHECKPOINT_RAW;
        if (rc == 0)
            rc = read_place(reader, spec->net, place, is_own, numbers, sum, problem);
    }
    return rc == 0 ? tower_write(tower, place.parameter, numbers) : rc;
}

static int write_parameter(const struct checkpoint_reader *reader, struct tower *tower, struct checkpoint_place place,
                           bool is_own, float *numbers, double *sum, struct checkpoint_problem *problem)
{
    const struct tower_spec *const spec = tower_spec(tower);
    const uint32_t states = tower_state_count(spec);
    const bool is_updated = parameter_is_updated(&spec->net->parameters[place.parameter]);
    int rc = write_values(reader, tower, place, is_own, numbers, sum, problem);
    place.part = CHECKPOINT_STATE;
    for (place.state = 0; place.state < states && is_updated && rc == 0; place.state++) {
        rc = read_place(reader, spec->net, place, is_own, numbers, sum, problem);
        if (rc == 0)
            rc = write_state(tower, place.state, place.parameter, numbers);
    }
    return rc;
}

int checkpoint_reader_write(const struct checkpoint_reader *reader, struct tower *tower, uint32_t index,
                            uint32_t towers, struct checkpoint_problem *problem)
{
    const struct net *const net = tower_spec(tower)->net;
    const bool is_own = reader->towers == towers;
    const size_t most = net_most_numbers(net);
    float *const numbers = malloc(most * sizeof(*numbers));
    double *const sum = malloc(most * sizeof(*sum));
    int rc = numbers == NULL || sum == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; i < net->parameter_count && rc == 0; i++)
        rc = write_parameter(reader, tower, (struct checkpoint_place){ CHECKPOINT_VALUE, index, 0, i, 0 }, is_own,
                             numbers, sum, problem);
    free(sum);
    free(numbers);
    return rc == 0 ? write_carried(reader, tower, index, is_own, problem) : rc;
}
