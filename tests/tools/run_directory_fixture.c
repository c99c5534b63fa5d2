/* Runs' directories for tests. */
#include "tests/tools/run_directory_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"

void run_fixture_settings(struct settings *settings_out, const char *name, const char *dir)
{
    struct problems problems;
    char text[300];
    problems_init(&problems);
    assert_int_equal(settings_init(settings_out), 0);
    snprintf(text, sizeof(text), "run.name=%s", name);
    config_set(settings_out, text, &problems);
    snprintf(text, sizeof(text), "run.dir=%s", dir != NULL ? dir : "");
    if (dir != NULL)
        config_set(settings_out, text, &problems);
    config_set(settings_out, "input.source=synthetic", &problems);
    assert_int_equal(settings_finish(settings_out, &problems), 0);
    assert_int_equal(problems.count, 0);
    problems_release(&problems);
}

struct run_directory *run_fixture_open(const char *name, const char *dir)
{
    struct settings settings;
    struct run_directory *directory = NULL;
    char problem[RUN_TEXT_BYTES] = "";
    run_fixture_settings(&settings, name, dir);
    const int rc = run_directory_open(&directory, &settings, NULL, problem, sizeof(problem));
    settings_release(&settings);
    if (rc)
        fail_msg("%s", problem);
    return directory;
}

struct run_directory *run_fixture_begin(const char *name, const char *dir)
{
    struct run_directory *directory = run_fixture_open(name, dir);
    assert_int_equal(run_directory_begin(directory), 0);
    return directory;
}

int run_fixture_refuse(const char *dir, char *problem_out)
{
    struct settings settings;
    struct run_directory *directory = NULL;
    run_fixture_settings(&settings, "refused", dir);
    problem_out[0] = '\0';
    const int rc = run_directory_open(&directory, &settings, NULL, problem_out, RUN_TEXT_BYTES);
    settings_release(&settings);
    assert_null(directory);
    return rc;
}

int run_fixture_put(struct run_directory *directory, const char *file, const char *text)
{
    const struct file_part parts[] = { { text, strlen(text) / 2 },
                                       { text + strlen(text) / 2, strlen(text) - strlen(text) / 2 } };
    return whole_file_write(run_directory_fd(directory), file, parts, 2);
}

size_t run_fixture_text(const char *path, char *text_out)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    const size_t bytes = fread(text_out, 1, RUN_TEXT_BYTES - 1, file);
    text_out[bytes] = '\0';
    fclose(file);
    return bytes;
}

bool run_fixture_holds(const char *dir, const char *file, const char *text)
{
    char path[128], content[RUN_TEXT_BYTES] = "";
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    return fixture_exists(path) && (run_fixture_text(path, content) || true) && strcmp(content, text) == 0;
}

int run_fixture_temporaries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count += strstr(entry->d_name, ".tmp.") != NULL;
    closedir(dir);
    return count;
}
