/* The state of a feed: a text with the position and all that determines the order of samples, but for `world`, `rank`
 * and threads, which do not. A state is of this feed if the feed would write the same text for its position. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/crc32c.h"
#include "loader/shards/text.h"
#include "stage/log.h"
#include "tools/feed/feed_parts.h"

/* The first line of a state, with its version. */
#define TITLE "pipetrain-feed 1\n"
#define SUM "sum = "
#define SUM_BYTES (sizeof(SUM) - 1 + 8 + 1)     /* of the last line, with the checksum of all before */

static const char *shuffle_name(enum shuffle shuffle)
{
    static const char *const names[] = { [SHUFFLE_NONE] = "none", [SHUFFLE_FULL] = "full", [SHUFFLE_BLOCK] = "block" };
    return names[shuffle];
}

/* Write the text of a position. */
static size_t write_state(const struct feed_plan *plan, uint64_t epoch, uint64_t step,
                          char out[PIPETRAIN_FEED_STATE_BYTES])
{
    const struct schedule *const schedule = &plan->schedule;
    const struct order_shape *const order = &plan->order;
    struct text text;
    text_init(&text, out, PIPETRAIN_FEED_STATE_BYTES);
    text_add(&text, TITLE "epoch = %" PRIu64 "\nstep = %" PRIu64 "\n", epoch, step);
    text_add(&text, "records = %" PRIu64 "\nset = %016" PRIx64 "\n", plan->dataset->record_count,
             plan->dataset->contents);
    text_add(&text, "mode = %s\nseed = %" PRIu64 "\nbatch = %" PRIu32 "\ndrop_last = %s\n",
             plan->phase == PHASE_TRAIN ? "training" : "evaluation", plan->spec.seed, schedule->batch,
             schedule->drop_last ? "yes" : "no");
    text_add(&text, "data.shuffle = %s\ndata.balance = %s\ndata.lanes = %" PRIu32 "\n",
             shuffle_name(plan->spec.shuffle), plan->classes.count > 0 ? "yes" : "no",
             schedule->lanes > 1 ? schedule->lanes : 1);
    text_add(&text, "pairs = %s\nblock_records = %" PRIu64 "\nwindow_blocks = %" PRIu64 "\n",
             schedule->pairs && schedule->lanes > 1 ? "yes" : "no", order->block_records, order->window_blocks);
    const size_t bytes = strlen(out);
    return bytes + (size_t)snprintf(out + bytes, PIPETRAIN_FEED_STATE_BYTES - bytes, SUM "%08" PRIx32 "\n",
                                    crc32c(out, bytes));
}

int pipetrain_feed_state(struct pipetrain_feed *feed, uint64_t epoch, uint64_t step_of_epoch,
                         char state_out[PIPETRAIN_FEED_STATE_BYTES], size_t *bytes_out,
                         struct pipetrain_feed_problem *problem)
{
    uint64_t number;
    int result = feed_enter_data(feed);
    if (result != PIPETRAIN_FEED_OK)
        return result;
    const struct feed_plan *const plan = &feed->plan;
    if (feed_number_of(plan, epoch, step_of_epoch, &number) != 0)
        result = feed_fail_step(feed, epoch, step_of_epoch, PIPETRAIN_FEED_OPTION, problem);
    else
        *bytes_out = write_state(plan, number / plan->steps_per_epoch, number % plan->steps_per_epoch, state_out);
    feed_leave_data(feed);
    return result;
}

/* A line of a state, without its newline. */
struct state_line { const char *text; size_t bytes; };

static struct state_line next_line(const char **at, const char *end)
{
    const char *const begin = *at, *const newline = memchr(begin, '\n', (size_t)(end - begin));
    const char *const line_end = newline != NULL ? newline : end;
    *at = newline != NULL ? newline + 1 : end;
    return (struct state_line){ begin, (size_t)(line_end - begin) };
}

/* Read "NAME = NUMBER". */
static bool read_number(struct state_line line, const char *name, uint64_t *number_out)
{
    const size_t name_bytes = strlen(name);
    if (line.bytes <= name_bytes + 3 || memcmp(line.text, name, name_bytes) != 0 ||
        memcmp(line.text + name_bytes, " = ", 3) != 0)
        return false;
    uint64_t number = 0;
    for (size_t i = name_bytes + 3; i < line.bytes; i++) {
        const unsigned digit = (unsigned char)line.text[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(number, 10u, &number) || __builtin_add_overflow(number, digit, &number))
            return false;
    }
    *number_out = number;
    return true;
}

/* Find the position in a state whose checksum is right. */
static int read_position(const char *state, size_t bytes, uint64_t *epoch_out, uint64_t *step_out,
                         struct pipetrain_feed_problem *problem)
{
    char sum[SUM_BYTES + 1];
    const char *at = state, *const end = state + bytes;
    const size_t title_bytes = sizeof(TITLE) - 1;
    if (bytes < title_bytes + SUM_BYTES || bytes > PIPETRAIN_FEED_STATE_BYTES)
        return feed_fail(problem, PIPETRAIN_FEED_STATE, "these %zu bytes are no state of a feed", bytes);
    if (memcmp(state, TITLE, title_bytes) != 0)
        return feed_fail(problem, PIPETRAIN_FEED_STATE, "these bytes are no state of a feed, or one of another "
                         "version: they do not begin with \"%.*s\"", (int)title_bytes - 1, TITLE);
    snprintf(sum, sizeof(sum), SUM "%08" PRIx32 "\n", crc32c(state, bytes - SUM_BYTES));
    if (memcmp(sum, end - SUM_BYTES, SUM_BYTES) != 0)
        return feed_fail(problem, PIPETRAIN_FEED_STATE, "the state is damaged: its checksum differs");
    (void)next_line(&at, end);
    if (!read_number(next_line(&at, end), "epoch", epoch_out) || !read_number(next_line(&at, end), "step", step_out))
        return feed_fail(problem, PIPETRAIN_FEED_STATE, "the state has no position");
    return PIPETRAIN_FEED_OK;
}

/* Compare with the text that this feed has for the same position. */
static int compare(const struct feed_plan *plan, const char *state, size_t bytes, uint64_t epoch, uint64_t step,
                   struct pipetrain_feed_problem *problem)
{
    char own[PIPETRAIN_FEED_STATE_BYTES];
    const size_t own_bytes = write_state(plan, epoch, step, own);
    const char *at = state, *const end = state + bytes, *own_at = own, *const own_end = own + own_bytes;
    while (at < end && own_at < own_end) {
        const struct state_line line = next_line(&at, end), mine = next_line(&own_at, own_end);
        char shown[256];
        log_escape(line.text, line.bytes, shown, sizeof(shown));
        if (line.bytes != mine.bytes || memcmp(line.text, mine.text, line.bytes) != 0)
            return feed_fail(problem, PIPETRAIN_FEED_STATE, "the state is of another data set or order: \"%s\", and "
                             "this feed has \"%.*s\"", shown, (int)mine.bytes, mine.text);
    }
    if (at < end || own_at < own_end)
        return feed_fail(problem, PIPETRAIN_FEED_STATE, "the state has another number of lines than one of this feed");
    return PIPETRAIN_FEED_OK;
}

int pipetrain_feed_seek(struct pipetrain_feed *feed, const char *state, size_t bytes,
                        struct pipetrain_feed_problem *problem)
{
    uint64_t epoch = 0, step = 0, number;
    int result = feed_enter_data(feed);
    if (result != PIPETRAIN_FEED_OK)
        return result;
    result = read_position(state, bytes, &epoch, &step, problem);
    if (result == PIPETRAIN_FEED_OK)
        result = compare(&feed->plan, state, bytes, epoch, step, problem);
    if (result == PIPETRAIN_FEED_OK && feed_number_of(&feed->plan, epoch, step, &number) != 0)
        result = feed_fail_step(feed, epoch, step, PIPETRAIN_FEED_STATE, problem);
    feed_leave_data(feed);
    return result == PIPETRAIN_FEED_OK ? pipetrain_feed_seek_to(feed, epoch, step, problem) : result;
}
