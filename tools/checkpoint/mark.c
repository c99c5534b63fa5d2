/* Names of files of saved states. */
#include "tools/checkpoint/mark.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRONT "checkpoint-"
#define END ".safetensors"

void checkpoint_file_name(uint64_t step, char name_out[CHECKPOINT_FILE_BYTES])
{
    snprintf(name_out, CHECKPOINT_FILE_BYTES, FRONT "%08" PRIu64 END, step);
}

uint64_t checkpoint_file_step(const char *name)
{
    char again[CHECKPOINT_FILE_BYTES];
    if (strncmp(name, FRONT, strlen(FRONT)) != 0)
        return UINT64_MAX;
    errno = 0;
    const uint64_t step = strtoull(name + strlen(FRONT), NULL, 10);
    checkpoint_file_name(step, again);
    return errno == 0 && strcmp(name, again) == 0 ? step : UINT64_MAX;
}

uint64_t checkpoint_best_number(const char *name)
{
    return strcmp(name, CHECKPOINT_BEST_FILE) == 0 ? 0 : UINT64_MAX;
}
