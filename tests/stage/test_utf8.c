/* UTF-8: what is a character is compared with its definition, decoding and encoding. */
#include <stdint.h>
#include <string.h>

#include "stage/text/utf8.h"
#include "tests/helpers/test.h"

/* The bytes of a character by the definition: the shortest encoding of a number that is no surrogate. */
static size_t defined_bytes(const uint8_t *text, size_t bytes)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const size_t wanted = text[0] < 0x80 ? 1 : text[0] >> 5 == 6 ? 2 : text[0] >> 4 == 14 ? 3 : text[0] >> 3 == 30 ? 4 : 0;
    uint32_t character = wanted < 2 ? text[0] : text[0] & (0xffu >> (wanted + 1));
    if (wanted == 0 || wanted > bytes)
        return 0;
    for (size_t i = 1; i < wanted; i++) {
        if (text[i] >> 6 != 2)
            return 0;
        character = character << 6 | (text[i] & 0x3f);
    }
    return character < least[wanted] || character > 0x10ffff || (character >= 0xd800 && character < 0xe000) ? 0 : wanted;
}

/* All first and second bytes; of the others those at the edges of ranges. */
TEST(a_character_is_what_its_definition_says)
{
    static const uint8_t edges[] = { 0, 0x7f, 0x80, 0xbf, 0xc0, 0xff };
    for (unsigned pair = 0; pair < 1 << 16; pair++)
        for (size_t i = 0; i < sizeof(edges) * sizeof(edges); i++) {
            const uint8_t text[] = { (uint8_t)(pair >> 8), (uint8_t)pair, edges[i / sizeof(edges)], edges[i % sizeof(edges)] };
            for (size_t bytes = 1; bytes <= sizeof(text); bytes++)
                if (utf8_character_bytes((const char *)text, bytes) != defined_bytes(text, bytes))
                    fail_msg("%02x %02x %02x %02x, %zu bytes", text[0], text[1], text[2], text[3], bytes);
        }
}

TEST(a_text_is_valid_up_to_the_first_byte_that_is_in_no_character)
{
    static const char text[] = "a\xc2\xbf\xe2\x82\xac\xf0\x9f\x98\xbf";
    static const size_t ends[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10 };
    for (size_t bytes = 0; bytes < sizeof(text); bytes++)
        assert_int_equal(utf8_valid_bytes(text, bytes), ends[bytes]);
    assert_int_equal(utf8_valid_bytes("ab\xff" "c", 4), 2);
}

TEST(controls_are_those_of_the_ranges_and_no_neighbours)
{
    static const char *const controls[] = { "\x01", "\x1f", "\x7f", "\xc2\x80", "\xc2\x9f", "\xd8\x9c", "\xe2\x80\x8e",
                                            "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9" };
    static const char *const others[] = { " ", "~", "\xc2\xa0", "\xd8\x9b", "\xd8\x9d", "\xe2\x80\x8d", "\xe2\x80\x90",
                                          "\xe2\x80\xa7", "\xe2\x80\xaf", "\xe2\x81\xa5", "\xe2\x81\xaa" };
    for (size_t i = 0; i < sizeof(controls) / sizeof(*controls); i++)
        assert_true(utf8_is_control(controls[i], strlen(controls[i])));
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_false(utf8_is_control(others[i], strlen(others[i])));
}

TESTS_MAIN(NULL, NULL)
