/* The growing list of images. Called by the main thread of the converters; read by any. */
#include "tools/convert/files/image_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILES_FIRST 1024u
#define NAMES_FIRST 65536u

/* A block that holds `wanted` items, at least doubled where it grows; NULL without memory. */
static void *grown(void *block, size_t item_bytes, size_t wanted, size_t first, size_t *room)
{
    size_t items = *room > 0 ? *room : first, bytes;

    if (wanted <= *room)
        return block;
    while (items < wanted) {
        if (__builtin_mul_overflow(items, 2, &items))
            return NULL;
    }
    if (__builtin_mul_overflow(items, item_bytes, &bytes))
        return NULL;
    void *larger = realloc(block, bytes);
    if (larger != NULL)
        *room = items;
    return larger;
}

int image_list_add(struct image_list *list, const char *path, const struct image_file *file)
{
    const size_t bytes = strlen(path) + 1;

    struct image_file *files = grown(list->files, sizeof(*files), list->count + 1, FILES_FIRST, &list->room);
    if (files == NULL)
        return -ENOMEM;
    list->files = files;
    char *names = grown(list->names, 1, list->name_bytes + bytes, NAMES_FIRST, &list->name_room);
    if (names == NULL)
        return -ENOMEM;
    list->names = names;
    memcpy(names + list->name_bytes, path, bytes);
    files[list->count] = *file;
    files[list->count++].path = list->name_bytes;
    list->name_bytes += bytes;
    return 0;
}

const char *image_list_path(const struct image_list *list, const struct image_file *file)
{
    return list->names + file->path;
}

/* The end of a path comes before "/", and that before any other byte. */
static int rank(char byte)
{
    return byte == '\0' ? 0 : byte == '/' ? 1 : 2 + (unsigned char)byte;
}

static int compare(const void *left, const void *right, void *names)
{
    const char *a = (const char *)names + ((const struct image_file *)left)->path;
    const char *b = (const char *)names + ((const struct image_file *)right)->path;

    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    return rank(*a) - rank(*b);
}

void image_list_sort(struct image_list *list)
{
    if (list->count > 0)
        qsort_r(list->files, list->count, sizeof(*list->files), compare, list->names);
}

void image_list_release(struct image_list *list)
{
    free(list->files);
    free(list->names);
    *list = (struct image_list){ 0 };
}
