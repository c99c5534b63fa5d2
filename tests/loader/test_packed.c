/* Compressed shards: the same records as in plain ones, at any offset and from any thread; and damage, which
 * is always seen and never alters a record. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/tfrecord.h"
#include "formats/unpacker.h"
#include "loader/shards/packed_shard.h"
#include "loader/shards/shard_index.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/memory_source.h"
#include "tests/helpers/packed_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { RECORDS = 5, SHARD_BYTES = RECORDS * FIXTURE_FRAME_MAX, LONG_BYTES = 7 << 20, READERS = 4 };

/* A whole shard, and where its records end. */
static uint8_t shard[SHARD_BYTES];
static size_t ends[RECORDS];

/* Open as long as the tests run, so that the pool of streams is not created for every shard. */
static struct shard_source *kept_open;

static uint8_t packed[SHARD_BYTES * 4];
static size_t packed_bytes;

static void pack(enum packed_way way, size_t records_a_piece)
{
    size_t piece_ends[RECORDS], pieces = 0;
    for (size_t i = 0; i < RECORDS; i++)
        if ((i + 1) % records_a_piece == 0 || i + 1 == RECORDS)
            piece_ends[pieces++] = ends[i];
    packed_bytes = packed_fixture(way, shard, piece_ends, pieces, packed);
}

/* The first bytes of `packed` as a source; reads that bypass caches see `afresh` (NULL: the same). */
static struct shard_source *open_packed_with(size_t bytes, const uint8_t *afresh)
{
    static struct memory_shard memory;
    struct shard_source *kept, *source;
    memory = (struct memory_shard){ .name = "packed", .data = packed, .bytes = bytes, .afresh = afresh };
    memory_source_set(&memory, 1);
    assert_int_equal(shard_source_open(&kept, &memory_source_ops, "packed"), 0);
    assert_int_equal(packed_shard_wrap(&source, kept), 0);
    return source;
}

static struct shard_source *open_packed(size_t bytes)
{
    return open_packed_with(bytes, NULL);
}

static int prepare(void **state)
{
    assert_true(packed_fixture_room(SHARD_BYTES, 1) < sizeof(packed));
    assert_int_equal(fixture_folder_make(state), 0);
    for (size_t i = 0; i < RECORDS; i++)
        ends[i] = (i > 0 ? ends[i - 1] : 0) + fixture_record(i, shard + (i > 0 ? ends[i - 1] : 0));
    pack(PACKED_LZ4, RECORDS);
    const char *const path = fixture_path(folder, "kept");
    fixture_write(path, packed, packed_bytes);
    return shard_source_open(&kept_open, NULL, path);
}

static int release(void **state)
{
    shard_source_close(kept_open);
    assert_int_equal(packed_pool_bytes(), 0);
    return fixture_folder_remove(state);
}

static int open_index(struct shard_index *index, struct shard_source *source, bool skips, char *problem, size_t size)
{
    const struct shard_index_options options = { .skip_damage = skips };
    return shard_index_open(index, source, &options, problem, size);
}

/* Which of the records, as bits, can be read from the source; asserts that it gives no others. */
static unsigned find_records(struct shard_source *source, const struct shard_index *index)
{
    static uint8_t frame[SHARD_BYTES];
    unsigned found = 0;
    for (uint64_t i = index->record_count; i-- > 0;) {
        const struct shard_record record = shard_index_find(index, i);
        uint64_t payload_bytes;
        struct tfrecord_problem problem;
        const size_t bytes = record.payload_bytes + TFRECORD_FRAME_BYTES;
        assert_true(bytes <= sizeof(frame));
        const ssize_t got = shard_source_read(source, frame, bytes, record.offset);
        if (got < 0 || tfrecord_verify(frame, (size_t)got, &payload_bytes, &problem) != TFRECORD_OK)
            continue;
        size_t id = 0, begin = 0;
        while (id < RECORDS && (ends[id] - begin != (size_t)got || memcmp(shard + begin, frame, (size_t)got) != 0))
            begin = ends[id++];
        assert_true(id < RECORDS);
        found |= 1u << id;
    }
    return found;
}

/* Of what is in `packed`, when damage is skipped; 0 where that, too, is refused. */
static unsigned skip_damage(size_t bytes, uint64_t *lost_out)
{
    char problem[1024] = "";
    struct shard_index index;
    struct shard_source *const source = open_packed(bytes);
    unsigned found = 0;
    *lost_out = 1;
    if (open_index(&index, source, true, problem, sizeof(problem)) == 0) {
        found = find_records(source, &index);
        *lost_out = index.damage_count;
        shard_index_release(&index);
    } else {
        assert_non_null(strstr(problem, "packed: "));
    }
    shard_source_close(source);
    return found;
}

/* Whether the shard in `packed` opens without a word of damage, when none is skipped. */
static bool opens_whole(size_t bytes)
{
    char problem[1024] = "";
    struct shard_index index;
    struct shard_source *const source = open_packed(bytes);
    const int rc = open_index(&index, source, false, problem, sizeof(problem));
    const bool is_whole =
        rc == 0 && index.bytes == ends[RECORDS - 1] && find_records(source, &index) == (1u << RECORDS) - 1;
    if (rc == 0)
        shard_index_release(&index);
    else
        assert_ptr_equal(strstr(problem, "packed: "), problem);
    shard_source_close(source);
    return is_whole;
}

TEST(any_compression_gives_the_same_records)
{
    uint8_t stream[SHARD_BYTES];
    for (unsigned i = 0; i < PACKED_WAY_COUNT * RECORDS; i++) {
        pack((enum packed_way)(i % PACKED_WAY_COUNT), 1 + i / PACKED_WAY_COUNT);
        assert_true(opens_whole(packed_bytes));
        struct shard_source *const source = open_packed(packed_bytes);
        uint64_t bytes;
        assert_int_equal(shard_source_size(source, &bytes), 0);
        assert_int_equal(bytes, ends[RECORDS - 1]);
        assert_int_equal(shard_source_read(source, stream, sizeof(stream), 0), bytes);
        assert_memory_equal(stream, shard, bytes);
        assert_int_equal(shard_source_read_afresh(source, stream, sizeof(stream), 5), bytes - 5);
        assert_memory_equal(stream, shard + 5, bytes - 5);
        assert_int_equal(shard_source_read(source, stream, 1, bytes), 0);
        shard_source_close(source);
    }
}

/* Where the members or frames of `packed` end, one for each record; a zlib stream is one unit. */
static size_t find_unit_ends(enum packed_way way, size_t unit_ends[RECORDS])
{
    static uint8_t begin[sizeof(packed)];
    if (way == PACKED_ZLIB) {
        unit_ends[0] = packed_bytes;
        return 1;
    }
    for (size_t pieces = 1; pieces <= RECORDS; pieces++)
        unit_ends[pieces - 1] = packed_fixture(way, shard, ends, pieces, begin);
    return RECORDS;
}

/* A cut between two units leaves a valid shard; elsewhere the record of the cut is lost, or those after it. */
static void expect_cut(size_t cut, const size_t *unit_ends, size_t unit_count)
{
    uint64_t damages;
    size_t whole = 0;
    while (unit_ends[whole] <= cut)
        whole++;
    assert_false(opens_whole(cut));
    const unsigned found = skip_damage(cut, &damages);
    assert_int_equal(found & (found + 1), 0);
    assert_int_equal(damages > 0, cut > (whole > 0 ? unit_ends[whole - 1] : 0));
    assert_true((unsigned)__builtin_popcount(found) >= whole);
    if (unit_count == RECORDS)
        assert_true((unsigned)__builtin_popcount(found) <= whole + 1);
}

TEST(a_shard_cut_anywhere_is_refused_and_loses_no_record_before_the_cut)
{
    static const enum packed_way ways[] = { PACKED_GZIP, PACKED_ZLIB, PACKED_LZ4 };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        size_t unit_ends[RECORDS];
        pack(ways[i], 1);
        const size_t unit_count = find_unit_ends(ways[i], unit_ends);
        for (size_t cut = 0; cut < packed_bytes; cut++)
            expect_cut(cut, unit_ends, unit_count);
    }
}

/* Some bits of a header have no meaning. A step of five comes to every byte's neighbour and to each of the eight places
 * of a bit. */
static void flip_all(enum packed_way way, size_t records_a_piece, unsigned lost_max, size_t seen_min)
{
    const unsigned all = (1u << RECORDS) - 1;
    const size_t first_bit = way == PACKED_ZLIB || records_a_piece == RECORDS ? CONTAINER_MAGIC_BYTES * 8 : 0;
    const size_t step = test_is_long() ? 1 : 5;
    size_t seen = 0, flipped = 0;
    pack(way, records_a_piece);
    for (size_t bit = 0; bit < packed_bytes * 8; bit += step) {
        uint64_t lost;
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const bool is_whole = opens_whole(packed_bytes);
        const unsigned found = skip_damage(packed_bytes, &lost);
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(is_whole ? found == all && lost == 0 : lost > 0);
        if (bit >= first_bit)
            assert_true((unsigned)__builtin_popcount(all & ~found) <= lost_max);
        seen += !is_whole;
        flipped++;
    }
    assert_true(seen >= seen_min * flipped / 100);
}

TEST(a_flipped_bit_costs_no_more_than_the_lz4_frame_it_is_in)
{
    flip_all(PACKED_LZ4, 1, 1, 100);
    flip_all(PACKED_LZ4, 3, 3, 100);
}

TEST(a_flipped_bit_costs_no_more_than_the_gzip_member_it_is_in)
{
    flip_all(PACKED_GZIP, 1, 1, 90);
    flip_all(PACKED_GZIP, 3, 3, 90);
}

TEST(a_flipped_bit_of_one_long_unit_is_found)
{
    flip_all(PACKED_GZIP, RECORDS, RECORDS, 90);
    flip_all(PACKED_ZLIB, 2, RECORDS, 90);
}

TEST(damage_is_reported_with_both_offsets)
{
    char problem[1024];
    struct shard_index index;
    pack(PACKED_LZ4, 1);
    packed[packed_bytes / 2] ^= 1;
    struct shard_source *source = open_packed(packed_bytes);
    assert_int_equal(open_index(&index, source, false, problem, sizeof(problem)), -EBADMSG);
    assert_non_null(strstr(problem, "packed: record 2 at byte "));
    assert_non_null(strstr(problem, "the LZ4 data are damaged near compressed byte "));
    assert_null(strstr(problem, "all records after it are lost"));
    shard_source_close(source);
    pack(PACKED_GZIP, 2);
    source = open_packed(packed_bytes - 1);
    assert_int_equal(open_index(&index, source, false, problem, sizeof(problem)), -EBADMSG);
    assert_non_null(strstr(problem, "the gzip data are damaged near compressed byte "));
    assert_non_null(strstr(problem, "the compressed stream is truncated"));
    assert_non_null(strstr(problem, "; all records after it are lost: get the file again"));
    shard_source_close(source);
}

static void assert_refused_as(const void *content, size_t bytes, const char *kind)
{
    char problem[1024];
    struct shard_index index;
    packed_bytes = packed_fixture(PACKED_GZIP, content, &bytes, 1, packed);
    struct shard_source *const source = open_packed(packed_bytes);
    assert_int_equal(open_index(&index, source, true, problem, sizeof(problem)), -ENOTSUP);
    assert_non_null(strstr(problem, kind));
    shard_source_close(source);
}

TEST(compressed_files_of_other_kinds_are_named)
{
    assert_refused_as("label,pixel0,pixel1\n", 20, "it is a text file");
    assert_refused_as("\x1f\x8b\x08\0\0\0\0\0\0\x13\xb5\x5d\x7b", 13, "it is compressed twice");
    assert_refused_as("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, "it is an image file");
}

TEST(bytes_after_a_unit_are_damage_unless_they_are_another_unit)
{
    uint64_t lost;
    pack(PACKED_GZIP, RECORDS);
    memcpy(packed + packed_bytes, "more", 4);
    assert_false(opens_whole(packed_bytes + 4));
    assert_int_equal(skip_damage(packed_bytes + 4, &lost), (1u << RECORDS) - 1);
    assert_int_equal(lost, 1);
}

static void assert_foreign_bytes(enum packed_way way, size_t more, const char *words)
{
    char problem[1024], at[64];
    struct shard_index index;
    pack(way, 2);
    memcpy(packed + packed_bytes, "more and more bytes", more);
    snprintf(at, sizeof(at), " data end at compressed byte %zu, and ", packed_bytes);
    struct shard_source *const source = open_packed(packed_bytes + more);
    assert_int_equal(open_index(&index, source, false, problem, sizeof(problem)), -EBADMSG);
    if (strstr(problem, at) == NULL || strstr(problem, words) == NULL || strstr(problem, "truncated") != NULL)
        fail_msg("no '%s' and '%s' in %s", at, words, problem);
    shard_source_close(source);
}

TEST(foreign_bytes_after_the_last_unit_are_counted)
{
    assert_foreign_bytes(PACKED_GZIP, 1, "1 byte after them is not gzip: cut it off");
    assert_foreign_bytes(PACKED_GZIP, 4, "4 bytes after them are not gzip: cut them off");
    assert_foreign_bytes(PACKED_GZIP, 19, "19 bytes after them are not gzip");
    assert_foreign_bytes(PACKED_ZLIB, 3, "3 bytes after them are not zlib");
    assert_foreign_bytes(PACKED_LZ4, 5, "5 bytes after them are not LZ4");
}

TEST(a_unit_cut_in_its_first_bytes_is_reported_as_truncated)
{
    char problem[1024];
    struct shard_index index;
    for (size_t held = 1; held < 12; held++) {
        pack(PACKED_GZIP, RECORDS);
        memcpy(packed + packed_bytes, packed, held);
        struct shard_source *const source = open_packed(packed_bytes + held);
        assert_int_equal(open_index(&index, source, false, problem, sizeof(problem)), -EBADMSG);
        assert_non_null(strstr(problem, "the compressed stream is truncated"));
        shard_source_close(source);
    }
}

/* The first header is wrong, and looks like the beginning of zlib data. */
TEST(a_damaged_plain_shard_stays_one)
{
    const size_t bytes = ends[RECORDS - 1];
    uint64_t lost;
    memcpy(packed, shard, bytes);
    packed[0] = 0x78;
    packed[1] = 0x9c;
    struct shard_source *const source = open_packed(bytes);
    assert_ptr_equal(source->ops, &memory_source_ops);
    shard_source_close(source);
    assert_int_equal(skip_damage(bytes, &lost), (1u << RECORDS) - 2);
}

TEST(only_an_index_without_damage_is_kept)
{
    const struct shard_index_options options = { .skip_damage = true, .use_cache = true };
    const char *const path = fixture_path(folder, "indexed");
    char problem[1024];
    for (int is_damaged = 0; is_damaged < 2; is_damaged++) {
        struct shard_source *source;
        struct shard_index index, again = { .record_count = 0 };
        pack(PACKED_LZ4, 1);
        packed[packed_bytes / 2] ^= (uint8_t)is_damaged;
        (void)unlink(path);
        fixture_write(path, packed, packed_bytes);
        assert_int_equal(shard_source_open(&source, NULL, path), 0);
        assert_int_equal(shard_index_open(&index, source, &options, problem, sizeof(problem)), 0);
        assert_int_equal(index.damage_count, is_damaged);
        assert_int_equal(index_file_read(&again, source) == 0, !is_damaged);
        assert_int_equal(again.record_count, is_damaged ? 0 : RECORDS);
        shard_index_release(&index);
        shard_index_release(&again);
        shard_source_close(source);
    }
}

/* The unit of record 2 is damaged; run the whole loader. The damage of an LZ4 frame is noticed before the record, that
 * of a gzip member after it: then the record is in the index and its payload fails, which is not counted again, and the
 * message has its bytes. */
static void run_with_damage(enum packed_way way, uint64_t indexed, const char *words)
{
    enum { EPOCHS = 3 };
    const char *const path = fixture_path(folder, "run");
    pack(way, 1);
    packed[packed_bytes / 2] ^= 1;
    (void)unlink(path);
    fixture_write(path, packed, packed_bytes);
    struct dataset_options options = fixture_options(path);
    options.skip_damage = true;
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(dataset->record_count, indexed);
    assert_int_equal(dataset->record_count + dataset->lost_records, RECORDS);
    struct harness harness = {
        .spec = { .datasets = { dataset }, .shuffle = SHUFFLE_FULL, .seed = 1, .read_threads = 2, .decode_threads = 2,
                  .keep_bytes = LOADER_KEEP_NONE, .skip_corrupt = true, .corrupt_max = 1 },
        .schedule = { .batch = indexed, .towers = 1, .epochs = EPOCHS },
        .depth = 2,
    };
    harness_run(&harness);
    assert_string_equal(harness.message, "");
    assert_int_equal(harness.counts.corrupt_records, 1);
    assert_int_equal(harness.damage_count, 1);
    assert_int_equal(harness.damages[0].record, 2);
    assert_int_equal(harness.damages[0].offset, ends[1]);
    assert_non_null(strstr(harness.damages[0].problem.text, words));
    const bool counts_bytes = strstr(harness.damages[0].problem.text, "no record was found in ") != NULL;
    assert_int_equal(counts_bytes, indexed == RECORDS);
    for (uint64_t i = 0; i < EPOCHS * indexed; i++) {
        const struct delivery *const delivery = &harness.deliveries[i];
        const uint64_t id = delivery->id + (indexed < RECORDS && delivery->id >= 2);
        assert_int_not_equal(id, 2);
        harness_assert_delivered(delivery, id);
    }
    assert_true(loader_memory(&harness.spec).bytes > packed_pool_bytes() + dataset->sources[0]->held_bytes);
    assert_true(dataset->sources[0]->held_bytes > 0 && packed_pool_bytes() > 0);
    harness_release(&harness);
    dataset_close(dataset);
}

TEST(a_run_skips_the_records_of_a_damaged_unit)
{
    run_with_damage(PACKED_LZ4, RECORDS - 1, "the LZ4 data are damaged near compressed byte ");
    run_with_damage(PACKED_GZIP, RECORDS, "the gzip data are damaged near compressed byte ");
}

/* The header of record 1 is wrong in the data that the next, damaged frame follows: one loss, whose bytes are named. */
TEST(bytes_before_a_damaged_unit_in_which_no_record_is_are_counted)
{
    const char *const path = fixture_path(folder, "both");
    char words[64];
    shard[ends[0]] ^= 1;
    pack(PACKED_LZ4, 1);
    shard[ends[0]] ^= 1;
    packed[packed_bytes / 2] ^= 1;
    fixture_write(path, packed, packed_bytes);
    struct dataset_options options = fixture_options(path);
    options.skip_damage = true;
    struct dataset *const dataset = fixture_open(&options);
    struct harness harness = {
        .spec = { .datasets = { dataset }, .shuffle = SHUFFLE_NONE, .read_threads = 1, .decode_threads = 1,
                  .skip_corrupt = true, .corrupt_max = 2 },
        .schedule = { .batch = 1, .towers = 1, .epochs = 1 },
        .depth = 1,
    };
    harness_run(&harness);
    assert_int_equal(harness.damage_count, 1);
    assert_int_equal(harness.damages[0].offset, ends[0]);
    snprintf(words, sizeof(words), ": no record was found in %zu bytes", ends[1] - ends[0] + 1);
    assert_non_null(strstr(harness.damages[0].problem.text, "the LZ4 data are damaged near compressed byte "));
    assert_non_null(strstr(harness.damages[0].problem.text, words));
    harness_release(&harness);
    dataset_close(dataset);
}

/* Damage of a member with one record may be noticed in the record, after it, or in both. */
TEST(any_flipped_bit_of_a_gzip_member_counts_once)
{
    const char *const path = fixture_path(folder, "flipped");
    pack(PACKED_GZIP, 1);
    for (size_t bit = 0; bit < packed_bytes * 8; bit += 11) {
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const bool is_whole = opens_whole(packed_bytes);
        (void)unlink(path);
        fixture_write(path, packed, packed_bytes);
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        struct dataset_options options = fixture_options(path);
        options.skip_damage = true;
        struct dataset *const dataset = fixture_open(&options);
        struct harness harness = {
            .spec = { .datasets = { dataset }, .shuffle = SHUFFLE_NONE, .read_threads = 1, .decode_threads = 1,
                      .skip_corrupt = true, .corrupt_max = 1 },
            .schedule = { .batch = RECORDS, .towers = 1, .epochs = 1 },
            .depth = 1,
        };
        harness_run(&harness);
        assert_string_equal(harness.message, "");
        assert_int_equal(harness.counts.corrupt_records, !is_whole);
        harness_release(&harness);
        dataset_close(dataset);
    }
}

/* A shard longer than the distance of two points of a gzip member, most of which does not shrink. */
static uint8_t *long_data;

struct reader {
    struct shard_source *source;
    uint32_t state;
    bool is_right;
};

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* The cached data become damaged, the file is not. */
TEST(a_read_afresh_bypasses_the_caches)
{
    static const enum packed_way ways[] = { PACKED_GZIP, PACKED_LZ4 };
    static uint8_t whole[sizeof(packed)];
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        uint8_t record[FIXTURE_FRAME_MAX];
        const size_t bytes = ends[2] - ends[1];
        pack(ways[i], 1);
        memcpy(whole, packed, packed_bytes);
        struct shard_source *const source = open_packed_with(packed_bytes, whole);
        for (size_t r = 0; r < RECORDS; r++)
            assert_true(shard_source_read(source, record, 1, ends[r] - 1) == 1);
        memset(packed + packed_bytes / 4, 0xee, packed_bytes / 2);
        assert_int_equal(shard_source_read_afresh(source, record, bytes, ends[1]), bytes);
        assert_memory_equal(record, shard + ends[1], bytes);
        shard_source_close(source);
    }
}

static void *read_anywhere(void *arg)
{
    struct reader *const reader = arg;
    static const size_t buffer_bytes = 300000;
    uint8_t *const buffer = malloc(buffer_bytes);
    reader->is_right = buffer != NULL;
    for (int i = 0; i < 8 && reader->is_right; i++) {
        const size_t offset = draw(&reader->state) % LONG_BYTES, bytes = 1 + draw(&reader->state) % buffer_bytes;
        const size_t left = (size_t)LONG_BYTES - offset, given = bytes < left ? bytes : left;
        reader->is_right = shard_source_read(reader->source, buffer, bytes, offset) == (ssize_t)given &&
                           memcmp(buffer, long_data + offset, given) == 0;
    }
    free(buffer);
    return NULL;
}

/* Read the records of `kept_open`, whose data are in `shard`, too. */
static void *read_records(void *arg)
{
    struct reader *const reader = arg;
    uint8_t buffer[SHARD_BYTES];
    reader->is_right = true;
    for (size_t i = 0; i < 500 && reader->is_right; i++) {
        const size_t offset = i % ends[RECORDS - 1], bytes = ends[RECORDS - 1] - offset;
        reader->is_right = shard_source_read(reader->source, buffer, bytes, offset) == (ssize_t)bytes &&
                           memcmp(buffer, shard + offset, bytes) == 0;
    }
    return NULL;
}

static void assert_read_anywhere(struct shard_source *source)
{
    pthread_t threads[READERS];
    struct reader readers[READERS];
    for (uint32_t i = 0; i < READERS; i++) {
        readers[i] = (struct reader){ .source = source, .state = i };
        assert_int_equal(pthread_create(&threads[i], NULL, read_anywhere, &readers[i]), 0);
    }
    for (uint32_t i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(readers[i].is_right);
    }
}

TEST(several_threads_read_anywhere_in_a_long_shard)
{
    enum { PIECES = 5 };
    static const enum packed_way ways[] = { PACKED_GZIP, PACKED_ZLIB, PACKED_LZ4, PACKED_LZ4_LINKED };
    const size_t piece_ends[PIECES] = { 12, 70000, LONG_BYTES / 8, LONG_BYTES / 7, LONG_BYTES };
    uint32_t random = 9;
    long_data = malloc(LONG_BYTES);
    uint8_t *const long_packed = malloc(packed_fixture_room(LONG_BYTES, PIECES));
    assert_true(long_data != NULL && long_packed != NULL);
    for (size_t i = 0; i < LONG_BYTES; i++)
        long_data[i] = (uint8_t)(i % 4096 < 3500 ? draw(&random) : i >> 9);
    tfrecord_write_header(1000, long_data);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct shard_source *source;
        const char *const path = fixture_path(folder, "long");
        fixture_write(path, long_packed, packed_fixture(ways[i], long_data, piece_ends, PIECES, long_packed));
        assert_int_equal(shard_source_open(&source, NULL, path), 0);
        assert_read_anywhere(source);
        assert_read_anywhere(source);
        shard_source_close(source);
    }
    free(long_data);
    free(long_packed);
}

/* Where the thread sanitizer looks: the streams are those of all shards. */
TEST(shards_are_opened_and_closed_while_another_one_is_read)
{
    struct reader reader = { .source = kept_open };
    struct shard_source *source;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_records, &reader), 0);
    for (int i = 0; i < 100; i++) {
        uint8_t byte;
        assert_int_equal(shard_source_open(&source, NULL, fixture_path(folder, "kept")), 0);
        assert_int_equal(shard_source_read(source, &byte, 1, (uint64_t)i), 1);
        shard_source_close(source);
    }
    pthread_join(thread, NULL);
    assert_true(reader.is_right);
}

TESTS_MAIN(prepare, release)
