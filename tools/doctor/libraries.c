/* The libraries that the program has loaded, and conflicts between them. */
#include "tools/doctor/topics.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#include "compute/backend.h"
#include "loader/loader.h"
#include "stage/device.h"
#include "sync/reduce.h"

#define TOPIC "libraries"
#define PATH_BYTES 1024

/* A search for loaded files whose names begin with `file`. */
struct library_search {
    const char *file;
    char path[PATH_BYTES];      /* of the first such file; "" if there is none */
    /* 0: no such file; else 1, plus the number of such files in other folders than the first */
    uint32_t folders;
};

static int match_object(struct dl_phdr_info *object, size_t size, void *arg)
{
    struct library_search *const search = arg;
    const char *const slash = strrchr(object->dlpi_name, '/');
    (void)size;
    if (slash == NULL || strncmp(slash + 1, search->file, strlen(search->file)) != 0)
        return 0;
    const size_t folder_bytes = (size_t)(slash + 1 - object->dlpi_name);
    if (search->folders == 0)
        snprintf(search->path, sizeof(search->path), "%s", object->dlpi_name);
    search->folders += search->folders == 0 || strncmp(search->path, object->dlpi_name, folder_bytes) != 0;
    return 0;
}

static struct library_search find_file(const char *file)
{
    struct library_search search = { .file = file, .path = "" };
    dl_iterate_phdr(match_object, &search);
    return search;
}

static void add_library(struct findings *findings, const struct library *library)
{
    char version[64];
    library->version(version, sizeof(version));
    const struct library_search found = find_file(library->file);
    if (found.path[0] == '\0' && strcmp(version, "?") == 0)
        findings_add(findings, TOPIC, library->name, "not installed");
    else
        findings_add(findings, TOPIC, library->name, "%s, %s", version,
                     found.path[0] != '\0' ? found.path : "part of the program");
    if (found.folders > 1)
        findings_judge(findings, JUDGEMENT_WARN, "it is loaded from two folders, and two versions of it conflict: keep "
                       "one of them in LD_LIBRARY_PATH");
}

static void add_rows(struct findings *findings, const struct library *rows)
{
    for (; rows != NULL && rows->name != NULL; rows++)
        add_library(findings, rows);
}

/* cuDNN consists of several files, all of which have to be of the same version. */
static void judge_cudnn(struct findings *findings)
{
    const struct library_search parts = find_file("libcudnn");
    if (parts.folders == 0)
        return;
    findings_add(findings, TOPIC, "cuDNN parts", "%s", parts.folders == 1 ? "all from one folder" : "from two folders");
    if (parts.folders > 1)
        findings_judge(findings, JUDGEMENT_WARN, "its parts have to be of the same version, or plans fail: keep one "
                       "folder with libcudnn*.so in LD_LIBRARY_PATH");
}

/* Every OpenMP library has its own threads, and they compete for the same cores. */
static void judge_openmp(struct findings *findings)
{
    static const char *const names[] = { "libgomp", "libiomp5", "libomp" };
    char all[3 * PATH_BYTES] = "";
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct library_search found = find_file(names[i]);
        const size_t bytes = strlen(all);
        if (found.folders > 0)
            snprintf(all + bytes, sizeof(all) - bytes, "%s%s", count++ > 0 ? ", " : "", found.path);
    }
    if (count == 0)
        return;
    findings_add(findings, TOPIC, "OpenMP", "%s", all);
    if (count > 1)
        findings_judge(findings, JUDGEMENT_WARN, "each of them starts threads for the same CPUs: remove what loads the "
                       "second one (LD_PRELOAD, LD_LIBRARY_PATH)");
}

void topic_libraries(struct findings *findings)
{
    static const char *const kinds[] = { "onednn", "cuda" };
    const struct reduce_ops *const nccl = reduce_find("nccl");
    const struct device_ops *const cuda = device_find("cuda");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct backend_ops *const backend = backend_find(kinds[i]);
        add_rows(findings, backend != NULL ? backend->libraries : NULL);
    }
    add_rows(findings, cuda != NULL ? cuda->libraries : NULL);
    add_rows(findings, nccl != NULL ? nccl->libraries : NULL);
    add_rows(findings, loader_libraries);
    judge_cudnn(findings);
    judge_openmp(findings);
}
