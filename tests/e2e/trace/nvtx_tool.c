/* A tool that NVTX finds in NVTX_INJECTION64_PATH: counts the ranges of a process by name and writes them to the file
 * in NVTX_TOOL_OUTPUT when it ends, "NAME COUNT" a line, and behind them "open N": those that were begun and not ended,
 * of all threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvtx3/nvToolsExt.h>

#define NAMES_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[NAMES_MAX][64];
static long counts[NAMES_MAX], open_ranges, ends_without_begin;
static int name_count;
static _Thread_local long depth;

static nvtxDomainHandle_t create_domain(const char *name)
{
    return strcmp(name, "pipetrain") == 0 ? (nvtxDomainHandle_t)(void *)names : NULL;
}

/* A handle is the place of the name, from 1. */
static nvtxStringHandle_t register_string(nvtxDomainHandle_t domain, const char *text)
{
    (void)domain;
    snprintf(names[name_count], sizeof(names[0]), "%s", text);
    return (nvtxStringHandle_t)(void *)((char *)names + ++name_count);
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    const long place = (char *)attributes->message.registered - (char *)(void *)domain;
    pthread_mutex_lock(&lock);
    counts[place - 1]++;
    open_ranges++;
    pthread_mutex_unlock(&lock);
    return (int)++depth;
}

static int pop(nvtxDomainHandle_t domain)
{
    (void)domain;
    pthread_mutex_lock(&lock);
    open_ranges--;
    ends_without_begin += depth == 0;
    pthread_mutex_unlock(&lock);
    return (int)--depth;
}

static void write_counts(void)
{
    const char *const path = getenv("NVTX_TOOL_OUTPUT");
    FILE *const file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    for (int i = 0; i < name_count; i++)
        if (counts[i] > 0)
            fprintf(file, "%s %ld\n", names[i], counts[i]);
    fprintf(file, "open %ld\nends without begin %ld\n", open_ranges, ends_without_begin);
    fclose(file);
}

static void put(NvtxFunctionTable table, unsigned size, unsigned place, NvtxFunctionPointer function)
{
    if (place < size && table[place] != NULL)
        *table[place] = function;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *const callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size;
    if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    put(table, size, NVTX_CBID_CORE2_DomainCreateA, (NvtxFunctionPointer)create_domain);
    put(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, (NvtxFunctionPointer)register_string);
    put(table, size, NVTX_CBID_CORE2_DomainRangePushEx, (NvtxFunctionPointer)push);
    put(table, size, NVTX_CBID_CORE2_DomainRangePop, (NvtxFunctionPointer)pop);
    atexit(write_counts);
    return 1;
}
