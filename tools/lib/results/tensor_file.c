/* Reads safetensors files. Their numbers are little-endian, as on all supported machines. */
#include "tools/lib/results/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "stage/file/file.h"

#define LENGTH_BYTES 8u
#define HASHED_BYTES ((size_t)1 << 20)  /* bytes that are hashed at once */

static int read_header(struct tensor_file *file, uint64_t file_bytes, char *problem, size_t problem_size)
{
    uint8_t length[LENGTH_BYTES];
    int rc = file_bytes < LENGTH_BYTES ? -EBADMSG : file_read_at(file->fd, 0, length, sizeof(length));
    const uint64_t bytes = rc == 0 ? safetensors_header_bytes(length) : 0;
    if (rc == 0 && (bytes > SAFETENSORS_HEADER_MAX || bytes > file_bytes - LENGTH_BYTES))
        rc = -EBADMSG;
    if (rc != 0)
        return rc;
    char *const header = malloc(bytes + 1);
    rc = header == NULL ? -ENOMEM : file_read_at(file->fd, LENGTH_BYTES, header, bytes);
    file->data_at = LENGTH_BYTES + bytes;
    if (rc == 0)
        rc = safetensors_index_read(&file->index, header, bytes, file_bytes - file->data_at, problem, problem_size);
    free(header);
    return rc;
}

/* ---- files of other kinds ---- */

#define FRONT_BYTES 4096u

#define MARK(text) text, sizeof(text) - 1

static const struct { size_t offset; const char *magic; size_t bytes; const char *kind; } other_kinds[] = {
    { 0, MARK("\x89HDF\r\n\x1a\n"), "an HDF5 file, such as weights of Keras (.h5): save its arrays with "
                                    "safetensors.numpy.save_file" },
    { 0, MARK("GGUF"), "a GGUF file, which holds language models" },
    { 4, MARK("TFL3"), "a model of TensorFlow Lite" },
    { 0, MARK("\x08"), "a model in ONNX's format, or another protobuf: save its initializers with "
                       "safetensors.numpy.save_file" },
    { 0, MARK("\x80\x02"), "a pickle, as older torch.save writes: convert it with safetensors.torch.save_file" },
    { 0, MARK("\x80"), "a pickle of Python: convert it with safetensors.numpy.save_file" },
    { 0, MARK("version https://git-lfs"), "a Git LFS pointer: fetch the file itself with git lfs pull" },
    { 0, MARK("\x93NUMPY"), "a NumPy array: save it with safetensors.numpy.save_file" },
    { 0, MARK("<"), "HTML or XML text, perhaps the error page of a download" },
    { 0, MARK("\x1f\x8b"), "compressed with gzip" },
    { 0, MARK("\xfd" "7zXZ"), "compressed with xz" },
    { 0, MARK("\x28\xb5\x2f\xfd"), "compressed with Zstandard" },
    { 0, MARK("BZh"), "compressed with bzip2" },
    { 257, MARK("ustar"), "a tar archive" },
};

/* Names of members of zip archives, which are stored uncompressed. */
static const struct { const char *member; size_t bytes; const char *kind; } zip_kinds[] = {
    { MARK("data.pkl"), "one of torch.save: convert it with safetensors.torch.save_file" },
    { MARK("model.weights.h5"), "a model of Keras (.keras): save its arrays with safetensors.numpy.save_file" },
    { MARK("metadata.json"), "a model of Keras (.keras): save its arrays with safetensors.numpy.save_file" },
    { MARK("config.json"), "a model of Keras (.keras): save its arrays with safetensors.numpy.save_file" },
    { MARK(".npy"), "a file of numpy.savez: save its arrays with safetensors.numpy.save_file" },
};

static const char *zip_kind(const uint8_t *front, size_t bytes)
{
    for (size_t i = 0; i < sizeof(zip_kinds) / sizeof(zip_kinds[0]); i++)
        if (memmem(front, bytes, zip_kinds[i].member, zip_kinds[i].bytes) != NULL)
            return zip_kinds[i].kind;
    return "a ZIP archive: unpack it";
}

/* Does the file begin like a safetensors file: with a possible length, and a JSON object? */
static bool begins_right(const uint8_t *front, size_t bytes)
{
    return bytes > LENGTH_BYTES && safetensors_header_bytes(front) <= SAFETENSORS_HEADER_MAX &&
           front[LENGTH_BYTES] == '{';
}

/* The kind of a file that is not a safetensors file; NULL: unknown. */
static const char *other_kind(const struct tensor_file *file)
{
    uint8_t front[FRONT_BYTES];
    const ssize_t got = pread(file->fd, front, sizeof(front), 0);
    const size_t bytes = got > 0 ? (size_t)got : 0;
    if (begins_right(front, bytes))
        return "the beginning of one: it may have been cut";
    if (bytes >= 4 && memcmp(front, "PK\3\4", 4) == 0)
        return zip_kind(front, bytes);
    for (size_t i = 0; i < sizeof(other_kinds) / sizeof(other_kinds[0]); i++)
        if (bytes >= other_kinds[i].offset + other_kinds[i].bytes &&
            memcmp(front + other_kinds[i].offset, other_kinds[i].magic, other_kinds[i].bytes) == 0)
            return other_kinds[i].kind;
    return NULL;
}

/* Is it the index of a TensorFlow checkpoint? That is a LevelDB table, which has its magic number at the end. */
static bool is_tensorflow(const struct tensor_file *file, uint64_t bytes)
{
    static const uint8_t magic[8] = { 0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb };
    uint8_t end[sizeof(magic)];
    return bytes >= sizeof(end) && file_read_at(file->fd, bytes - sizeof(end), end, sizeof(end)) == 0 &&
           memcmp(end, magic, sizeof(end)) == 0;
}

static void describe_other(const struct tensor_file *file, const struct stat *status, char *problem,
                           size_t problem_size)
{
    const char *const kind = !S_ISREG(status->st_mode) ? S_ISDIR(status->st_mode) ? "a folder"
                                                                                 : file_kind(status->st_mode)
                             : is_tensorflow(file, (uint64_t)status->st_size)
                                 ? "a checkpoint of TensorFlow: save its variables with safetensors.numpy.save_file"
                                 : other_kind(file);
    snprintf(problem, problem_size, "is not a safetensors file%s%s", kind != NULL ? ", but " : "",
             kind != NULL ? kind : status->st_size == 0 ? ": it is empty" : "");
}

/* ---- the index ---- */

static int read_index(struct tensor_file *file, char *problem, size_t problem_size)
{
    struct stat status;
    if (file->fd < 0 || fstat(file->fd, &status) != 0) {
        snprintf(problem, problem_size, "cannot be read: %s", strerror(errno));
        return -ENODATA;
    }
    const int rc = S_ISREG(status.st_mode) ? read_header(file, (uint64_t)status.st_size, problem, problem_size)
                                           : -EBADMSG;
    if (rc == -EBADMSG && *problem == '\0')
        describe_other(file, &status, problem, problem_size);
    else if (rc != 0 && *problem == '\0')
        snprintf(problem, problem_size, "cannot be read: %s", strerror(-rc));
    return rc == 0 || rc == -EBADMSG || rc == -ENOMEM ? rc : -ENODATA;
}

int tensor_file_open(struct tensor_file *file_out, const char *path, char *problem_out, size_t problem_size)
{
    return tensor_file_take(file_out, open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), problem_out,
                            problem_size);
}

int tensor_file_take(struct tensor_file *file_out, int fd, char *problem_out, size_t problem_size)
{
    struct tensor_file file = { .fd = fd };
    *problem_out = '\0';
    const int rc = read_index(&file, problem_out, problem_size);
    if (rc == 0)
        *file_out = file;
    else
        tensor_file_close(&file);
    return rc;
}

int tensor_file_read(const struct tensor_file *file, const struct safetensors_tensor *tensor, void *bytes_out)
{
    return file_read_at(file->fd, file->data_at + tensor->offset, bytes_out, tensor->bytes);
}

void tensor_file_close(struct tensor_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
    safetensors_index_release(&file->index);
}

/* ---- tensors ---- */

const struct safetensors_tensor *tensor_find(const struct safetensors_index *index, const char *name)
{
    for (size_t i = 0; i < index->count; i++)
        if (strcmp(index->tensors[i].name, name) == 0)
            return &index->tensors[i];
    return NULL;
}

/* Is it the same shape once the last dimensions of `longer` are made one? */
static bool is_flattened(const uint64_t *longer, uint32_t longer_rank, const uint64_t *dims, uint32_t rank)
{
    uint64_t last = longer[rank - 1];
    for (uint32_t i = rank; i < longer_rank; i++)
        last *= longer[i];
    for (uint32_t i = 0; i + 1 < rank; i++)
        if (longer[i] != dims[i])
            return false;
    return last == dims[rank - 1];
}

bool tensor_has_shape(const struct safetensors_tensor *tensor, const struct parameter *parameter)
{
    uint64_t dims[4], missing = 1;
    for (uint32_t i = 0; i < parameter->rank; i++) {
        dims[i] = parameter->dims[i];
        missing *= i < tensor->rank ? 1 : dims[i];
    }
    if (tensor_number_bytes(tensor->dtype) == 0 || tensor->rank == 0 || tensor->dims[0] != dims[0])
        return false;
    if (tensor->rank < parameter->rank)
        return missing == 1 && is_flattened(dims, parameter->rank, tensor->dims, tensor->rank);
    return is_flattened(tensor->dims, tensor->rank, dims, parameter->rank);
}

struct tensor_hash tensor_hash_of(const char *name, uint64_t hash)
{
    struct tensor_hash text;
    snprintf(text.key, sizeof(text.key), TENSOR_HASH_KEY "%s", name);
    snprintf(text.text, sizeof(text.text), "%016" PRIx64, hash);
    return text;
}

/* Is it the hash of the tensor in the metadata? Returns `if_none` if they have none. */
static bool has_hash(const struct tensor_file *file, const struct safetensors_tensor *tensor, uint64_t hash,
                     bool if_none)
{
    const struct tensor_hash ours = tensor_hash_of(tensor->name, hash);
    const char *const theirs = safetensors_index_text(&file->index, ours.key);
    return theirs == NULL ? if_none : strcmp(theirs, ours.text) == 0;
}

/* Files of other programs have no hashes, which is no error. */
int tensor_file_load(const struct tensor_file *file, const struct safetensors_tensor *tensor, size_t count,
                     void *bytes_out, float *floats_out)
{
    const bool is_float = strcmp(tensor->dtype, "F32") == 0;
    void *const bytes = is_float ? floats_out : bytes_out;
    const int rc = tensor_file_read(file, tensor, bytes);
    if (rc != 0)
        return rc;
    if (!is_float)
        tensor_numbers(tensor->dtype, bytes, floats_out, count);
    return has_hash(file, tensor, XXH3_64bits(bytes, tensor->bytes), true) ? 0 : -EILSEQ;
}

static int hash_tensor(const struct tensor_file *file, const struct safetensors_tensor *tensor, void *buffer,
                       XXH3_state_t *state, uint64_t *hash_out)
{
    struct safetensors_tensor part = *tensor;
    XXH3_64bits_reset(state);
    for (uint64_t done = 0; done < tensor->bytes; done += part.bytes) {
        part.offset = tensor->offset + done;
        part.bytes = tensor->bytes - done < HASHED_BYTES ? tensor->bytes - done : HASHED_BYTES;
        const int rc = tensor_file_read(file, &part, buffer);
        if (rc != 0)
            return rc;
        XXH3_64bits_update(state, buffer, part.bytes);
    }
    *hash_out = XXH3_64bits_digest(state);
    return 0;
}

int tensor_file_verify(const struct tensor_file *file, const struct safetensors_tensor **damaged_out)
{
    void *const buffer = malloc(HASHED_BYTES);
    XXH3_state_t *const state = XXH3_createState();
    int rc = buffer == NULL || state == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < file->index.count && rc == 0; i++) {
        const struct safetensors_tensor *const tensor = &file->index.tensors[i];
        uint64_t hash = 0;
        rc = hash_tensor(file, tensor, buffer, state, &hash);
        if (rc == 0 && !has_hash(file, tensor, hash, false)) {
            *damaged_out = tensor;
            rc = -EILSEQ;
        }
    }
    XXH3_freeState(state);
    free(buffer);
    return rc;
}

/* ---- numbers ---- */

static float from_f32(const void *number)
{
    float value;
    memcpy(&value, number, sizeof(value));
    return value;
}

static float from_f64(const void *number)
{
    double value;
    memcpy(&value, number, sizeof(value));
    return (float)value;
}

static float from_bf16(const void *number)
{
    uint16_t half;
    float value;
    memcpy(&half, number, sizeof(half));
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Convert from IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction. */
static float from_f16(const void *number)
{
    uint16_t half;
    memcpy(&half, number, sizeof(half));
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float size = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                       : exponent == 0 ? ldexpf((float)fraction, -24)
                                       : ldexpf((float)(fraction + 1024), exponent - 25);
    return half >> 15 != 0 ? -size : size;
}

struct number_type { const char *name; size_t bytes; float (*read)(const void *number); };

static const struct number_type number_types[] = {
    { "F32", 4, from_f32 }, { "F16", 2, from_f16 }, { "BF16", 2, from_bf16 }, { "F64", 8, from_f64 },
};

static const struct number_type *find_number_type(const char *dtype)
{
    for (size_t i = 0; i < sizeof(number_types) / sizeof(*number_types); i++)
        if (strcmp(number_types[i].name, dtype) == 0)
            return &number_types[i];
    return NULL;
}

size_t tensor_number_bytes(const char *dtype)
{
    const struct number_type *const type = find_number_type(dtype);
    return type != NULL ? type->bytes : 0;
}

void tensor_numbers(const char *dtype, const void *numbers, float *floats_out, size_t count)
{
    const struct number_type *const type = find_number_type(dtype);
    for (size_t i = 0; i < count; i++)
        floats_out[i] = type->read((const char *)numbers + i * type->bytes);
}
