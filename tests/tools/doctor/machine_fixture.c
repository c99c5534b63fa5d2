/* Machines of files. */
#include "tests/tools/doctor/machine_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/cpus.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"

struct machine machine;
struct findings findings;

int machine_make(void **state)
{
    const int rc = fixture_folder_make(state);
    machine = (struct machine){ .root = folder, .memlock_bytes = UINT64_MAX };
    findings = (struct findings){ .count = 0 };
    machine_use_cpus("0-3");
    return rc;
}

int machine_remove(void **state)
{
    findings_release(&findings);
    return fixture_folder_remove(state);
}

void machine_put(const char *text, const char *path, ...)
{
    char full[1024];
    va_list arguments;
    const int root = snprintf(full, sizeof(full), "%s/", folder);
    va_start(arguments, path);
    vsnprintf(full + root, sizeof(full) - (size_t)root, path, arguments);
    va_end(arguments);
    for (char *slash = strchr(full + root, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    fixture_write_text(full, text);
}

void machine_use_cpus(const char *list)
{
    assert_true(cpu_list_parse(list, &machine.cpus));
}

void expect_finding(const char *topic, const char *name, enum judgement judgement, const char *found,
                    const char *advice)
{
    const struct finding *const finding = findings_find(&findings, topic, name);
    if (finding == NULL)
        fail_msg("there is no finding %s %s", topic, name);
    if (finding->judgement != judgement || strstr(finding->found, found) == NULL ||
        strstr(finding->advice, advice) == NULL || (judgement == JUDGEMENT_FINE) != (*finding->advice == '\0'))
        fail_msg("%s %s is judged %d: '%s', '%s'", topic, name, finding->judgement, finding->found, finding->advice);
}

void expect_none(const char *topic, const char *name)
{
    const struct finding *const finding = findings_find(&findings, topic, name);
    if (finding != NULL)
        fail_msg("%s %s: '%s'", topic, name, finding->found);
}

void forget_findings(void)
{
    findings_release(&findings);
}
