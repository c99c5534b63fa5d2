/* Images and what is none. Called by the main thread of the converters, for each file once. */
#include "tools/convert/files/image_choice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "loader/images/image_memory.h"
#include "stage/log.h"

#define HEAD_BYTES 4096u        /* nearly every header ends before */
#define REFUSED_TOLD 5u         /* those behind are counted */

static const char *const image_names[] = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".avif", ".heic", ".jp2",
    ".ppm", ".pgm", ".pbm", ".pnm", ".pam",
};
static const char *const decoded_names[] = { ".jpg", ".jpeg", ".png" };

static bool ends_as_one(const char *path, const char *const *ends, size_t count)
{
    const char *end = strrchr(path, '.');
    size_t i = 0;

    while (end != NULL && i < count && strcasecmp(end, ends[i]) != 0)
        i++;
    return end != NULL && i < count;
}

bool image_choice_name(const char *path)
{
    return ends_as_one(path, image_names, sizeof(image_names) / sizeof(image_names[0]));
}

bool image_choice_is_hidden(const char *path)
{
    static const char mac[] = "__MACOSX";

    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (*part == '.' || (strncmp(part, mac, sizeof(mac) - 1) == 0 && strchr("/", part[sizeof(mac) - 1]) != NULL))
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

static void leave_out(struct image_choice *choice, const char *path, const char *problem)
{
    struct image_choice_kind *kind = choice->left_out;

    while (kind < choice->left_out + IMAGE_CHOICE_KINDS - 1 && kind->count > 0 && strcmp(kind->problem, problem) != 0)
        kind++;
    choice->left_out_count++;
    if (kind->count++ > 0 && strcmp(path, kind->first) >= 0)
        return;
    kind->problem = problem;
    snprintf(kind->first, sizeof(kind->first), "%s", path);
}

/* The most frequent first; the last place, where kinds share, has no name and stays last. */
static int kind_compare(const void *a, const void *b)
{
    const struct image_choice_kind *const left = a, *const right = b;

    if (left->count != right->count)
        return left->count < right->count ? 1 : -1;
    return left->count > 0 ? strcmp(left->problem, right->problem) : 0;
}

static void note_turned(struct image_choice *choice, const char *path, const struct image_header *header)
{
    if (header->orientation > 1 && (choice->turned_count++ == 0 || strcmp(path, choice->turned) < 0))
        snprintf(choice->turned, sizeof(choice->turned), "%s", path);
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

void image_choice_begin(struct image_choice *choice, enum image_choice_rule rule, uint64_t files)
{
    *choice = (struct image_choice){ .rule = rule };
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
    const bool is_refused = choice->rule == IMAGE_CHOICE_ALL ||
                            (choice->rule == IMAGE_CHOICE_STORED && image_choice_name(path));

    if (is_refused)
        image_choice_refuse(choice, path, problem);
    else
        leave_out(choice, path, problem);
}

void image_choice_too_large(struct image_choice *choice, const char *path)
{
    note_other(choice, path, "is over 63 MiB");
}

/* Read as much of the file as its header takes. As read_header. */
static int look(struct image_choice *choice, uint64_t bytes, image_head_read *read, void *arg,
                struct image_header *header_out, const char **problem_out)
{
    const size_t most = bytes < IMAGE_BYTES_MAX ? (size_t)bytes : (size_t)IMAGE_BYTES_MAX;

    progress_add(&choice->progress, choice->counts_bytes ? 0 : 1);
    const int rc = read_header(choice, most < HEAD_BYTES ? most : HEAD_BYTES, read, arg, header_out, problem_out);
    return rc == -EAGAIN && most > HEAD_BYTES ? read_header(choice, most, read, arg, header_out, problem_out) : rc;
}

/* What a conversion cannot use of an image with this header. NULL: nothing. */
static const char *unfit_text(const struct image_header *header, uint64_t bytes)
{
    if (bytes > IMAGE_BYTES_MAX)
        return "is over 63 MiB";
    return (uint64_t)header->width * header->height > IMAGE_PIXELS_MAX
               ? "says it has more than 64 Mi pixels, which training refuses" : NULL;
}

/* By the rule of conversions. */
static bool take_stored(struct image_choice *choice, const char *path, uint64_t bytes, int rc,
                        const struct image_header *header, const char *problem)
{
    const char *const unfit = rc == 0 ? unfit_text(header, bytes) : NULL;

    if (rc == 0 && unfit == NULL) {
        note_size(choice, header);
        return true;
    }
    if (unfit != NULL)
        image_choice_refuse(choice, path, unfit);
    else if (rc == -EAGAIN)
        image_choice_refuse(choice, path, "is cut short inside its header");
    else if (rc != -EBADMSG || problem == NULL)
        image_choice_refuse(choice, path, strerror(-rc));
    else
        note_other(choice, path, problem);
    return false;
}

/* What begins like a JPEG or PNG, or is called so, is for the decoder to tell of. */
static bool take_shown(struct image_choice *choice, const char *path, int rc, const char *problem)
{
    const bool is_other = rc == -EBADMSG && problem != NULL &&
                          !ends_as_one(path, decoded_names, sizeof(decoded_names) / sizeof(decoded_names[0]));

    if (is_other)
        note_other(choice, path, problem);
    choice->image_count += !is_other;
    return !is_other;
}

int image_choice_take(struct image_choice *choice, const char *path, uint64_t bytes, image_head_read *read, void *arg,
                     bool *is_image_out)
{
    struct image_header header;
    const char *problem = NULL;

    const int rc = look(choice, bytes, read, arg, &header, &problem);
    if (rc == -ENOMEM)
        return rc;
    if (rc == 0)
        note_turned(choice, path, &header);
    *is_image_out = choice->rule == IMAGE_CHOICE_SHOWN ? take_shown(choice, path, rc, problem)
                                                       : take_stored(choice, path, bytes, rc, &header, problem);
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

/* ": 3 a BMP (the first x.bmp), 1 no image (notes.txt)" */
static void tell_kinds(const struct image_choice *choice, char *text, size_t text_size)
{
    static const char is[] = "is ";
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < IMAGE_CHOICE_KINDS && choice->left_out[i].count > 0 && length < text_size; i++) {
        const struct image_choice_kind *const kind = &choice->left_out[i];
        const char *const name = i + 1 == IMAGE_CHOICE_KINDS ? "of other kinds"
                                 : strncmp(kind->problem, is, sizeof(is) - 1) == 0 ? kind->problem + sizeof(is) - 1
                                                                                   : kind->problem;
        length += (size_t)snprintf(text + length, text_size - length, "%s%" PRIu64 " %s (%s%s)", i == 0 ? ": " : ", ",
                                   kind->count, name, kind->count > 1 ? "the first " : "", kind->first);
    }
}

static void tell_turned(const struct image_choice *choice, const char *input)
{
    const bool is_one = choice->turned_count == 1;

    log_message(LOG_RUN, "%s: %" PRIu64 " image%s to be turned by %s EXIF orientation (%s%s): training and prediction "
                "use the pixels as they are stored", input, choice->turned_count, is_one ? " is" : "s are",
                is_one ? "its" : "their", is_one ? "" : "the first ", choice->turned);
}

void image_choice_tell(struct image_choice *choice, const char *input)
{
    char kinds[1024];

    progress_end(&choice->progress);
    if (choice->turned_count > 0)
        tell_turned(choice, input);
    if (choice->left_out_count == 0)
        return;
    qsort(choice->left_out, IMAGE_CHOICE_KINDS - 1, sizeof(choice->left_out[0]), kind_compare);
    tell_kinds(choice, kinds, sizeof(kinds));
    log_message(LOG_RUN, "%s: left out %" PRIu64 " file%s%s", input, choice->left_out_count,
                choice->left_out_count == 1 ? " that is no JPEG or PNG" : "s that are no JPEG or PNG", kinds);
}

int image_choice_end(struct image_choice *choice, const char *input, struct stop *stop)
{
    image_choice_tell(choice, input);
    return choice->refused_count > 0 ? tell_refused(choice, input, stop) : 0;
}

void image_choice_release(struct image_choice *choice)
{
    progress_end(&choice->progress);
    free(choice->head);
    *choice = (struct image_choice){ 0 };
}
