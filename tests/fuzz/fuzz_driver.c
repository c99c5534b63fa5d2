/* Runs a fuzz target without libFuzzer. With files as arguments: each of them once. Without:
 * every seed, cut at every length, and then FUZZ_ROUNDS counted random changes of seeds,
 * the same in every run. With -s FOLDER: the seeds are written there, for libFuzzer to begin from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/random.h"
#include "tests/fuzz/fuzz.h"

/* A target without seeds begins from zeros. */
#pragma weak fuzz_seeds
static const uint8_t zeros[64];
static const struct fuzz_seed zero_seeds[] = { { zeros, sizeof(zeros) }, { NULL, 0 } };

#define ROUNDS_DEFAULT 5000
#define INPUT_MAX 8192u
#define CHANGES_MAX 8

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    static uint8_t data[1u << 20];
    const size_t bytes = fread(data, 1, sizeof(data), file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, bytes);
    return 0;
}

/* A heap copy of exactly this size, so that the address sanitizer sees every step over its end. */
static void run_exact(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes == 0 ? 1 : bytes);
    if (copy == NULL)
        abort();
    memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static void run_cuts(const struct fuzz_seed *seed)
{
    for (size_t bytes = 0; bytes <= seed->bytes; bytes++)
        run_exact(seed->data, bytes);
}

/* One change: a bit, a byte, a byte inserted or taken out, or a stretch copied elsewhere. */
static size_t change(uint8_t *data, size_t bytes, uint64_t dice)
{
    const size_t place = bytes == 0 ? 0 : (size_t)(dice >> 32) % bytes;
    const uint8_t value = (uint8_t)(dice >> 8);
    switch (dice % 5) {
    case 0:
        if (bytes > 0)
            data[place] ^= (uint8_t)(1u << (value & 7));
        return bytes;
    case 1:
        if (bytes > 0)
            data[place] = value;
        return bytes;
    case 2:
        if (bytes == INPUT_MAX)
            return bytes;
        memmove(data + place + 1, data + place, bytes - place);
        data[place] = value;
        return bytes + 1;
    case 3:
        if (bytes == 0)
            return bytes;
        memmove(data + place, data + place + 1, bytes - place - 1);
        return bytes - 1;
    default:
        if (bytes > 0) {
            const size_t from = (size_t)(dice >> 16) % bytes;
            const size_t room = bytes - (from > place ? from : place);
            memmove(data + place, data + from, value < room ? value : room);
        }
        return bytes;
    }
}

static void run_changes(const struct fuzz_seed *seeds, size_t seed_count, uint64_t rounds)
{
    static uint8_t data[INPUT_MAX];
    const struct random_key key = random_key(1, RANDOM_DRAW, 0);
    for (uint64_t round = 0; round < rounds; round++) {
        const uint64_t dice = random_u64(key, round * (CHANGES_MAX + 1));
        const struct fuzz_seed *seed = &seeds[dice % seed_count];
        size_t bytes = seed->bytes < INPUT_MAX ? seed->bytes : INPUT_MAX;
        memcpy(data, seed->data, bytes);
        const uint64_t changes = 1 + (dice >> 40) % CHANGES_MAX;
        for (uint64_t i = 0; i < changes; i++)
            bytes = change(data, bytes, random_u64(key, round * (CHANGES_MAX + 1) + 1 + i));
        run_exact(data, bytes);
    }
}

static int write_seed(const char *folder, size_t number, const struct fuzz_seed *seed)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/seed-%zu", folder, number);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    const size_t written = fwrite(seed->data, 1, seed->bytes, file);
    return fclose(file) != 0 || written != seed->bytes;
}

static int write_seeds(const char *folder, const struct fuzz_seed *seeds)
{
    int failed = 0;
    for (size_t i = 0; seeds[i].data != NULL; i++)
        failed |= write_seed(folder, i, &seeds[i]);
    return failed;
}

int main(int argc, char **argv)
{
    const struct fuzz_seed *seeds = fuzz_seeds != NULL ? fuzz_seeds : zero_seeds;
    int failed = 0;
    if (argc == 3 && strcmp(argv[1], "-s") == 0)
        return write_seeds(argv[2], seeds);
    for (int i = 1; i < argc; i++)
        failed |= run_file(argv[i]);
    if (argc > 1)
        return failed;
    size_t seed_count = 0;
    for (; seeds[seed_count].data != NULL; seed_count++)
        run_cuts(&seeds[seed_count]);
    const char *rounds = getenv("FUZZ_ROUNDS");
    run_changes(seeds, seed_count, rounds == NULL ? ROUNDS_DEFAULT : strtoull(rounds, NULL, 10));
    return 0;
}
