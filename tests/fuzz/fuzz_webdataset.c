/* Fuzz target of the converters of archives: any list of members as a tar archive of samples of WebDataset, and of
 * folders of classes. What is converted are images of the archive, as they are in it, with labels of the set; all else
 * is refused in words. The list has for each member a byte for its kind, one for the length of the name, one for that
 * of the data, then both; "I" as the first byte of data is the header of an image. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stage/log.h"
#include "tests/fuzz/fuzz.h"
#include "tests/helpers/tar_fixture.h"
#include "tools/convert/convert.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("0\005\002" "0.jpgIa" "0\005\001" "0.cls1" "0\005\002" "1.jpgIb" "0\005\001" "1.cls0"),
    SEED("0\007\002" "a/0.pngIa" "0\010\014" "a/0.json{\"label\":\"x\"}" "0\005\002" "1.jpgIb" "0\006\014"
         "1.json{\"label\":\"y\"}"),
    SEED("0\005\002" "0.jpgIa" "0\005\002" "1.jpgIb" "0\005\001" "1.cls0" "0\005\001" "0.cls1"),
    SEED("0\005\002" "0.jpgIa" "0\005\004" "0.pydcos\n" "0\007\002" "0.s.jpgIb"),
    SEED("5\002\000" "a/" "0\007\002" "a/1.pngIa" "0\007\002" "b/1.pngIb"),
    { NULL, 0 },
};

static const uint8_t header[] = {
    0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0, 3, 0, 0, 0, 2, 8, 2, 0, 0, 0,
};

static struct tar_fixture tar;
static atomic_bool interrupted;

/* Linked in place of log_message: a message is looked at, not read. */
void __wrap_log_message(enum log_level level, const char *format, ...);
void __wrap_log_message(enum log_level level, const char *format, ...)
{
    (void)level;
    require(format[0] != '\0');
}

static void make_archive(const uint8_t *data, size_t bytes)
{
    tar.byte_count = 0;
    for (size_t at = 0; bytes - at >= 3 && tar.byte_count + 4096 < sizeof(tar.bytes);) {
        const size_t name_bytes = data[at + 1], body_bytes = data[at + 2];
        const uint8_t *const name = data + at + 3, *const body = name + name_bytes;
        char text[101] = "", image[sizeof(header) + 256];
        if (bytes - at - 3 < name_bytes + body_bytes)
            break;
        memcpy(text, name, name_bytes < 100 ? name_bytes : 100);
        const bool is_image = body_bytes > 0 && body[0] == 'I';
        memcpy(image, header, sizeof(header));
        memcpy(image + (is_image ? sizeof(header) : 0), body, body_bytes);
        tar_fixture_add(&tar, (char)data[at], text, image, body_bytes + (is_image ? sizeof(header) : 0));
        at += 3 + name_bytes + body_bytes;
    }
    tar_fixture_end(&tar);
}

static void check_source(const struct conversion *conversion, const struct sample_source *source)
{
    struct example_value values[SAMPLE_VALUES_MAX];
    uint8_t *const scratch = malloc(source->scratch_bytes + 1);
    size_t count;
    int64_t label;

    require(scratch != NULL && source->record_count > 0);
    for (uint64_t i = 0; i < source->record_count; i++) {
        require(source->label(source->arg, i, scratch, &label) == 0 && label >= 0 && label < conversion->classes);
        require(source->sample(source->arg, i, scratch, values, &count) == 0 && values[1].int64 == label);
        const struct example_value *const image = &values[count - 5];
        require(strcmp(image->name, "image/encoded") == 0 && image->byte_count >= sizeof(header));
        require(memmem(tar.bytes, tar.byte_count, image->bytes, image->byte_count) != NULL);
    }
    free(scratch);
}

static void convert(const struct converter *converter, char *path)
{
    const struct convert_options options = { .inputs = &path, .input_count = 1, .output = "/nowhere",
                                             .interrupted = &interrupted };
    struct conversion conversion = { .name = converter->name };
    struct stop *stop;

    require(stop_open(&stop) == 0);
    const int rc = converter_prepare(converter, &options, stop, &conversion);
    require(rc == 0 || (stop_failed(stop) && stop_message(stop)[0] != '\0'));
    for (size_t i = 0; rc == 0 && i < conversion.source_count; i++)
        check_source(&conversion, &conversion.sources[i]);
    for (uint32_t i = 1; rc == 0 && conversion.class_names != NULL && i < conversion.classes; i++)
        require(strcmp(conversion.class_names[i - 1], conversion.class_names[i]) < 0);
    converter_release(converter, &conversion);
    stop_close(stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char path[64];
    const int fd = memfd_create("archive", MFD_CLOEXEC);

    make_archive(data, bytes);
    require(fd >= 0 && write(fd, tar.bytes, tar.byte_count) == (ssize_t)tar.byte_count);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    convert(&convert_webdataset, path);
    convert(&convert_archive, path);
    close(fd);
    return 0;
}
