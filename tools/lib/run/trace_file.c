/* Spans, counters and flows of a trace as lines of JSON. All strings are constants of the program, so nothing has to be
 * escaped. */
#include "tools/lib/run/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/folders.h"

#define BUFFER_BYTES ((size_t)1 << 16)
#define LINE_BYTES 512u         /* more than any line needs */
#define PROCESS 1u              /* not 0, which some readers show as the idle process */

/* The stations of a batch's flow, in this order. */
enum station { READ, DECODED, FED, COPIED, FORWARD, UPDATED, STATION_COUNT };

/* The span at a station of the flow: if there are several, the one that begins first or ends last. */
struct anchor { uint64_t begin_ns, end_ns; uint32_t thread; bool is_there; };
struct flow { struct anchor anchors[STATION_COUNT]; };

struct trace_file {
    const struct trace *trace;
    struct tower_range towers;
    uint64_t batches;           /* number of batches with flows */
    uint64_t first;             /* the first batch that is written */
    struct flow *flows;         /* [batch - first][tower] */
    const struct trace_entry **sorted;          /* the entries of one track */
    char *buffer;
    size_t buffered;
    int fd;                     /* -1: not begun, or ended */
    int failed;                 /* first errno of a write, negative */
};

/* The most batches with flows; a tower makes at least two entries for every batch. */
static uint64_t flow_batches(const struct trace_spec *spec)
{
    return spec->entries / 2 + 1;
}

static size_t flow_count(const struct trace_spec *spec, struct tower_range towers)
{
    return (size_t)flow_batches(spec) * towers.count;
}

size_t trace_file_bytes(const struct trace_spec *spec, struct tower_range towers)
{
    return sizeof(struct trace_file) + flow_count(spec, towers) * sizeof(struct flow) +
           spec->entries * sizeof(struct trace_entry *) + BUFFER_BYTES;
}

int trace_file_open(struct trace_file **file_out, const struct trace *trace, struct tower_range towers)
{
    const struct trace_spec *const spec = trace_spec_of(trace);
    struct trace_file *const file = calloc(1, sizeof(*file));
    if (file == NULL)
        return -ENOMEM;
    *file = (struct trace_file){ .trace = trace, .towers = towers, .batches = flow_batches(spec), .fd = -1 };
    file->flows = calloc(flow_count(spec, towers), sizeof(*file->flows));
    file->sorted = calloc(spec->entries, sizeof(*file->sorted));
    file->buffer = malloc(BUFFER_BYTES);
    if (file->flows == NULL || file->sorted == NULL || file->buffer == NULL) {
        trace_file_close(file);
        return -ENOMEM;
    }
    *file_out = file;
    return 0;
}

static void flush(struct trace_file *file)
{
    const int rc = file->failed == 0 ? file_write(file->fd, file->buffer, file->buffered) : 0;
    if (rc != 0)
        file->failed = rc;
    file->buffered = 0;
}

__attribute__((format(printf, 2, 3)))
static void put_line(struct trace_file *file, const char *format, ...)
{
    if (BUFFER_BYTES - file->buffered < LINE_BYTES)
        flush(file);
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(file->buffer + file->buffered, LINE_BYTES, format, arguments);
    va_end(arguments);
    file->buffered += (size_t)bytes;
}

/* A time in microseconds since the trace was opened. */
#define TIME "%" PRIu64 ".%03u"
#define TIME_OF(ns) (ns) / 1000, (unsigned)((ns) % 1000)

/* A thread id, which is the same for each kind and index of a track in all runs. */
static uint32_t thread_of(const struct trace_look *look)
{
    return (uint32_t)look->kind * 1000 + look->index + 1;
}

static void put_name(struct trace_file *file, const struct trace_look *look)
{
    const uint32_t thread = thread_of(look);
    put_line(file, "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"%s %u\"}},\n",
             PROCESS, thread, trace_kind_words(look->kind), look->index);
    put_line(file, "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_sort_index\","
             "\"args\":{\"sort_index\":%u}},\n", PROCESS, thread, thread);
}

/* Not of the tracks of exchanges, which are named when the file is written: there may be fewer buckets than tracks. */
static void put_names(struct trace_file *file)
{
    put_line(file, "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"pipetrain\"}},\n", PROCESS);
    struct trace_look look;
    for (uint32_t i = 0; trace_look(file->trace, i, &look); i++)
        if (look.kind != TRACE_EXCHANGE)
            put_name(file, &look);
}

/* Check how the file begins. 0 for a trace, -EEXIST for another file, or a negative errno of reading it. */
static int check_beginning(const char *path)
{
    static const char beginning[] = "[\n{\"ph\":";
    char found[sizeof(beginning) - 1];
    size_t bytes = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const int rc = file_read_some(fd, 0, found, sizeof(found), &bytes);
    close(fd);
    if (rc != 0)
        return rc;
    return bytes == sizeof(found) && memcmp(found, beginning, sizeof(found)) == 0 ? 0 : -EEXIST;
}

/* May the file be overwritten? Only a trace, or a file without contents: a device, a pipe, an empty file. */
static int check_there(const char *path, const char **problem_out)
{
    struct stat status;
    *problem_out = NULL;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
        return 0;
    const int rc = check_beginning(path);
    if (rc != 0)
        *problem_out = rc == -EEXIST ? "the existing file is not a trace" : "cannot read the existing file";
    return rc;
}

/* Can files be created in the folder of this file? */
static int check_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *name;
    if (folder_of_file(path, folder, sizeof(folder), &name) != 0)
        return -ENAMETOOLONG;
    return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : -errno;
}

int trace_file_check(const char *path, const char **problem_out)
{
    struct stat status;
    const int rc = check_there(path, problem_out);
    if (rc != 0)
        return rc;
    if (stat(path, &status) != 0)
        return errno == ENOENT ? check_folder(path) : -errno;
    if (S_ISDIR(status.st_mode))
        return -EISDIR;
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 ? 0 : -errno;
}

/* A trace that has other names (hard links) is replaced, not overwritten, because another name may be that of another
 * run. */
static int leave_other_names(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink == 1)
        return 0;
    return unlink(path) == 0 ? 0 : -errno;
}

int trace_file_begin(struct trace_file *file, const char *path, const char **problem_out)
{
    int rc = check_there(path, problem_out);
    if (rc == 0)
        rc = leave_other_names(path);
    if (rc != 0)
        return rc;
    /* O_NONBLOCK: do not wait for a reader of a FIFO. */
    file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
    if (file->fd < 0)
        return -errno;
    put_line(file, "[\n");
    put_names(file);
    flush(file);
    return file->failed;
}

/* The first batch of which all entries exist; batches before it are left out. */
static uint64_t first_whole_batch(const struct trace *trace)
{
    uint64_t first = trace_spec_of(trace)->first;
    struct trace_look look;
    for (uint32_t i = 0; trace_spec_of(trace)->keeps_last && trace_look(trace, i, &look); i++) {
        const uint64_t oldest = look.lost > 0 ? trace_entry_at(trace, i, &look, 0)->batch + 1 : 0;
        first = oldest > first ? oldest : first;
    }
    return first;
}

/* The station of a span; STATION_COUNT: the span is not part of a flow. */
static enum station station_of(enum trace_name name)
{
    switch (name) {
    case TRACE_READ: return READ;
    case TRACE_DECODE: return DECODED;
    case TRACE_FEED: return FED;
    case TRACE_COPY: return COPIED;
    case TRACE_FORWARD: return FORWARD;
    case TRACE_UPDATE: return UPDATED;
    default: return STATION_COUNT;
    }
}

static void add_to_flow(struct trace_file *file, const struct trace_entry *entry, uint32_t thread)
{
    const enum station station = station_of(entry->name);
    const uint64_t batch = entry->batch - file->first;
    const uint32_t tower = entry->tower - file->towers.first;
    if (station == STATION_COUNT || batch >= file->batches || tower >= file->towers.count)
        return;
    struct anchor *const anchor = &file->flows[batch * file->towers.count + tower].anchors[station];
    const bool wants_last = station == DECODED || station == UPDATED;
    const bool is_better = wants_last ? entry->end_ns > anchor->end_ns : entry->begin_ns < anchor->begin_ns;
    if (!anchor->is_there || is_better)
        *anchor = (struct anchor){ entry->begin_ns, entry->end_ns, thread, true };
}

/* Order by begin; a span precedes those that it contains. */
static int compare_entries(const void *a, const void *b)
{
    const struct trace_entry *const one = *(const struct trace_entry *const *)a;
    const struct trace_entry *const other = *(const struct trace_entry *const *)b;
    if (one->begin_ns != other->begin_ns)
        return one->begin_ns < other->begin_ns ? -1 : 1;
    return one->end_ns == other->end_ns ? 0 : one->end_ns > other->end_ns ? -1 : 1;
}

static const char *argument_words(enum trace_name name)
{
    const bool is_of_bucket = name == TRACE_REDUCE || name == TRACE_REDUCE_SCATTER || name == TRACE_ALL_GATHER;
    return is_of_bucket ? "bucket" : "samples";
}

static void put_counter(struct trace_file *file, const struct trace_entry *entry, uint64_t at_ns)
{
    if (entry->name == TRACE_IMAGES_PER_SECOND)
        put_line(file, "{\"ph\":\"C\",\"pid\":%u,\"name\":\"%s\",\"ts\":" TIME ",\"args\":{\"value\":%u}},\n", PROCESS,
                 trace_name_words(entry->name), TIME_OF(at_ns), entry->argument);
    else
        put_line(file, "{\"ph\":\"C\",\"pid\":%u,\"name\":\"%s %u\",\"ts\":" TIME ",\"args\":{\"value\":%u}},\n",
                 PROCESS, trace_name_words(entry->name), entry->tower, TIME_OF(at_ns), entry->argument);
}

static void put_entry(struct trace_file *file, const struct trace_look *look, const struct trace_entry *entry)
{
    const uint64_t at_ns = entry->begin_ns - trace_origin_ns(file->trace);
    const uint64_t lasted_ns = entry->end_ns - entry->begin_ns;
    if (trace_is_counter(entry->name)) {
        put_counter(file, entry, at_ns);
        return;
    }
    put_line(file, "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"cat\":\"%s\",\"name\":\"%s\",\"ts\":" TIME ",\"dur\":" TIME
             ",\"args\":{\"batch\":%" PRIu64 ",\"%s\":%u}},\n",
             PROCESS, thread_of(look), trace_kind_words(look->kind), trace_name_words(entry->name), TIME_OF(at_ns),
             TIME_OF(lasted_ns), entry->batch, argument_words(entry->name), entry->argument);
    add_to_flow(file, entry, thread_of(look));
}

static void put_track(struct trace_file *file, uint32_t track, const struct trace_look *look)
{
    size_t count = 0;
    for (uint64_t i = 0; i < look->count; i++) {
        const struct trace_entry *const entry = trace_entry_at(file->trace, track, look, i);
        if (entry->batch >= file->first)
            file->sorted[count++] = entry;
    }
    qsort(file->sorted, count, sizeof(*file->sorted), compare_entries);
    for (size_t i = 0; i < count; i++)
        put_entry(file, look, file->sorted[i]);
}

/* Write a flow from the first recorded station to the last one. */
static void put_flow(struct trace_file *file, const struct flow *flow, uint64_t id)
{
    int last = STATION_COUNT - 1, passed = 0;
    while (last >= 0 && !flow->anchors[last].is_there)
        last--;
    for (int i = 0; i <= last; i++) {
        const struct anchor *const anchor = &flow->anchors[i];
        if (!anchor->is_there)
            continue;
        const char *const phase = passed++ == 0 ? "s" : i < last ? "t" : "f";
        const uint64_t at_ns = anchor->begin_ns - trace_origin_ns(file->trace);
        put_line(file, "{\"ph\":\"%s\",\"bp\":\"e\",\"pid\":%u,\"tid\":%u,\"cat\":\"batch\",\"name\":\"batch\","
                 "\"id\":%" PRIu64 ",\"ts\":" TIME "},\n", phase, PROCESS, anchor->thread, id, TIME_OF(at_ns));
    }
}

/* Write a flow for each batch of each tower; with one tower its id is the number of the batch. */
static void put_flows(struct trace_file *file)
{
    for (uint64_t batch = 0; batch < file->batches; batch++)
        for (uint32_t tower = 0; tower < file->towers.count; tower++)
            put_flow(file, &file->flows[batch * file->towers.count + tower],
                     (file->first + batch) * file->towers.count + tower);
}

int trace_file_write(struct trace_file *file, uint64_t *lost_out)
{
    *lost_out = 0;
    if (file->fd < 0)
        return 0;
    struct trace_look look;
    file->first = first_whole_batch(file->trace);
    for (uint32_t i = 0; trace_look(file->trace, i, &look); i++) {
        if (look.kind == TRACE_EXCHANGE && look.count > 0)
            put_name(file, &look);
        put_track(file, i, &look);
        *lost_out += look.lost;
    }
    put_flows(file);
    put_line(file, "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":0}}\n]\n",
             PROCESS);
    flush(file);
    close(file->fd);
    file->fd = -1;
    return file->failed;
}

void trace_file_close(struct trace_file *file)
{
    if (file == NULL)
        return;
    if (file->fd >= 0)
        close(file->fd);
    free(file->flows);
    free(file->sorted);
    free(file->buffer);
    free(file);
}
