/* NumPy's headers: a Python dictionary of three entries. Pure functions, called by the converters. */
#include "formats/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/html.h"
#include "formats/image_header.h"

#define MAGIC_BYTES 6u

/* The current position in the header, and its end. */
struct place { const char *at, *end; };

static const struct { const char *name; enum npy_kind kind; uint32_t item_bytes; } types[] = {
    { "b1", NPY_BOOL, 1 },
    { "i1", NPY_INT, 1 }, { "i2", NPY_INT, 2 }, { "i4", NPY_INT, 4 }, { "i8", NPY_INT, 8 },
    { "u1", NPY_UINT, 1 }, { "u2", NPY_UINT, 2 }, { "u4", NPY_UINT, 4 }, { "u8", NPY_UINT, 8 },
    { "f2", NPY_FLOAT, 2 }, { "f4", NPY_FLOAT, 4 }, { "f8", NPY_FLOAT, 8 },
};

/* Unsupported types, by the letter of their kind. */
static const struct { char letter; const char *problem; } refused_types[] = {
    { 'O', "has the dtype object, as images of several sizes have: save images of one size by numpy.stack, labels by "
           "array.astype('int64')" },
    { 'U', "has the dtype str (texts): save numbers, of labels numpy.unique(labels, return_inverse=True)[1]" },
    { 'S', "has the dtype bytes (texts): save numbers, of labels numpy.unique(labels, return_inverse=True)[1]" },
    { 'c', "has a complex dtype: save real numbers, as array.real" },
    { 'f', "has the dtype longdouble: save array.astype('float32')" },
};

static void skip_blanks(struct place *place)
{
    while (place->at < place->end && (*place->at == ' ' || *place->at == '\n' || *place->at == '\t'))
        place->at++;
}

/* Skip blanks and, if it comes next, `character`. False if it does not come next. */
static bool take(struct place *place, char character)
{
    skip_blanks(place);
    if (place->at == place->end || *place->at != character)
        return false;
    place->at++;
    return true;
}

/* As take(), for a word such as True. */
static bool take_word(struct place *place, const char *word)
{
    const size_t bytes = strlen(word);
    skip_blanks(place);
    if ((size_t)(place->end - place->at) < bytes || memcmp(place->at, word, bytes) != 0)
        return false;
    place->at += bytes;
    return true;
}

/* As take(), for a quoted text without escapes. */
static bool take_text(struct place *place, const char **text_out, size_t *bytes_out)
{
    skip_blanks(place);
    if (place->at == place->end || (*place->at != '\'' && *place->at != '"'))
        return false;
    const char quote = *place->at++;
    const char *const close = memchr(place->at, quote, (size_t)(place->end - place->at));
    if (close == NULL)
        return false;
    *text_out = place->at;
    *bytes_out = (size_t)(close - place->at);
    place->at = close + 1;
    return true;
}

static const char *read_type(struct place *place, struct npy *npy)
{
    const char *text;
    size_t bytes;
    if (!take_text(place, &text, &bytes))
        return "is an array of records: only arrays of numbers are read";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (bytes != 3 || memcmp(text + 1, types[i].name, 2) != 0)
            continue;
        if (text[0] != '<' && !(types[i].item_bytes == 1 && strchr("|>=", text[0]) != NULL))
            return "holds big-endian numbers: save array.astype(array.dtype.newbyteorder('<'))";
        npy->kind = types[i].kind;
        npy->item_bytes = types[i].item_bytes;
        return NULL;
    }
    for (size_t i = 0; i < sizeof(refused_types) / sizeof(refused_types[0]); i++)
        if (bytes >= 2 && text[1] == refused_types[i].letter)
            return refused_types[i].problem;
    return "has a dtype of neither booleans, integers nor floats (float16, float32, float64): save array.astype of one";
}

static const char *read_order(struct place *place, bool *is_fortran_out)
{
    *is_fortran_out = take_word(place, "True");
    return *is_fortran_out || take_word(place, "False") ? NULL : "header is damaged: fortran_order";
}

/* As take(), for a number, with the suffix L that Python 2 writes after long integers. */
static bool take_size(struct place *place, uint64_t *size_out)
{
    uint64_t size = 0;
    skip_blanks(place);
    const char *const begin = place->at;
    for (; place->at < place->end && *place->at >= '0' && *place->at <= '9'; place->at++)
        if (__builtin_mul_overflow(size, 10u, &size) ||
            __builtin_add_overflow(size, (uint64_t)(*place->at - '0'), &size))
            return false;
    const bool is_number = place->at > begin;
    if (is_number && place->at < place->end && *place->at == 'L')
        place->at++;
    *size_out = size;
    return is_number;
}

static const char *read_shape(struct place *place, struct npy *npy)
{
    if (!take(place, '('))
        return "header is damaged: shape";
    npy->rank = 0;
    while (!take(place, ')')) {
        if (npy->rank == NPY_RANK_MAX)
            return "has more than 8 dimensions";
        if (!take_size(place, &npy->dims[npy->rank]))
            return "header is damaged: shape";
        npy->rank++;
        if (!take(place, ',') && (place->at == place->end || *place->at != ')'))
            return "header is damaged: shape";
    }
    return NULL;
}

/* Read the three entries of the dictionary, in any order. Returns an error text or NULL. */
static const char *read_entries(struct place *place, struct npy *npy)
{
    bool is_fortran = false;
    unsigned seen = 0;
    if (!take(place, '{'))
        return "header is no dictionary";
    while (!take(place, '}')) {
        const char *name, *problem;
        size_t bytes;
        if (!take_text(place, &name, &bytes) || !take(place, ':'))
            return "header is damaged";
        const char kind = bytes > 0 ? name[0] : '\0';
        if (bytes == 5 && memcmp(name, "descr", 5) == 0)
            problem = read_type(place, npy);
        else if (bytes == 13 && memcmp(name, "fortran_order", 13) == 0)
            problem = read_order(place, &is_fortran);
        else if (bytes == 5 && memcmp(name, "shape", 5) == 0)
            problem = read_shape(place, npy);
        else
            problem = "header has an unknown entry";
        if (problem != NULL)
            return problem;
        seen |= kind == 'd' ? 1u : kind == 'f' ? 2u : 4u;
        if (!take(place, ',') && (place->at == place->end || *place->at != '}'))
            return "header is damaged";
    }
    if (seen != 7)
        return "header lacks descr, fortran_order or shape";
    return is_fortran && npy->rank > 1 ? "is in Fortran order: save numpy.ascontiguousarray(array)" : NULL;
}

static const char *what_else(const uint8_t *file, size_t bytes)
{
    const char *const kind = image_other_kind(file, bytes);

    if (html_begins(file, bytes))
        return "is HTML, not a .npy file: download it again";
    return kind != NULL ? kind : bytes == 0 ? "is empty: it is no .npy file" : "is no .npy file";
}

/* Read the start and length of the dictionary from the bytes before it. */
static const char *read_length(const uint8_t *file, size_t bytes, size_t *begin_out, size_t *length_out)
{
    static const uint8_t magic[MAGIC_BYTES] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };
    if (bytes < MAGIC_BYTES || memcmp(file, magic, MAGIC_BYTES) != 0)
        return what_else(file, bytes);
    if (bytes < 12)
        return "is cut short in its header";
    if (file[6] < 1 || file[6] > 3)
        return "has a version of the format that is not 1, 2 or 3";
    const bool is_long = file[6] > 1;
    *begin_out = is_long ? 12 : 10;
    *length_out = (size_t)file[8] | (size_t)file[9] << 8;
    if (is_long)
        *length_out |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
    if (*length_out > NPY_HEADER_BYTES_MAX - *begin_out)
        return "has an absurdly long header";
    return *length_out > bytes - *begin_out ? "is cut short in its header" : NULL;
}

static const char *count_bytes(struct npy *npy)
{
    npy->data_bytes = npy->item_bytes;
    for (uint32_t i = 0; i < npy->rank; i++)
        if (__builtin_mul_overflow(npy->data_bytes, npy->dims[i], &npy->data_bytes))
            return "has an absurd shape";
    return NULL;
}

int npy_parse(const uint8_t *file, size_t bytes, struct npy *npy_out, const char **problem_out)
{
    struct npy npy = { 0 };
    size_t begin = 0, length = 0;
    *problem_out = read_length(file, bytes, &begin, &length);
    if (*problem_out == NULL) {
        struct place place = { (const char *)file + begin, (const char *)file + begin + length };
        npy.header_bytes = begin + length;
        *problem_out = read_entries(&place, &npy);
    }
    if (*problem_out == NULL)
        *problem_out = count_bytes(&npy);
    if (*problem_out != NULL)
        return -EBADMSG;
    *npy_out = npy;
    return 0;
}

/* The bits of a number; its first byte is the lowest. */
static uint64_t item_bits(const struct npy *npy, const uint8_t *at)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < npy->item_bytes; i++)
        bits |= (uint64_t)at[i] << 8 * i;
    return bits;
}

/* The bits as a two's complement number of item_bytes bytes. */
static int64_t signed_bits(const struct npy *npy, uint64_t bits)
{
    const uint32_t unused = 64 - 8 * npy->item_bytes;
    return (int64_t)(bits << unused) >> unused;
}

/* The value of a float16: a sign bit, 5 bits of exponent, 10 bits of fraction. */
static double half_number(uint32_t bits)
{
    const int exponent = (int)(bits >> 10 & 31);
    const int fraction = (int)(bits & 1023);
    double size;

    if (exponent == 31)
        size = fraction != 0 ? NAN : INFINITY;
    else
        size = exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 != 0 ? -size : size;
}

double npy_number(const struct npy *npy, const uint8_t *at)
{
    const uint64_t bits = item_bits(npy, at);
    if (npy->kind == NPY_INT)
        return (double)signed_bits(npy, bits);
    if (npy->kind != NPY_FLOAT)
        return (double)bits;
    if (npy->item_bytes == 2)
        return half_number((uint32_t)bits);
    float narrow;
    double wide;
    const uint32_t low_bits = (uint32_t)bits;
    memcpy(&narrow, &low_bits, sizeof(narrow));
    memcpy(&wide, &bits, sizeof(wide));
    return npy->item_bytes == sizeof(narrow) ? (double)narrow : wide;
}

bool npy_integer(const struct npy *npy, const uint8_t *at, int64_t *value_out)
{
    const uint64_t bits = item_bits(npy, at);
    if (npy->kind == NPY_FLOAT || (npy->kind != NPY_INT && bits > INT64_MAX))
        return false;
    *value_out = npy->kind == NPY_INT ? signed_bits(npy, bits) : (int64_t)bits;
    return true;
}

void npy_rows_header(uint64_t rows, uint64_t columns, char header_out[NPY_ROWS_HEADER_BYTES])
{
    static const char begin[] = "\x93NUMPY\1\0\166\0";
    const size_t begin_bytes = sizeof(begin) - 1;       /* the last two bytes are the length of the rest, 118 */
    memcpy(header_out, begin, begin_bytes);
    const int bytes =
        snprintf(header_out + begin_bytes, NPY_ROWS_HEADER_BYTES - begin_bytes,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64 "), }", rows, columns);
    memset(header_out + begin_bytes + bytes, ' ', NPY_ROWS_HEADER_BYTES - begin_bytes - (size_t)bytes);
    header_out[NPY_ROWS_HEADER_BYTES - 1] = '\n';
}

const char *npy_type_name(const struct npy *npy)
{
    static const char *const names[][4] = {
        [NPY_BOOL] = { "bool" }, [NPY_INT] = { "int8", "int16", "int32", "int64" },
        [NPY_UINT] = { "uint8", "uint16", "uint32", "uint64" }, [NPY_FLOAT] = { NULL, "float16", "float32", "float64" },
    };
    return names[npy->kind][__builtin_ctz(npy->item_bytes)];
}
