/* A set of shard files that appears in a directory all at once: everything is written under temporary names, and the
 * files are renamed only when all of them are on the disk. If the program dies before that, the directory is
 * unchanged, except for temporary files, which the next conversion removes; if it dies later, the next conversion
 * finishes the renaming. A directory with a manifest (dataset.json) contains a complete set. */
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
    const char *advice;         /* appended to error messages; may be "" */
    struct stop *stop;
};

/* Open the folder and lock it against other conversions; on a file system without locks, print a warning and
 * continue. 0, or a negative errno after stop_fail: -EWOULDBLOCK if another process has the lock. Call
 * set_folder_close in both cases. */
int set_folder_open(struct set_folder *folder, const char *path, struct stop *stop);
/* To be called also after set_folder_open has failed. */
void set_folder_close(struct set_folder *folder);

/* Call `look` for every entry until it returns something other than 0, and return that; 0 after the last entry; or a
 * negative errno after stop_fail. */
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
#define SET_COMMIT_MANIFEST ".dataset.json.tmp"     /* the new manifest before the commit */

/* Commit the set with the manifest SET_COMMIT_MANIFEST. The manifest, whose content is `text`, and the shards must
 * be synced. *begun_out is set in all cases: the commit has begun, so temporary files must not be removed. 0, or a
 * negative errno after stop_fail. */
int set_commit_run(struct set_folder *folder, const char *text, bool *begun_out);
/* If another conversion has begun a commit here, finish and report it. 0, or a negative errno after stop_fail: then
 * temporary files must not be removed. */
int set_commit_resume(struct set_folder *folder);
/* The same as set_commit_resume for a directory that will be read; it is opened and locked only if a commit has
 * begun. Does nothing if the path is not a directory. */
int set_commit_resume_in(const char *path, struct stop *stop);

/* The compression of shards. They consist of concatenated compressed units, each of which ends at the end of a
 * record. */
enum packing { PACKING_NONE, PACKING_GZIP, PACKING_LZ4, PACKING_COUNT };

/* the least size of a unit before compression, except for the last unit of a shard */
#define PACKING_UNIT_BYTES ((size_t)1 << 20)

#define SAMPLE_VALUES_MAX 16u
#define SHARD_COUNT_MAX 99999u

/* One split of a data set, provided by a converter. */
struct sample_source {
    const char *split;          /* "train", "validation" */
    uint64_t record_count;
    uint32_t shard_count;       /* set by splits_count_shards; at most record_count; 0 only if there are no records */
    uint64_t bytes;             /* approximate bytes of all records; 0: estimated from the first one */
    size_t scratch_bytes;       /* scratch memory that each call of `sample` or `payload` gets */
    /* Fill in the features of sample `index`, sorted bytewise by name. They may point into `scratch`. Any thread. 0,
     * or a negative errno after stop_fail. */
    int (*sample)(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                  size_t *count_out);
    /* Used instead of `sample` for existing records: read the payload of record `index`, which may be stored in
     * `scratch`. */
    int (*payload)(void *arg, uint64_t index, void *scratch, const uint8_t **payload_out, size_t *bytes_out);
    /* Get a number that identifies the class of record `index`: the label if it is an integer, else a number derived
     * from it. Called by one thread. 0, or a negative errno after stop_fail. NULL: classes are unknown. */
    int (*label)(void *arg, uint64_t index, void *scratch, int64_t *label_out);
    /* Get the name of record `index` for messages, for example its file. Any thread. NULL: records have no names. */
    void (*name)(void *arg, uint64_t index, char *text, size_t text_size);
    void *arg;
};

struct shard_file {
    const struct sample_source *source;
    uint32_t source_number;
    uint32_t number;            /* number of the shard in its split */
    uint64_t first_position;    /* position of its first record in the order of the split */
    uint64_t record_count;
    char name[96];
    char temporary_name[112];
    uint64_t bytes;             /* this and the following members are set by the thread that writes the file */
    uint64_t content_hash;      /* XXH3 of the lengths and payloads of the records */
    struct image_summary images;
};

struct shard_set_spec {
    const char *directory;
    const struct sample_source *sources;
    size_t source_count;
    bool may_replace;           /* replace an existing set */
    enum packing packing;       /* compression of the shards */
    const char *image_key, *label_key;  /* names of the features with image and label; NULL: one of the usual names */
};

struct shard_set {
    struct shard_set_spec spec;
    struct set_folder folder;
    /* number of topmost directories made by this program, which are removed if it fails (stage/file/folders.h) */
    size_t topmost_made;
    bool is_writing;            /* the temporary files are of this conversion, and are removed if it fails */
    struct shard_file *files;
    size_t file_count;
    struct stop *stop;
};

/* Make the directory and its parents if they do not exist, lock it against other conversions, finish a commit that
 * an earlier conversion has begun, refuse an existing set that must not or cannot be replaced, and remove leftovers
 * of earlier conversions. Borrows the pointers in `spec`. 0, or a negative errno after stop_fail. Call
 * shard_set_close in both cases. */
int shard_set_open(struct shard_set *set, const struct shard_set_spec *spec, struct stop *stop);
/* Commit: rename all files, replacing the previous set, and write `manifest`. 0, or a negative errno after
 * stop_fail: either the previous set is complete, or the message says that it is lost, and how to finish the new
 * one. */
int shard_set_commit(struct shard_set *set, const char *manifest);
/* Remove the files that were written, unless a commit has begun. */
void shard_set_close(struct shard_set *set);

/* Create a file of the set, which must not exist yet. Returns a descriptor or a negative errno. */
int shard_set_create(const struct shard_set *set, const char *temporary_name);

#endif
