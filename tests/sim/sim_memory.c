/* Memory of the simulated devices, pinned memory and copies. Device memory is filled with NaNs (bytes of 0xFF) when it
 * is allocated and when it is freed. */
#include "tests/sim/sim_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEVICE_ALIGNMENT 256
#define PINNED_ALIGNMENT 4096
#define UNWRITTEN 0xFF          /* four of them are a NaN */
#define GUARD 0xA5

/* Bytes after each allocation, which show writes past its end. The address sanitizer needs none. */
#ifdef __SANITIZE_ADDRESS__
static const size_t guard_bytes = 0;
#else
static const size_t guard_bytes = 64;
#endif

enum place { PLACE_PAGEABLE, PLACE_PINNED, PLACE_DEVICE };

struct allocation {
    struct allocation *next;
    unsigned char *memory;
    size_t bytes;
    enum place place;
    int device;                 /* that was current when it was allocated */
    bool is_registered;         /* by cudaHostRegister: it belongs to the program */
};

/* Protects the variables below. A read-write lock, so that lookups do not synchronise the threads that make them. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct allocation *allocations;
static size_t used[SIM_DEVICES_MAX];
static bool peers[SIM_DEVICES_MAX][SIM_DEVICES_MAX];            /* [who uses][whose memory] */

static void *allocate(size_t bytes, size_t alignment, int fill)
{
    void *memory;
    if (posix_memalign(&memory, alignment, bytes + guard_bytes) != 0)
        sim_die("out of memory");
    memset(memory, fill, bytes);
    memset((unsigned char *)memory + bytes, GUARD, guard_bytes);
    return memory;
}

/* Addresses without memory, for a hollow device. */
static void *reserve(size_t bytes)
{
    void *const memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        sim_die("out of addresses");
    return memory;
}

/* The lock is held. */
static struct allocation *add(void *memory, size_t bytes, enum place place, int device)
{
    struct allocation *const allocation = sim_alloc(sizeof(*allocation));
    *allocation = (struct allocation){ .next = allocations, .memory = memory, .bytes = bytes, .place = place,
                                       .device = device };
    allocations = allocation;
    return allocation;
}

/* The allocation that holds the byte, or NULL. The lock is held. */
static struct allocation **find(const void *memory)
{
    const uintptr_t at = (uintptr_t)memory;
    for (struct allocation **place = &allocations; *place != NULL; place = &(*place)->next)
        if (at >= (uintptr_t)(*place)->memory && at - (uintptr_t)(*place)->memory < (*place)->bytes)
            return place;
    return NULL;
}

/* Returns where [memory, memory + bytes) is stored and, unless it is pageable, its device. Ends the test when it begins
 * in an allocation and ends outside it. */
static enum place locate(const void *memory, size_t bytes, int *device_out, const char *who)
{
    enum place place = PLACE_PAGEABLE;
    bool inside = true;
    pthread_rwlock_rdlock(&lock);
    struct allocation **const found = find(memory);
    if (found != NULL) {
        const struct allocation *const allocation = *found;
        place = allocation->place;
        *device_out = allocation->device;
        inside = bytes <= allocation->bytes - ((uintptr_t)memory - (uintptr_t)allocation->memory);
    }
    pthread_rwlock_unlock(&lock);
    if (!inside)
        sim_die("%s: %zu bytes at %p go past the end of the allocation", who, bytes, memory);
    return place;
}

void sim_check_memory(const void *memory, size_t bytes, int device, const char *who)
{
    int owner = 0;
    if (bytes == 0)
        return;
    if (locate(memory, bytes, &owner, who) != PLACE_DEVICE)
        sim_die("%s: %p is not device memory", who, memory);
    pthread_rwlock_rdlock(&lock);
    const bool can_access = device == owner || peers[device][owner];
    pthread_rwlock_unlock(&lock);
    if (!can_access)
        sim_die("%s: %p is memory of device %d, used on device %d", who, memory, owner, device);
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

void sim_check_operands(const struct sim_operand *operands, size_t count, size_t written, int device)
{
    for (size_t i = 0; i < count; i++) {
        const struct sim_operand *const a = &operands[i];
        sim_check_memory(a->memory, a->bytes, device, a->name);
        for (size_t j = 0; j < i && j < written; j++) {
            const struct sim_operand *const b = &operands[j];
            if (a->bytes > 0 && b->bytes > 0 && overlap(a->memory, a->bytes, b->memory, b->bytes))
                sim_die("%s overlaps %s", a->name, b->name);
        }
    }
}

size_t sim_operand_bytes(const struct sim_operand *operands, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += operands[i].bytes;
    return bytes;
}

cudaError_t cudaMalloc(void **memory_out, size_t bytes)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    const int device = sim_current_device();
    *memory_out = NULL;
    pthread_rwlock_wrlock(&lock);
    const bool fits = bytes <= sim_device_bytes() - used[device];
    if (fits && bytes > 0) {
        *memory_out = sim_is_hollow() ? reserve(bytes) : allocate(bytes, DEVICE_ALIGNMENT, UNWRITTEN);
        add(*memory_out, bytes, PLACE_DEVICE, device);
        used[device] += bytes;
    }
    pthread_rwlock_unlock(&lock);
    return sim_result(fits ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaHostAlloc(void **memory_out, size_t bytes, unsigned int flags)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    if ((flags & ~(unsigned int)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined)) != 0)
        sim_die("%s: flags %u are not simulated", __func__, flags);
    *memory_out = NULL;
    if (bytes == 0)
        return cudaSuccess;
    *memory_out = allocate(bytes, PINNED_ALIGNMENT, UNWRITTEN);
    pthread_rwlock_wrlock(&lock);
    add(*memory_out, bytes, PLACE_PINNED, sim_current_device());
    pthread_rwlock_unlock(&lock);
    return cudaSuccess;
}

/* Does an allocation overlap [memory, memory + bytes)? The lock is held. */
static bool is_known(const unsigned char *memory, size_t bytes)
{
    bool is_known = false;
    for (const struct allocation *each = allocations; each != NULL; each = each->next)
        is_known = is_known || (each->memory < memory + bytes && memory < each->memory + each->bytes);
    return is_known;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned int flags)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    if ((flags & ~(unsigned int)(cudaHostRegisterPortable | cudaHostRegisterMapped)) != 0)
        sim_die("%s: flags %u are not simulated", __func__, flags);
    if (memory == NULL || bytes == 0)
        return sim_result(cudaErrorInvalidValue);
    pthread_rwlock_wrlock(&lock);
    const bool is_new = !is_known(memory, bytes);
    if (is_new)
        add(memory, bytes, PLACE_PINNED, sim_current_device())->is_registered = true;
    pthread_rwlock_unlock(&lock);
    return sim_result(is_new ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}

/* Remove the allocation that begins at `memory` from the list. */
static struct allocation *take(void *memory, enum place place, bool is_registered, const char *who)
{
    pthread_rwlock_wrlock(&lock);
    struct allocation **const found = find(memory);
    if (found == NULL || (*found)->memory != memory || (*found)->place != place ||
        (*found)->is_registered != is_registered)
        sim_die("%s: %p was not allocated so, or is freed already", who, memory);
    struct allocation *const allocation = *found;
    *found = allocation->next;
    if (place == PLACE_DEVICE)
        used[allocation->device] -= allocation->bytes;
    pthread_rwlock_unlock(&lock);
    return allocation;
}

static void release(struct allocation *allocation, const char *who)
{
    if (allocation->place == PLACE_DEVICE && sim_is_hollow()) {
        munmap(allocation->memory, allocation->bytes);
        free(allocation);
        return;
    }
    for (size_t i = 0; i < guard_bytes; i++)
        if (allocation->memory[allocation->bytes + i] != GUARD)
            sim_die("%s: %zu bytes past the end of %p were written", who, i + 1, (void *)allocation->memory);
    memset(allocation->memory, UNWRITTEN, allocation->bytes);
    free(allocation->memory);
    free(allocation);
}

/* Waits for the device, as the real one does. */
cudaError_t cudaFree(void *memory)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    if (memory == NULL)
        return cudaSuccess;
    struct allocation *const allocation = take(memory, PLACE_DEVICE, false, __func__);
    sim_device_drain(allocation->device);
    release(allocation, __func__);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    if (memory != NULL)
        release(take(memory, PLACE_PINNED, false, __func__), __func__);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    SIM_ENTER();
    sim_check_no_capture(__func__);
    free(take(memory, PLACE_PINNED, true, __func__));
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_out, size_t *total_out)
{
    SIM_ENTER();
    pthread_rwlock_rdlock(&lock);
    *total_out = sim_device_bytes();
    *free_out = *total_out - used[sim_current_device()];
    pthread_rwlock_unlock(&lock);
    return cudaSuccess;
}

static void check_peer(int device, int peer, const char *who)
{
    const int count = sim_device_count();
    if (device < 0 || device >= count || peer < 0 || peer >= count)
        sim_die("%s: devices %d and %d of %d", who, device, peer, count);
}

cudaError_t cudaDeviceCanAccessPeer(int *can_access, int device, int peer)
{
    SIM_ENTER();
    check_peer(device, peer, __func__);
    *can_access = device != peer && sim_peer_access();
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    SIM_ENTER();
    const int device = sim_current_device();
    check_peer(device, peer, __func__);
    if (flags != 0 || peer == device || !sim_peer_access())
        sim_die("%s: device %d cannot access memory of device %d", __func__, device, peer);
    pthread_rwlock_wrlock(&lock);
    const bool before = peers[device][peer];
    peers[device][peer] = true;
    pthread_rwlock_unlock(&lock);
    return sim_result(before ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}

struct copy {
    void *to;
    const void *from;
    size_t bytes;
    enum cudaMemcpyKind kind;
};

static void run_copy(void *arguments)
{
    const struct copy *const copy = arguments;
    if (copy->kind == cudaMemcpyHostToDevice)
        sim_enter("upload");    /* tests may block it here */
    if (!sim_is_hollow())
        memcpy(copy->to, copy->from, copy->bytes);
}

struct fill {
    void *memory;
    int value;
    size_t bytes;
};

static void run_fill(void *arguments)
{
    const struct fill *const fill = arguments;
    memset(fill->memory, fill->value, fill->bytes);
}

/* Ends the test unless the memory is where the direction of a copy says. */
static void check_side(enum place place, bool on_device, const void *memory, const char *who)
{
    if ((place == PLACE_DEVICE) != on_device)
        sim_die("%s: %p is %sdevice memory", who, memory, on_device ? "not " : "");
}

/* Returns whether one side of the copy is pageable memory. Both sides may be on any device, even without peer
 * access. */
static bool check_copy(const struct copy *copy, const char *who)
{
    int device;
    const enum cudaMemcpyKind kind = copy->kind;
    const enum place to = locate(copy->to, copy->bytes, &device, who);
    const enum place from = locate(copy->from, copy->bytes, &device, who);
    if (kind != cudaMemcpyDefault) {
        check_side(to, kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice, copy->to, who);
        check_side(from, kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice, copy->from, who);
    }
    if (overlap(copy->to, copy->bytes, copy->from, copy->bytes))
        sim_die("%s: from and to overlap", who);
    sim_count_bytes(who, copy->bytes * (uint64_t)((to == PLACE_DEVICE) + (from == PLACE_DEVICE)));
    return to == PLACE_PAGEABLE || from == PLACE_PAGEABLE;
}

/* Does not return before a copy of pageable memory is done. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    SIM_ENTER();
    const struct copy copy = { .to = to, .from = from, .bytes = bytes, .kind = kind };
    if ((unsigned int)kind > cudaMemcpyDefault)
        return sim_result(cudaErrorInvalidMemcpyDirection);
    if (bytes == 0)
        return cudaSuccess;
    const bool is_pageable = check_copy(&copy, __func__);
    if (is_pageable) {
        sim_count("pageable copy");
        sim_check_no_capture("cudaMemcpyAsync of pageable memory");
    }
    sim_stream_check(stream);
    sim_stream_add(stream, sim_op_new(run_copy, &copy, sizeof(copy), true));
    if (is_pageable)
        sim_stream_drain(stream);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    SIM_ENTER();
    const struct fill fill = { .memory = memory, .value = value, .bytes = bytes };
    if (bytes == 0)
        return cudaSuccess;
    sim_check_memory(memory, bytes, sim_stream_device(stream), __func__);
    sim_stream_push(stream, run_fill, &fill, sizeof(fill));
    return cudaSuccess;
}
