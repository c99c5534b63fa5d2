/* Fuzz target of inflating: any bytes as a compressed file. What inflates does so within its
 * limit and not one byte below; a file cut short gives the beginning of it at most; and a
 * file behind itself gives everything twice. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gunzip.h"
#include "tests/fuzz/fuzz.h"

#define LIMIT_BYTES ((size_t)1 << 20)

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    /* a stored block */
    SEED("\037\213\010\000\000\000\000\000\004\003\001\003\000\374\377\141\142\143\302\101\044\065\003\000\000\000"),
    /* a block with fixed codes */
    SEED("\037\213\010\000\000\000\000\000\002\003\113\114\112\116\204\041\000\064\052\156\132\014\000\000\000"),
    /* a block with codes of its own */
    SEED("\037\213\010\000\000\000\000\000\002\003\115\116\311\021\000\061\010\252\225\243\377\032\026\060\217\165"
         "\210\111\020\105\000\004\011\100\242\163\047\111\130\364\007\213\244\041\303\051\271\150\207\111\245\310"
         "\212\116\272\223\116\036\063\166\117\075\105\307\024\202\047\356\320\262\324\153\056\265\124\343\216\357"
         "\122\370\105\334\165\134\260\145\023\363\304\007\124\014\153\012\310\000\000\000"),
    /* two members */
    SEED("\037\213\010\000\000\000\000\000\002\003\313\317\113\005\000\361\206\154\172\003\000\000\000\037\213\010"
         "\000\000\000\000\000\002\003\053\051\317\007\000\146\212\312\021\003\000\000\000"),
    /* a full flush inside */
    SEED("\037\213\010\000\000\000\000\000\002\003\112\313\051\055\316\000\000\000\000\377\377\113\313\051\055\316"
         "\000\000\066\025\160\052\012\000\000\000"),
    /* with the name of a file */
    SEED("\037\213\010\010\000\000\000\000\002\377\156\141\155\145\000\253\000\000\203\026\334\214\001\000\000\000"),
    /* zlib */
    SEED("\170\234\113\114\034\005\304\002\000\330\250\161\255"),
    { NULL, 0 },
};

struct block {
    uint8_t *data;
    size_t bytes;
};

/* Inflate; the block is empty when that fails. */
static int inflate_to(const uint8_t *data, size_t bytes, size_t limit_bytes, struct block *block_out)
{
    *block_out = (struct block){ NULL, 0 };
    const int rc = gunzip(data, bytes, limit_bytes, &block_out->data, &block_out->bytes);
    require(rc == 0 || rc == -EBADMSG || rc == -EFBIG);
    require((rc == 0) == (block_out->data != NULL) && block_out->bytes <= limit_bytes);
    return rc;
}

static void check_limit(const uint8_t *data, size_t bytes, const struct block *whole)
{
    struct block again;
    require(inflate_to(data, bytes, whole->bytes, &again) == 0);
    require(again.bytes == whole->bytes && memcmp(again.data, whole->data, whole->bytes) == 0);
    free(again.data);
    if (whole->bytes > 0)
        require(inflate_to(data, bytes, whole->bytes - 1, &again) == -EFBIG);
}

/* A cut between two members is not seen. */
static void check_cut(const uint8_t *data, size_t bytes, const struct block *whole)
{
    struct block begin;
    if (inflate_to(data, bytes, LIMIT_BYTES, &begin) == 0)
        require(begin.bytes <= whole->bytes && memcmp(begin.data, whole->data, begin.bytes) == 0);
    free(begin.data);
}

static void check_twice(const uint8_t *data, size_t bytes, const struct block *whole)
{
    struct block both;
    uint8_t *const twice = malloc(2 * bytes);
    require(twice != NULL);
    memcpy(twice, data, bytes);
    memcpy(twice + bytes, data, bytes);
    require(inflate_to(twice, 2 * bytes, 2 * whole->bytes, &both) == 0);
    require(both.bytes == 2 * whole->bytes);
    require(memcmp(both.data, whole->data, whole->bytes) == 0);
    require(memcmp(both.data + whole->bytes, whole->data, whole->bytes) == 0);
    free(both.data);
    free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct block whole;
    if (inflate_to(data, bytes, LIMIT_BYTES, &whole) != 0)
        return 0;
    require(!gunzip_is_gzip(data, bytes) || bytes >= 18);
    check_limit(data, bytes, &whole);
    for (size_t cut = 1; cut <= bytes && cut <= 9; cut++)
        check_cut(data, bytes - cut, &whole);
    check_cut(data, bytes / 2, &whole);
    check_twice(data, bytes, &whole);
    free(whole.data);
    return 0;
}
