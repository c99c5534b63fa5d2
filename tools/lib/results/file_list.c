/* Lists a directory and removes files. */
#include "tools/lib/results/file_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

/* Open the directory for listing. NULL on error. */
static DIR *open_entries(int directory_fd)
{
    const int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (entries == NULL && fd >= 0)
        close(fd);
    return entries;
}

/* The largest number below `limit` in the names; UINT64_MAX: there is none. */
static uint64_t largest_below(DIR *entries, uint64_t (*number_of)(const char *name), uint64_t limit)
{
    uint64_t largest = UINT64_MAX;
    rewinddir(entries);
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        const uint64_t number = number_of(entry->d_name);
        if (number < limit && (largest == UINT64_MAX || number > largest))
            largest = number;
    }
    return largest;
}

void file_list_keep(int directory_fd, uint64_t (*number_of)(const char *name), uint64_t number, uint32_t keep)
{
    DIR *const entries = open_entries(directory_fd);
    uint64_t least = number + 1;
    if (entries == NULL)
        return;
    for (uint32_t i = 0; i < keep && least != UINT64_MAX; i++)
        least = largest_below(entries, number_of, least);
    rewinddir(entries);
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        const uint64_t of = number_of(entry->d_name);
        const bool is_kept = of <= number && (of >= least || least == UINT64_MAX);
        if (of != UINT64_MAX && !is_kept)
            unlinkat(directory_fd, entry->d_name, 0);
    }
    closedir(entries);
}

void file_list_remove(int directory_fd, bool (*unwanted)(const char *name))
{
    DIR *const entries = open_entries(directory_fd);
    if (entries == NULL)
        return;
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        if (unwanted(entry->d_name))
            unlinkat(directory_fd, entry->d_name, 0);
    closedir(entries);
}
