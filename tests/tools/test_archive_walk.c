/* Tests of reading archives: every format, paths, what is refused, damage and cuts at any place, limits. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/helpers/file_fixture.h"
#include "tests/helpers/tar_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/zip_maker.h"
#include "tools/convert/archive_walk.h"

#define DATA_BYTES 3000u

static struct tar_fixture tar;
static uint8_t data[DATA_BYTES];

static int set_up(void **state)
{
    tar.byte_count = 0;
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (uint8_t)(i / 7);
    return fixture_folder_enter(state);
}

/* What a walk over the file "x" found; the last member stays. */
struct found {
    int rc;
    size_t count, in_file_count;
    char path[5000], problem[300];
    bool is_folder;
    uint64_t bytes;
    size_t sum;                 /* of all data */
    bool is_skipped;            /* some member was too large to read */
};

/* Read a member whole, in pieces, and from the file again where it is there. */
static int read_member(struct archive_walk *walk, const struct archive_member *member, struct found *found)
{
    static uint8_t bytes[1 << 16], again[1 << 16];
    int rc = 0;

    if (member->bytes > sizeof(bytes)) {
        found->is_skipped = true;
        return 0;
    }
    for (size_t at = 0; at < member->bytes && rc == 0; at += 1000)
        rc = archive_walk_read(walk, bytes + at, member->bytes - at < 1000 ? (size_t)member->bytes - at : 1000);
    for (size_t i = 0; i < member->bytes && rc == 0; i++)
        found->sum += bytes[i];
    if (rc == 0 && member->is_in_file) {
        assert_int_equal(archive_walk_read_at(walk, member->offset, again, (size_t)member->bytes), 0);
        assert_memory_equal(again, bytes, member->bytes);
    }
    return rc;
}

static struct found walk_file(bool reads)
{
    struct found found = { .rc = 0 };
    struct archive_walk *walk;
    struct archive_member member;
    int rc = archive_walk_open(&walk, "x", NULL);

    while (rc == 0 && (rc = archive_walk_next(walk, &member)) == 0) {
        found.count++;
        snprintf(found.path, sizeof(found.path), "%s", member.path);
        found.is_folder = member.is_folder;
        found.in_file_count += member.is_in_file;
        assert_true(!member.is_in_file || member.bytes > 0);
        found.bytes = member.bytes;
        rc = reads ? read_member(walk, &member, &found) : 0;
    }
    found.rc = rc;
    if (rc != -ENODATA) {
        snprintf(found.path, sizeof(found.path), "%s", archive_walk_path(walk));
        snprintf(found.problem, sizeof(found.problem), "%s",
                 archive_walk_problem(walk) != NULL ? archive_walk_problem(walk) : "");
    }
    archive_walk_close(walk);
    return found;
}

static struct found walk_bytes(const void *bytes, size_t count)
{
    fixture_write("x", bytes, count);
    return walk_file(true);
}

/* The tar archive made so far, with its end, has this one member. */
static void expect_member(const char *path, bool is_folder, uint64_t bytes)
{
    tar_fixture_end(&tar);
    const struct found found = walk_bytes(tar.bytes, tar.byte_count);
    assert_int_equal(found.rc, -ENODATA);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.path, path);
    assert_int_equal(found.is_folder, is_folder);
    assert_int_equal(found.bytes, bytes);
    tar.byte_count = 0;
}

static void expect_problem(const char *words)
{
    tar_fixture_end(&tar);
    const struct found found = walk_bytes(tar.bytes, tar.byte_count);
    assert_int_equal(found.rc, -EBADMSG);
    if (strstr(found.problem, words) == NULL)
        fail_msg("'%s' says nothing of '%s'", found.problem, words);
    tar.byte_count = 0;
}

/* ---- formats ---- */

static void write_entry(struct archive *out, const char *path, unsigned kind, const void *bytes, size_t count)
{
    struct archive_entry *const entry = archive_entry_new();

    archive_entry_set_pathname(entry, path);
    archive_entry_set_filetype(entry, kind);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (la_int64_t)count);
    assert_true(archive_write_header(out, entry) >= ARCHIVE_WARN);  /* a name that is not ASCII is a warning */
    if (count > 0)
        assert_int_equal(archive_write_data(out, bytes, count), (la_ssize_t)count);
    archive_entry_free(entry);
}

static void write_archive(int (*format)(struct archive *), int (*filter)(struct archive *))
{
    struct archive *const out = archive_write_new();

    assert_int_equal(format(out), ARCHIVE_OK);
    assert_int_equal(filter(out), ARCHIVE_OK);
    assert_int_equal(archive_write_open_filename(out, "x"), ARCHIVE_OK);
    write_entry(out, "cat/", AE_IFDIR, NULL, 0);
    write_entry(out, "cat/a.png", AE_IFREG, data, DATA_BYTES);
    write_entry(out, "cat/empty.png", AE_IFREG, NULL, 0);
    write_entry(out, "cat/last.png", AE_IFREG, data, 513);
    assert_int_equal(archive_write_close(out), ARCHIVE_OK);
    archive_write_free(out);
}

TEST_WITH(reads_the_same_from_every_format, set_up, fixture_folder_leave)
{
    static const struct { int (*format)(struct archive *), (*filter)(struct archive *); bool is_in_file; } rows[] = {
        { archive_write_set_format_ustar, archive_write_add_filter_none, true },
        { archive_write_set_format_gnutar, archive_write_add_filter_none, true },
        { archive_write_set_format_pax, archive_write_add_filter_none, true },
        { archive_write_set_format_ustar, archive_write_add_filter_gzip, false },
        { archive_write_set_format_ustar, archive_write_add_filter_bzip2, false },
        { archive_write_set_format_ustar, archive_write_add_filter_xz, false },
        { archive_write_set_format_ustar, archive_write_add_filter_zstd, false },
        { archive_write_set_format_ustar, archive_write_add_filter_lz4, false },
        { archive_write_set_format_zip, archive_write_add_filter_none, false },
        { archive_write_set_format_7zip, archive_write_add_filter_none, false },
    };
    size_t sum = 0;

    for (size_t i = 0; i < DATA_BYTES; i++)
        sum += data[i] + (i < 513 ? data[i] : 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_archive(rows[i].format, rows[i].filter);
        for (int reads = 0; reads < 2; reads++) {
            const struct found found = walk_file(reads);
            assert_int_equal(found.rc, -ENODATA);
            assert_int_equal(found.count, 4);
            assert_int_equal(found.in_file_count, rows[i].is_in_file ? 2 : 0);      /* of which two have bytes */
            assert_int_equal(found.sum, reads ? sum : 0);
        }
    }
}

/* Archives larger than the block that is read at a time, with members across its border. */
TEST_WITH(finds_data_anywhere_in_a_large_archive, set_up, fixture_folder_leave)
{
    struct archive *const out = archive_write_new();
    char name[200];

    assert_int_equal(archive_write_set_format_pax(out), ARCHIVE_OK);
    assert_int_equal(archive_write_open_filename(out, "x"), ARCHIVE_OK);
    for (int i = 0; i < 900; i++) {
        snprintf(name, sizeof(name), "%0*d\xc3\xa9.png", i % 150, i);       /* not ASCII: a pax header */
        write_entry(out, name, AE_IFREG, data, DATA_BYTES - (size_t)i);
    }
    archive_write_close(out);
    archive_write_free(out);
    const struct found skipped = walk_file(false), found = walk_file(true);
    assert_int_equal(skipped.rc, -ENODATA);
    assert_int_equal(skipped.count, 900);
    assert_int_equal(found.rc, -ENODATA);
    assert_int_equal(found.count, 900);
}

/* ---- members ---- */

TEST_WITH(tidies_paths, set_up, fixture_folder_leave)
{
    static const struct { char kind; const char *name, *path; bool is_folder; } rows[] = {
        { '0', "./cat//./a.png", "cat/a.png", false }, { '5', "./", "", true },
        { '0', "old/style/", "old/style", true },
        { '0', "a..b/..c", "a..b/..c", false }, { '\0', "cat/b.png", "cat/b.png", false },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tar_fixture_add(&tar, rows[i].kind, rows[i].name, NULL, 0);
        expect_member(rows[i].path, rows[i].is_folder, 0);
    }
}

TEST_WITH(reads_long_names_and_sizes, set_up, fixture_folder_leave)
{
    static const uint8_t two[12] = { 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2 };
    char name[301], pax[700] = "";

    memset(name, 'x', 300);
    name[100] = '/';
    name[300] = '\0';
    tar_fixture_add(&tar, '0', "b/c.png", "x", 1);
    tar_fixture_set(&tar, 345, "very/long", 9);
    expect_member("very/long/b/c.png", false, 1);
    tar_fixture_add(&tar, 'L', "././@LongLink", name, 301);
    tar_fixture_add(&tar, '0', "cut", "x", 1);
    expect_member(name, false, 1);
    tar_fixture_pax(pax, sizeof(pax), "mtime", "1.5");
    tar_fixture_pax(pax, sizeof(pax), "path", name);
    tar_fixture_pax(pax, sizeof(pax), "size", "3");
    tar_fixture_add(&tar, 'x', "PaxHeader", pax, strlen(pax));
    tar_fixture_add(&tar, '0', "cut", "abc", 3);
    tar_fixture_set(&tar, 124, "00000000000", 11);
    expect_member(name, false, 3);
    tar_fixture_add(&tar, '0', "a", "xy", 2);
    tar_fixture_set(&tar, 124, two, 12);            /* base 256 */
    expect_member("a", false, 2);
}

TEST_WITH(reads_joined_archives, set_up, fixture_folder_leave)
{
    tar_fixture_add(&tar, '0', "a", NULL, 0);
    tar_fixture_end(&tar);
    tar_fixture_add(&tar, '0', "b", NULL, 0);
    tar_fixture_end(&tar);
    const struct found found = walk_bytes(tar.bytes, tar.byte_count);
    assert_int_equal(found.rc, -ENODATA);
    assert_int_equal(found.count, 2);
}

TEST_WITH(refuses_what_could_reach_outside_or_is_no_file, set_up, fixture_folder_leave)
{
    static const struct { char kind; const char *name, *words; } rows[] = {
        { '0', "/etc/passwd", "absolute" }, { '0', "../x", "'..'" }, { '0', "a/../../x", "'..'" },
        { '5', "a/..", "'..'" },
        { '1', "a", "is a link" }, { '2', "a", "symbolic link" }, { '3', "a", "device" }, { '4', "a", "device" },
        { '6', "a", "FIFO" }, { '2', "a/", "symbolic link" },
    };
    static char name[5000];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tar_fixture_add(&tar, rows[i].kind, rows[i].name, NULL, 0);
        if (rows[i].kind == '1' || rows[i].kind == '2')
            tar_fixture_set(&tar, 157, "/etc/passwd", 12);
        expect_problem(rows[i].words);
    }
    tar_fixture_add(&tar, 'x', "PaxHeader", "20 path=/etc/passwd\n", 20);
    tar_fixture_add(&tar, '0', "harmless", NULL, 0);
    expect_problem("absolute");
    memset(name, 'x', sizeof(name));
    tar_fixture_add(&tar, 'L', "././@LongLink", name, sizeof(name));
    tar_fixture_add(&tar, '0', "a", NULL, 0);
    expect_problem("4095");
    tar_fixture_add(&tar, 'x', "PaxHeader", "20 GNU.sparse.size=9\n", 21);
    tar_fixture_add(&tar, '0', "a", "x", 1);
    tar_fixture_end(&tar);
    assert_int_not_equal(walk_bytes(tar.bytes, tar.byte_count).rc, 0);
}

TEST_WITH(refuses_encrypted_members, set_up, fixture_folder_leave)
{
    struct zip_maker maker = { 0 };

    zip_maker_add(&maker, "a.png", data, 300, true);
    zip_maker_end(&maker);
    for (size_t at = 0; at + 4 < maker.byte_count; at++) {
        if (memcmp(maker.bytes + at, "PK\3\4", 4) == 0)
            maker.bytes[at + 6] |= 1;
        else if (memcmp(maker.bytes + at, "PK\1\2", 4) == 0)
            maker.bytes[at + 8] |= 1;
    }
    const struct found found = walk_bytes(maker.bytes, maker.byte_count);
    assert_int_equal(found.rc, -EBADMSG);
    assert_non_null(strstr(found.problem, "encrypted"));
    zip_maker_release(&maker);
}

/* ---- damage ---- */

TEST_WITH(refuses_damaged_headers_and_impossible_sizes, set_up, fixture_folder_leave)
{
    static const uint8_t absurd[12] = { 0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

    tar_fixture_add(&tar, '0', "a", "x", 1);
    tar_fixture_add(&tar, '0', "b", NULL, 0);
    tar.bytes[1024] = 'c';
    expect_problem("damaged");
    tar_fixture_add(&tar, '0', "a", NULL, 0);
    tar_fixture_set(&tar, 124, absurd, 12);
    expect_problem("");
    tar_fixture_add(&tar, '0', "a", NULL, 0);
    tar_fixture_set(&tar, 124, "77777777777", 11);
    expect_problem("cut short");
    assert_non_null(strstr(walk_bytes(data, DATA_BYTES).problem, "no archive"));
}

TEST_WITH(finds_a_tar_cut_at_any_block, set_up, fixture_folder_leave)
{
    tar_fixture_add(&tar, 'x', "PaxHeader", "10 path=b\n", 10);
    tar_fixture_add(&tar, '0', "a", "xyz", 3);
    tar_fixture_add(&tar, '0', "c", "xyz", 3);
    const size_t end = tar.byte_count;
    tar_fixture_end(&tar);
    for (size_t cut = 1; cut < end + 512; cut += cut % 512 == 0 || cut % 512 == 511 ? 1 : 510)
        assert_int_equal(walk_bytes(tar.bytes, cut).rc, -EBADMSG);
    assert_int_equal(walk_bytes(tar.bytes, end + 512).rc, -ENODATA);
}

/* Compressed archives and zip archives, cut at any byte, or with any bit flipped: what is read all the same is what
 * was written. */
TEST_WITH(never_reads_other_bytes_than_were_written, set_up, fixture_folder_leave)
{
    static const struct { int (*format)(struct archive *), (*filter)(struct archive *); } rows[] = {
        { archive_write_set_format_ustar, archive_write_add_filter_gzip },
        { archive_write_set_format_zip, archive_write_add_filter_none },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t bytes;
        write_archive(rows[i].format, rows[i].filter);
        const struct found whole = walk_file(true);
        uint8_t *const file = fixture_read("x", &bytes);
        for (size_t cut = 1; cut < bytes; cut++)
            assert_int_equal(walk_bytes(file, cut).rc, -EBADMSG);
        for (size_t bit = 0; bit < 8 * bytes; bit += 3) {
            file[bit / 8] ^= (uint8_t)(1u << bit % 8);
            const struct found found = walk_bytes(file, bytes);
            assert_true(found.rc == -EBADMSG || found.rc == -ENODATA);
            /* libarchive 3.7 does not verify the size of a member that is skipped. */
            if (found.rc != -EBADMSG && found.count >= whole.count && found.sum != whole.sum && !found.is_skipped)
                fail_msg("row %zu, bit %zu of %zu: %zu members, sum %zu", i, bit, 8 * bytes, found.count, found.sum);
            file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(file);
    }
}

/* With the sizes in front of the data, as most programs write them: all members are there before the directory is. */
TEST_WITH(finds_a_zip_cut_in_its_directory, set_up, fixture_folder_leave)
{
    struct zip_maker maker = { 0 };

    zip_maker_add(&maker, "cat/a.png", data, DATA_BYTES, true);
    zip_maker_add(&maker, "cat/b.png", data, 100, false);
    const size_t members = maker.byte_count;
    zip_maker_end(&maker);
    for (size_t cut = members; cut < maker.byte_count; cut++)
        assert_int_equal(walk_bytes(maker.bytes, cut).rc, -EBADMSG);
    assert_int_equal(walk_bytes(maker.bytes, maker.byte_count).rc, -ENODATA);
    zip_maker_release(&maker);
}

/* ---- limits ---- */

/* 1.2 GB of zeros: some 100 KB of zstd. */
TEST_WITH(refuses_a_decompression_bomb, set_up, fixture_folder_leave)
{
    static const uint8_t zeros[1 << 20];
    struct archive *const out = archive_write_new();
    struct archive_entry *const entry = archive_entry_new();

    archive_write_set_format_ustar(out);
    archive_write_add_filter_zstd(out);
    archive_write_set_filter_option(out, "zstd", "compression-level", "1");
    assert_int_equal(archive_write_open_filename(out, "x"), ARCHIVE_OK);
    archive_entry_set_pathname(entry, "a.bin");
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_size(entry, 1200 * (la_int64_t)sizeof(zeros));
    assert_int_equal(archive_write_header(out, entry), ARCHIVE_OK);
    for (int i = 0; i < 1200; i++)
        assert_int_equal(archive_write_data(out, zeros, sizeof(zeros)), sizeof(zeros));
    archive_entry_free(entry);
    archive_write_close(out);
    archive_write_free(out);
    const struct found found = walk_file(false);
    assert_int_equal(found.rc, -EFBIG);
    assert_non_null(strstr(found.problem, "1000 times"));
}

TEST_WITH(ends_when_interrupted, set_up, fixture_folder_leave)
{
    const atomic_bool interrupted = true;
    struct archive_walk *walk;
    struct archive_member member;

    write_archive(archive_write_set_format_ustar, archive_write_add_filter_xz);
    int rc = archive_walk_open(&walk, "x", &interrupted);
    if (rc == 0)
        rc = archive_walk_next(walk, &member);
    assert_int_equal(rc, -ECANCELED);
    archive_walk_close(walk);
}

/* ---- single files ---- */

static void write_gzip(const char *path, const void *bytes, size_t count)
{
    gzFile file = gzopen(path, "ab");

    assert_int_equal(gzwrite(file, bytes, (unsigned)count), (int)count);
    assert_int_equal(gzclose(file), Z_OK);
}

static void expect_file(size_t limit, int rc_wanted, size_t count_wanted)
{
    uint8_t *bytes = NULL;
    size_t count = 77;

    assert_int_equal(unpacked_file_read("x", limit, &bytes, &count), rc_wanted);
    assert_int_equal(count, rc_wanted == 0 ? count_wanted : 77);
    assert_true(rc_wanted < 0 || memcmp(bytes, data, count < DATA_BYTES ? count : DATA_BYTES) == 0);
    free(bytes);
}

TEST_WITH(reads_a_file_compressed_or_not_up_to_its_limit, set_up, fixture_folder_leave)
{
    static const size_t lengths[] = { 0, 1, 100, DATA_BYTES };

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        fixture_write("x", data, lengths[i]);
        expect_file(lengths[i], 0, lengths[i]);
        assert_int_equal(remove("x"), 0);
        write_gzip("x", data, lengths[i]);
        expect_file(lengths[i], 0, lengths[i]);
    }
    expect_file(DATA_BYTES - 1, -EFBIG, 0);
    expect_file(0, -EFBIG, 0);
    write_gzip("x", data, DATA_BYTES);              /* a second member */
    expect_file(2 * DATA_BYTES, 0, 2 * DATA_BYTES);
}

TEST_WITH(finds_damage_of_a_compressed_file, set_up, fixture_folder_leave)
{
    size_t bytes;

    write_gzip("x", data, 500);
    uint8_t *const file = fixture_read("x", &bytes);
    for (size_t cut = 2; cut < bytes; cut++) {
        fixture_write("x", file, cut);
        expect_file(1000, -EBADMSG, 0);
    }
    for (size_t bit = 16; bit < 8 * bytes; bit++) {
        uint8_t *out = NULL;
        size_t count = 0;
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        fixture_write("x", file, bytes);
        const int rc = unpacked_file_read("x", 100000, &out, &count);
        /* Flags of gzip that nobody knows make it a file that is not compressed. */
        assert_true(rc == -EBADMSG || count == bytes || (rc == 0 && count == 500 && memcmp(out, data, 500) == 0));
        free(out);
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(file);
    assert_int_equal(unpacked_file_read(".", 100, (uint8_t *[]){ NULL }, (size_t[]){ 0 }), -EISDIR);
}

TESTS_MAIN(NULL, NULL)
