/* Finds the tables of metadata in a folder of images. Called by the main thread of the converter of folders. */
#include "tools/convert/metadata.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/split_name.h"
#include "stage/file/file.h"
#include "stage/log.h"

#define DEPTH_MAX 8u            /* folders around the set */

static const char *const table_names[] = { "metadata.csv", "metadata.jsonl", "metadata.csv.gz", "metadata.jsonl.gz" };

/* Does a folder of this path exist? */
static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int metadata_no_memory(struct stop *stop)
{
    return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory for the names of tables");
}

/* Find the table in a folder; *table_out is NULL if there is none, and owned by the caller otherwise. */
static int find_table(const char *folder, char **table_out, struct stop *stop)
{
    char *found = NULL;

    for (size_t i = 0; i < sizeof(table_names) / sizeof(table_names[0]); i++) {
        char *path;
        if (asprintf(&path, "%s/%s", folder, table_names[i]) < 0) {
            free(found);
            return metadata_no_memory(stop);
        }
        if (file_exists(path) && found != NULL) {
            const int rc = convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s and %s are both there: remove one, or "
                                        "convert one with 'csv'", found, path);
            free(path);
            free(found);
            return rc;
        }
        if (file_exists(path))
            found = path;
        else
            free(path);
    }
    *table_out = found;
    return 0;
}

/* Find the table of a split in its folder `name`; other folders are skipped. */
static int find_split(char *tables[SPLIT_UNLABELLED + 1], const char *folder, const char *name, struct stop *stop)
{
    const struct split_name split = split_name_read(name, strlen(name));
    char *path, *table = NULL;

    if (!split.is_whole || split.split == SPLIT_UNSAID)
        return 0;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        return metadata_no_memory(stop);
    const int rc = is_folder(path) ? find_table(path, &table, stop) : 0;
    free(path);
    if (table == NULL)
        return rc;
    if (tables[split.split] == NULL) {
        tables[split.split] = table;
        return 0;
    }
    (void)convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s and %s are both for %s: remove one", tables[split.split],
                       table, split_text(split.split));
    free(table);
    return -EBADMSG;
}

/* Take the tables of the splits, in their order. */
static int take_tables(struct metadata *metadata, char *tables[SPLIT_UNLABELLED + 1], struct stop *stop)
{
    const char *const other = tables[SPLIT_VALIDATION] != NULL ? tables[SPLIT_VALIDATION] : tables[SPLIT_TEST];

    if (tables[SPLIT_TRAIN] == NULL && other != NULL)
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: is for %s by its folder, and no table is for "
                            "training: give a folder train a metadata.csv, or convert %s with 'csv'", other,
                            split_text(tables[SPLIT_VALIDATION] != NULL ? SPLIT_VALIDATION : SPLIT_TEST), other);
    for (int split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
        if (tables[split] != NULL)
            metadata->tables[metadata->count++] = tables[split];
        tables[split] = NULL;
    }
    return 0;
}

/* Look into the entries of a folder: find the tables of its splits, and its only folder, which is NULL if there are
 * none or several. */
static int look_inside(struct metadata *metadata, char **only_out, struct stop *stop)
{
    char *tables[SPLIT_UNLABELLED + 1] = { NULL }, *only = NULL;
    DIR *const entries = opendir(metadata->folder);
    const struct dirent *entry;
    size_t count = 0;
    int rc = 0;

    while (entries != NULL && rc == 0 && (entry = readdir(entries)) != NULL) {
        char *path;
        if (entry->d_name[0] == '.')
            continue;
        if (asprintf(&path, "%s/%s", metadata->folder, entry->d_name) < 0) {
            rc = metadata_no_memory(stop);
            break;
        }
        if (is_folder(path) && count++ == 0)
            only = path;
        else
            free(path);
        rc = find_split(tables, metadata->folder, entry->d_name, stop);
    }
    if (entries != NULL)
        closedir(entries);
    if (rc == 0)
        rc = take_tables(metadata, tables, stop);
    for (int split = 0; split <= SPLIT_UNLABELLED; split++)
        free(tables[split]);
    if (count != 1 || metadata->count > 0 || rc < 0) {
        free(only);
        only = NULL;
    }
    *only_out = only;
    return rc;
}

int metadata_find(struct metadata *metadata_out, const char *folder, struct stop *stop)
{
    int rc = 0;

    *metadata_out = (struct metadata){ .folder = strdup(folder) };
    if (metadata_out->folder == NULL)
        return metadata_no_memory(stop);
    for (size_t depth = 0; depth < DEPTH_MAX && rc == 0; depth++) {
        char *table = NULL, *only = NULL;
        rc = find_table(metadata_out->folder, &table, stop);
        if (table != NULL)
            metadata_out->tables[metadata_out->count++] = table;
        if (rc == 0 && table == NULL)
            rc = look_inside(metadata_out, &only, stop);
        if (only == NULL)
            break;
        free(metadata_out->folder);
        metadata_out->folder = only;
    }
    return rc;
}

void metadata_release(struct metadata *metadata)
{
    for (size_t i = 0; i < metadata->count; i++)
        free(metadata->tables[i]);
    free(metadata->folder);
    *metadata = (struct metadata){ 0 };
}
