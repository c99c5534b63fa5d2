/* Memory that ranks on a host share. They connect in two rounds of messages: each offers its memory to the others,
 * then answers to each whether it could map the other's memory. */
#include "sync/ranks/rank_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "stage/clock.h"

/* Seals of the file: they fix its size. The kernel may add others (vm.memfd_noexec). */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Describes a rank's memory to other ranks: they open /proc/PROCESS/fd/DESCRIPTOR if they have the same `place`. The
 * last bytes of the memory store the token, too, by which the memory is recognized. */
struct offer {
    uint64_t bytes, token;              /* bytes: the size with the token */
    uint64_t place;                     /* a hash of the host, its boot and the PID namespace; 0: unknown */
    int32_t process, descriptor;
};

enum round { OFFERS, ANSWERS, CONNECTED };

struct near_memory {
    struct offer offer;                 /* the other rank's */
    uint32_t could_map, could_other_map;
    void *memory;                       /* the other rank's memory; NULL: not mapped */
    struct mpi_request send, receive;
    bool is_sent, is_received;
};

struct rank_memory {
    struct ranks *ranks;
    struct offer own;
    int descriptor;                     /* -1: there is no file, so no other rank can map the memory */
    void *memory;
    enum round round;
    bool is_begun;                      /* the messages of the current round are in flight */
    struct near_memory *neighbours;     /* [place of a rank of this host]; NULL before these are known */
};

/* ---- this rank's memory ---- */

static uint64_t *token_of(void *memory, size_t bytes)
{
    return (uint64_t *)(void *)((char *)memory + bytes - sizeof(uint64_t));
}

static uint64_t find_place(void)
{
    char text[256] = "";
    struct stat processes;
    const int boot = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = boot >= 0 ? read(boot, text, 64) : -1;
    if (boot >= 0)
        close(boot);
    if (bytes <= 0 || stat("/proc/self/ns/pid", &processes) != 0 || gethostname(text + 64, sizeof(text) - 65) != 0)
        return 0;
    return XXH3_64bits_withSeed(text, sizeof(text), (uint64_t)processes.st_ino);
}

/* Map this rank's memory: of a file if possible, with all its blocks allocated. */
static void *map_own(struct rank_memory *memory, size_t bytes)
{
    memory->descriptor = memfd_create("pipetrain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory->descriptor >= 0 && posix_fallocate(memory->descriptor, 0, (off_t)bytes) == 0 &&
        fcntl(memory->descriptor, F_ADD_SEALS, SEALS) == 0)
        return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->descriptor, 0);
    if (memory->descriptor >= 0)
        close(memory->descriptor);
    memory->descriptor = -1;
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static bool is_rank(const struct rank_memory *memory, uint32_t rank)
{
    return rank == ranks_rank(memory->ranks);
}

static uint32_t near_count(const struct rank_memory *memory)
{
    return memory->neighbours != NULL ? rank_hosts_near_count(ranks_hosts(memory->ranks)) : 0;
}

static uint32_t rank_at(const struct rank_memory *memory, uint32_t place)
{
    return rank_hosts_near(ranks_hosts(memory->ranks), place);
}

int rank_memory_know_hosts(struct rank_memory *memory)
{
    const uint32_t count = rank_hosts_near_count(ranks_hosts(memory->ranks));
    memory->neighbours = count > 0 ? calloc(count, sizeof(*memory->neighbours)) : NULL;
    return count == 0 || memory->neighbours != NULL ? 0 : -ENOMEM;
}

int rank_memory_open(struct rank_memory **memory_out, struct ranks *ranks, size_t bytes)
{
    struct rank_memory *const memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return -ENOMEM;
    const size_t token_at = (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    const size_t room = token_at + sizeof(uint64_t);
    memory->ranks = ranks;
    memory->memory = map_own(memory, room);
    if (memory->memory == MAP_FAILED || rank_memory_know_hosts(memory) != 0) {
        if (memory->memory != MAP_FAILED)
            munmap(memory->memory, room);
        if (memory->descriptor >= 0)
            close(memory->descriptor);
        free(memory);
        return -ENOMEM;
    }
    memory->own = (struct offer){ .bytes = room, .token = clock_now_ns() ^ (uint64_t)getpid() << 40,
                                  .place = find_place(), .process = getpid(), .descriptor = memory->descriptor };
    *token_of(memory->memory, room) = memory->own.token;
    *memory_out = memory;
    return 0;
}

void rank_memory_close(struct rank_memory *memory, bool is_kept)
{
    if (memory == NULL || is_kept)
        return;
    for (uint32_t place = 0; place < near_count(memory); place++)
        if (memory->neighbours[place].memory != NULL)
            munmap(memory->neighbours[place].memory, memory->neighbours[place].offer.bytes);
    munmap(memory->memory, memory->own.bytes);
    if (memory->descriptor >= 0)
        close(memory->descriptor);
    free(memory->neighbours);
    free(memory);
}

void *rank_memory_of(const struct rank_memory *memory, uint32_t rank)
{
    if (is_rank(memory, rank))
        return memory->memory;
    if (memory->round != CONNECTED)
        return NULL;
    const uint32_t place = rank_hosts_place(ranks_hosts(memory->ranks), rank);
    return place != RANK_ELSEWHERE ? memory->neighbours[place].memory : NULL;
}

size_t rank_memory_bytes(const struct rank_memory *memory, uint32_t rank)
{
    return is_rank(memory, rank) ? memory->own.bytes
                                 : memory->neighbours[rank_hosts_place(ranks_hosts(memory->ranks), rank)].offer.bytes;
}

/* ---- connecting ---- */

/* Is it a deleted regular file of this size, as a memfd is? Checked before it is opened: if the offer is from another
 * PID namespace, the path may be anything, such as a device on which opening has an effect. */
static bool is_memory_file(int path, uint64_t bytes)
{
    struct stat status;
    return fstat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 0 &&
           (uint64_t)status.st_size == bytes;
}

static bool is_sealed(int descriptor)
{
    const int seals = fcntl(descriptor, F_GET_SEALS);
    return seals >= 0 && (seals & SEALS) == SEALS;
}

/* Open the file of an offer. Returns its descriptor, or -1. */
static int open_offer(const struct offer *offer)
{
    char name[64];
    int descriptor = -1;
    snprintf(name, sizeof(name), "/proc/%d/fd/%d", offer->process, offer->descriptor);
    const int path = open(name, O_PATH | O_CLOEXEC);
    if (path < 0)
        return -1;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", path);
    if (is_memory_file(path, offer->bytes))
        descriptor = open(name, O_RDWR | O_CLOEXEC);
    close(path);
    if (descriptor >= 0 && is_sealed(descriptor))
        return descriptor;
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

/* Map the memory of an offer. NULL if it cannot be mapped, or is not the memory that was offered. */
static void *map_offer(const struct rank_memory *memory, const struct offer *offer)
{
    const bool is_here = offer->descriptor >= 0 && offer->place != 0 && offer->place == memory->own.place;
    const int descriptor = is_here && offer->bytes >= sizeof(uint64_t) ? open_offer(offer) : -1;
    if (descriptor < 0)
        return NULL;
    void *const mapped = mmap(NULL, offer->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (mapped == MAP_FAILED)
        return NULL;
    if (*token_of(mapped, offer->bytes) == offer->token)
        return mapped;
    munmap(mapped, offer->bytes);
    return NULL;
}

static int begin_round(struct rank_memory *memory, int tag)
{
    const struct mpi_module *const module = ranks_module(memory->ranks);
    const bool is_offer = memory->round == OFFERS;
    int rc = 0;
    for (uint32_t place = 0; place < near_count(memory) && rc == 0; place++) {
        struct near_memory *const other = &memory->neighbours[place];
        const uint32_t rank = rank_at(memory, place);
        if (is_rank(memory, rank))
            continue;
        other->is_sent = other->is_received = false;
        rc = is_offer ? module->receive(&other->offer, sizeof(other->offer), rank, tag, &other->receive)
                      : module->receive(&other->could_other_map, sizeof(uint32_t), rank, tag + 1, &other->receive);
        if (rc == 0)
            rc = is_offer ? module->send(&memory->own, sizeof(memory->own), rank, tag, &other->send)
                          : module->send(&other->could_map, sizeof(uint32_t), rank, tag + 1, &other->send);
    }
    return rc;
}

/* Returns 1 if all messages of the round were received and sent. */
static int test_round(struct rank_memory *memory, struct rank_wait *wait_out)
{
    const struct mpi_module *const module = ranks_module(memory->ranks);
    bool have_passed = true;
    for (uint32_t place = 0; place < near_count(memory); place++) {
        struct near_memory *const other = &memory->neighbours[place];
        const uint32_t rank = rank_at(memory, place);
        if (is_rank(memory, rank))
            continue;
        int rc = other->is_sent ? 0 : module->test(&other->send, &other->is_sent);
        if (rc == 0 && !other->is_received)
            rc = module->test(&other->receive, &other->is_received);
        if (rc != 0)
            return -rc;
        if (other->is_sent && other->is_received)
            continue;
        have_passed = false;
        if (wait_out != NULL)
            *wait_out = (struct rank_wait){ rank, memory->round == ANSWERS };
    }
    return have_passed;
}

static void end_round(struct rank_memory *memory)
{
    for (uint32_t place = 0; place < near_count(memory); place++) {
        struct near_memory *const other = &memory->neighbours[place];
        if (is_rank(memory, rank_at(memory, place)))
            continue;
        if (memory->round == OFFERS) {
            other->memory = memory->descriptor >= 0 ? map_offer(memory, &other->offer) : NULL;
            other->could_map = other->memory != NULL;
        } else if (other->memory != NULL && other->could_other_map == 0) {
            munmap(other->memory, other->offer.bytes);
            other->memory = NULL;
        }
    }
    memory->round++;
    memory->is_begun = false;
}

int rank_memory_connect(struct rank_memory *memory, int tag, struct rank_wait *wait_out)
{
    while (memory->round != CONNECTED) {
        int rc = memory->is_begun ? 0 : -begin_round(memory, tag);
        memory->is_begun = true;
        if (rc == 0)
            rc = test_round(memory, wait_out);
        if (rc <= 0)
            return rc;
        end_round(memory);
    }
    return 1;
}
