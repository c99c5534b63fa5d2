/* The images of a data set or of a prediction: chooses the files that are images, by their content; lists them; and
 * finds them in folders. pipetrain-convert and predict share this, so both find the same images. A conversion
 * refuses its input if a file with the name of an image is not an image, or cannot be read; but it examines all
 * files first. Other files (notes, lists, scripts) are left out, and reported by kind. */
#ifndef PIPETRAIN_IMAGE_FOLDER
#define PIPETRAIN_IMAGE_FOLDER

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "formats/image_header.h"
#include "stage/file/file.h"
#include "stage/stop.h"
#include "tools/convert/image_change.h"
#include "tools/lib/text/progress.h"

#define IMAGE_BYTES_MAX ((uint64_t)63 << 20)    /* so that a record is not larger than 64 MiB */

#define IMAGE_CHOICE_KINDS 16u
#define IMAGE_CHOICE_TABLES 3u
#define IMAGE_CHOICE_LISTED 100u        /* refused files; further ones are only counted */

enum image_choice_rule {
    IMAGE_CHOICE_STORED,        /* refuse files that have the name of an image but are neither JPEG nor PNG */
    IMAGE_CHOICE_ALL,           /* refuse all files that are neither JPEG nor PNG */
    IMAGE_CHOICE_SHOWN,         /* accept files with the name of a JPEG or PNG; the decoder reports problems */
};

struct image_choice {
    struct progress progress;   /* counts files or, if counts_bytes, bytes of the input */
    bool counts_bytes;
    enum image_choice_rule rule;
    uint8_t *head;              /* the first bytes of the current file; owned */
    size_t head_room;
    struct image_header common; /* the size of all images so far; height 0: they differ */
    uint64_t image_count, left_out_count, refused_count;
    /* files left out that contain labels (.cls); files left out that may describe images (.json, .txt) */
    uint64_t label_file_count;
    uint64_t note_file_count;
    char archive[200];          /* path of the first archive or Parquet file among the files left out; "": none */
    enum orientation_fate orientation;  /* for the report, which leaves out images that are turned */
    uint64_t turned_count;      /* number of images with an EXIF orientation other than upright */
    char turned[200];           /* path of the first such image, in bytewise order */
    uint64_t system_count;      /* number of folders of operating systems that were skipped */
    /* paths of such folders: the first in bytewise order, and the latest found */
    char system_first[200], system_last[200];
    struct image_choice_kind {
        /* such as "is a BMP"; the last element counts all kinds that have no element of their own */
        const char *problem;
        uint64_t count;
        char first[200];        /* the first path in bytewise order */
    } left_out[IMAGE_CHOICE_KINDS];
    char tables[IMAGE_CHOICE_TABLES][200];  /* paths of the first tables among the files left out, in bytewise order */
    bool skips_refused;         /* refused files are left out, unless there is no image at all */
    const char *refused_hint;   /* a possible cause, for the message; NULL: unknown */
    size_t refused_listed;
    char *refused[IMAGE_CHOICE_LISTED]; /* the first refused files with the reasons, as text; owned */
};

/* Reads the first `bytes` bytes of a file. 0, or a negative errno. */
typedef int image_head_read(void *arg, uint8_t *out, size_t bytes);

/* The image_head_read of a file that is open as *(int *)fd. */
int image_head_read_file(void *fd, uint8_t *out, size_t bytes);

/* Start choosing; `files` is the number of files for progress, 0: unknown. */
void image_choice_begin(struct image_choice *choice, enum image_choice_rule rule, uint64_t files);
/* Count `bytes` bytes of input as progress instead of files; the caller adds them. */
void image_choice_count_bytes(struct image_choice *choice, uint64_t bytes);
/* Decide whether a file of `bytes` bytes is an image. 0 with the answer, or -ENOMEM. */
int image_choice_take(struct image_choice *choice, const char *path, uint64_t bytes, image_head_read *read, void *arg,
                     bool *is_image_out);
/* Refuse a file larger than IMAGE_BYTES_MAX without reading it. */
void image_choice_too_large(struct image_choice *choice, const char *path);
/* Does the file have the name of an image of any kind? */
bool image_choice_name(const char *path);
/* Is the file skipped because it, or a folder in its path, is hidden or of an operating system? Names that begin
 * with a dot are skipped without a message, folders of operating systems (__MACOSX, @eaDir, ...) are counted. `path`
 * is relative to the folder `parent`, which is "" for the input. */
bool image_choice_skips(struct image_choice *choice, const char *parent, const char *path);
/* Refuse a file that cannot be used, with the message "PATH PROBLEM". */
void image_choice_refuse(struct image_choice *choice, const char *path, const char *problem);
/* Report how many files of each kind were left out. */
void image_choice_report(struct image_choice *choice, const char *input);
/* The refused files, in the order of their paths, as one text. If that would be too long, a line is printed for
 * each, and the text is "". */
const char *image_choice_list_refused(struct image_choice *choice, const char *input, char *text, size_t text_size);
/* Report the files that were left out or refused, and what becomes of images that are not upright. 0, or -EBADMSG after
 * stop_fail if a file was refused and they are not skipped. */
int image_choice_end(struct image_choice *choice, const char *input, struct stop *stop);
/* Accepts a struct of zeros. */
void image_choice_release(struct image_choice *choice);

struct image_file {
    uint64_t path;              /* offset of the path in image_list.names */
    uint64_t place;             /* where the image data are, in a form that only the converter knows */
    uint32_t bytes;
    uint32_t label;
    uint16_t input;             /* number of the archive or table with the image; used by the converter */
    uint16_t name_at;           /* offset, in the path, of the name that is stored in the record */
    bool is_folder;             /* the entry is a folder */
    struct file_identity identity;      /* only for images in folders */
};

/* Suitable for millions of images: all paths are in one block, and each image takes 48 bytes in addition. */
struct image_list {
    struct image_file *files;
    size_t count, room;
    char *names;
    size_t name_bytes, name_room;
};

/* Add an image or folder; the path is copied, and file->path is ignored. 0 or -ENOMEM. */
int image_list_add(struct image_list *list, const char *path, const struct image_file *file);
const char *image_list_path(const struct image_list *list, const struct image_file *file);
/* Sort by path: components are compared one after the other, in bytewise order. So a folder is followed by its
 * contents. */
void image_list_sort(struct image_list *list);
/* Accepts a struct of zeros. */
void image_list_release(struct image_list *list);

#define IMAGE_FOLDER_DEPTH_MAX 32u
#define IMAGE_FOLDER_PATH_BYTES 4096u

/* Set the borrowed pointers, and zero the rest. */
struct image_folder {
    struct image_choice *choice;        /* borrowed; image_choice_begin was called */
    struct image_list *list;            /* borrowed; images and folders are added, with paths relative to the folder */
    const atomic_bool *interrupted;     /* borrowed; may be NULL */
    char path[IMAGE_FOLDER_PATH_BYTES]; /* path of the current entry */
    struct file_identity above[IMAGE_FOLDER_DEPTH_MAX + 1];     /* the folders that contain the current entry */
};

/* Walk through the folder that is open as `fd`. Hidden entries are skipped, and links are followed. Entries that
 * cannot be read, or are neither files nor folders, are added to the refused files. 0, -ENOMEM, -ECANCELED when
 * interrupted, or another negative errno if a resource of the system, such as descriptors, is exhausted. */
int image_folder_walk(struct image_folder *folder, int fd);

#endif
