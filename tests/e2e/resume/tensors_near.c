/* For the end-to-end scripts: are the tensors of two safetensors files the same but for rounding?
 *
 *     tensors_near FILE FILE LIMIT
 *
 * The same names, types and shapes, and no number of a tensor further away than LIMIT of the largest number of that
 * tensor; what is not F32 is the same to the byte. Prints the tensor that differs most, and by how much. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"

#define LENGTH_BYTES 8u

struct tensor_file {
    const char *path;
    char *bytes;
    size_t count;
    struct safetensors_index index;
    const char *data;
};

static void give_up(const char *path, const char *what)
{
    fprintf(stderr, "tensors_near: %s: %s\n", path, what);
    exit(2);
}

static void read_bytes(struct tensor_file *file)
{
    FILE *const in = fopen(file->path, "rb");
    if (in == NULL || fseek(in, 0, SEEK_END) != 0)
        give_up(file->path, "cannot be read");
    const long size = ftell(in);
    file->count = size > 0 ? (size_t)size : 0;
    file->bytes = malloc(file->count + 1);
    rewind(in);
    if (file->bytes == NULL || fread(file->bytes, 1, file->count, in) != file->count)
        give_up(file->path, "cannot be read");
    fclose(in);
}

static void open_file(struct tensor_file *file, const char *path)
{
    char problem[128] = "too short";
    *file = (struct tensor_file){ .path = path };
    read_bytes(file);
    if (file->count < LENGTH_BYTES)
        give_up(path, problem);
    const uint64_t header = safetensors_header_bytes((const uint8_t *)file->bytes);
    if (header > file->count - LENGTH_BYTES ||
        safetensors_index_read(&file->index, file->bytes + LENGTH_BYTES, header, file->count - LENGTH_BYTES - header,
                               problem, sizeof(problem)) != 0)
        give_up(path, problem);
    file->data = file->bytes + LENGTH_BYTES + header;
}

static void close_file(struct tensor_file *file)
{
    safetensors_index_release(&file->index);
    free(file->bytes);
}

static const struct safetensors_tensor *find_tensor(const struct tensor_file *file, const char *name)
{
    for (size_t i = 0; i < file->index.count; i++)
        if (strcmp(file->index.tensors[i].name, name) == 0)
            return &file->index.tensors[i];
    return NULL;
}

static bool has_same_shape(const struct safetensors_tensor *a, const struct safetensors_tensor *b)
{
    return strcmp(a->dtype, b->dtype) == 0 && a->rank == b->rank && a->bytes == b->bytes &&
           memcmp(a->dims, b->dims, a->rank * sizeof(a->dims[0])) == 0;
}

static float number_at(const char *data, size_t i)
{
    float number;
    memcpy(&number, data + i * sizeof(number), sizeof(number));
    return number;
}

/* Of numbers that are not finite there is no distance: INFINITY. */
static double distance(const char *a, const char *b, size_t bytes, bool are_numbers)
{
    double most = 0, largest = 0;
    if (!are_numbers)
        return memcmp(a, b, bytes) == 0 ? 0 : INFINITY;
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        const double one = number_at(a, i), other = number_at(b, i), between = fabs(one - other);
        if (!isfinite(between))
            return INFINITY;
        most = fmax(most, between);
        largest = fmax(largest, fmax(fabs(one), fabs(other)));
    }
    return most == 0 ? 0 : most / largest;
}

int main(int argc, char **argv)
{
    struct tensor_file a, b;
    double most = 0;
    const char *of = "none";
    if (argc != 4)
        give_up("usage", "tensors_near FILE FILE LIMIT");
    open_file(&a, argv[1]);
    open_file(&b, argv[2]);
    if (a.index.count == 0 || a.index.count != b.index.count)
        give_up(argv[2], "another number of tensors");
    for (size_t i = 0; i < a.index.count; i++) {
        const struct safetensors_tensor *const one = &a.index.tensors[i], *const other = find_tensor(&b, one->name);
        if (other == NULL || !has_same_shape(one, other))
            give_up(one->name, "is not in both files with one shape");
        const double between = distance(a.data + one->offset, b.data + other->offset, one->bytes,
                                        strcmp(one->dtype, "F32") == 0);
        if (between > most) {
            most = between;
            of = one->name;
        }
    }
    printf("%zu tensors, furthest apart %s: %.3g\n", a.index.count, of, most);
    close_file(&a);
    close_file(&b);
    return most <= strtod(argv[3], NULL) ? 0 : 1;
}
