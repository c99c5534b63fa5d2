/* Composed and decomposed characters: the composed form of both is the same. */
#include <string.h>

#include "stage/text/accents.h"
#include "tests/helpers/test.h"

static bool are_same(const char *one, const char *other)
{
    uint32_t left[64], right[64];
    size_t i = 0;
    accents_compose(one, left);
    accents_compose(other, right);
    while (left[i] == right[i] && left[i] != 0)
        i++;
    return left[i] == right[i];
}

TEST(a_letter_and_its_mark_are_one_character)
{
    static const struct { const char *composed, *apart; } same[] = {
        { "caf\u00e9", "cafe\u0301" }, { "\u00c5ngstr\u00f6m", "A\u030angstro\u0308m" }, { "\u015f", "s\u0327" },
        { "\u1ebf", "e\u0302\u0301" }, { "\u1ec7", "e\u0323\u0302" }, { "\u03ac", "\u03b1\u0301" },
        { "\u0439", "\u0438\u0306" }, { "\u304c", "\u304b\u3099" }, { "\u30d1", "\u30cf\u309a" },
        { "\uac15\uc544\uc9c0", "\u1100\u1161\u11bc\u110b\u1161\u110c\u1175" }, { "\u017e", "z\u030c" },
    };
    static const struct { const char *one, *other; } others[] = {
        { "\u00f8", "e\u0301" }, { "\u00e8", "e\u0301" }, { "e", "e\u0301" }, { "\u00fc", "o\u0308" },
        { "\u0431", "\u0438\u0306" }, { "\u304d", "\u304b\u3099" }, { "\uac00", "\u1100\u1161\u11bc" },
        { "cat", "cats" }, { "\xe9", "\xe8" }, { "\xe9", "\u00e9" }, { "", "\u0301" },
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        if (!are_same(same[i].composed, same[i].apart) || !are_same(same[i].apart, same[i].composed))
            fail_msg("%s", same[i].composed);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (are_same(others[i].one, others[i].other))
            fail_msg("%s %s", others[i].one, others[i].other);
}

TEST(what_is_no_utf8_stays_apart)
{
    static const uint32_t wanted[] = { 'a', ACCENTS_NO_UTF8 + 0xff, 0xe9, ACCENTS_NO_UTF8 + 0xe2, ACCENTS_NO_UTF8 + 0x82, 0 };
    uint32_t found[16];
    accents_compose("a\xff" "e\u0301\xe2\x82", found);
    assert_memory_equal(found, wanted, sizeof(wanted));
}

TESTS_MAIN(NULL, NULL)
