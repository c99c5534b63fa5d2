/* Writing text through lanes: any thread puts text into a lane's buffer, and the lane's own thread writes it. Only that
 * thread ever waits for a reader of the output, and it holds no lock then. */
#include "stage/text/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/thread.h"

#define ROOM_BYTES ((size_t)256 << 10)
#define PIECE_BYTES ((size_t)17 << 10)  /* more than any message; longer texts are split */
#define STDOUT_BUFFER_BYTES 4096
#define NOTICE_BYTES 80
#define END_MS 2000u
#define LAST_WORDS_MS 200u      /* time to write the message on stderr that stdout is stuck */
#define NS_PER_MS 1000000u

enum lane_state { LANE_DIRECT, LANE_OPEN, LANE_CLOSED };

/* Precedes every piece in the buffer. */
struct head { uint32_t bytes, output; };

/* The lock protects all fields after it; only main uses `thread`. */
struct lane {
    const char *name;
    struct thread *thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;             /* signalled when there is text, when everything is written, and when the lane
                                         * is closed */
    enum lane_state state;
    bool is_writing;                    /* the thread is writing a piece */
    size_t begin, used;                 /* start and length of the content of the ring buffer */
    uint64_t dropped[OUTPUT_COUNT];     /* lines dropped since the last notice */
    int error[OUTPUT_COUNT];            /* errno of the first text that was lost, negative */
    char *room;                         /* the ring buffer, ROOM_BYTES */
};

static char rooms[OUTPUT_COUNT][ROOM_BYTES];
static struct lane lanes[OUTPUT_COUNT] = {
    [OUTPUT_RESULTS] = { .name = "stdout", .lock = PTHREAD_MUTEX_INITIALIZER, .room = rooms[OUTPUT_RESULTS] },
    [OUTPUT_MESSAGES] = { .name = "stderr", .lock = PTHREAD_MUTEX_INITIALIZER, .room = rooms[OUTPUT_MESSAGES] },
};
/* Each output's lane: the first lane for both if stdout and stderr are the same file. Constant while threads run. */
static struct lane *lane_of[OUTPUT_COUNT] = { &lanes[OUTPUT_RESULTS], &lanes[OUTPUT_MESSAGES] };
static const int descriptors[OUTPUT_COUNT] = { STDOUT_FILENO, STDERR_FILENO };
static FILE *direct_stdout;
/* stdout while output goes through the lanes. It stays open until the process ends, because libraries that were loaded
 * meanwhile keep a reference to it; cuBLASLt flushes it after main has returned. */
static FILE *laned_stdout;

/* 0 or a negative errno. */
static int write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t written = write(fd, text, bytes);
        struct pollfd room = { .fd = fd, .events = POLLOUT };
        if (written < 0 && errno == EAGAIN)     /* another process has set O_NONBLOCK on the shared open file */
            poll(&room, 1, -1);
        else if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            text += written;
            bytes -= (size_t)written;
        }
    }
    return 0;
}

/* Lock held. */
static void keep_error(struct lane *lane, enum output output, int rc)
{
    if (lane->error[output] == 0)
        lane->error[output] = rc;
}

static uint64_t count_lines(const char *text, size_t bytes)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines > 0 ? lines : 1;
}

static void ring_put(struct lane *lane, const void *bytes, size_t count)
{
    const size_t at = (lane->begin + lane->used) % ROOM_BYTES;
    const size_t first = count < ROOM_BYTES - at ? count : ROOM_BYTES - at;
    memcpy(lane->room + at, bytes, first);
    memcpy(lane->room, (const char *)bytes + first, count - first);
    lane->used += count;
}

static void ring_get(struct lane *lane, void *bytes, size_t count)
{
    const size_t first = count < ROOM_BYTES - lane->begin ? count : ROOM_BYTES - lane->begin;
    memcpy(bytes, lane->room + lane->begin, first);
    memcpy((char *)bytes + first, lane->room, count - first);
    lane->begin = (lane->begin + count) % ROOM_BYTES;
    lane->used -= count;
}

static bool fits(const struct lane *lane, size_t bytes)
{
    return lane->used + sizeof(struct head) + bytes <= ROOM_BYTES;
}

static void put_piece(struct lane *lane, enum output output, const char *text, size_t bytes)
{
    const struct head head = { (uint32_t)bytes, output };
    ring_put(lane, &head, sizeof(head));
    ring_put(lane, text, bytes);
}

/* Put a notice with the number of lines that were dropped at this place. */
static void put_notice(struct lane *lane, enum output output)
{
    char text[NOTICE_BYTES];
    const int bytes = snprintf(text, sizeof(text), "... %llu line%s dropped: nobody read them\n",
                               (unsigned long long)lane->dropped[output], lane->dropped[output] == 1 ? "" : "s");
    put_piece(lane, output, text, (size_t)bytes);
    lane->dropped[output] = 0;
}

/* Lock held. */
static void put(struct lane *lane, enum output output, const char *text, size_t bytes)
{
    const bool has_dropped = lane->dropped[output] > 0;
    if (!fits(lane, bytes + (has_dropped ? sizeof(struct head) + NOTICE_BYTES : 0))) {
        lane->dropped[output] += count_lines(text, bytes);
        keep_error(lane, output, -ETIMEDOUT);
        return;
    }
    if (has_dropped)
        put_notice(lane, output);
    put_piece(lane, output, text, bytes);
    pthread_cond_broadcast(&lane->changed);
}

static void write_piece(enum output output, const char *text, size_t bytes)
{
    struct lane *const lane = lane_of[output];
    pthread_mutex_lock(&lane->lock);
    const bool is_direct = lane->state == LANE_DIRECT;
    if (lane->state == LANE_OPEN)
        put(lane, output, text, bytes);
    pthread_mutex_unlock(&lane->lock);
    if (is_direct)
        write_all(descriptors[output], text, bytes);
}

void output_write(enum output output, const char *text, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += PIECE_BYTES)
        write_piece(output, text + done, bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES);
}

/* Get the next piece, waiting for it; false at the end. When the buffer is empty, first put a notice about lines that
 * were dropped after the last piece. */
static bool lane_get(struct lane *lane, struct head *head, char text[PIECE_BYTES])
{
    pthread_mutex_lock(&lane->lock);
    lane->is_writing = false;
    for (enum output output = 0; output < OUTPUT_COUNT; output++)
        if (lane->used == 0 && lane->dropped[output] > 0)
            put_notice(lane, output);
    pthread_cond_broadcast(&lane->changed);
    while (lane->used == 0 && lane->state == LANE_OPEN)
        pthread_cond_wait(&lane->changed, &lane->lock);
    lane->is_writing = lane->used > 0;
    if (lane->is_writing) {
        ring_get(lane, head, sizeof(*head));
        ring_get(lane, text, head->bytes);
    }
    const bool is_taken = lane->is_writing;
    pthread_mutex_unlock(&lane->lock);
    return is_taken;
}

/* Threads start with all signals blocked, but SIGPIPE may have to end the program (output_end_with_reader). */
static void unblock_sigpipe(void)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_UNBLOCK, &pipe, NULL);
}

static void lane_loop(void *arg)
{
    struct lane *const lane = arg;
    struct head head;
    char text[PIECE_BYTES];
    unblock_sigpipe();
    while (lane_get(lane, &head, text)) {
        const int rc = write_all(descriptors[head.output], text, head.bytes);
        pthread_mutex_lock(&lane->lock);
        if (rc != 0)
            keep_error(lane, (enum output)head.output, rc);
        pthread_mutex_unlock(&lane->lock);
    }
}

/* Wait until everything is written, at most until `due_ns`. False if time ran out. */
static bool await_idle(struct lane *lane, uint64_t due_ns)
{
    const struct timespec due = clock_timespec(due_ns);
    pthread_mutex_lock(&lane->lock);
    int error = 0;
    while ((lane->used > 0 || lane->is_writing) && error == 0)
        error = pthread_cond_timedwait(&lane->changed, &lane->lock, &due);
    const bool is_idle = lane->used == 0 && !lane->is_writing;
    pthread_mutex_unlock(&lane->lock);
    return is_idle;
}

/* End a lane. If its thread has ended, later texts are written directly. A thread that is stuck in a write is
 * abandoned, and later texts are dropped. */
static void lane_end(struct lane *lane, uint64_t due_ns)
{
    const bool is_idle = await_idle(lane, due_ns);
    pthread_mutex_lock(&lane->lock);
    lane->state = LANE_CLOSED;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    if (is_idle) {
        thread_join(lane->thread);
        pthread_mutex_lock(&lane->lock);
        lane->state = LANE_DIRECT;
        pthread_mutex_unlock(&lane->lock);
    }
    lane->thread = NULL;
}

static int lane_start(struct lane *lane)
{
    clock_init_condition(&lane->changed);
    lane->state = LANE_OPEN;
    const int rc = thread_start(&lane->thread, lane->name, lane_loop, lane);
    if (rc != 0)
        lane->state = LANE_DIRECT;
    return rc;
}

static bool is_one_file(void)
{
    struct stat results, messages;
    return fstat(STDOUT_FILENO, &results) == 0 && fstat(STDERR_FILENO, &messages) == 0 &&
           results.st_dev == messages.st_dev && results.st_ino == messages.st_ino;
}

static ssize_t write_results(void *cookie, const char *text, size_t bytes)
{
    (void)cookie;
    output_write(OUTPUT_RESULTS, text, bytes);
    return (ssize_t)bytes;
}

/* Make everything that prints to stdout go through the lane; the C library documents that stdout is a variable. */
static int replace_stdout(void)
{
    static char buffer[STDOUT_BUFFER_BYTES];
    if (laned_stdout == NULL) {
        laned_stdout = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_results });
        if (laned_stdout == NULL)
            return -ENOMEM;
        setvbuf(laned_stdout, buffer, _IOLBF, sizeof(buffer));
    }
    fflush(stdout);
    direct_stdout = stdout;
    stdout = laned_stdout;
    return 0;
}

static void restore_stdout(void)
{
    fflush(stdout);
    stdout = direct_stdout;
    direct_stdout = NULL;
}

static void end_lanes(uint64_t due_ns)
{
    for (enum output output = 0; output < OUTPUT_COUNT; output++)
        if (lanes[output].thread != NULL)
            lane_end(&lanes[output], due_ns);
}

void output_fill_closed(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

void output_end_with_reader(void)
{
    signal(SIGPIPE, SIG_DFL);
}

int output_start(void)
{
    int rc = replace_stdout();
    if (rc != 0)
        return rc;
    if (is_one_file())
        lane_of[OUTPUT_MESSAGES] = &lanes[OUTPUT_RESULTS];
    rc = lane_start(&lanes[OUTPUT_RESULTS]);
    if (rc == 0 && lane_of[OUTPUT_MESSAGES] != lane_of[OUTPUT_RESULTS])
        rc = lane_start(&lanes[OUTPUT_MESSAGES]);
    if (rc == 0)
        return 0;
    restore_stdout();
    end_lanes(clock_now_ns());
    return rc;
}

void output_flush(uint32_t limit_ms)
{
    const uint64_t due_ns = clock_now_ns() + (uint64_t)limit_ms * NS_PER_MS;
    for (enum output output = 0; output < OUTPUT_COUNT; output++)
        await_idle(lane_of[output], due_ns);
}

/* Returns 0, or the error of the first text for stdout that was lost. -EIO: an earlier write has failed, whose cause
 * stdio does not keep. */
static int finish_stdout(uint64_t due_ns)
{
    const int rc = fflush(stdout) != 0 ? -errno : ferror(stdout) != 0 ? -EIO : 0;
    if (direct_stdout == NULL)
        return rc;
    restore_stdout();
    return await_idle(lane_of[OUTPUT_RESULTS], due_ns) ? lane_of[OUTPUT_RESULTS]->error[OUTPUT_RESULTS] : -ETIMEDOUT;
}

static void report_loss(int rc)
{
    log_message(LOG_ERROR, "standard output: not all could be written: %s",
                rc == -ETIMEDOUT ? "nobody reads it" : rc == -EIO ? "is there no space left?" : strerror(-rc));
}

int output_end(void)
{
    const uint64_t due_ns = clock_now_ns() + (uint64_t)END_MS * NS_PER_MS;
    const int rc = finish_stdout(due_ns);
    if (rc != 0)
        report_loss(rc);
    const uint64_t last_ns = clock_now_ns() + (uint64_t)LAST_WORDS_MS * NS_PER_MS;
    end_lanes(due_ns > last_ns ? due_ns : last_ns);
    return rc;
}
