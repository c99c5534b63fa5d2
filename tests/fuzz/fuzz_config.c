/* Fuzz target: any bytes as a configuration file. Reading either names problems, each with
 * the file's name in front, or gives settings whose written copy reads back the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/options.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("[run]\nname = a.b-c_d\ndir = \"x # y\" ; z\nseed = 12345678901234\n"),
    SEED("\xef\xbb\xbf# c\r\n[data]\r\ntrain = data/train-*\r\nmax_corrupt = 1e-3\r\nshuffle=none\r\n"),
    SEED("[train]\nepochs = 3\nbatch = 128 # x\noptimizer = nesterov\nlearning_rate = .5\nmomentum = 0.9\n"
         "epsilon = 1e-08\n"),
    SEED("[sync]\nbucket = 4 MiB\nmode = independent\n[input]\nram_budget = 1 GiB\nsource = cached\n[model]\n"
         "dropout = no\n"),
    SEED("[input\nprefetch_dept = 4\n= 3\nx\n[inptu]\nprefetch_depth = \"4\n[data] y\ntrain = \"\\\"\\\\\" z\n"),
    { NULL, 0 },
};

static void require_said(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_config: %s\n", what);
    abort();
}

static char *write_copy(const struct settings *settings)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    require_said(out != NULL && settings_write(settings, out) == 0, "the copy cannot be written");
    fclose(out);
    return text;
}

static void check_problems(const struct problems *problems)
{
    for (size_t i = 0; i < problems->count && i < PROBLEMS_MAX; i++) {
        const char *line = problems->lines[i];
        require_said(strncmp(line, "run.conf:", 9) == 0, "a problem without a place");
        for (; *line != '\0'; line++)
            require_said((unsigned char)*line >= 0x20 && *line != 0x7f, "a control character in a problem");
    }
}

static void check_copy(const struct settings *settings)
{
    struct settings again;
    struct problems problems;
    problems_init(&problems);
    require_said(settings_init(&again) == 0, "out of memory");
    char *first = write_copy(settings);
    require_said(config_parse(&again, "copy", first, strlen(first), &problems) == 0, "the copy has problems");
    char *second = write_copy(&again);
    require_said(strcmp(first, second) == 0, "the copy reads back as something else");
    free(first);
    free(second);
    settings_release(&again);
    problems_release(&problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct settings settings;
    struct problems problems;
    problems_init(&problems);
    require_said(settings_init(&settings) == 0, "out of memory");
    const int rc = config_parse(&settings, "run.conf", (const char *)data, bytes, &problems);
    require_said((rc != 0) == (problems.count > 0), "result and problems disagree");
    check_problems(&problems);
    check_copy(&settings);
    settings_release(&settings);
    problems_release(&problems);
    return 0;
}
