/* Finds the device that a test program runs on. */
#include "tests/helpers/test_device_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS_MOST = 900 };

/* Only programs linked to the simulated CUDA have it. (A weak definition here would not do:
 * the compiler may take the value of a constant that it sees.) */
extern const char *const test_device_default __attribute__((weak));

static const char *environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value != NULL && value[0] ? value : otherwise;
}

static _Noreturn void cannot_run(const char *kind, const char *why)
{
    const bool is_required = strcmp(environment("PIPETRAIN_TEST_REQUIRED", "0"), "1") == 0;
    fprintf(stderr, "%s: no device of kind \"%s\": %s\n", is_required ? "FAILED" : "SKIPPED", kind, why);
    exit(is_required ? 1 : 77);
}

/* A device that stands still ends the program, at the latest when the program itself said. */
static void limit_time(void)
{
    const unsigned set = alarm(SECONDS_MOST);
    if (set != 0)
        alarm(set);
}

const struct device_ops *test_device_ops(void)
{
    static const struct device_ops *found;
    if (found != NULL)
        return found;
    const char *kind = environment("PIPETRAIN_TEST_DEVICE", &test_device_default != NULL ? test_device_default : "cpu");
    const struct device_ops *ops = device_find(kind);
    char why[256];
    if (ops == NULL)
        cannot_run(kind, "not built in");
    if (ops->count(why, sizeof(why)) == 0)
        cannot_run(kind, why);
    limit_time();
    found = ops;
    return found;
}

bool test_device_is_inline(void)
{
    return test_device_ops()->host_memory;
}
