/* pipetrain-shards check: verify both checksums of every record. Called by the main thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/json.h"
#include "formats/manifest.h"
#include "loader/shard_counts.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/shards/image_check.h"
#include "tools/shards/scan.h"
#include "tools/shards/shards_command.h"

struct check {
    struct json *json;          /* NULL: the output is text */
    struct shard_counts counts;
    bool compares_hashes;
    uint64_t shards, records, bytes, damages, damaged_shards;
    uint64_t undecoded;         /* images of unknown size */
};

static void add_problem(const struct check *check, const char *path, const char *problem)
{
    char shown[1024];
    log_plain(path, shown, sizeof(shown));
    if (check->json != NULL)
        json_quoted(check->json, "problem", problem);
    else
        printf("%s: %s\n", shown, problem);
}

static void add_crcs(struct json *json, const struct record_problem *problem)
{
    char text[9];
    snprintf(text, sizeof(text), "%08" PRIx32, problem->stored_crc);
    json_quoted(json, "stored_crc", text);
    snprintf(text, sizeof(text), "%08" PRIx32, problem->computed_crc);
    json_quoted(json, "computed_crc", text);
}

static void add_damage(const struct check *check, const char *path, const struct scan_damage *damage)
{
    char text[2048];
    struct json *const json = check->json;
    if (json == NULL) {
        record_place_describe(path, damage->record, damage->offset, &damage->problem, text, sizeof(text));
        puts(text);
        return;
    }
    json_open_object(json, NULL);
    json_u64(json, "record", damage->record);
    json_u64(json, "offset", damage->offset);
    json_quoted(json, "problem", damage->problem.text);
    if (damage->problem.has_crcs)
        add_crcs(json, &damage->problem);
    json_close_object(json);
}

static void add_damages(const struct check *check, const struct scan_shard *shard)
{
    if (check->json != NULL)
        json_open_array(check->json, "damages");
    for (size_t i = 0; i < shard->damage_count; i++)
        add_damage(check, shard->path, &shard->damages[i]);
    if (check->json != NULL)
        json_close_array(check->json);
}

/* Whether an undamaged shard has another hash than the one in its manifest. */
static bool has_other_hash(const struct check *check, const struct scan_shard *shard,
                              const struct manifest_shard *listed, char *text, size_t text_size)
{
    if (!check->compares_hashes || !listed->has_hash || shard->damage_count > 0 || shard->hash == listed->hash)
        return false;
    snprintf(text, text_size, "has other records: their xxh3 is %016" PRIx64 ", but %s says %016" PRIx64, shard->hash,
             listed->listed_in, listed->hash);
    return true;
}

/* Find a problem that concerns the shard as a whole; false if there is none. */
static bool find_problem(struct check *check, const struct scan_shard *shard, char *text, size_t text_size)
{
    const struct manifest_shard *listed = NULL;
    const struct shard_index found = { .stamp.bytes = shard->bytes, .record_count = shard->records };
    (void)shard_counts_find(&check->counts, shard->path, &listed);      /* if out of memory, nothing is compared */
    if (shard->error == -ENOENT && listed != NULL) {
        snprintf(text, text_size, "is missing: %s says %" PRIu64 " records", listed->listed_in, listed->records);
        return true;
    }
    if (shard->error < 0) {
        snprintf(text, text_size, "cannot be opened: %s", strerror(-shard->error));
        return true;
    }
    if (listed == NULL)
        snprintf(text, text_size, "is empty: 0 bytes");
    return listed == NULL ? shard->bytes == 0
                          : !shard_counts_agree(listed, &found, text, text_size) ||
                                has_other_hash(check, shard, listed, text, text_size);
}

static void open_shard(const struct check *check, const struct scan_shard *shard)
{
    if (check->json == NULL)
        return;
    json_open_object(check->json, NULL);
    json_quoted(check->json, "path", shard->path);
    json_u64(check->json, "bytes", shard->bytes);
    json_u64(check->json, "records", shard->records);
}

static void add_shard(void *arg, struct scan *scan, const struct scan_shard *shard)
{
    struct check *const check = arg;
    char text[1024];
    open_shard(check, shard);
    const bool has_problem = find_problem(check, shard, text, sizeof(text));
    if (has_problem || shard->damage_count > 0)
        scan_hide_progress(scan);
    if (has_problem)
        add_problem(check, shard->path, text);
    add_damages(check, shard);
    if (check->json != NULL)
        json_close_object(check->json);
    check->shards++;
    check->records += shard->records;
    check->bytes += shard->bytes;
    check->damages += shard->damage_count + has_problem;
    check->damaged_shards += has_problem || shard->damage_count > 0;
}

static void print_total(const struct check *check)
{
    printf("%" PRIu64 " shard%s, %" PRIu64 " records, %" PRIu64 " bytes: ", check->shards,
           check->shards == 1 ? "" : "s", check->records, check->bytes);
    if (check->damages == 0)
        printf("all right\n");
    else
        printf("%" PRIu64 " damage%s in %" PRIu64 " shard%s\n", check->damages, check->damages == 1 ? "" : "s",
               check->damaged_shards, check->damaged_shards == 1 ? "" : "s");
    if (check->undecoded > 0)
        printf("%" PRIu64 " image%s not decoded: no feature of the record says height and width; the number of bytes "
               "is that of the shard's first image\n", check->undecoded, check->undecoded == 1 ? " was" : "s were");
}

static void json_total(const struct check *check)
{
    json_u64(check->json, "records", check->records);
    json_u64(check->json, "bytes", check->bytes);
    json_u64(check->json, "damages", check->damages);
    json_u64(check->json, "undecoded", check->undecoded);
}

static int check_shards(struct check *check, const struct shards_request *request, const struct shard_list *list)
{
    const struct sample_names names = { .image = request->image_key };
    struct image_check images = { .checkers = NULL };
    struct scan_options options = {
        .paths = list->paths,
        .count = list->count,
        .threads = (uint32_t)request->jobs,
        .is_unwanted = request->is_unwanted,
        .what = "checking",
        .hashes = request->compares_hashes,
    };
    int rc = request->decodes ? image_check_init(&images, &names, list->paths, list->count, options.threads) : 0;
    if (request->decodes) {
        options.visit = image_check_visit;
        options.arg = &images;
    }
    if (rc == 0)
        rc = scan_shards(&options, add_shard, check);
    if (rc == 0)
        rc = image_check_result(&images);
    check->undecoded = image_check_undecoded(&images);
    image_check_release(&images);
    return rc;
}

/* Report the result of the check. Returns an exit code. */
static int end_check(struct check *check, int rc)
{
    if (rc == -ECANCELED)
        return EXIT_CODE_STOPPED;       /* the main function derives the exit code from the signal */
    if (rc < 0) {
        log_message(LOG_ERROR, "not all shards were checked: %s", exit_cause(rc));
        return (int)exit_code_of(rc, EXIT_CODE_MEMORY);
    }
    if (check->json == NULL)
        print_total(check);
    return check->damages > 0 ? EXIT_CODE_DATA : EXIT_CODE_OK;
}

static int check_as_json(struct check *check, const struct shards_request *request, const struct shard_list *list)
{
    struct json json;
    json_init(&json, true);
    check->json = &json;
    json_open_object(&json, NULL);
    json_open_array(&json, "shards");
    int rc = check_shards(check, request, list);
    json_close_array(&json);
    json_total(check);
    json_close_object(&json);
    const char *const text = json_text(&json);
    rc = end_check(check, rc == 0 && text == NULL ? -ENOMEM : rc);
    if (text != NULL && rc != EXIT_CODE_STOPPED)
        puts(text);
    json_release(&json);
    return rc;
}

/* Whether a file that the manifest of a folder lists is missing. Names with a slash are ignored. */
static bool is_missing(const char *folder, const char *name)
{
    struct stat status;
    char path[4096];
    const int length = snprintf(path, sizeof(path), "%s%s", folder, name);
    return strchr(name, '/') == NULL && length < (int)sizeof(path) && stat(path, &status) != 0 && errno == ENOENT;
}

/* Append the missing shards that the manifest of a folder lists. */
static int add_missing(struct check *check, const char *folder, struct shard_list *list)
{
    const struct manifest *manifest;
    int rc = shard_counts_folder(&check->counts, folder, &manifest);
    for (size_t i = 0; rc == 0 && i < manifest->count; i++) {
        const char *const name = manifest->shards[i].file;
        const bool is_added = i > 0 && strcmp(manifest->shards[i - 1].file, name) == 0;
        if (!is_added && is_missing(folder, name))
            rc = shard_list_append(list, folder, name);
    }
    return rc;
}

/* Append the missing shards of all folders of the command line. Globs and files select shards on purpose, so nothing
 * can be missing there. */
static int add_all_missing(struct check *check, const struct shards_request *request, struct shard_list *list)
{
    struct stat status;
    int rc = 0;
    for (uint32_t i = 0; i < request->word_count && rc == 0; i++) {
        const char *const word = request->words[i];
        char *folder;
        if (stat(word, &status) != 0 || !S_ISDIR(status.st_mode))
            continue;
        rc = asprintf(&folder, "%s%s", word, word[strlen(word) - 1] == '/' ? "" : "/") < 0 ? -ENOMEM : 0;
        if (rc == 0) {
            rc = add_missing(check, folder, list);
            free(folder);
        }
    }
    return rc;
}

/* Report files among the shards that belong to other data sets. Shards numbered "of N" with different N in one
 * folder count as damage. */
static int check_others(struct check *check, const struct shard_list *list)
{
    char problem[2048];
    struct text text;
    text_init(&text, problem, sizeof(problem));
    const int rc = shard_list_check_numbers(list, "check", false, &text);
    if (rc == -EINVAL) {
        log_message(LOG_ERROR, "%s", problem);
        check->damages++;
        check->damaged_shards++;
    }
    return rc == -ENOMEM ? rc : shard_counts_report_others(&check->counts, list->paths, list->count, "check");
}

static int run(const struct shards_request *request, struct shard_list *list)
{
    struct check check = { .compares_hashes = request->compares_hashes };
    int rc = check_others(&check, list);
    if (rc == 0)
        rc = add_all_missing(&check, request, list);
    const int code = rc < 0            ? end_check(&check, rc)
                     : request->is_json ? check_as_json(&check, request, list)
                                        : end_check(&check, check_shards(&check, request, list));
    shard_counts_release(&check.counts);
    return code;
}

const struct shards_command command_check = {
    .name = "check",
    .words = "PATTERN...",
    .words_least = 1,
    .words_most = UINT32_MAX,
    .options = "jdHiJ",
    .summary = "verify both checksums of every record",
    .help = "Prints one line per damaged record: path, record, byte, the check that failed,\n"
            "the stored and the computed checksum; then continues. Damaged data are read\n"
            "again past the page cache, and the line says whether the disk or memory is at\n"
            "fault. If there is a dataset.json next to a shard, the number of records and\n"
            "the size of the shard must match it, with --hashes the contents as well, and\n"
            "of a directory all listed shards must exist; others are named, and -of-00004\n"
            "beside -of-00008 is damage. With --decode, every image is decoded: one that\n"
            "cannot be decoded or has flaws (a truncated JPEG) is a damage, named by its\n"
            "file if the record has image/filename. Pixels whose size no feature says are\n"
            "counted, and not decoded. Exit status 3 if there is damage.\n\n"
            "  " SHARDS_PROGRAM " check data/digits\n"
            "  " SHARDS_PROGRAM " check 'imagenet/train-*' imagenet/validation-00000-of-00128\n"
            "  " SHARDS_PROGRAM " check --decode 'imagenet/*'\n"
            "  " SHARDS_PROGRAM " check --hashes /mnt/copy/imagenet\n"
            "  " SHARDS_PROGRAM " check --json data/digits > report.json\n",
    .takes_patterns = true,
    .run = run,
};
