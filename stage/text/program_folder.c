/* The folder is read from the first word of the command line, which glibc keeps. */
#include "stage/text/program_folder.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t is_found = PTHREAD_ONCE_INIT;
static char folder[PROGRAM_FOLDER_MAX + 1];

static void find_folder(void)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+.,:@%/";
    const char *const name = program_invocation_name, *const slash = strrchr(name, '/');
    const size_t bytes = slash != NULL ? (size_t)(slash + 1 - name) : 0;
    if (bytes < sizeof(folder) && strspn(name, plain) >= bytes)
        memcpy(folder, name, bytes);
}

const char *program_folder(void)
{
    pthread_once(&is_found, find_folder);
    return folder;
}
