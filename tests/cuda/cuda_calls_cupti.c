/* Counts of CUDA calls on a GPU. CUPTI reports every call of the runtime and the driver at its start, in the calling
 * thread, and later the memory of every copy. */
#include "tests/cuda/cuda_calls.h"

#include <cupti.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_BYTES ((size_t)1 << 16)
#define RECORDS_ALIGNMENT 8

/* Functions of one interface, by number. */
struct interface {
    CUpti_CallbackDomain domain;
    uint32_t count;
    atomic_uint_least64_t *calls;
};

static atomic_uint_least64_t runtime_calls[CUPTI_RUNTIME_TRACE_CBID_SIZE];
static atomic_uint_least64_t driver_calls[CUPTI_DRIVER_TRACE_CBID_SIZE];
static const struct interface interfaces[] = {
    { CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE, runtime_calls },
    { CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE, driver_calls },
};
enum { INTERFACES = sizeof(interfaces) / sizeof(interfaces[0]) };

static atomic_uint_least64_t pageable_copies;

/* ---- calls ---- */

static void CUPTIAPI count_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const CUpti_CallbackData *call = data;
    (void)unused;
    if (call->callbackSite != CUPTI_API_ENTER)
        return;
    for (size_t i = 0; i < INTERFACES; i++)
        if (interfaces[i].domain == domain && id < interfaces[i].count)
            atomic_fetch_add_explicit(&interfaces[i].calls[id], 1, memory_order_relaxed);
}

/* Is `name` a version of the function: cudaMalloc_v3020, cuMemcpyHtoD_v2_ptds? */
static bool is_version_of(const char *name, const char *function)
{
    const size_t length = strlen(function);
    return strncmp(name, function, length) == 0 && (name[length] == '\0' || name[length] == '_');
}

/* Sums the calls of all versions; false when there is none. */
static bool add_calls(const struct interface *interface, const char *function, uint64_t *calls)
{
    bool is_known = false;
    for (uint32_t id = 1; id < interface->count; id++) {
        const char *name;
        if (cuptiGetCallbackName(interface->domain, id, &name) != CUPTI_SUCCESS || !is_version_of(name, function))
            continue;
        is_known = true;
        *calls += atomic_load_explicit(&interface->calls[id], memory_order_relaxed);
    }
    return is_known;
}

/* ---- copies of pageable memory ---- */

static void CUPTIAPI give_buffer(uint8_t **buffer_out, size_t *bytes_out, size_t *records_max_out)
{
    *buffer_out = aligned_alloc(RECORDS_ALIGNMENT, RECORDS_BYTES);
    *bytes_out = *buffer_out != NULL ? RECORDS_BYTES : 0;
    *records_max_out = 0;               /* as many as fit */
}

static void count_record(const CUpti_Activity *record)
{
    if (record->kind != CUPTI_ACTIVITY_KIND_MEMCPY)
        return;
    const CUpti_ActivityMemcpy6 *copy = (const CUpti_ActivityMemcpy6 *)record;
    if (copy->srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE || copy->dstKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE)
        atomic_fetch_add(&pageable_copies, 1);
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes)
{
    CUpti_Activity *record = NULL;
    (void)context, (void)stream, (void)bytes;
    while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS)
        count_record(record);
    free(buffer);
}

static void end_program(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

/* Of finished work. */
static uint64_t count_pageable_copies(void)
{
    const char *why = "";
    const CUptiResult result = cuptiActivityFlushAll(0);
    if (result != CUPTI_SUCCESS) {
        cuptiGetResultString(result, &why);
        end_program("cuptiActivityFlushAll", why);
    }
    return atomic_load(&pageable_copies);
}

bool cuda_calls_open(char *why, size_t why_size)
{
    CUpti_SubscriberHandle subscriber;
    const char *reason = "";
    CUptiResult result = cuptiSubscribe(&subscriber, count_call, NULL);
    for (size_t i = 0; i < INTERFACES && result == CUPTI_SUCCESS; i++)
        result = cuptiEnableDomain(1, subscriber, interfaces[i].domain);
    if (result == CUPTI_SUCCESS)
        result = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    if (result == CUPTI_SUCCESS)
        result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    if (result != CUPTI_SUCCESS)
        cuptiGetResultString(result, &reason);
    snprintf(why, why_size, "%s", reason);
    return result == CUPTI_SUCCESS;
}

uint64_t cuda_calls(const char *function)
{
    if (strcmp(function, CUDA_PAGEABLE_COPY) == 0)
        return count_pageable_copies();
    uint64_t calls = 0;
    bool is_known = false;
    for (size_t i = 0; i < INTERFACES; i++)
        is_known |= add_calls(&interfaces[i], function, &calls);
    if (!is_known)
        end_program(function, "CUPTI knows no such function");
    return calls;
}

bool cuda_is_simulated(void)
{
    return false;
}

void cuda_slow_us(uint32_t us)
{
    (void)us;
}
