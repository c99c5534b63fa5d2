/* Numbered names. */
#include "tools/results/run_names.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/config/options.h"

int run_name_numbered(char *path_out, size_t path_size, const char *base, int number)
{
    const int length = number == 1 ? snprintf(path_out, path_size, "%s", base)
                                   : snprintf(path_out, path_size, "%s-%d", base, number);
    return length < 0 || (size_t)length >= path_size ? -ENAMETOOLONG : 0;
}

bool run_name_was_given(const struct settings *settings)
{
    const struct option_row *const option = option_find(SECTION_RUN, "dir");
    return settings->origins[option_index(option)].origin != ORIGIN_DEFAULT;
}

int run_name_last(const struct settings *settings, char *path_out, size_t path_size)
{
    char next[PATH_MAX];
    int found = -ENOENT;
    if (run_name_was_given(settings))
        return run_name_numbered(path_out, path_size, settings->run.dir, 1);
    for (int number = 1; number <= RUN_NAMES_MAX; number++) {
        if (run_name_numbered(next, sizeof(next), settings->run.dir, number) != 0 || access(next, F_OK) != 0)
            break;
        found = snprintf(path_out, path_size, "%s", next) < (int)path_size ? 0 : -ENAMETOOLONG;
    }
    return found;
}
