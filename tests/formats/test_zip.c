/* Tests of zip archives: members stored and deflated, cuts, damage. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/zip.h"
#include "tests/helpers/test.h"
#include "tests/helpers/zip_maker.h"

#define FIRST_BYTES 300u

static uint8_t first[FIRST_BYTES];
static const char second[] = "labels";

static struct zip_maker make_archive(void)
{
    struct zip_maker maker = { 0 };
    for (size_t i = 0; i < FIRST_BYTES; i++)
        first[i] = (uint8_t)(i / 7);
    zip_maker_add(&maker, "x.npy", first, FIRST_BYTES, true);
    zip_maker_add(&maker, "y.npy", second, sizeof(second), false);
    zip_maker_add(&maker, "empty", "", 0, true);
    zip_maker_end(&maker);
    return maker;
}

/* Unpack all members: how many, or the first error. */
static int unpack_all(const uint8_t *bytes, size_t byte_count, bool compares)
{
    struct zip zip;
    struct zip_member member;
    const char *problem = NULL;
    size_t place = 0;
    int count = 0;
    int rc = zip_open(&zip, bytes, byte_count, &problem);
    while (rc == 0 && (rc = zip_next(&zip, &place, &member, &problem)) == 0) {
        uint8_t *const out = malloc(member.unpacked_bytes + 1);
        rc = zip_unpack(&member, out, &problem);
        if (rc == 0 && compares && count == 0)
            assert_memory_equal(out, first, FIRST_BYTES);
        if (rc == 0 && compares && count == 1)
            assert_memory_equal(out, second, sizeof(second));
        count += rc == 0;
        free(out);
    }
    if (rc == -EBADMSG)
        assert_non_null(problem);
    return rc == -ENODATA ? count : rc;
}

TEST(unpacks_every_member_whatever_stands_behind_the_archive_as_comment)
{
    struct zip_maker maker = make_archive();
    assert_int_equal(unpack_all(maker.bytes, maker.byte_count, true), 3);
    uint8_t *const longer = malloc(maker.byte_count + 5);
    memcpy(longer, maker.bytes, maker.byte_count);
    memcpy(longer + maker.byte_count, "words", 5);
    assert_int_equal(unpack_all(longer, maker.byte_count + 5, true), -EBADMSG);
    longer[maker.byte_count - 2] = 5;
    assert_int_equal(unpack_all(longer, maker.byte_count + 5, true), 3);
    free(longer);
    zip_maker_release(&maker);
}

TEST(refuses_an_archive_cut_at_any_byte)
{
    struct zip_maker maker = make_archive();
    for (size_t cut = 0; cut < maker.byte_count; cut++) {
        uint8_t *const own = malloc(cut + 1);
        memcpy(own, maker.bytes, cut);
        assert_int_equal(unpack_all(own, cut, false), -EBADMSG);
        free(own);
    }
    zip_maker_release(&maker);
}

/* Any byte may be damaged: what unpacks all the same is what was packed. */
TEST(never_unpacks_other_bytes_than_were_packed)
{
    struct zip_maker maker = make_archive();
    for (size_t at = 0; at < maker.byte_count * 8; at++) {
        maker.bytes[at / 8] ^= (uint8_t)(1u << at % 8);
        (void)unpack_all(maker.bytes, maker.byte_count, true);
        maker.bytes[at / 8] ^= (uint8_t)(1u << at % 8);
    }
    zip_maker_release(&maker);
}

TESTS_MAIN(NULL, NULL)
