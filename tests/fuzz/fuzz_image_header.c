/* Fuzz target of the headers of images. What is read from a beginning of a file is read from
 * every longer one, and a file that is refused stays refused. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "formats/image_header.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("\211PNG\r\n\032\n\0\0\0\rIHDR\0\0\001\002\0\0\0\007\010\002\0\0\0"),
    SEED("\377\330\377\340\0\004JF\125\377\377\302\0\021\010\0\005\001\054\003\001\042\0\002\021\001\003\021\001"),
    SEED("\377\330\377\304\0\010\0\011\011\011\011\007\377\314\0\002"
         "\377\320\377\300\0\013\010\0\002\0\003\001\001\021\0"),
    SEED("\377\330\377\341\0\042Exif\0\0MM\0*\0\0\0\010\0\001\001\022\0\003\0\0\0\001\0\006\0\0\0\0\0\0"
         "\377\300\0\013\010\0\002\0\003\001\001\021\0\377\332\0\010\001\001\0\0\077\0abc\377\331"),
    SEED("GIF89a"),
    { NULL, 0 },
};

static int read_checked(const uint8_t *data, size_t bytes, struct image_header *header_out)
{
    const char *problem = NULL;
    const int rc = image_header_read(data, bytes, header_out, &problem);

    require(rc == 0 || rc == -EAGAIN || (rc == -EBADMSG && problem != NULL));
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct image_header whole, begin;
    const int rc = read_checked(data, bytes, &whole);

    if (rc == 0)
        require(whole.width > 0 && whole.height > 0 && whole.channels >= 1 && whole.channels <= 4 &&
                whole.orientation >= 1 && whole.orientation <= 8);
    if (rc == 0)
        (void)image_is_cut(data, bytes, whole.format);
    for (size_t cut = 1; cut < bytes && cut <= 64; cut++) {
        const int rc_begin = read_checked(data, bytes - cut, &begin);
        require(rc_begin != 0 || (rc == 0 && memcmp(&begin, &whole, sizeof(whole)) == 0));
    }
    return 0;
}
