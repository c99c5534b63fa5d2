/* Composing characters, by the canonical decompositions of the Unicode Character Database. */
#include "stage/text/accents.h"

#include <string.h>
#include <uchar.h>

#include "stage/text/utf8.h"

/* For each combining mark: pairs of a base letter and the composed character. */
static const struct { uint32_t mark; const char16_t *pairs; } composed_by_mark[] = {
    { 0x0300, u"A\u00c0E\u00c8I\u00ccO\u00d2U\u00d9a\u00e0e\u00e8i\u00eco\u00f2u\u00f9\u00dc\u01db\u00fc\u01dc"
              u"\u0415\u0400\u0418\u040d\u0435\u0450\u0438\u045d\u00c2\u1ea6\u00e2\u1ea7\u0102\u1eb0\u0103\u1eb1"
              u"\u00ca\u1ec0\u00ea\u1ec1\u00d4\u1ed2\u00f4\u1ed3\u01a0\u1edc\u01a1\u1edd\u01af\u1eea\u01b0\u1eeb"
              u"Y\u1ef2y\u1ef3" },
    { 0x0301, u"A\u00c1E\u00c9I\u00cdO\u00d3U\u00daY\u00dda\u00e1e\u00e9i\u00edo\u00f3u\u00fay\u00fdC\u0106"
              u"c\u0107L\u0139l\u013aN\u0143n\u0144R\u0154r\u0155S\u015as\u015bZ\u0179z\u017a\u00dc\u01d7"
              u"\u00fc\u01d8\u0391\u0386\u0395\u0388\u0397\u0389\u0399\u038a\u039f\u038c\u03a5\u038e\u03a9\u038f"
              u"\u03ca\u0390\u03b1\u03ac\u03b5\u03ad\u03b7\u03ae\u03b9\u03af\u03cb\u03b0\u03bf\u03cc\u03c5\u03cd"
              u"\u03c9\u03ce\u0413\u0403\u041a\u040c\u0433\u0453\u043a\u045c\u00c2\u1ea4\u00e2\u1ea5\u0102\u1eae"
              u"\u0103\u1eaf\u00ca\u1ebe\u00ea\u1ebf\u00d4\u1ed0\u00f4\u1ed1\u01a0\u1eda\u01a1\u1edb\u01af\u1ee8"
              u"\u01b0\u1ee9" },
    { 0x0302, u"A\u00c2E\u00caI\u00ceO\u00d4U\u00dba\u00e2e\u00eai\u00eeo\u00f4u\u00fbC\u0108c\u0109G\u011c"
              u"g\u011dH\u0124h\u0125J\u0134j\u0135S\u015cs\u015dW\u0174w\u0175Y\u0176y\u0177\u1ea0\u1eac"
              u"\u1ea1\u1ead\u1eb8\u1ec6\u1eb9\u1ec7\u1ecc\u1ed8\u1ecd\u1ed9" },
    { 0x0303, u"A\u00c3N\u00d1O\u00d5a\u00e3n\u00f1o\u00f5I\u0128i\u0129U\u0168u\u0169\u00c2\u1eaa\u00e2\u1eab"
              u"\u0102\u1eb4\u0103\u1eb5E\u1ebce\u1ebd\u00ca\u1ec4\u00ea\u1ec5\u00d4\u1ed6\u00f4\u1ed7"
              u"\u01a0\u1ee0\u01a1\u1ee1\u01af\u1eee\u01b0\u1eefY\u1ef8y\u1ef9" },
    { 0x0304, u"A\u0100a\u0101E\u0112e\u0113I\u012ai\u012bO\u014co\u014dU\u016au\u016b\u00dc\u01d5\u00fc\u01d6" },
    { 0x0306, u"A\u0102a\u0103E\u0114e\u0115G\u011eg\u011fI\u012ci\u012dO\u014eo\u014fU\u016cu\u016d\u0423\u040e"
              u"\u0418\u0419\u0438\u0439\u0443\u045e\u1ea0\u1eb6\u1ea1\u1eb7" },
    { 0x0307, u"C\u010ac\u010bE\u0116e\u0117G\u0120g\u0121I\u0130Z\u017bz\u017c" },
    { 0x0308, u"A\u00c4E\u00cbI\u00cfO\u00d6U\u00dca\u00e4e\u00ebi\u00efo\u00f6u\u00fcy\u00ffY\u0178\u0399\u03aa"
              u"\u03a5\u03ab\u03b9\u03ca\u03c5\u03cb\u0415\u0401\u0406\u0407\u0435\u0451\u0456\u0457" },
    { 0x0309, u"A\u1ea2a\u1ea3\u00c2\u1ea8\u00e2\u1ea9\u0102\u1eb2\u0103\u1eb3E\u1ebae\u1ebb\u00ca\u1ec2"
              u"\u00ea\u1ec3I\u1ec8i\u1ec9O\u1eceo\u1ecf\u00d4\u1ed4\u00f4\u1ed5\u01a0\u1ede\u01a1\u1edfU\u1ee6"
              u"u\u1ee7\u01af\u1eec\u01b0\u1eedY\u1ef6y\u1ef7" },
    { 0x030a, u"A\u00c5a\u00e5U\u016eu\u016f" },
    { 0x030b, u"O\u0150o\u0151U\u0170u\u0171" },
    { 0x030c, u"C\u010cc\u010dD\u010ed\u010fE\u011ae\u011bL\u013dl\u013eN\u0147n\u0148R\u0158r\u0159S\u0160"
              u"s\u0161T\u0164t\u0165Z\u017dz\u017eA\u01cda\u01ceI\u01cfi\u01d0O\u01d1o\u01d2U\u01d3u\u01d4"
              u"\u00dc\u01d9\u00fc\u01da" },
    { 0x031b, u"O\u01a0o\u01a1U\u01afu\u01b0" },
    { 0x0323, u"A\u1ea0a\u1ea1E\u1eb8e\u1eb9I\u1ecai\u1ecbO\u1ecco\u1ecd\u01a0\u1ee2\u01a1\u1ee3U\u1ee4u\u1ee5"
              u"\u01af\u1ef0\u01b0\u1ef1Y\u1ef4y\u1ef5" },
    { 0x0326, u"S\u0218s\u0219T\u021at\u021b" },
    { 0x0327, u"C\u00c7c\u00e7G\u0122g\u0123K\u0136k\u0137L\u013bl\u013cN\u0145n\u0146R\u0156r\u0157S\u015e"
              u"s\u015fT\u0162t\u0163" },
    { 0x0328, u"A\u0104a\u0105E\u0118e\u0119I\u012ei\u012fU\u0172u\u0173" },
    { 0x3099, u"\u304b\u304c\u304d\u304e\u304f\u3050\u3051\u3052\u3053\u3054\u3055\u3056\u3057\u3058\u3059\u305a"
              u"\u305b\u305c\u305d\u305e\u305f\u3060\u3061\u3062\u3064\u3065\u3066\u3067\u3068\u3069\u306f\u3070"
              u"\u3072\u3073\u3075\u3076\u3078\u3079\u307b\u307c\u3046\u3094\u309d\u309e\u30ab\u30ac\u30ad\u30ae"
              u"\u30af\u30b0\u30b1\u30b2\u30b3\u30b4\u30b5\u30b6\u30b7\u30b8\u30b9\u30ba\u30bb\u30bc\u30bd\u30be"
              u"\u30bf\u30c0\u30c1\u30c2\u30c4\u30c5\u30c6\u30c7\u30c8\u30c9\u30cf\u30d0\u30d2\u30d3\u30d5\u30d6"
              u"\u30d8\u30d9\u30db\u30dc\u30a6\u30f4\u30ef\u30f7\u30f0\u30f8\u30f1\u30f9\u30f2\u30fa\u30fd\u30fe" },
    { 0x309a, u"\u306f\u3071\u3072\u3074\u3075\u3077\u3078\u307a\u307b\u307d\u30cf\u30d1\u30d2\u30d4\u30d5\u30d7"
              u"\u30d8\u30da\u30db\u30dd" },
};

/* The parts of Korean syllables, which are composed arithmetically (The Unicode Standard, 3.12). */
#define HANGUL_FIRST 0xac00u
#define HANGUL_LEADS 19u
#define HANGUL_VOWELS 21u
#define HANGUL_TAILS 28u        /* including no tail */
#define HANGUL_LEAD 0x1100u
#define HANGUL_VOWEL 0x1161u
#define HANGUL_TAIL 0x11a7u

/* Returns 0 if the two are not composed to a syllable. */
static uint32_t compose_hangul(uint32_t character, uint32_t next)
{
    const uint32_t lead = character - HANGUL_LEAD, vowel = next - HANGUL_VOWEL, syllable = character - HANGUL_FIRST;

    if (lead < HANGUL_LEADS && vowel < HANGUL_VOWELS)
        return HANGUL_FIRST + (lead * HANGUL_VOWELS + vowel) * HANGUL_TAILS;
    if (syllable < HANGUL_LEADS * HANGUL_VOWELS * HANGUL_TAILS && syllable % HANGUL_TAILS == 0 && next > HANGUL_TAIL &&
        next < HANGUL_TAIL + HANGUL_TAILS)
        return character + next - HANGUL_TAIL;
    return 0;
}

/* Returns 0 if there is no composed character for the two. */
static uint32_t compose(uint32_t character, uint32_t next)
{
    for (size_t i = 0; i < sizeof(composed_by_mark) / sizeof(composed_by_mark[0]); i++)
        for (const char16_t *pair = composed_by_mark[i].pairs; next == composed_by_mark[i].mark && *pair != 0;
             pair += 2)
            if (pair[0] == character)
                return pair[1];
    return compose_hangul(character, next);
}

/* Decode the next character and advance *text. */
static uint32_t next_character(const char **text)
{
    const unsigned char *const at = (const unsigned char *)*text;
    const size_t bytes = utf8_character_bytes(*text, strlen(*text));
    uint32_t character = bytes == 0 ? ACCENTS_NO_UTF8 + at[0] : bytes == 1 ? at[0] : at[0] & (0x7fu >> bytes);

    for (size_t i = 1; i < bytes; i++)
        character = character << 6 | (at[i] & 0x3fu);
    *text += bytes > 0 ? bytes : 1;
    return character;
}

void accents_compose(const char *text, uint32_t *out)
{
    size_t count = 0;

    while (*text != '\0') {
        const uint32_t next = next_character(&text);
        const uint32_t composed = count > 0 ? compose(out[count - 1], next) : 0;
        if (composed != 0)
            out[count - 1] = composed;
        else
            out[count++] = next;
    }
    out[count] = 0;
}
