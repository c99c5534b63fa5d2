/* Lists of class names. Called while a data set is opened. */
#include "loader/opening/class_list.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/shards/text.h"
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

/* Lines INDEX:NAME, to be freed; NULL without memory. */
static char *list_described(const struct manifest *manifest, size_t *bytes_out)
{
    char *text = NULL;
    FILE *const out = open_memstream(&text, bytes_out);
    if (out == NULL)
        return NULL;
    for (uint64_t c = 0; c < manifest->class_count; c++)
        if (strpbrk(manifest->class_names[c], "\r\n") == NULL)
            fprintf(out, "%" PRIu64 ":%s\n", c, manifest->class_names[c]);
    const bool is_whole = !ferror(out);
    if (fclose(out) == 0 && is_whole)
        return text;
    free(text);
    return NULL;
}

/* The names in dataset.json are for labels that are text: what is told of names reads them there itself. */
static int take_described(struct opening *opening)
{
    struct dataset *const dataset = opening->dataset;
    const struct manifest *manifest;
    char problem[PROBLEM_BYTES];
    size_t bytes;
    int rc = shard_counts_of(opening->counts, dataset->paths[0], &manifest);
    if (rc < 0 || manifest->class_count == 0)
        return rc;
    char *const text = list_described(manifest, &bytes);
    if (text == NULL)
        return -ENOMEM;
    rc = class_names_read(&dataset->described_names, text, bytes, problem, sizeof(problem));
    free(text);
    if (rc == 0)
        dataset->format.label.names = &dataset->described_names;
    return rc == -ENOMEM ? rc : 0;
}

static void look_beside(struct opening *opening)
{
    const char *const label_key = opening->dataset->options.label_key;
    char name[NAME_MAX + 1];
    const int wanted = snprintf(name, sizeof(name), "%s.labels.txt", label_key != NULL ? label_key : "label");
    if (wanted < (int)sizeof(name) && strchr(name, '/') == NULL && take_beside(opening, name))
        return;
    if (take_beside(opening, "labels.txt"))
        return;
    const int rc = take_described(opening);
    if (rc < 0)
        opening_fail(opening, rc);
}

/* A list that somebody names for a set is of its classes. */
static void compare_count(const struct dataset *dataset)
{
    if (dataset->class_names.count != dataset->options.classes)
        log_message(LOG_RUN, "%s: %s names %" PRIu32 " classes, the network has %" PRIu32, dataset->options.what,
                    dataset->class_names_path, dataset->class_names.count, dataset->options.classes);
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
    else
        compare_count(opening->dataset);
}
