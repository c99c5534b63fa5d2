/* Fuzz target of compressed shards: any bytes as one. The first byte chooses: damage is refused or skipped.
 * Reading ends, gives the same bytes forward, backward and by any pieces, and every record of the index lies
 * inside the stream and across no break of it. */
#include <errno.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "loader/shards/packed_shard.h"
#include "loader/shards/shard_index.h"
#include "tests/fuzz/fuzz.h"
#include "tests/helpers/memory_source.h"

#define SEED(text) { text, sizeof(text) - 1 }
/* What is compared of a stream. */
#define STREAM_BYTES ((size_t)1 << 20)
#define PIECE_BYTES 4099u

/* Records of the payload 123. */
const struct fuzz_seed fuzz_seeds[] = {
    /* two gzip members */
    SEED("\001\037\213\010\000\000\000\000\000\000\003\143\146\200\200\015\063\075\371\014\215\214\317\161"
         "\077\147\004\000\167\334\010\041\023\000\000\000\037\213\010\000\000\000\000\000\000\003\143\146"
         "\200\200\015\063\075\371\014\215\214\317\161\077\147\004\000\167\334\010\041\023\000\000\000"),
    /* zlib, flushed between two records */
    SEED("\001\170\234\142\146\200\200\015\063\075\371\014\215\214\317\161\077\147\004\000\000\000\377\377"
         "\143\146\200\200\015\063\075\371\014\215\214\317\161\077\147\004\000\176\220\007\365"),
    /* LZ4, a skippable frame between two */
    SEED("\001\004\042\115\030\164\100\275\021\000\000\000\042\003\000\001\000\260\260\231\111\016\061\062"
         "\063\316\013\347\001\365\210\112\214\000\000\000\000\144\267\271\205\123\052\115\030\002\000\000"
         "\000\156\157\004\042\115\030\164\100\275\021\000\000\000\042\003\000\001\000\260\260\231\111\016"
         "\061\062\063\316\013\347\001\365\210\112\214\000\000\000\000\144\267\271\205"),
    /* LZ4 without checksums */
    SEED("\000\004\042\115\030\160\100\255\034\000\000\000\042\003\000\001\000\277\260\231\111\016\061\062"
         "\063\316\013\347\001\023\000\377\377\317\120\063\316\013\347\001\137\002\072\255\000\000\000\000"),
    /* a gzip member behind a damaged one */
    SEED("\001\037\213\010\000\000\000\000\000\000\003\143\146\200\200\015\063\075\371\014\215\214\317\161"
         "\077\147\004\000\167\334\157\157\157\157\157\157\037\213\010\000\000\000\000\000\000\003\143\146"
         "\200\200\015\063\075\371\014\215\214\317\161\077\147\004\000\167\334\010\041\023\000\000\000"),
    /* LZ4, cut */
    SEED("\001\004\042\115\030\164\100\275\021\000\000\000\042\003\000\001\000\260\260\231\111\016\061\062"
         "\063\316\013\347\001\365\210\112\214\000\000\000\000\144\267\271\205\004\042\115\030\164\100\275"
         "\032\000\000\000\042\003\000\001\000\277\260\231\111\016\061\062\063\316\013\347\001\023\000\016"
         "\120\063\316\013\347\001\365\006\064"),
    { NULL, 0 },
};

/* Streams are compared with what the first read of them gave. */
static void read_again(struct shard_source *source, const uint8_t *stream, size_t bytes)
{
    static uint8_t piece[PIECE_BYTES];
    for (size_t end = bytes; end > 0; end -= end < PIECE_BYTES ? end : PIECE_BYTES - 1) {
        const size_t wanted = end < PIECE_BYTES ? end : PIECE_BYTES;
        require(shard_source_read(source, piece, wanted, end - wanted) == (ssize_t)wanted);
        require(memcmp(piece, stream + end - wanted, wanted) == 0);
    }
}

static void check_index(struct shard_source *source, const struct shard_index *index)
{
    char text[256];
    for (uint64_t i = 0; i < index->record_count; i++) {
        const uint64_t end = shard_index_find(index, i).offset + shard_index_find(index, i).payload_bytes + TFRECORD_FRAME_BYTES;
        require(end <= index->bytes);
        require(shard_source_find_break(source, shard_index_find(index, i).offset, text, sizeof(text)) >= end);
    }
    require(shard_source_find_break(source, 0, text, sizeof(text)) == UINT64_MAX || index->damage_count > 0);
}

static void try_index(struct shard_source *source, bool skip_damage)
{
    const struct shard_index_options options = { .skip_damage = skip_damage };
    struct shard_index index;
    char problem[512] = "";
    const int rc = shard_index_open(&index, source, &options, problem, sizeof(problem));
    if (rc == 0) {
        check_index(source, &index);
        shard_index_release(&index);
    } else {
        require((rc == -EBADMSG || rc == -ENOTSUP) && problem[0] != '\0');
    }
}

static struct shard_source *open_shard(const void *data, size_t bytes)
{
    static struct memory_shard shard;
    struct shard_source *kept, *source;
    shard = (struct memory_shard){ .name = "shard", .data = data, .bytes = bytes };
    memory_source_set(&shard, 1);
    require(shard_source_open(&kept, &memory_source_ops, "shard") == 0);
    require(packed_shard_wrap(&source, kept) == 0);
    return source;
}

/* One shard stays open, so that those that come and go do not make all streams anew. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t stream[STREAM_BYTES];
    static struct shard_source *first;
    if (first == NULL)
        first = open_shard((const char *)fuzz_seeds[0].data + 1, fuzz_seeds[0].bytes - 1);
    if (bytes == 0)
        return 0;
    struct shard_source *const source = open_shard(data + 1, bytes - 1);
    const ssize_t got = shard_source_read(source, stream, sizeof(stream), 0);
    require(got >= 0);
    read_again(source, stream, (size_t)got);
    try_index(source, data[0] % 2 == 1);
    shard_source_close(source);
    return 0;
}
