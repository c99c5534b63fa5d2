/* From words to paths. */
#include "tools/predict/image_words.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/shard_list.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/text_stream.h"
#include "tools/convert/files/image_folder.h"

static int out_of_memory(void)
{
    log_message(LOG_ERROR, "the list of images: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

static int add_path(struct image_words *words, const char *path)
{
    if (words->count == words->room) {
        const uint64_t room = words->room > 0 ? 2 * words->room : 64;
        char **const larger = reallocarray(words->paths, room, sizeof(*larger));
        if (larger == NULL)
            return out_of_memory();
        words->paths = larger;
        words->room = room;
    }
    words->paths[words->count] = strdup(path);
    return words->paths[words->count] != NULL ? (words->count++, 0) : out_of_memory();
}

/* A comma in a word is part of a name. */
static int add_shards(struct image_words *words, const char *pattern)
{
    const size_t used = words->shards != NULL ? strlen(words->shards) : 0;
    char *const joined = realloc(words->shards, used + 2 * strlen(pattern) + 2);
    if (joined == NULL)
        return out_of_memory();
    char *at = joined + used;
    if (used > 0)
        *at++ = ',';
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == ',')
            *at++ = '\\';
        *at++ = *pattern;
    }
    *at = '\0';
    words->shards = joined;
    return 0;
}

/* ---- folders ---- */

/* A file of the folder, by its path from there on. */
static int add_file(struct image_words *words, const char *folder, const char *name)
{
    const size_t length = strlen(folder);
    char *path;
    if (asprintf(&path, "%s%s%s", folder, length > 0 && folder[length - 1] == '/' ? "" : "/", name) < 0)
        return out_of_memory();
    const int code = add_path(words, path);
    free(path);
    return code;
}

static int add_files(struct image_words *words, const char *folder, struct image_list *list)
{
    int code = 0;
    image_list_sort(list);
    for (size_t i = 0; i < list->count && code == 0; i++)
        if (!list->files[i].is_folder)
            code = add_file(words, folder, image_list_path(list, &list->files[i]));
    return code;
}

/* What is no image is told by kind, what cannot be looked at one by one, as far as there is room. */
static void tell_others(struct image_words *words, const char *folder, struct image_choice *choice)
{
    image_choice_tell(choice, folder);
    if (choice->refused_count > 0)
        log_message(LOG_ERROR, "%s: %" PRIu64 " cannot be read: %s%s", folder, choice->refused_count, choice->refused,
                    choice->refused_count > choice->refused_told ? "; and more" : "");
    words->unread += choice->refused_count;
    if (choice->image_count > 0)
        return;
    log_message(LOG_RUN, "%s: holds no images (JPEG, PNG) and no shards", folder);
    words->empty_folders++;
}

static int walk(struct image_folder *tree, const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int rc = fd >= 0 ? image_folder_walk(tree, fd) : -errno;
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "%s: looking for images: %s", folder, exit_cause(rc));
    return (int)exit_code_of(rc, EXIT_CODE_DATA);
}

/* Those that a conversion of the folder would take. */
static int add_folder(struct image_words *words, const char *folder)
{
    struct image_choice choice;
    struct image_list list = { .count = 0 };
    struct image_folder tree = { .choice = &choice, .list = &list };
    image_choice_begin(&choice, IMAGE_CHOICE_SHOWN, 0);
    progress_keep_to_terminal(&choice.progress);
    int code = walk(&tree, folder);
    if (code == 0) {
        tell_others(words, folder, &choice);
        code = add_files(words, folder, &list);
    }
    image_list_release(&list);
    image_choice_release(&choice);
    return code;
}

/* The glob of all shards of one set, NAME-*-of-NNNNN: a single one would be told of as lacking the others. Shards
 * whose names say nothing of others, and those in a folder that looks like a glob, stay as they are. */
static void widen(char *path)
{
    char *const of = strstr(strrchr(path, '/') != NULL ? strrchr(path, '/') : path, "-of-");
    char *first = of;
    while (first != NULL && first > path && first[-1] >= '0' && first[-1] <= '9')
        first--;
    if (first == of || strpbrk(path, "*?[") != NULL)
        return;
    *first = '*';
    memmove(first + 1, of, strlen(of) + 1);
}

/* All its shards, of whatever set, or else its images. */
static int look_into(struct image_words *words, const char *folder)
{
    struct shard_list list = { .count = 0 };
    int code = shard_list_folder(&list, folder) == -ENOMEM ? out_of_memory() : 0;
    shard_list_sort(&list);
    for (uint32_t i = 0; i < list.count && code == 0; i++) {
        widen(list.paths[i]);
        if (i == 0 || strcmp(list.paths[i], list.paths[i - 1]) != 0)
            code = add_shards(words, list.paths[i]);
    }
    if (code == 0 && list.count == 0)
        code = add_folder(words, folder);
    shard_list_release(&list);
    return code;
}

/* ---- words ---- */

/* All of standard input, with a 0 behind it. */
static int read_list(char **list_out, size_t *bytes_out)
{
    char *list = NULL, block[65536];
    FILE *const all = open_memstream(&list, bytes_out);
    if (all == NULL)
        return out_of_memory();
    for (size_t bytes; (bytes = fread(block, 1, sizeof(block), stdin)) > 0;)
        fwrite(block, 1, bytes, all);
    if (text_stream_end(all, &list) != 0)
        return out_of_memory();
    *list_out = list;
    if (!ferror(stdin))
        return 0;
    log_message(LOG_ERROR, "the list on standard input cannot be read");
    return EXIT_CODE_DATA;
}

/* Paths with a line's end behind each; or a 0 where the list has any, as that of find -print0: then lines' ends are
 * parts of names. */
static int add_paths(struct image_words *words, char *list, size_t bytes)
{
    const char end = memchr(list, '\0', bytes) != NULL ? '\0' : '\n';
    int code = 0;
    for (char *at = list; at < list + bytes && code == 0;) {
        char *const behind = memchr(at, end, (size_t)(list + bytes - at));
        if (behind != NULL)
            *behind = '\0';
        if (*at != '\0')
            code = add_path(words, at);
        at = behind != NULL ? behind + 1 : list + bytes;
    }
    return code;
}

static int add_list(struct image_words *words)
{
    char *list = NULL;
    size_t bytes = 0;
    int code = read_list(&list, &bytes);
    if (code == 0)
        code = add_paths(words, list, bytes);
    free(list);
    return code;
}

static int add_word(struct image_words *words, const char *word)
{
    struct stat status;
    const char *const slash = strrchr(word, '/');
    const bool is_there = stat(word, &status) == 0;
    if (strcmp(word, "-") == 0)
        return add_list(words);
    if (is_there && S_ISDIR(status.st_mode))
        return look_into(words, word);
    if (shard_list_is_shard(slash != NULL ? slash + 1 : word) || (!is_there && strpbrk(word, "*?[") != NULL))
        return add_shards(words, word);
    return add_path(words, word);
}

int image_words_read(struct image_words *words, char *const *argv, int count)
{
    int code = 0;
    for (int i = 0; i < count && code == 0; i++)
        code = add_word(words, argv[i]);
    if (code != 0 || (words->count > 0) != (words->shards != NULL))
        return code;
    if (words->count == 0 && words->empty_folders + words->unread > 0)
        return EXIT_CODE_DATA;
    log_message(LOG_ERROR, words->count > 0 ? "shards and images are predicted one after the other, not together"
                                            : "there are no images to look at (pipetrain predict --help tells more)");
    return EXIT_CODE_USAGE;
}

void image_words_release(struct image_words *words)
{
    for (uint64_t i = 0; i < words->count; i++)
        free(words->paths[i]);
    free(words->paths);
    free(words->shards);
    *words = (struct image_words){ .count = 0 };
}
