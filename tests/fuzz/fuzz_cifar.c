/* Fuzz target of CIFAR's binary versions: any bytes as the files of a download. What is converted has labels of
 * the set and the pixels of the files, plane by plane; all else is refused with words. The first byte chooses the
 * set, its label, and whether the parts are filled up to whole records with zeros; files follow, each behind its
 * length, the last one to the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "tests/fuzz/fuzz.h"
#include "tools/convert/convert.h"

enum { PLANE = 32 * 32, IMAGE = 3 * PLANE, FILES_MAX = 7, PART_MAX = 1 << 14 };

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    /* CIFAR-10: an image in each part, and names; without names; one label too large */
    SEED("\004\005\000abcd\001\001\002\002\005\001\003\001\004\003\011zz\na\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"),
    SEED("\004\001\000\001\001\001\002\001\003\001\004\001\005"),
    SEED("\004\001\012\001\001\001\002\001\003\001\004\001\005a\n"),
    /* CIFAR-100, the coarse label */
    SEED("\007\005\023\143abc\004\000\001xya\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np\nq\nr\ns\nt\n"),
    /* CIFAR-100, the fine one; parts cut short */
    SEED("\005\003\001\002\003\002\003\004a\n"),
    SEED("\001\003\001\002\003\002\003\004a\n"),
    { NULL, 0 },
};

struct layout {
    const char *files[FILES_MAX];
    size_t part_count, label_count, label_place;
    int64_t classes;
    const char *label;
};

static const struct layout layouts[] = {
    { { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
        "test_batch.bin", "batches.meta.txt" }, 6, 1, 0, 10, NULL },
    { { "train.bin", "test.bin", "fine_label_names.txt" }, 2, 2, 1, 100, NULL },
    { { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
        "test_batch.bin", "batches.meta.txt" }, 6, 1, 0, 10, "class" },
    { { "train.bin", "test.bin", "coarse_label_names.txt" }, 2, 2, 0, 20, "coarse" },
};

/* The parts as they were written. */
static struct part { uint8_t bytes[PART_MAX]; size_t byte_count; } parts[FILES_MAX];

/* Linked in place of log_message: a refusal is looked at, not read. */
void __wrap_log_message(enum log_level level, const char *format, ...);
void __wrap_log_message(enum log_level level, const char *format, ...)
{
    (void)level;
    require(format[0] != '\0');
}

static char folder[] = "/tmp/pipetrain-fuzz-XXXXXX";

static void remove_folder(void)
{
    require(chdir("/") == 0);
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
        for (size_t k = 0; k <= layouts[i].part_count; k++) {
            char path[128];
            snprintf(path, sizeof(path), "%s/%s", folder, layouts[i].files[k]);
            (void)unlink(path);
        }
    (void)rmdir(folder);
}

static void write_part(const char *name, const struct part *part)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    require(fd >= 0 && write(fd, part->bytes, part->byte_count) == (ssize_t)part->byte_count);
    require(ftruncate(fd, (off_t)part->byte_count) == 0);   /* last: what is emptied first goes to the disk */
    close(fd);
}

static void write_parts(const struct layout *layout, bool is_filled, const uint8_t *data, size_t bytes)
{
    const size_t record = layout->label_count + IMAGE;
    for (size_t i = 0; i <= layout->part_count; i++) {
        struct part *const part = &parts[i];
        const bool is_last = i == layout->part_count;
        size_t length = is_last ? bytes : bytes == 0 ? 0 : data[0];
        if (!is_last && bytes > 0)
            data++, bytes--;
        length = length < bytes ? length : bytes;
        length = length < PART_MAX ? length : PART_MAX;
        part->byte_count = length;
        if (length > 0)
            memcpy(part->bytes, data, length);
        if (!is_last && is_filled) {
            part->byte_count = (length + record - 1) / record * record;
            memset(part->bytes + length, 0, part->byte_count - length);
        }
        data += length;
        bytes -= length;
        write_part(layout->files[i], part);
    }
}

static void check_sample(const struct layout *layout, const struct sample_source *source, uint64_t index,
                         const uint8_t *record)
{
    struct example_value values[SAMPLE_VALUES_MAX];
    uint8_t *const scratch = malloc(source->scratch_bytes);
    size_t count = 0;
    require(scratch != NULL && source->sample(source->arg, index, scratch, values, &count) == 0);
    require(count == 5 && values[2].byte_count == IMAGE && values[3].int64 == record[layout->label_place]);
    require(values[3].int64 < layout->classes);
    const uint8_t *const pixels = values[2].bytes;
    for (size_t i = 0; i < IMAGE; i++)
        require(pixels[i] == record[layout->label_count + i % 3 * PLANE + i / 3]);
    free(scratch);
}

/* The last part is the second split. */
static void check_conversion(const struct layout *layout, const struct conversion *conversion)
{
    const size_t record = layout->label_count + IMAGE;
    uint64_t counts[2] = { 0, 0 };
    require(conversion->source_count == 2);
    for (size_t i = 0; i < layout->part_count; i++) {
        const size_t split = i + 1 == layout->part_count;
        for (size_t at = 0; at < parts[i].byte_count; at += record)
            check_sample(layout, &conversion->sources[split], counts[split]++, parts[i].bytes + at);
    }
    for (size_t i = 0; i < 2; i++)
        require(conversion->sources[i].record_count == counts[i]);
}

static void convert(const struct layout *layout, const struct converter *converter)
{
    static const atomic_bool interrupted = false;
    char *inputs[] = { folder };
    const struct convert_options options = { .inputs = inputs, .input_count = 1, .label = layout->label,
                                             .interrupted = &interrupted };
    struct conversion conversion = { .name = "cifar" };
    struct stop *stop;
    require(stop_open(&stop) == 0);
    const int rc = converter_prepare(converter, &options, stop, &conversion);
    require((rc == 0) == (stop_message(stop)[0] == '\0') && (rc == 0 || stop_code(stop) == EXIT_CODE_DATA));
    if (rc == 0)
        check_conversion(layout, &conversion);
    converter_release(converter, &conversion);
    stop_close(stop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static bool is_prepared;
    if (!is_prepared) {
        require(mkdtemp(folder) != NULL);
        atexit(remove_folder);
        is_prepared = true;
    }
    if (bytes == 0)
        return 0;
    const struct layout *const layout = &layouts[data[0] % 4];
    write_parts(layout, data[0] & 4, data + 1, bytes - 1);
    convert(layout, data[0] % 2 == 0 ? &convert_cifar10 : &convert_cifar100);
    return 0;
}
