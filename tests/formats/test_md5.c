/* Tests of MD5: the vectors of RFC 1321, and every length around a block's end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "formats/md5.h"

static void expect(const char *text, const char *sum)
{
    char out[MD5_TEXT_BYTES];

    md5_text((const uint8_t *)text, strlen(text), out);
    assert_string_equal(out, sum);
}

static void gives_the_sums_of_the_rfc(void **state)
{
    (void)state;
    expect("", "d41d8cd98f00b204e9800998ecf8427e");
    expect("a", "0cc175b9c0f1b6a831c399e269772661");
    expect("abc", "900150983cd24fb0d6963f7d28e17f72");
    expect("message digest", "f96b697d7cb7938d525a2f31aaf161d0");
    expect("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b");
    expect("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f");
    expect("12345678901234567890123456789012345678901234567890123456789012345678901234567890",
           "57edf4a22be3c955ac49da2e2107b67a");
}

/* The sums of the letter x so many times were made with md5sum. */
static void pads_rightly_around_the_end_of_a_block(void **state)
{
    (void)state;
    static const struct { size_t count; const char *sum; } known[] = {
        { 55, "04364420e25c512fd958a70738aa8f72" },
        { 56, "668a72d5ba17f08e62dabcafad6db14b" },
        { 63, "7dc2ca208106a2f703567bdff99d8981" },
        { 64, "c1bb4f81d892b2d57947682aeb252456" },
        { 65, "1bc932052302d074bdec39795fe00cf6" },
        { 119, "ab347a5f68c8a443cfcddc633f12c24f" },
        { 120, "fb98667f98096de92620b64f46e1c5b5" },
        { 128, "d69cb61a6ee87200676eb0d4b90edbcb" },
    };
    uint8_t data[200];

    memset(data, 'x', sizeof(data));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char out[MD5_TEXT_BYTES];
        md5_text(data, known[i].count, out);
        assert_string_equal(out, known[i].sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_sums_of_the_rfc),
        cmocka_unit_test(pads_rightly_around_the_end_of_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
