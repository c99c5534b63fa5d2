/* Makes payloads from samples. Called by the writing threads, and by the main thread to estimate the size of
 * records. */
#include "tools/convert/record_maker.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/convert/convert.h"

static int out_of_memory(const struct record_maker *maker)
{
    return convert_fail(maker->stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory to make records");
}

static size_t scratch_bytes(const struct sample_source *sources, size_t count)
{
    size_t bytes = 1;

    for (size_t i = 0; i < count; i++) {
        if (sources[i].scratch_bytes > bytes)
            bytes = sources[i].scratch_bytes;
    }
    return bytes;
}

int record_maker_open(struct record_maker *maker, const struct sample_source *sources, size_t count,
                      const struct image_change *change, struct stop *stop)
{
    *maker = (struct record_maker){ .stop = stop, .scratch = malloc(scratch_bytes(sources, count)) };
    const bool is_open = maker->scratch != NULL &&
                         ((!image_change_is_any(change) && !change->is_checked) ||
                          image_changer_open(&maker->changer, change) == 0);
    return is_open ? 0 : out_of_memory(maker);
}

void record_maker_close(struct record_maker *maker)
{
    free(maker->scratch);
    block_release(&maker->example);
    image_changer_close(maker->changer);
    *maker = (struct record_maker){ 0 };
}

static int make_example(struct record_maker *maker, const struct sample_source *source, uint64_t index,
                        const uint8_t **payload_out, size_t *bytes_out)
{
    struct example_value values[SAMPLE_VALUES_MAX];
    size_t count;

    const int rc = source->sample(source->arg, index, maker->scratch, values, &count);
    if (rc < 0)
        return rc;
    *bytes_out = example_size(values, count);
    if (block_reserve(&maker->example, *bytes_out) < 0)
        return out_of_memory(maker);
    example_write(values, count, maker->example.bytes);
    *payload_out = maker->example.bytes;
    return 0;
}

static void note_flaw(const struct record_maker *maker, enum flaw_kind kind, const struct sample_source *source,
                      uint64_t index, const char *problem)
{
    if (maker->flaws != NULL && problem[0] != '\0')
        image_flaws_add(maker->flaws, kind, source, index, problem);
}

static int change_image(struct record_maker *maker, const struct sample_source *source, uint64_t index,
                        const uint8_t **payload, size_t *bytes)
{
    char name[1024], problem[FLAW_TEXT_BYTES] = "";

    const int rc = image_changer_apply(maker->changer, *payload, *bytes, payload, bytes, problem, sizeof(problem));
    if (rc == -ENOMEM)
        return out_of_memory(maker);
    if (rc == 0 || rc == -ENOMSG || rc == -EBADMSG) {
        note_flaw(maker, rc == 0 ? FLAW_IGNORED : rc == -ENOMSG ? FLAW_UNKNOWN : FLAW_UNDECODABLE, source, index,
                  problem);
        return rc == -EBADMSG;
    }
    image_flaws_name(source, index, name, sizeof(name));
    stop_fail(maker->stop, EXIT_CODE_DATA, "%s: %s", name, problem);
    return rc;
}

int record_maker_payload(struct record_maker *maker, const struct sample_source *source, uint64_t index,
                         const uint8_t **payload_out, size_t *bytes_out)
{
    const int rc = source->payload != NULL
                       ? source->payload(source->arg, index, maker->scratch, payload_out, bytes_out)
                       : make_example(maker, source, index, payload_out, bytes_out);
    return rc < 0 || maker->changer == NULL ? rc : change_image(maker, source, index, payload_out, bytes_out);
}

struct pixel_look record_maker_look(const struct record_maker *maker)
{
    return maker->changer != NULL ? image_changer_look(maker->changer) : (struct pixel_look){ .is_known = false };
}
