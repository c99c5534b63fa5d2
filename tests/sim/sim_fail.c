/* Counting of calls, failures on demand and calls that do not return, for every function of every simulated library. */
#include "tests/sim/sim_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS_MAX 256
#define RULES_MAX 32
#define NAME_SIZE 64

struct counter {
    char name[NAME_SIZE];
    atomic_uint_least64_t calls;
};

struct rule {
    char name[NAME_SIZE];
    uint32_t left;              /* calls up to the one that fails; 0 = all of them fail */
    int status;
    bool blocks;                /* does not return, instead of failing */
};

/* For adding to the two tables and for the rules. A call that is known already and has no
 * rule to obey takes no lock, and so does not order the threads of the program. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct counter counters[FUNCTIONS_MAX];
static atomic_size_t counter_count;
static struct rule rules[RULES_MAX];
static atomic_size_t rule_count;
static pthread_cond_t unblocked = PTHREAD_COND_INITIALIZER;
static uint64_t unblocked_count;            /* sim_block_clear was called so often; under the lock */
static pthread_once_t environment_read = PTHREAD_ONCE_INIT;

static _Thread_local cudaError_t last_error;
static _Thread_local bool on_stream;

void sim_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    flockfile(stderr);
    fputs("simulated CUDA: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(arguments);
    abort();
}

static void copy_name(char *to, const char *name, size_t length)
{
    if (length >= NAME_SIZE)
        sim_die("name of a function too long: %s", name);
    memcpy(to, name, length);
    to[length] = '\0';
}

static struct rule *add_rule(const char *function, size_t length, uint32_t number, int status)
{
    if (rule_count == RULES_MAX)
        sim_die("more than %d failures wanted", RULES_MAX);
    struct rule *const rule = &rules[rule_count++];
    copy_name(rule->name, function, length);
    rule->left = number;
    rule->status = status;
    rule->blocks = false;
    return rule;
}

static void add_block(const char *function, size_t length, uint32_t number)
{
    add_rule(function, length, number, 0)->blocks = true;
}

/* "name:number:status", ended by a comma or the end; returns what follows. */
static const char *read_rule(const char *text)
{
    const size_t length = strcspn(text, ":,");
    unsigned int number;
    int status, used = 0;
    if (length == 0 || sscanf(text + length, ":%u:%d%n", &number, &status, &used) != 2 ||
        (text[length + (size_t)used] != '\0' && text[length + (size_t)used] != ','))
        sim_die("SIM_FAIL is not name:number:status,...: %s", text);
    add_rule(text, length, number, status);
    text += length + (size_t)used;
    return *text == ',' ? text + 1 : text;
}

/* Read one "name:number" of SIM_BLOCK, ended by a comma or the end; returns what follows. */
static const char *read_block(const char *text)
{
    const size_t length = strcspn(text, ":,");
    unsigned int number;
    int used = 0;
    if (length == 0 || sscanf(text + length, ":%u%n", &number, &used) != 1 || number == 0 ||
        (text[length + (size_t)used] != '\0' && text[length + (size_t)used] != ','))
        sim_die("SIM_BLOCK is not name:number,...: %s", text);
    add_block(text, length, number);
    text += length + (size_t)used;
    return *text == ',' ? text + 1 : text;
}

static void read_environment(void)
{
    const char *text = getenv("SIM_FAIL");
    while (text != NULL && *text != '\0')
        text = read_rule(text);
    text = getenv("SIM_BLOCK");
    while (text != NULL && *text != '\0')
        text = read_block(text);
}

static struct counter *find_counter(const char *function)
{
    const size_t count = atomic_load_explicit(&counter_count, memory_order_acquire);
    for (size_t i = 0; i < count; i++)
        if (strcmp(counters[i].name, function) == 0)
            return &counters[i];
    return NULL;
}

/* The function's counter, new when another thread has not made it in between. */
static struct counter *add_counter(const char *function)
{
    pthread_mutex_lock(&lock);
    struct counter *counter = find_counter(function);
    if (counter == NULL) {
        const size_t count = atomic_load_explicit(&counter_count, memory_order_relaxed);
        if (count == FUNCTIONS_MAX)
            sim_die("more than %d functions", FUNCTIONS_MAX);
        counter = &counters[count];
        copy_name(counter->name, function, strlen(function));
        atomic_store_explicit(&counter_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return counter;
}

void sim_count(const char *name)
{
    struct counter *counter = find_counter(name);
    if (counter == NULL)
        counter = add_counter(name);
    atomic_fetch_add_explicit(&counter->calls, 1, memory_order_relaxed);
}

/* The status of the first rule that applies now, or that it blocks; all rules of the function move on. */
static int apply_rules(const char *function, bool *blocks_out)
{
    int status = 0;
    for (size_t i = 0; i < rule_count;) {
        struct rule *const rule = &rules[i];
        const bool mine = strcmp(rule->name, function) == 0;
        const bool fires = mine && rule->left <= 1;
        if (fires && status == 0)
            status = rule->status;
        if (fires && rule->blocks)
            *blocks_out = true;
        if (fires && rule->left == 1) {
            memmove(rule, rule + 1, (rule_count - i - 1) * sizeof(*rule));
            rule_count--;
            continue;
        }
        if (mine && !fires)
            rule->left--;
        i++;
    }
    return status;
}

int sim_enter(const char *function)
{
    pthread_once(&environment_read, read_environment);
    sim_count(function);
    if (atomic_load_explicit(&rule_count, memory_order_relaxed) == 0)
        return 0;
    pthread_mutex_lock(&lock);
    bool blocks = false;
    const int status = apply_rules(function, &blocks);
    const uint64_t count = unblocked_count;
    while (blocks && unblocked_count == count)
        pthread_cond_wait(&unblocked, &lock);
    pthread_mutex_unlock(&lock);
    return status;
}

void sim_block(const char *function, uint32_t number)
{
    pthread_once(&environment_read, read_environment);
    pthread_mutex_lock(&lock);
    add_block(function, strlen(function), number);
    pthread_mutex_unlock(&lock);
}

void sim_block_clear(void)
{
    pthread_once(&environment_read, read_environment);
    pthread_mutex_lock(&lock);
    for (size_t i = rule_count; i-- > 0;) {
        if (!rules[i].blocks)
            continue;
        memmove(&rules[i], &rules[i + 1], (rule_count - i - 1) * sizeof(rules[0]));
        rule_count--;
    }
    unblocked_count++;
    pthread_cond_broadcast(&unblocked);
    pthread_mutex_unlock(&lock);
}

void sim_fail(const char *function, uint32_t number, int status)
{
    pthread_once(&environment_read, read_environment);
    pthread_mutex_lock(&lock);
    add_rule(function, strlen(function), number, status);
    pthread_mutex_unlock(&lock);
}

void sim_fail_clear(void)
{
    pthread_once(&environment_read, read_environment);
    pthread_mutex_lock(&lock);
    rule_count = 0;
    pthread_mutex_unlock(&lock);
}

uint64_t sim_calls(const char *function)
{
    struct counter *const counter = find_counter(function);
    return counter == NULL ? 0 : atomic_load_explicit(&counter->calls, memory_order_relaxed);
}

void sim_calls_clear(void)
{
    const size_t count = atomic_load_explicit(&counter_count, memory_order_acquire);
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&counters[i].calls, 0, memory_order_relaxed);
}

void sim_enter_stream_thread(void)
{
    on_stream = true;
}

cudaError_t sim_result(cudaError_t status)
{
    if (status != cudaSuccess)
        last_error = status;
    return status;
}

cudaError_t sim_runtime_enter(const char *function)
{
    if (on_stream)
        sim_die("%s called by a host function", function);
    return sim_result((cudaError_t)sim_enter(function));
}

cudaError_t cudaPeekAtLastError(void)
{
    const int status = sim_enter(__func__);
    return status != 0 ? (cudaError_t)status : last_error;
}

cudaError_t cudaGetLastError(void)
{
    const int status = sim_enter(__func__);
    const cudaError_t error = status != 0 ? (cudaError_t)status : last_error;
    last_error = cudaSuccess;
    return error;
}
