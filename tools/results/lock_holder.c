/* One line of a file: "process 4711 on HOST since 2026-11-24T20:42:15Z". */
#include "tools/results/lock_holder.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stage/file/file.h"

#define HOST_BYTES 65u
#define TEXT_BYTES 160u

/* Names of machines have no other characters; so nothing else gets into messages. */
#define HOST_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static void find_host(char host[HOST_BYTES])
{
    if (gethostname(host, HOST_BYTES) != 0 || host[0] == '\0')
        strcpy(host, "localhost");
    host[HOST_BYTES - 1] = '\0';
    host[strspn(host, HOST_CHARACTERS)] = '\0';
}

/* A part of the line that a write which failed left would name another process. */
void lock_holder_write(int fd)
{
    char host[HOST_BYTES], text[TEXT_BYTES];
    const time_t now = time(NULL);
    struct tm parts;
    lock_holder_clear(fd);
    if (gmtime_r(&now, &parts) == NULL)
        return;
    find_host(host);
    int length = snprintf(text, sizeof(text), "process %ld on %s since ", (long)getpid(), host);
    length += (int)strftime(text + length, sizeof(text) - (size_t)length, "%Y-%m-%dT%H:%M:%SZ\n", &parts);
    if (file_write(fd, text, (size_t)length) != 0)
        lock_holder_clear(fd);
}

void lock_holder_clear(int fd)
{
    if (ftruncate(fd, 0) == 0)
        (void)lseek(fd, 0, SEEK_SET);
}

void lock_holder_read(int fd, char *words_out, size_t words_size)
{
    char text[TEXT_BYTES], host[HOST_BYTES], date[11], hour[9], end;
    long process;
    const ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
    words_out[0] = '\0';
    if (bytes <= 0)
        return;
    text[bytes] = '\0';
    if (sscanf(text, "process %19ld on %64[a-zA-Z0-9._-] since %10[0-9-]T%8[0-9:]Z%c", &process, host, date, hour,
               &end) == 5 && end == '\n')
        snprintf(words_out, words_size, "process %ld on %s since %s %s UTC", process, host, date, hour);
}
