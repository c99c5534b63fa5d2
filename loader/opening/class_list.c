/* Lists of class names. Called while a data set is opened. */
#include "loader/opening/class_list.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/shards/text_file.h"
#include "stage/log.h"

#define PROBLEM_BYTES 256u

/* Take the names in the file. 0, or a negative errno with a text that follows "PATH: ". */
static int take(struct dataset *dataset, const char *path, char *problem, size_t problem_size)
{
    char *text;
    size_t bytes;
    int rc = text_file_read(path, CLASS_NAMES_BYTES_MAX, &text, &bytes);
    if (rc < 0) {
        snprintf(problem, problem_size, "%s", text_file_problem(rc));
        return rc;
    }
    rc = class_names_read(&dataset->class_names, text, bytes, problem, problem_size);
    free(text);
    if (rc < 0)
        return rc;
    dataset->class_names_path = strdup(path);
    dataset->format.label.names = &dataset->class_names;
    return dataset->class_names_path != NULL ? 0 : -ENOMEM;
}

/* A file of this name beside the first shard, which nobody asked for. True when no other one is to be tried. */
static bool take_beside(struct opening *opening, const char *name)
{
    const char *const shard = opening->dataset->paths[0], *const slash = strrchr(shard, '/');
    char problem[PROBLEM_BYTES] = "", *path;
    if (asprintf(&path, "%.*s%s", slash != NULL ? (int)(slash - shard + 1) : 0, shard, name) < 0) {
        opening_fail(opening, -ENOMEM);
        return true;
    }
    const int rc = take(opening->dataset, path, problem, sizeof(problem));
    if (rc < 0 && rc != -ENOENT && rc != -ENOMEM)
        log_message(LOG_RUN, "%s: %s: not used as the list of class names", path, problem);
    if (rc == -ENOMEM)
        opening_fail(opening, rc);
    free(path);
    return rc == 0 || rc == -ENOMEM;
}

static void look_beside(struct opening *opening)
{
    const char *const label_key = opening->dataset->options.label_key;
    char name[NAME_MAX + 1];
    const int wanted = snprintf(name, sizeof(name), "%s.labels.txt", label_key != NULL ? label_key : "label");
    if (wanted < (int)sizeof(name) && strchr(name, '/') == NULL && take_beside(opening, name))
        return;
    (void)take_beside(opening, "labels.txt");
}

void class_list_find(struct opening *opening)
{
    const char *const configured = opening->dataset->options.class_names;
    char problem[PROBLEM_BYTES] = "not enough memory";
    if (configured == NULL) {
        look_beside(opening);
        return;
    }
    const int rc = take(opening->dataset, configured, problem, sizeof(problem));
    if (rc < 0)
        opening_report_path(opening, rc, configured, problem);
}
