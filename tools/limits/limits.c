/* Limits of the process and what it has mapped, as the kernel counts it. Called when memory is planned. */
#include "tools/limits/limits.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "tools/config/number.h"

/* Of main and of each thread, libraries' needs included: with 96 KiB training runs, with 64 KiB it does not. */
#define LAST_WORDS_MS 200u      /* for the message of a process that ends at once */
#define STACK_BYTES ((size_t)256 << 10)
#define TOUCHED_BYTES (STACK_BYTES / 2)     /* of main's: pages that come only when they are used may find no room */
#define PAGE_BYTES 4096u

static void raise_stack_limit(struct rlimit *limit)
{
    const struct rlimit before = *limit;
    limit->rlim_cur = limit->rlim_max == RLIM_INFINITY || limit->rlim_max > STACK_BYTES ? STACK_BYTES : limit->rlim_max;
    if (setrlimit(RLIMIT_STACK, limit) != 0)
        *limit = before;
}

static void touch_stack(void)
{
    volatile char room[TOUCHED_BYTES];
    for (size_t i = 0; i < sizeof(room); i += PAGE_BYTES)
        room[i] = 0;
}

static int prepare_main_stack(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0)
        return 0;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < STACK_BYTES)
        raise_stack_limit(&limit);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < STACK_BYTES) {
        log_message(LOG_ERROR, "memory: the stack may take %s, and %s are needed: raise the limit, ulimit -s %zu",
                    number_bytes(limit.rlim_cur).text, number_bytes(STACK_BYTES).text, STACK_BYTES / 1024);
        return -ENOMEM;
    }
    touch_stack();
    return 0;
}

static size_t default_stack(pthread_attr_t *attributes)
{
    size_t bytes = 0;
    if (pthread_getattr_default_np(attributes) != 0)
        return 0;
    pthread_attr_getstacksize(attributes, &bytes);
    return bytes;
}

static void prepare_thread_stacks(void)
{
    pthread_attr_t attributes;
    const size_t bytes = default_stack(&attributes);
    if (bytes == 0)
        return;
    if (bytes < STACK_BYTES && pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

/* The C library maps 64 MiB for each thread that allocates, to be used by and by. */
static void prepare_allocation(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        mallopt(M_ARENA_MAX, 1);
}

/* What a library would have told its caller, where it can, ends the process too: its operator new does not
 * say which of both it is. */
static void end_for_memory(void)
{
    log_message(LOG_ERROR, "memory: a library got none: %s", strerror(ENOMEM));
    output_flush(LAST_WORDS_MS);
    _exit(EXIT_CODE_MEMORY);
}

/* Libraries in C++ that are there, oneDNN and what CUDA stands on, would end the process by a signal. This is
 * std::set_new_handler. */
static void prepare_libraries(void)
{
    void (*(*set_new_handler)(void (*)(void)))(void);
    void *const found = dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");
    memcpy(&set_new_handler, &found, sizeof(found));
    if (found != NULL)
        set_new_handler(end_for_memory);
}

int limits_prepare(void)
{
    const int rc = prepare_main_stack();
    prepare_thread_stacks();
    prepare_allocation();
    prepare_libraries();
    return rc;
}

size_t limits_thread_bytes(void)
{
    pthread_attr_t attributes;
    const size_t bytes = default_stack(&attributes);
    if (bytes > 0)
        pthread_attr_destroy(&attributes);
    return bytes + PAGE_BYTES;
}

/* `size` and `data` are what RLIMIT_AS and RLIMIT_DATA are compared with. */
struct mapped { uint64_t size, data; };

static struct mapped find_mapped(void)
{
    struct mapped mapped = { 0, 0 };
    FILE *const file = fopen("/proc/self/status", "re");
    char line[128];
    unsigned long long kib;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "VmSize: %llu kB", &kib) == 1)
            mapped.size = kib * 1024;
        if (sscanf(line, "VmData: %llu kB", &kib) == 1)
            mapped.data = kib * 1024;
    }
    if (file != NULL)
        fclose(file);
    return mapped;
}

static size_t left_of(int resource, uint64_t used)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || used == 0)
        return SIZE_MAX;
    return limit.rlim_cur > used ? (size_t)(limit.rlim_cur - used) : 0;
}

struct limits_left limits_left(void)
{
    const struct mapped mapped = find_mapped();
    return (struct limits_left){ left_of(RLIMIT_AS, mapped.size), left_of(RLIMIT_DATA, mapped.data) };
}

/* Descriptors that are open, the one that looks left out. 0 or a negative errno. */
static int count_files(size_t *count_out)
{
    DIR *const entries = opendir("/proc/self/fd");
    if (entries == NULL)
        return -errno;
    *count_out = 0;
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        *count_out += entry->d_name[0] != '.';
    closedir(entries);
    (*count_out)--;
    return 0;
}

int limits_check_files(size_t more)
{
    struct rlimit limit;
    size_t open = 0;
    const int rc = count_files(&open);
    if (rc != 0 && rc != -EMFILE)
        return 0;               /* without /proc what is missing shows when it is needed */
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return 0;
    if (rc == -EMFILE)
        open = (size_t)limit.rlim_cur;
    if (limit.rlim_cur >= open + more)
        return 0;
    log_message(LOG_ERROR, "files: this process may have %zu open at a time, and a run needs %zu: raise the limit, "
                "ulimit -n %zu", (size_t)limit.rlim_cur, open + more, open + more);
    return -EMFILE;
}
