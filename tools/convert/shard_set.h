/* A set of shard files that appears in a directory all at once: everything is written under temporary names, and only
 * when all of it is on the disk do the files get their names. A run that dies before that leaves the directory as it
 * was, except for temporary files, which the next run removes; one that dies later leaves what the next run finishes.
 * A directory with a manifest (dataset.json) holds a complete set. */
#ifndef PIPETRAIN_SHARD_SET
#define PIPETRAIN_SHARD_SET

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/example.h"
#include "formats/manifest.h"
#include "stage/stop.h"
#include "tools/convert/image_summary.h"

struct set_folder {
    const char *path;           /* borrowed */
    int fd;                     /* -1: not open */
    const char *advice;         /* appended to error messages; "": nothing */
    struct stop *stop;
};

/* Open the folder and lock it against another pipetrain-convert; on a file system without locks print a warning and
 * continue. 0, or a negative errno after stop_fail: -EWOULDBLOCK if another process has the lock. set_folder_close in
 * both cases. */
int set_folder_open(struct set_folder *folder, const char *path, struct stop *stop);
/* Also after set_folder_open has failed. */
void set_folder_close(struct set_folder *folder);

/* Call `look` for every entry until it returns something other than 0, and return that; or a negative errno after
 * stop_fail. */
int set_folder_visit(const struct set_folder *folder,
                     int (*look)(const struct set_folder *folder, const char *name, void *arg), void *arg);
/* Whether this is the name of a shard of a set that pipetrain-convert writes. */
bool set_folder_is_shard(const char *name);

/* ---- the commit ----
 * Replaces a set of shards by another so that one of the two is always complete. First all new files are complete and
 * synced under temporary names. Then one rename makes the new manifest MANIFEST_COMMIT_FILE, the marker: before it the
 * old set is whole; after it the new set is only rolled forward: remove the old manifest, rename the shards, remove
 * shards that the new set does not have, and finally rename the marker to the manifest. set_commit_resume continues an
 * interrupted commit. Called by main, with the folder locked. */
#define SET_COMMIT_MANIFEST ".dataset.json.tmp"     /* the new manifest, before the commit */

/* Commit the set of SET_COMMIT_MANIFEST, which is synced like its shards; `text` is its content. *begun_out, set in all
 * cases: the commit has begun, so temporary files must stay. 0, or a negative errno after stop_fail. */
int set_commit_run(struct set_folder *folder, const char *text, bool *begun_out);
/* Finish a commit that another run has begun here, if there is one, and report it. 0, or a negative errno after
 * stop_fail: then temporary files must stay. */
int set_commit_resume(struct set_folder *folder);
/* The same for a directory that will be read: opened and locked only if a commit has begun. A path that is no
 * directory has none. */
int set_commit_resume_in(const char *path, struct stop *stop);

/* Compression of shards, in concatenated units, each of which ends where a record ends. */
enum packing { PACKING_NONE, PACKING_GZIP, PACKING_LZ4, PACKING_COUNT };

#define PACKING_UNIT_BYTES ((size_t)1 << 20)    /* smallest unit before compression, except the last of a shard */

#define SAMPLE_VALUES_MAX 16u
#define SHARD_COUNT_MAX 99999u

/* One split of a data set, from its converter. */
struct sample_source {
    const char *split;          /* "train", "validation" */
    uint64_t record_count;
    uint32_t shard_count;       /* at most record_count; 0 only without records; set by splits_count_shards */
    uint64_t bytes;             /* approximate, of all records; 0: estimated from the first one */
    size_t scratch_bytes;       /* of scratch memory for each call of `sample` or `payload` */
    /* Fill in the features of sample `index`, sorted bytewise by name; they may point into scratch. Any thread. 0, or a
     * negative errno after stop_fail. */
    int (*sample)(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                  size_t *count_out);
    /* Instead of `sample`, for existing records: the payload of record `index`, which may be in scratch. */
    int (*payload)(void *arg, uint64_t index, void *scratch, const uint8_t **payload_out, size_t *bytes_out);
    /* What tells the class of record `index` from other classes: its label, or another number for a label that is none.
     * One thread. 0, or a negative errno after stop_fail. NULL: not known. */
    int (*label)(void *arg, uint64_t index, void *scratch, int64_t *label_out);
    /* The name of record `index` in messages, for example its file. Any thread. NULL: no name. */
    void (*name)(void *arg, uint64_t index, char *text, size_t text_size);
    void *arg;
};

struct shard_file {
    const struct sample_source *source;
    uint32_t source_number;
    uint32_t number;            /* within its split */
    uint64_t first_position;    /* its first record in the order of the split */
    uint64_t record_count;
    char name[96];
    char temporary_name[112];
    uint64_t bytes;             /* set by the writer of this file, like all that follows */
    uint64_t content_hash;      /* xxh3 of the records' lengths and payloads */
    struct image_summary images;
};

struct shard_set_spec {
    const char *directory;
    const struct sample_source *sources;
    size_t source_count;
    bool may_replace;           /* replace an existing set */
    enum packing packing;       /* of the shards */
    const char *image_key, *label_key;  /* the features with image and label; NULL: one of the usual names */
};

struct shard_set {
    struct shard_set_spec spec;
    struct set_folder folder;
    size_t topmost_made;        /* the directories that this run made and removes if it fails (stage/file/folders.h) */
    bool is_writing;            /* temporary files are of this run, and are removed with it */
    struct shard_file *files;
    size_t file_count;
    struct stop *stop;
};

/* Make the directory and its parents if they do not exist, lock it against a second writer, finish a commit that a
 * dead run has begun, refuse an existing set that must not or cannot be replaced, and remove leftovers of dead runs.
 * Borrows what `spec` points to. 0, or a negative errno after stop_fail. shard_set_close in both cases. */
int shard_set_open(struct shard_set *set, const struct shard_set_spec *spec, struct stop *stop);
/* Commit: rename all files, replacing the previous set, and write `manifest`. 0, or a negative errno after stop_fail:
 * either the previous set is whole, or the message says that it is lost, and how to finish this one. */
int shard_set_commit(struct shard_set *set, const char *manifest);
/* Remove what was written, unless committing has begun. */
void shard_set_close(struct shard_set *set);

/* Create a file of the set, which must not exist: a descriptor, or a negative errno. */
int shard_set_create(const struct shard_set *set, const char *temporary_name);

#endif
