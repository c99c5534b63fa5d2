/* From words to shards. Called by main. */
#include "tools/shards/shard_paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "loader/shards/shard_list.h"
#include "stage/log.h"

/* Take over the paths of `more`. */
static int join(struct shard_list *list, struct shard_list *more)
{
    char **const grown = realloc(list->paths, ((size_t)list->count + more->count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    list->paths = grown;
    memcpy(list->paths + list->count, more->paths, more->count * sizeof(*grown));
    list->count += more->count;
    more->count = 0;
    return 0;
}

int shard_paths_in_folder(struct shard_list *list, const char *folder)
{
    if (begun_set_is_in(folder)) {
        log_message(LOG_ERROR, "%s: " BEGUN_SET_TEXT, folder);
        return -EBADMSG;
    }
    const int rc = shard_list_folder(list, folder);
    if (rc == 0 && list->count > 0)
        return 0;
    log_message(LOG_ERROR, "%s: %s", folder,
                rc < 0 ? strerror(-rc)
                       : "no shards in this directory (files named *.tfrecord* or NAME-NNNNN-of-NNNNN)");
    return rc < 0 ? rc : -ENOENT;
}

/* A file is what is meant, whatever else its name tells of. */
static int take_file(struct shard_list *list, const char *path)
{
    list->paths = malloc(sizeof(*list->paths));
    if (list->paths == NULL)
        return -ENOMEM;
    list->paths[0] = strdup(path);
    list->count = list->paths[0] != NULL;
    return list->count > 0 ? 0 : -ENOMEM;
}

static int find_files(struct shard_list *list, const char *pattern, const char *what)
{
    char buffer[2048];
    struct text problems;
    text_init(&problems, buffer, sizeof(buffer));
    const int rc = shard_list_find(list, pattern, what, &problems);
    if (rc < 0)
        log_message(LOG_ERROR, "%s", rc == -ENOMEM ? strerror(ENOMEM) : buffer);
    return rc;
}

static int add_word(struct shard_list *list, const char *word, const char *what)
{
    struct shard_list found = { 0 };
    struct stat status;
    const bool is_there = stat(word, &status) == 0;
    int rc = !is_there ? find_files(&found, word, what)
             : S_ISDIR(status.st_mode) ? shard_paths_in_folder(&found, word) : take_file(&found, word);
    if (rc == 0)
        rc = join(list, &found);
    shard_list_release(&found);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const char *const *const *const left = a, *const *const *const right = b;
    const int order = strcmp(**left, **right);
    return order != 0 ? order : (*left > *right) - (*left < *right);
}

/* Drop the later ones of equal paths, and keep the order. */
static int drop_twins(struct shard_list *list)
{
    char ***const places = malloc(((size_t)list->count + 1) * sizeof(*places));
    uint32_t kept = 0;
    if (places == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < list->count; i++)
        places[i] = &list->paths[i];
    qsort(places, list->count, sizeof(*places), by_name);
    for (uint32_t i = 1, first = 0; i < list->count; i++) {
        if (strcmp(*places[first], *places[i]) == 0) {
            free(*places[i]);
            *places[i] = NULL;
        } else
            first = i;
    }
    for (uint32_t i = 0; i < list->count; i++)
        if (list->paths[i] != NULL)
            list->paths[kept++] = list->paths[i];
    list->count = kept;
    free(places);
    return 0;
}

/* Files that are named one by one may lie there, too. */
static int check_begun(const struct shard_list *list)
{
    const char *const begun = begun_set_find(list);
    if (begun == NULL)
        return 0;
    log_message(LOG_ERROR, "%s: " BEGUN_SET_TEXT, begun);
    return -EBADMSG;
}

int shard_paths_find(struct shard_list *list_out, const struct shards_request *request)
{
    struct shard_list list = { 0 };
    int rc = 0;
    for (uint32_t i = 0; i < request->word_count && rc == 0; i++)
        rc = add_word(&list, request->words[i], request->command->name);
    if (rc == 0)
        rc = drop_twins(&list);
    if (rc == 0)
        rc = check_begun(&list);
    if (rc < 0)
        shard_list_release(&list);
    else
        *list_out = list;
    return rc;
}
