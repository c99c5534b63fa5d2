/* Check how a trial ended, its messages, and its files. */
#include "tests/torture/judge.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "formats/manifest.h"
#include "formats/safetensors.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_list.h"
#include "tests/torture/tree.h"

#define ERRORS_MAX 6u       /* one for each output that can fail independently */
#define LENGTH_BYTES 8u
#define HASH_DIGITS 16u
#define HASH_KEY "pipetrain.xxh3"

struct judgement {
    const struct scenario *scenario;
    const struct promise *promise;
    const char *folder;
    char begin[PATH_MAX], done[PATH_MAX];
    struct child_end end;
    char *verdict;          /* of VERDICT_BYTES */
};

__attribute__((format(printf, 2, 3)))
static int broken(const struct judgement *judgement, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(judgement->verdict, VERDICT_BYTES, format, arguments);
    va_end(arguments);
    return 1;
}

static bool code_is_promised(const struct promise *promise, int code)
{
    return (code < 64 && (promise->codes >> code & 1) != 0) || (promise->may_stop && code == EXIT_CODE_STOPPED) ||
           (promise->may_interrupt && code == EXIT_CODE_INTERRUPTED);
}

static int judge_end(const struct judgement *judgement)
{
    const struct child_end *const end = &judgement->end;
    if (end->is_late)
        return broken(judgement, "did not end in time");
    if (end->signal == SIGPIPE && judgement->promise->may_lose_reader)
        return 0;
    if (end->signal != 0)
        return judgement->promise->may_die ? 0 : broken(judgement, "died by signal %d (%s)", end->signal,
                                                       strsignal(end->signal));
    return code_is_promised(judgement->promise, end->code) ? 0 : broken(judgement, "exit code %d", end->code);
}

static bool contains(const char *text, const char *word)
{
    return word == NULL || strcasestr(text, word) != NULL;
}

static bool names_cause(const struct promise *promise, const char *line)
{
    return contains(line, promise->word) || (promise->other_word != NULL && contains(line, promise->other_word));
}

static bool begins_with(const char *line, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(line, name, length) == 0 && line[length] == ':';
}

/* "pipetrain: ..." or "pipetrain-convert: ..."; a message about a file of the command line, or about settings, begins
 * with their name. */
static bool is_message(const struct judgement *judgement, const char *line)
{
    const char *const *argument = judgement->scenario->arguments;
    while (*argument != NULL && !begins_with(line, *argument))
        argument++;
    return *argument != NULL || strncmp(line, "pipetrain", strlen("pipetrain")) == 0 ||
           judgement->end.code == EXIT_CODE_USAGE;
}

/* The report of a record or a checkpoint that the run skips, with the cause. */
static bool is_left_out(const char *line)
{
    return strncmp(line, "skipped: ", strlen("skipped: ")) == 0 || strstr(line, ": skipped") != NULL;
}

/* No message is printed twice, and one names the cause. */
static int judge_errors(const struct judgement *judgement, char *said)
{
    const char *seen[ERRORS_MAX];
    uint32_t count = 0;
    bool is_named = false;
    char *rest = NULL;
    for (char *line = strtok_r(said, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        const bool is_one_of_many = is_left_out(line);
        is_named |= is_one_of_many && names_cause(judgement->promise, line);
        if (is_one_of_many || !is_message(judgement, line))
            continue;
        for (uint32_t i = 0; i < count; i++)
            if (strcmp(seen[i], line) == 0)
                return broken(judgement, "said twice: %.150s", line);
        if (count == ERRORS_MAX)
            return broken(judgement, "more than %u messages: %.150s", ERRORS_MAX, line);
        seen[count++] = line;
        is_named |= names_cause(judgement->promise, line);
    }
    if (count == 0)
        return broken(judgement, "exit code %d without a message", judgement->end.code);
    return is_named ? 0 : broken(judgement, "exit code %d, no word of '%s': %.150s", judgement->end.code,
                                judgement->promise->word, seen[0]);
}

static int judge_message(const struct judgement *judgement)
{
    const int code = judgement->end.code;
    if (judgement->end.signal != 0 || judgement->promise->is_silent || code == 0 || code == EXIT_CODE_STOPPED ||
        code == EXIT_CODE_INTERRUPTED)
        return 0;
    struct content said = content_read(judgement->folder, "err");
    char nothing[1] = "";
    const int rc = judge_errors(judgement, said.bytes != NULL ? said.bytes : nothing);
    content_release(&said);
    return rc;
}

/* ---- checkpoint files ---- */

/* Is it the name of one of the newest checkpoints? */
static bool is_checkpoint_name(const char *name)
{
    return strncmp(name, "checkpoint-", strlen("checkpoint-")) == 0;
}

static bool is_hash(const char *said, const void *bytes, size_t count)
{
    char found[HASH_DIGITS + 1];
    snprintf(found, sizeof(found), "%016" PRIx64, (uint64_t)XXH3_64bits(bytes, count));
    return said != NULL && strncmp(said, found, HASH_DIGITS) == 0;
}

/* The hash was computed over the header with zeros in its own place, which are written there. */
static bool header_is_whole(char *header, size_t bytes)
{
    static const char key[] = "\"" HASH_KEY "\":\"";
    char said[HASH_DIGITS + 1] = "";
    char *const place = memmem(header, bytes, key, sizeof(key) - 1);
    if (place == NULL || (size_t)(header + bytes - place) < sizeof(key) + HASH_DIGITS)
        return false;
    memcpy(said, place + sizeof(key) - 1, HASH_DIGITS);
    memset(place + sizeof(key) - 1, '0', HASH_DIGITS);
    return is_hash(said, header, bytes);
}

static bool tensors_are_whole(const struct safetensors_index *index, const char *data)
{
    size_t i = 0;
    for (; i < index->count; i++) {
        char key[256];
        const struct safetensors_tensor *const tensor = &index->tensors[i];
        snprintf(key, sizeof(key), HASH_KEY ".%s", tensor->name);
        if (!is_hash(safetensors_index_text(index, key), data + tensor->offset, tensor->bytes))
            break;
    }
    return index->count > 0 && i == index->count;
}

/* Do all hashes match? They are checked without the code by which the programs write and read them. The hash in the
 * header is overwritten. */
static bool checkpoint_is_whole(char *bytes, size_t count)
{
    struct safetensors_index index = { .count = 0 };
    char problem[128];
    if (count < LENGTH_BYTES)
        return false;
    const uint64_t header = safetensors_header_bytes((const uint8_t *)bytes);
    if (header > count - LENGTH_BYTES || !header_is_whole(bytes + LENGTH_BYTES, header))
        return false;
    const bool is_whole = safetensors_index_read(&index, bytes + LENGTH_BYTES, header, count - LENGTH_BYTES - header,
                                                 problem, sizeof(problem)) == 0 &&
                          tensors_are_whole(&index, bytes + LENGTH_BYTES + header);
    safetensors_index_release(&index);
    return is_whole;
}

/* ---- files ---- */

static bool is_json(const char *bytes, size_t count)
{
    json_t *const value = json_loadb(bytes, count, JSON_REJECT_DUPLICATES, NULL);
    json_decref(value);
    return value != NULL;
}

/* Only a killed process may leave an incomplete last line. */
static bool is_json_lines(const struct content *content, bool was_killed)
{
    const char *line = content->bytes;
    for (const char *end = strchr(line, '\n'); end != NULL; line = end + 1, end = strchr(line, '\n'))
        if (!is_json(line, (size_t)(end - line)))
            return false;
    return *line == '\0' || was_killed;
}

/* Files about which nothing is promised. */
static bool is_free(const char *file, const char *name)
{
    return strcmp(file, "out") == 0 || strcmp(file, "err") == 0 || strncmp(file, "cache/", 6) == 0 ||
           strcmp(name, ".lock") == 0 || index_file_is_name(name);
}

static bool is_as(const char *folder, const char *file, const struct content *found)
{
    struct content other = content_read(folder, file);
    const bool is_equal = content_equal(&other, found);
    content_release(&other);
    return is_equal;
}

#define PREVIOUS ".previous.safetensors"

/* Is it the name that a new run gives to a file of the earlier one? name_out is the file's name before. */
static bool is_of_earlier(const struct scenario *scenario, const char *file, char name_out[PATH_MAX])
{
    const size_t bytes = strlen(file), end = strlen(PREVIOUS);
    if (scenario->kept == NULL || bytes < end || strcmp(file + bytes - end, PREVIOUS) != 0)
        return false;
    snprintf(name_out, PATH_MAX, "%.*s.safetensors", (int)(bytes - end), file);
    return true;
}

static bool is_known(const struct judgement *judgement, const char *file, const struct content *found)
{
    char before[PATH_MAX];
    const bool is_later = is_of_earlier(judgement->scenario, file, before);
    return is_as(judgement->begin, file, found) || is_as(judgement->done, file, found) ||
           (is_later && is_as(judgement->begin, before, found)) || (is_later && is_as(judgement->done, before, found));
}

/* Is the file in the folder of the run's results? */
static bool is_beside_kept(const struct scenario *scenario, const char *file)
{
    const size_t bytes = scenario->kept != NULL ? strcspn(scenario->kept, "/") + 1 : 0;
    return bytes > 0 && strncmp(file, scenario->kept, bytes) == 0;
}

static int judge_content(const struct judgement *judgement, const char *file, const char *name,
                         const struct content *found)
{
    const bool was_killed = judgement->end.signal != 0;
    if (strcmp(name, "summary.json") == 0)
        return is_json(found->bytes, found->count) ? 0 : broken(judgement, "%s is not whole", file);
    if (is_checkpoint_name(name))
        return checkpoint_is_whole(found->bytes, found->count) ? 0 : broken(judgement, "%s is not whole", file);
    if (strcmp(name, "metrics.jsonl") == 0)
        return is_json_lines(found, was_killed) ? 0 : broken(judgement, "%s: a line is damaged", file);
    const bool is_early = judgement->promise->may_be_short && (judgement->end.code == EXIT_CODE_STOPPED ||
                                                                judgement->end.code == EXIT_CODE_INTERRUPTED);
    if ((judgement->scenario->is_endless || is_early) && is_beside_kept(judgement->scenario, file))
        return found->count > 0 ? 0 : broken(judgement, "%s is empty", file);
    return is_known(judgement, file, found) ? 0 : broken(judgement, "%s is neither as before nor as promised", file);
}

/* Temporary files of a data set whose replacement was interrupted: the next run completes it. */
static bool is_begun(const struct judgement *judgement, const char *file, const char *name)
{
    char folder[PATH_MAX];
    const int length = snprintf(folder, sizeof(folder), "%s/%.*s", judgement->folder, (int)(name - file), file);
    return length < (int)sizeof(folder) && begun_set_is_in(folder);
}

static int judge_file(void *arg, const char *file)
{
    const struct judgement *const judgement = arg;
    const char *const name = basename(file);
    const bool is_temporary = strstr(name, ".tmp") != NULL || strcmp(name, MANIFEST_COMMIT_FILE) == 0;
    if (is_temporary && judgement->end.signal == 0 && !judgement->promise->may_leave &&
        (judgement->end.code == 0 || !is_begun(judgement, file, name)))
        return broken(judgement, "%s is left behind", file);
    if (is_temporary || is_free(file, name))
        return 0;
    struct content found = content_read(judgement->folder, file);
    const int rc = found.bytes == NULL ? broken(judgement, "%s cannot be read", file)
                                       : judge_content(judgement, file, name, &found);
    content_release(&found);
    return rc;
}

static bool is_result(const struct judgement *judgement, const char *file)
{
    const char *const results = judgement->scenario->results;
    const size_t bytes = results != NULL ? strlen(results) : 0;
    return bytes > 0 && strncmp(file, results, bytes) == 0 && file[bytes] == '/';
}

/* A file that was there before and is not a result must be unchanged. */
static int judge_source(void *arg, const char *file)
{
    const struct judgement *const judgement = arg;
    if (strncmp(file, "run/", 4) == 0 || is_result(judgement, file) || strchr(file, '.') == file ||
        strstr(file, "/.") != NULL ||
        strcmp(file, "out") == 0 || strcmp(file, "err") == 0)
        return 0;
    struct content found = content_read(judgement->folder, file);
    const bool is_same = is_as(judgement->begin, file, &found);
    content_release(&found);
    return is_same ? 0 : broken(judgement, "%s has changed", file);
}

static uint32_t count_lines(const char *folder, const char *file)
{
    uint32_t lines = 0;
    struct content found = content_read(folder, file);
    for (size_t i = 0; i < found.count; i++)
        lines += found.bytes[i] == '\n';
    content_release(&found);
    return lines;
}

/* A run that continues reports as many lines as an undisturbed one. */
static bool lacks_lines(const struct judgement *judgement, const char *file)
{
    return judgement->promise->is_second &&
           count_lines(judgement->folder, file) != count_lines(judgement->done, file);
}

/* A file of the undisturbed run must exist after a command that reports success. */
static int judge_success(void *arg, const char *file)
{
    const struct judgement *const judgement = arg;
    const char *const name = basename(file);
    if (is_free(file, name))
        return 0;
    struct content found = content_read(judgement->folder, file);
    const bool varies = strcmp(name, "summary.json") == 0 || strcmp(name, "metrics.jsonl") == 0 ||
                        is_checkpoint_name(name);
    char before[PATH_MAX];
    const bool is_others = judgement->promise->is_second && is_of_earlier(judgement->scenario, file, before);
    const bool is_short = strcmp(name, "metrics.jsonl") == 0 && lacks_lines(judgement, file);
    const bool is_right = is_short    ? false
                          : varies    ? found.bytes != NULL
                          : is_others ? is_known(judgement, file, &found)
                                      : is_as(judgement->done, file, &found);
    content_release(&found);
    return is_right ? 0 : broken(judgement, "exit code 0, but %s is not as it should be", file);
}

/* Earlier results must exist under one of their names. */
static int judge_kept(const struct judgement *judgement)
{
    const struct scenario *const scenario = judgement->scenario;
    if (scenario->kept == NULL || judgement->promise->is_second)
        return 0;
    struct content before = content_read(judgement->begin, scenario->kept);
    const bool is_there = before.bytes == NULL || is_as(judgement->folder, scenario->kept, &before) ||
                          is_as(judgement->folder, scenario->kept_later, &before);
    content_release(&before);
    return is_there ? 0 : broken(judgement, "the earlier %s is gone", scenario->kept);
}

static int count_checkpoint(void *arg, const char *file)
{
    *(uint32_t *)arg += is_checkpoint_name(basename(file));
    return 0;
}

/* Where there was a checkpoint there must be one. judge_file has checked that it is whole. */
static int judge_checkpoints(const struct judgement *judgement)
{
    uint32_t before = 0, left = 0;
    (void)tree_visit(judgement->begin, count_checkpoint, &before);
    (void)tree_visit(judgement->folder, count_checkpoint, &left);
    return before == 0 || left > 0 ? 0 : broken(judgement, "no checkpoint is left");
}

/* The run fails if the last checkpoint could not be saved, and only then: after an earlier one it continued, and saved
 * a later one. */
static int judge_last_checkpoint(const struct judgement *judgement)
{
    uint32_t others = 0;
    bool lacks_last = false;
    char *rest = NULL;
    struct content said = content_read(judgement->folder, "err");
    for (char *line = strtok_r(said.bytes, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        lacks_last |= strstr(line, "the checkpoint of the last step could not be saved") != NULL;
        others += is_message(judgement, line) && strstr(line, "earlier checkpoints stay") == NULL;
    }
    content_release(&said);
    if (lacks_last && judgement->end.code == 0)
        return broken(judgement, "exit code 0 without the last checkpoint");
    const bool blames_earlier = judgement->end.code == EXIT_CODE_OUTPUT && !lacks_last && others == 0;
    return blames_earlier ? broken(judgement, "exit code 5 though the last checkpoint is there") : 0;
}

void judge_trial(const struct stand *stand, const struct scenario *scenario, const struct promise *promise,
                 const char *folder, const struct child_end *end, char verdict_out[VERDICT_BYTES])
{
    struct judgement judgement = { .scenario = scenario, .promise = promise, .folder = folder, .end = *end,
                                  .verdict = verdict_out };
    stand_folder(stand, "begin", scenario->name, judgement.begin, sizeof(judgement.begin));
    stand_folder(stand, "done", scenario->name, judgement.done, sizeof(judgement.done));
    verdict_out[0] = '\0';
    const bool must_be_done = end->signal == 0 && end->code == 0 && !scenario->is_endless && !promise->may_be_short;
    int rc = judge_end(&judgement);
    if (rc == 0)
        rc = judge_message(&judgement);
    if (rc == 0)
        rc = tree_visit(folder, judge_file, &judgement);
    if (rc == 0)
        rc = tree_visit(judgement.begin, judge_source, &judgement);
    if (rc == 0)
        rc = judge_kept(&judgement);
    if (rc == 0)
        rc = judge_checkpoints(&judgement);
    if (rc == 0 && end->signal == 0 && !promise->is_silent)
        rc = judge_last_checkpoint(&judgement);
    if (rc == 0 && must_be_done)
        (void)tree_visit(judgement.done, judge_success, &judgement);
}
