/* Memory of the simulated devices, pinned and registered memory, and copies. Device memory is filled with NaNs (bytes
 * of 0xFF) when it is allocated and when it is freed. Device memory of which a handle is made becomes a file that other
 * processes map; the last page of the file counts them. */
#include "tests/sim/sim_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define UNWRITTEN 0xFF          /* four of them are a NaN */
#define GUARD 0xA5

/* Bytes after each allocation, which show writes past its end. The address sanitizer needs none. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
static const size_t guard_bytes = 0;
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
static const size_t guard_bytes = 64;
#endif

enum place { PLACE_PAGEABLE, PLACE_PINNED, PLACE_DEVICE, PLACE_MAPPED };

/* The last page of the file of memory that was made a handle of. */
struct exported {
    uint64_t token;
    atomic_uint opened;         /* how often it is open in any process */
};

struct allocation {
    struct allocation *next;
    unsigned char *memory;
    size_t bytes;
    enum place place;           /* PLACE_MAPPED: device memory of another process */
    int device;                 /* that was current when it was allocated; where the memory is */
    bool is_registered;         /* by cudaHostRegister: it belongs to the program */
    int reader;                 /* PLACE_MAPPED: the device for which it was opened */
    uint32_t references;        /* PLACE_MAPPED: calls of cudaIpcOpenMemHandle */
    int file;                   /* PLACE_DEVICE: -1 without a handle */
    struct exported *exported;  /* NULL: no handle */
};

/* Protects the variables below. A read-write lock, so that lookups do not synchronise the threads that make them. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct allocation *allocations;
static size_t used[SIM_DEVICES_MAX];
static bool peers[SIM_DEVICES_MAX][SIM_DEVICES_MAX];            /* [who uses][whose memory] */

/* The bytes of whole pages that an allocation has, which no other one shares. */
static size_t page_bytes(size_t bytes)
{
    return (bytes + guard_bytes + PAGE - 1) / PAGE * PAGE;
}

static void *allocate(size_t bytes, int fill)
{
    void *memory;
    if (posix_memalign(&memory, PAGE, page_bytes(bytes)) != 0)
        sim_die("out of memory");
    memset(memory, fill, bytes);
    memset((unsigned char *)memory + bytes, GUARD, guard_bytes);
    ASAN_POISON_MEMORY_REGION((unsigned char *)memory + bytes, page_bytes(bytes) - bytes);
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
                                       .device = device, .file = -1 };
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

/* Returns where [memory, memory + bytes) is stored and, unless it is pageable, its device; for mapped memory the device
 * that may use it. Ends the test when it begins in an allocation and ends outside it. */
static enum place locate(const void *memory, size_t bytes, int *device_out, const char *who)
{
    enum place place = PLACE_PAGEABLE;
    bool inside = true;
    pthread_rwlock_rdlock(&lock);
    struct allocation **const found = find(memory);
    if (found != NULL) {
        const struct allocation *const allocation = *found;
        place = allocation->place;
        *device_out = place == PLACE_MAPPED ? allocation->reader : allocation->device;
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
    const enum place place = locate(memory, bytes, &owner, who);
    if (place != PLACE_DEVICE && place != PLACE_MAPPED)
        sim_die("%s: %p is not device memory", who, memory);
    pthread_rwlock_rdlock(&lock);
    const bool can_access = device == owner || (place == PLACE_DEVICE && peers[device][owner]);
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
        *memory_out = sim_is_hollow() ? reserve(bytes) : allocate(bytes, UNWRITTEN);
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
    *memory_out = allocate(bytes, UNWRITTEN);
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

/* The memory of a handle is that of this process alone again. */
static void share_no_more(struct allocation *allocation, const char *who)
{
    if (atomic_load(&allocation->exported->opened) > 0)
        sim_die("%s: %p is open in another process", who, (void *)allocation->memory);
    munmap(allocation->exported, PAGE);
    close(allocation->file);
    if (mmap(allocation->memory, page_bytes(allocation->bytes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        sim_die("out of memory");
}

static void release(struct allocation *allocation, const char *who)
{
    if (allocation->place == PLACE_DEVICE && sim_is_hollow()) {
        munmap(allocation->memory, allocation->bytes);
        free(allocation);
        return;
    }
    ASAN_UNPOISON_MEMORY_REGION(allocation->memory, page_bytes(allocation->bytes));
    for (size_t i = 0; i < guard_bytes; i++)
        if (allocation->memory[allocation->bytes + i] != GUARD)
            sim_die("%s: %zu bytes past the end of %p were written", who, i + 1, (void *)allocation->memory);
    if (allocation->exported != NULL)
        share_no_more(allocation, who);
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

/* ---- handles of memory for other processes ---- */

/* The content of a cudaIpcMemHandle_t. */
struct memory_handle {
    uint64_t token, bytes;
    int32_t process, file, device;
};
_Static_assert(sizeof(struct memory_handle) <= sizeof(cudaIpcMemHandle_t), "a handle has 64 bytes");

/* Replace the pages of the allocation by those of a file, with the same content. No stream uses the memory. */
static void share(struct allocation *allocation)
{
    static atomic_uint number;
    const size_t pages = page_bytes(allocation->bytes), stored = allocation->bytes + guard_bytes;
    const int file = memfd_create("simulated GPU", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)(pages + PAGE)) != 0 ||
        pwrite(file, allocation->memory, stored, 0) != (ssize_t)stored ||
        mmap(allocation->memory, pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        sim_die("no file for memory of a device");
    allocation->file = file;
    allocation->exported = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)pages);
    if (allocation->exported == MAP_FAILED)
        sim_die("no file for memory of a device");
    allocation->exported->token = (uint64_t)getpid() << 32 | (atomic_fetch_add(&number, 1) + 1);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle_out, void *memory)
{
    SIM_ENTER();
    if (sim_is_hollow())
        sim_die("%s: a hollow device has no memory", __func__);
    pthread_rwlock_wrlock(&lock);
    struct allocation **const found = find(memory);
    if (found == NULL || (*found)->place != PLACE_DEVICE || (*found)->memory != memory)
        sim_die("%s: %p is not where an allocation of device memory begins", __func__, memory);
    struct allocation *const allocation = *found;
    if (allocation->exported == NULL)
        share(allocation);
    const struct memory_handle handle = { .token = allocation->exported->token, .bytes = allocation->bytes,
                                          .process = getpid(), .file = allocation->file,
                                          .device = allocation->device };
    pthread_rwlock_unlock(&lock);
    memset(handle_out, 0, sizeof(*handle_out));
    memcpy(handle_out, &handle, sizeof(handle));
    return cudaSuccess;
}

/* Map the file of the handle. NULL: the process has ended, or the handle is none. */
static void *map_handle(const struct memory_handle *handle, struct exported **exported_out)
{
    char name[64];
    const size_t pages = page_bytes(handle->bytes);
    snprintf(name, sizeof(name), "/proc/%d/fd/%d", handle->process, handle->file);
    const int file = open(name, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return NULL;
    void *const memory = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    struct exported *const exported = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)pages);
    close(file);
    if (memory == MAP_FAILED || exported == MAP_FAILED)
        return NULL;
    if (exported->token != handle->token)
        sim_die("cudaIpcOpenMemHandle: the handle is of memory that was freed");
    *exported_out = exported;
    return memory;
}

/* What the current device has opened already. The lock is held. */
static struct allocation *find_opened(const struct memory_handle *handle, int reader)
{
    struct allocation *at = allocations;
    while (at != NULL && (at->place != PLACE_MAPPED || at->exported->token != handle->token || at->reader != reader))
        at = at->next;
    return at;
}

/* Real CUDA opens no handles of the same process, which tests may allow (sim_ipc_within_process). */
static bool can_open(const struct memory_handle *handle, int reader)
{
    return sim_ipc() && (handle->process != getpid() || sim_ipc_is_within_process()) &&
           (handle->device == reader || sim_peer_access());
}

cudaError_t cudaIpcOpenMemHandle(void **memory_out, cudaIpcMemHandle_t opaque, unsigned int flags)
{
    SIM_ENTER();
    struct memory_handle handle;
    const int reader = sim_current_device();
    memcpy(&handle, &opaque, sizeof(handle));
    if (flags != cudaIpcMemLazyEnablePeerAccess)
        return sim_result(cudaErrorInvalidValue);
    if (!can_open(&handle, reader))
        return sim_result(cudaErrorMapBufferObjectFailed);
    pthread_rwlock_wrlock(&lock);
    struct allocation *allocation = find_opened(&handle, reader);
    if (allocation == NULL) {
        struct exported *exported = NULL;
        void *const memory = map_handle(&handle, &exported);
        if (memory != NULL) {
            allocation = add(memory, handle.bytes, PLACE_MAPPED, handle.device);
            allocation->reader = reader;
            allocation->exported = exported;
            atomic_fetch_add(&exported->opened, 1);
        }
    }
    if (allocation != NULL) {
        allocation->references++;
        *memory_out = allocation->memory;
    }
    pthread_rwlock_unlock(&lock);
    return sim_result(allocation != NULL ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    SIM_ENTER();
    pthread_rwlock_wrlock(&lock);
    struct allocation **const found = find(memory);
    if (found == NULL || (*found)->place != PLACE_MAPPED || (*found)->memory != memory)
        sim_die("%s: %p was not opened", __func__, memory);
    struct allocation *const allocation = *found;
    const bool is_last = --allocation->references == 0;
    if (is_last)
        *found = allocation->next;
    pthread_rwlock_unlock(&lock);
    if (!is_last)
        return cudaSuccess;
    sim_device_drain(allocation->reader);
    atomic_fetch_sub(&allocation->exported->opened, 1);
    munmap(allocation->exported, PAGE);
    munmap(allocation->memory, page_bytes(allocation->bytes));
    free(allocation);
    return cudaSuccess;
}

cudaError_t sim_memory_range(const void *memory, void **base_out, size_t *bytes_out)
{
    pthread_rwlock_rdlock(&lock);
    struct allocation **const found = find(memory);
    const bool is_device = found != NULL && ((*found)->place == PLACE_DEVICE || (*found)->place == PLACE_MAPPED);
    if (is_device) {
        *base_out = (*found)->memory;
        *bytes_out = (*found)->bytes;
    }
    pthread_rwlock_unlock(&lock);
    return is_device ? cudaSuccess : cudaErrorInvalidValue;
}

/* ---- values ---- */

void sim_check_value(const void *address, int device, const char *who)
{
    int owner = device;
    const enum place place = locate(address, sizeof(uint32_t), &owner, who);
    if ((uintptr_t)address % sizeof(uint32_t) != 0 || place == PLACE_PAGEABLE ||
        ((place == PLACE_DEVICE || place == PLACE_MAPPED) && owner != device))
        sim_die("%s: device %d cannot use the value at %p", who, device, address);
}

/* ---- copies ---- */

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
    if ((place == PLACE_DEVICE || place == PLACE_MAPPED) != on_device)
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
