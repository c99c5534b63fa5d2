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
    return settings->origins[option_index(option)].origin > ORIGIN_MODEL;
}

int run_name_count(const struct settings *settings)
{
    char path[PATH_MAX];
    int number = 0;
    while (number < RUN_NAMES_MAX && run_name_numbered(path, sizeof(path), settings->run.dir, number + 1) == 0 &&
           access(path, F_OK) == 0)
        number++;
    return number;
}
