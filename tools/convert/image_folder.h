/* The images of a data set or of a prediction: which files are images, by their content; the list of them; and finding
 * them in folders. pipetrain-convert and predict share this, so both find the same images. A conversion refuses its
 * input if a file that is named like an image is none, or cannot be read, but looks at all files first. Other files
 * (notes, lists, scripts) are left out, and reported by kind. */
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
#include "tools/lib/text/progress.h"

#define IMAGE_BYTES_MAX ((uint64_t)63 << 20)    /* so that its record is not over 64 MiB */

#define IMAGE_CHOICE_KINDS 16u
#define IMAGE_CHOICE_TABLES 3u
#define IMAGE_CHOICE_LISTED 100u        /* refused files; further ones are only counted */

enum image_choice_rule {
    IMAGE_CHOICE_STORED,        /* refuse files named like an image of any kind that are no JPEG or PNG */
    IMAGE_CHOICE_ALL,           /* refuse every file that is no JPEG or PNG */
    IMAGE_CHOICE_SHOWN,         /* accept files named like a JPEG or PNG; the decoder reports what is wrong */
};

struct image_choice {
    struct progress progress;   /* counts files, or bytes of the input */
    bool counts_bytes;
    enum image_choice_rule rule;
    uint8_t *head;              /* the first bytes of the current file; owned */
    size_t head_room;
    struct image_header common; /* the size of all images so far; height 0: they differ */
    uint64_t image_count, left_out_count, refused_count;
    uint64_t label_file_count;  /* files left out that hold a label (.cls); that may describe an image (.json, .txt) */
    uint64_t note_file_count;
    char archive[200];          /* the first archive among the files left out; "": there is none */
    uint64_t turned_count;      /* images with an EXIF orientation other than upright */
    char turned[200];           /* the path of the first of them, in bytewise order */
    uint64_t system_count;      /* folders of systems that were skipped */
    char system_first[200], system_last[200];   /* paths: the first in bytewise order, and the last one met */
    struct image_choice_kind {
        const char *problem;    /* "is a BMP"; the last entry is for all kinds without an entry of their own */
        uint64_t count;
        char first[200];        /* the first path in bytewise order */
    } left_out[IMAGE_CHOICE_KINDS];
    char tables[IMAGE_CHOICE_TABLES][200];  /* the first tables among the files left out, in bytewise order */
    const char *refused_hint;   /* a possible cause, for the message; NULL: none */
    size_t refused_listed;
    char *refused[IMAGE_CHOICE_LISTED]; /* the first refused files, with the reasons; owned */
};

/* Reads the first `bytes` bytes of a file. 0, or a negative errno. */
typedef int image_head_read(void *arg, uint8_t *out, size_t bytes);

/* One of them, for the file that is open as *(int *)fd. */
int image_head_read_file(void *fd, uint8_t *out, size_t bytes);

/* Start; `files` is the number of files for progress, 0: not known. */
void image_choice_begin(struct image_choice *choice, enum image_choice_rule rule, uint64_t files);
/* Count `bytes` bytes of input as progress instead of files; the caller adds them. */
void image_choice_count_bytes(struct image_choice *choice, uint64_t bytes);
/* Decide about a file of `bytes` bytes. 0 and whether it is an image, or -ENOMEM. */
int image_choice_take(struct image_choice *choice, const char *path, uint64_t bytes, image_head_read *read, void *arg,
                     bool *is_image_out);
/* Note a file larger than IMAGE_BYTES_MAX, which need not be read. */
void image_choice_too_large(struct image_choice *choice, const char *path);
/* Does the file have the name of an image of any kind? */
bool image_choice_name(const char *path);
/* Is the file skipped, as it is hidden or in a folder that is? Names that begin with a dot are skipped without a message,
 * folders of systems (__MACOSX, @eaDir, ...) are counted. `path` is relative to the folder `parent`, "" for the input. */
bool image_choice_skips(struct image_choice *choice, const char *parent, const char *path);
/* Note that a file cannot be used, for the message "PATH PROBLEM". */
void image_choice_refuse(struct image_choice *choice, const char *path, const char *problem);
/* Report how many files of each kind were left out, and how many images are not upright. */
void image_choice_report(struct image_choice *choice, const char *input);
/* The refused files as one text; where there are more than fit into a line, print a line for each and return "". In the
 * order of their paths. */
const char *image_choice_list_refused(struct image_choice *choice, const char *input, char *text, size_t text_size);
/* Report both. 0, or -EBADMSG after stop_fail if a file was refused. */
int image_choice_end(struct image_choice *choice, const char *input, struct stop *stop);
/* Accepts a struct of zeros. */
void image_choice_release(struct image_choice *choice);

struct image_file {
    uint64_t path;              /* offset of its path in `names` */
    uint64_t place;             /* of its data, for the converter */
    uint32_t bytes;
    uint32_t label;
    uint16_t input;             /* number of its archive or table, for the converter */
    uint16_t name_at;           /* offset in the path of the name that its record stores */
    bool is_folder;             /* a folder, not an image */
    struct file_identity identity;      /* of images in folders */
};

/* Made for millions of images: all paths are in one block, and an image takes 48 bytes more than its path. */
struct image_list {
    struct image_file *files;
    size_t count, room;
    char *names;
    size_t name_bytes, name_room;
};

/* Add an image or folder; the path is copied, file->path is set. 0 or -ENOMEM. */
int image_list_add(struct image_list *list, const char *path, const struct image_file *file);
const char *image_list_path(const struct image_list *list, const struct image_file *file);
/* Sort by path, component by component in bytewise order: a folder is followed by its contents. */
void image_list_sort(struct image_list *list);
/* Accepts a struct of zeros. */
void image_list_release(struct image_list *list);

#define IMAGE_FOLDER_DEPTH_MAX 32u
#define IMAGE_FOLDER_PATH_BYTES 4096u

/* Zero it first, except the borrowed pointers. */
struct image_folder {
    struct image_choice *choice;        /* borrowed; started */
    struct image_list *list;            /* borrowed; images and folders are added, with paths relative to the folder */
    const atomic_bool *interrupted;     /* borrowed; may be NULL */
    char path[IMAGE_FOLDER_PATH_BYTES]; /* of the current entry */
    struct file_identity above[IMAGE_FOLDER_DEPTH_MAX + 1];     /* the folders it is in */
};

/* Walk the folder that is open as `fd`. Hidden entries are skipped, links are followed; what cannot be read or is no
 * file is noted as refused. 0, -ENOMEM, -ECANCELED when interrupted, or another negative errno when a resource of the
 * system is exhausted, such as descriptors. */
int image_folder_walk(struct image_folder *folder, int fd);

#endif
