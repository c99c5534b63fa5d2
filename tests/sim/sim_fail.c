/* Counts the calls, and the bytes, of every function of every simulated library, and makes calls fail or block where a
 * test wants it. Also what all parts of the simulation share: messages, memory and hashes. */
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
    atomic_uint_least64_t calls, bytes;
};

struct rule {
    char name[NAME_SIZE];
    uint32_t left;              /* calls until it applies, including that one; 0: applies to every call */
    int status;
    bool blocks;                /* the call blocks instead of failing */
};

/* Protects the two tables. A call whose function has a counter and no rule takes no lock, so counting does not order
 * the program's threads: the thread sanitizer still sees their races. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct counter counters[FUNCTIONS_MAX];
static atomic_size_t counter_count;
static struct rule rules[RULES_MAX];
static atomic_size_t rule_count;
static pthread_cond_t unblocked = PTHREAD_COND_INITIALIZER;
static uint64_t unblocked_count;            /* calls of sim_block_clear; protected by the lock */

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

void *sim_alloc(size_t bytes)
{
    void *const memory = calloc(1, bytes);
    if (memory == NULL)
        sim_die("out of memory");
    return memory;
}

uint64_t sim_hash(const void *data, size_t bytes)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return hash;
}

static void copy_name(char *to, const char *name, size_t length)
{
    if (length >= NAME_SIZE)
        sim_die("name of a function too long: %s", name);
    memcpy(to, name, length);
    to[length] = '\0';
}

static void add_rule(const char *function, size_t length, struct rule rule)
{
    if (rule_count == RULES_MAX)
        sim_die("more than %d failures wanted", RULES_MAX);
    copy_name(rule.name, function, length);
    rules[rule_count++] = rule;
}

static void remove_rule(size_t i)
{
    memmove(&rules[i], &rules[i + 1], (rule_count - i - 1) * sizeof(rules[0]));
    rule_count--;
}

/* Read one rule of SIM_FAIL, "name:number:status", or of SIM_BLOCK, "name:number", up to a comma or the end of the
 * text. Returns the rest of the text. */
static const char *read_rule(const char *text, bool blocks)
{
    const char *rest = text + strcspn(text, ":,");
    const size_t length = (size_t)(rest - text);
    struct rule rule = { .blocks = blocks };
    int number_length = 0, status_length = 0;
    bool is_valid = length > 0 && sscanf(rest, ":%u%n", &rule.left, &number_length) == 1;
    rest += number_length;
    is_valid = is_valid && (blocks ? rule.left > 0 : sscanf(rest, ":%d%n", &rule.status, &status_length) == 1);
    rest += status_length;
    if (!is_valid || (*rest != '\0' && *rest != ','))
        sim_die("%s,...: %s", blocks ? "SIM_BLOCK is not name:number" : "SIM_FAIL is not name:number:status", text);
    add_rule(text, length, rule);
    return *rest == ',' ? rest + 1 : rest;
}

__attribute__((constructor)) static void read_environment(void)
{
    static const char *const names[] = { "SIM_FAIL", "SIM_BLOCK" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        for (const char *text = getenv(names[i]); text != NULL && *text != '\0';)
            text = read_rule(text, i == 1);
}

static struct counter *find_counter(const char *function)
{
    const size_t count = atomic_load_explicit(&counter_count, memory_order_acquire);
    for (size_t i = 0; i < count; i++)
        if (strcmp(counters[i].name, function) == 0)
            return &counters[i];
    return NULL;
}

/* The counter of the function; makes it unless another thread has just made it. */
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

static struct counter *counter_of(const char *name)
{
    struct counter *const counter = find_counter(name);
    return counter != NULL ? counter : add_counter(name);
}

void sim_count(const char *name)
{
    atomic_fetch_add_explicit(&counter_of(name)->calls, 1, memory_order_relaxed);
}

void sim_count_bytes(const char *function, uint64_t bytes)
{
    atomic_fetch_add_explicit(&counter_of(function)->bytes, bytes, memory_order_relaxed);
}

/* Apply the rules of the function to this call. Returns the status of the first one that makes it fail, or 0. */
static int apply_rules(const char *function, bool *blocks_out)
{
    int status = 0;
    for (size_t i = rule_count; i-- > 0;) {
        struct rule *const rule = &rules[i];
        if (strcmp(rule->name, function) != 0)
            continue;
        if (rule->left > 1) {
            rule->left--;
            continue;
        }
        if (rule->blocks)
            *blocks_out = true;
        else
            status = rule->status;
        if (rule->left == 1)
            remove_rule(i);
    }
    return status;
}

int sim_enter(const char *function)
{
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

static void add_rule_of_test(const char *function, struct rule rule)
{
    pthread_mutex_lock(&lock);
    add_rule(function, strlen(function), rule);
    pthread_mutex_unlock(&lock);
}

void sim_fail(const char *function, uint32_t number, int status)
{
    add_rule_of_test(function, (struct rule){ .left = number, .status = status });
}

void sim_block(const char *function, uint32_t number)
{
    add_rule_of_test(function, (struct rule){ .left = number, .blocks = true });
}

void sim_block_clear(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = rule_count; i-- > 0;)
        if (rules[i].blocks)
            remove_rule(i);
    unblocked_count++;
    pthread_cond_broadcast(&unblocked);
    pthread_mutex_unlock(&lock);
}

void sim_fail_clear(void)
{
    pthread_mutex_lock(&lock);
    rule_count = 0;
    pthread_mutex_unlock(&lock);
}

uint64_t sim_calls(const char *function)
{
    struct counter *const counter = find_counter(function);
    return counter == NULL ? 0 : atomic_load_explicit(&counter->calls, memory_order_relaxed);
}

uint64_t sim_bytes(const char *function)
{
    struct counter *const counter = find_counter(function);
    return counter == NULL ? 0 : atomic_load_explicit(&counter->bytes, memory_order_relaxed);
}

void sim_calls_clear(void)
{
    const size_t count = atomic_load_explicit(&counter_count, memory_order_acquire);
    for (size_t i = 0; i < count; i++) {
        atomic_store_explicit(&counters[i].calls, 0, memory_order_relaxed);
        atomic_store_explicit(&counters[i].bytes, 0, memory_order_relaxed);
    }
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
