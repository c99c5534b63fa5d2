/* Images and what is none. Called by the main thread of the converters, for each file once. */
#include "tools/convert/files/image_choice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "stage/log.h"

#define HEAD_BYTES 4096u        /* nearly every header ends before */
#define REFUSED_TOLD 5u         /* those behind are counted */

static const char *const image_names[] = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".avif", ".heic", ".jp2",
    ".ppm",
};

bool image_choice_name(const char *path)
{
    const char *end = strrchr(path, '.');

    for (size_t i = 0; end != NULL && i < sizeof(image_names) / sizeof(image_names[0]); i++) {
        if (strcasecmp(end, image_names[i]) == 0)
            return true;
    }
    return false;
}

void image_choice_refuse(struct image_choice *choice, const char *path, const char *problem)
{
    const size_t length = strlen(choice->refused), room = sizeof(choice->refused) - length;

    choice->refused_count++;
    if (choice->refused_told < choice->refused_count - 1 || choice->refused_told == REFUSED_TOLD)
        return;
    const int added = snprintf(choice->refused + length, room, "%s%s %s", length > 0 ? "; " : "", path, problem);
    if (added >= 0 && ((size_t)added < room || length == 0))
        choice->refused_told++;
    else
        choice->refused[length] = '\0';
}

static void leave_out(struct image_choice *choice, const char *path)
{
    if (choice->left_out_count++ == 0)
        snprintf(choice->left_out, sizeof(choice->left_out), "%s", path);
}

static void note_size(struct image_choice *choice, const struct image_header *header)
{
    if (choice->image_count++ == 0)
        choice->common = *header;
    else if (choice->common.width != header->width || choice->common.height != header->height ||
             choice->common.channels != header->channels)
        choice->common.width = choice->common.height = choice->common.channels = 0;
}

/* The header out of the first `bytes` bytes. -ENOMEM, what read returns, or as image_header_read. */
static int read_header(struct image_choice *choice, size_t bytes, image_head_read *read, void *arg,
                       struct image_header *header_out, const char **problem_out)
{
    if (bytes > choice->head_room || choice->head == NULL) {
        uint8_t *head = realloc(choice->head, bytes + 1);
        if (head == NULL)
            return -ENOMEM;
        choice->head = head;
        choice->head_room = bytes;
    }
    const int rc = read(arg, choice->head, bytes);
    return rc < 0 ? rc : image_header_read(choice->head, bytes, header_out, problem_out);
}

void image_choice_begin(struct image_choice *choice, bool takes_all, uint64_t files)
{
    *choice = (struct image_choice){ .takes_all = takes_all };
    progress_begin(&choice->progress, "looking at the input", "files", files);
}

void image_choice_count_bytes(struct image_choice *choice, uint64_t bytes)
{
    choice->counts_bytes = true;
    progress_begin_bytes(&choice->progress, "looking at the input", bytes);
}

/* A file that is no image we can store. */
static void note_other(struct image_choice *choice, const char *path, const char *problem)
{
    if (choice->takes_all || image_choice_name(path))
        image_choice_refuse(choice, path, problem);
    else
        leave_out(choice, path);
}

void image_choice_too_large(struct image_choice *choice, const char *path)
{
    note_other(choice, path, "is over 63 MiB");
}

int image_choice_take(struct image_choice *choice, const char *path, uint64_t bytes, image_head_read *read, void *arg,
                     bool *is_image_out)
{
    const size_t most = bytes < IMAGE_BYTES_MAX ? (size_t)bytes : (size_t)IMAGE_BYTES_MAX;
    struct image_header header;
    const char *problem = NULL;

    progress_add(&choice->progress, choice->counts_bytes ? 0 : 1);
    int rc = read_header(choice, most < HEAD_BYTES ? most : HEAD_BYTES, read, arg, &header, &problem);
    if (rc == -EAGAIN && most > HEAD_BYTES)
        rc = read_header(choice, most, read, arg, &header, &problem);
    if (rc == -ENOMEM)
        return rc;
    *is_image_out = rc == 0 && bytes <= IMAGE_BYTES_MAX;
    if (*is_image_out)
        note_size(choice, &header);
    else if (rc == 0)
        image_choice_refuse(choice, path, "is over 63 MiB");
    else if (rc == -EAGAIN)
        image_choice_refuse(choice, path, "is cut short inside its header");
    else if (rc != -EBADMSG || problem == NULL)
        image_choice_refuse(choice, path, strerror(-rc));
    else
        note_other(choice, path, problem);
    return 0;
}

static int tell_refused(const struct image_choice *choice, const char *input, struct stop *stop)
{
    const uint64_t more = choice->refused_count - choice->refused_told;
    const bool is_one = choice->refused_count == 1;
    const char *const hint = choice->refused_hint;
    char rest[64] = "";

    if (more > 0)
        snprintf(rest, sizeof(rest), "; and %" PRIu64 " more", more);
    stop_fail(stop, EXIT_CODE_DATA, "%s: %" PRIu64 " file%s cannot be used: remove or replace %s%s%s%s: %s%s", input,
              choice->refused_count, is_one ? "" : "s", is_one ? "it" : "them", hint != NULL ? " (" : "",
              hint != NULL ? hint : "", hint != NULL ? ")" : "", choice->refused, rest);
    return -EBADMSG;
}

int image_choice_end(struct image_choice *choice, const char *input, struct stop *stop)
{
    progress_end(&choice->progress);
    if (choice->left_out_count > 0)
        log_message(LOG_RUN, "%s: left out %" PRIu64 " file%s that %s, the first %s", input, choice->left_out_count,
                    choice->left_out_count == 1 ? "" : "s",
                    choice->left_out_count == 1 ? "is no JPEG or PNG" : "are no JPEG or PNG", choice->left_out);
    return choice->refused_count > 0 ? tell_refused(choice, input, stop) : 0;
}

void image_choice_release(struct image_choice *choice)
{
    progress_end(&choice->progress);
    free(choice->head);
    *choice = (struct image_choice){ 0 };
}
