/* Which files are images, by their content, and what is to be said of those that are not: for conversion and for
 * prediction. Who converts refuses its input, after all of it was looked at, where a file that is called like an image
 * is none or cannot be read. Other files (notes, lists, scripts) are left out, and told by kind. */
#ifndef PIPETRAIN_IMAGE_CHOICE_H
#define PIPETRAIN_IMAGE_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/image_header.h"
#include "stage/stop.h"
#include "tools/convert/progress.h"

#define IMAGE_BYTES_MAX ((uint64_t)63 << 20)    /* so that its record is not over 64 MiB */

#define IMAGE_CHOICE_KINDS 16u

enum image_choice_rule {
    IMAGE_CHOICE_STORED,        /* a file called like an image of any kind that is no JPEG or PNG is refused */
    IMAGE_CHOICE_ALL,           /* every file is meant to be an image: what is none is refused */
    IMAGE_CHOICE_SHOWN,         /* one called like a JPEG or PNG is taken, and its decoder will tell what it is */
};

struct image_choice {
    struct progress progress;   /* of files looked at, or of bytes */
    bool counts_bytes;
    enum image_choice_rule rule;
    uint8_t *head;              /* the first bytes of the file looked at; owned */
    size_t head_room;
    struct image_header common; /* the size of all images so far, height 0 where they differ */
    uint64_t image_count, left_out_count, refused_count;
    uint64_t turned_count;      /* images that are not upright by their EXIF data */
    char turned[200];           /* the path of one: the first in bytewise order */
    struct image_choice_kind {
        const char *problem;    /* "is a BMP": of all files of the kind; the last kind is of all that have no place */
        uint64_t count;
        char first[200];        /* the path that comes first in bytewise order */
    } left_out[IMAGE_CHOICE_KINDS];
    const char *refused_hint;   /* what may be at fault; NULL: nothing to say */
    uint64_t refused_told;
    char refused[1500];         /* the first of them, with what is wrong */
};

/* Gives the first `bytes` bytes of a file. 0, or a negative errno. */
typedef int image_head_read(void *arg, uint8_t *out, size_t bytes);

/* Before any file, of which there are `files`; 0: nobody knows. */
void image_choice_begin(struct image_choice *choice, enum image_choice_rule rule, uint64_t files);
/* The progress is that of `bytes` bytes of input instead, which the caller adds to it. */
void image_choice_count_bytes(struct image_choice *choice, uint64_t bytes);
/* Look at a file of `bytes` bytes. 0 and whether it is an image; -ENOMEM. */
int image_choice_take(struct image_choice *choice, const char *path, uint64_t bytes, image_head_read *read, void *arg,
                     bool *is_image_out);
/* Note a file that is over IMAGE_BYTES_MAX, without looking into it. */
void image_choice_too_large(struct image_choice *choice, const char *path);
/* Is the file called like an image of any kind? */
bool image_choice_name(const char *path);
/* Is it, or is a folder that it lies in, hidden: a name with a dot in front, or __MACOSX, where macOS keeps what it
 * knows of files. Hidden files are skipped without a message. */
bool image_choice_is_hidden(const char *path);
/* Note that a file cannot be used: "PATH PROBLEM". */
void image_choice_refuse(struct image_choice *choice, const char *path, const char *problem);
/* Say what was left out, how many files of each kind, and how many images are not upright. */
void image_choice_tell(struct image_choice *choice, const char *input);
/* The same. 0, or -EBADMSG after stop_fail when anything was refused. */
int image_choice_end(struct image_choice *choice, const char *input, struct stop *stop);
/* Accepts a struct of zeros. */
void image_choice_release(struct image_choice *choice);

#endif
