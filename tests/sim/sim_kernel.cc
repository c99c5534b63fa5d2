/* Runs the blocks of a kernel. The threads of a block run one after another on a fiber. A thread that waits at a
 * barrier keeps its fiber, and the next thread starts on another one. So a kernel without barriers runs as a plain loop
 * on one fiber. The fibers belong to the stream's thread, which reuses them for every block; when the stream is
 * destroyed they are kept for other streams. */
#include "tests/sim/sim_kernel.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/sim/sim.h"

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef SIM_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* Registers a stack with Valgrind; without Valgrind this does nothing. */
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define SIM_STACK_REGISTER(begin, end) VALGRIND_STACK_REGISTER(begin, end)
#else
#define SIM_STACK_REGISTER(begin, end) 0
#endif

/* The variables of a kernel. */
extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;
__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace {

constexpr unsigned int THREADS_MAX = 1024;
constexpr size_t PAGE_BYTES = 4096;
constexpr size_t STACK_BYTES = 65 * PAGE_BYTES; /* of address space; only touched pages use memory */
/* Stacks have an odd number of pages and start at different offsets in their last page. Otherwise all of them would
 * compete for the same few sets of the CPU's caches. */
constexpr size_t SHIFT_BYTES = 5 * 64;
constexpr uint64_t CANARY = 0x5AFE57ACC0FFEEull;

enum thread_state : unsigned char { RUNNING, AT_WARP, AT_BLOCK, ENDED };

/* ---- switching between stacks ---- */

#if defined(__x86_64__) && !defined(SIM_UCONTEXT)

typedef void *context;
extern "C" void sim_switch_stack(context *save, context load);
asm(".text\n"
    ".type sim_switch_stack, @function\n"
    "sim_switch_stack:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    popq %rcx\n"
    "    jmp *%rcx\n"              /* the CPU would always mispredict a return here */
    ".size sim_switch_stack, . - sim_switch_stack\n");

void context_switch(context *from, context *to)
{
    sim_switch_stack(from, *to);
}

/* Makes a context that starts at the first instruction of `entry`, on this stack. */
void context_make(context *made, void *stack, size_t bytes, void (*entry)())
{
    uintptr_t *top = (uintptr_t *)((unsigned char *)stack + bytes);
    *--top = 0;
    *--top = (uintptr_t)entry;
    for (int saved = 0; saved < 6; saved++)
        *--top = 0;
    *made = top;
}

#else

#include <ucontext.h>

typedef ucontext_t context;

void context_switch(context *from, context *to)
{
    swapcontext(from, to);
}

void context_make(context *made, void *stack, size_t bytes, void (*entry)())
{
    getcontext(made);
    made->uc_stack.ss_sp = stack;
    made->uc_stack.ss_size = bytes;
    made->uc_link = nullptr;
    makecontext(made, entry, 0);
}

#endif

/* ---- fibers ---- */

struct fiber {
    fiber *next;                /* in the list of spare fibers */
    context at;
    unsigned char *stack;
    void *fake_stack;           /* the address sanitizer's */
    unsigned int stack_id;      /* Valgrind's */
    unsigned int thread;        /* of the block: the one that runs or waits on this fiber */
};

struct launch {
    const char *name;
    uint3 grid, block;
    bool is_early;
    void (*call)(const void *body);
    alignas(16) unsigned char body[SIM_KERNEL_ARGUMENTS_MAX];   /* only the used bytes are copied */
};

/* The state of a stream's thread while it runs kernels. */
struct runner {
    const launch *kernel = nullptr;
    bool descending = false;
    unsigned int count = 0;             /* threads of the block */
    unsigned int started = 0, ended = 0, awaited = 0;
    bool has_awaited[THREADS_MAX];      /* threads that have waited for the grids before */
    thread_state states[THREADS_MAX];
    int lines[THREADS_MAX];             /* source lines of the barriers at which threads wait */
    fiber *fiber_of[THREADS_MAX];       /* of waiting threads */
    uint64_t given[2][THREADS_MAX];     /* values for shuffles; two sets, because a lane may be one shuffle ahead */
    unsigned char turn[THREADS_MAX / SIM_WARP];         /* of every warp: the set for its next shuffle */

    context home;                       /* the thread's own stack */
    const void *home_stack = nullptr;
    size_t home_stack_bytes = 0;
    void *home_fake_stack = nullptr;
    fiber *fibers[THREADS_MAX];
    unsigned int fibers_made = 0;
    fiber *running = nullptr;
    bool closing = false;

    ~runner();
};

/* One per stream's thread. */
__thread runner *self;

void enter_fiber(fiber *to)
{
    self->running = to;
#ifdef SIM_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(&self->home_fake_stack, to->stack, STACK_BYTES);
#endif
    context_switch(&self->home, &to->at);
#ifdef SIM_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(self->home_fake_stack, nullptr, nullptr);
#endif
}

void arrived_on_fiber(void *fake_stack)
{
#ifdef SIM_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(fake_stack, &self->home_stack, &self->home_stack_bytes);
#else
    (void)fake_stack;
#endif
}

void leave_fiber(bool for_good)
{
    fiber *const from = self->running;
#ifdef SIM_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(for_good ? nullptr : &from->fake_stack, self->home_stack, self->home_stack_bytes);
#else
    (void)for_good;
#endif
    context_switch(&from->at, &self->home);
    arrived_on_fiber(from->fake_stack);
}

/* The number of the i-th thread, warp or block of `count` in the order of this launch. */
unsigned int ordered(unsigned int i, unsigned int count)
{
    return self->descending ? count - 1 - i : i;
}

uint3 place_of(unsigned int i, const uint3 &size)
{
    if (i < size.x)
        return uint3{ i, 0, 0 };
    return uint3{ i % size.x, i / size.x % size.y, i / size.x / size.y };
}

/* Start threads of the block until all have started. A thread that waits switches to the home stack from within its
 * call. */
void run_threads()
{
    while (self->started < self->count) {
        const unsigned int thread = ordered(self->started++, self->count);
        self->running->thread = thread;
        threadIdx = place_of(thread, self->kernel->block);
        self->kernel->call(self->kernel->body);
        self->states[self->running->thread] = ENDED;
        self->ended++;
    }
}

void fiber_main()
{
    arrived_on_fiber(nullptr);
    while (!self->closing) {
        run_threads();
        leave_fiber(false);
    }
    leave_fiber(true);
    abort();                    /* never reached: the fiber is not entered again */
}

/* Clears the address sanitizer's marks of old stack frames before the memory is used for another stack. */
void stack_unpoison(void *stack)
{
#ifdef SIM_ADDRESS_SANITIZER
    ASAN_UNPOISON_MEMORY_REGION(stack, STACK_BYTES);
#else
    (void)stack;
#endif
}

fiber *fiber_new()
{
    fiber *const made = new fiber();
    void *const stack =
        mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        sim_die("no memory for the stack of a kernel's thread");
    made->stack = (unsigned char *)stack;
    made->stack_id = SIM_STACK_REGISTER(made->stack, made->stack + STACK_BYTES);
    return made;
}

/* Fibers of destroyed streams, for reuse: the pages of their stacks have been touched already. */
pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
fiber *spare_fibers;

fiber *spare_fiber()
{
    pthread_mutex_lock(&spare_lock);
    fiber *const spare = spare_fibers;
    if (spare != nullptr)
        spare_fibers = spare->next;
    pthread_mutex_unlock(&spare_lock);
    return spare;
}

/* A fiber that starts in fiber_main, as the i-th of the stream's thread. */
fiber *fiber_take(unsigned int i)
{
    fiber *const spare = spare_fiber();
    fiber *const taken = spare != nullptr ? spare : fiber_new();
    stack_unpoison(taken->stack);
    memcpy(taken->stack, &CANARY, sizeof(CANARY));
    context_make(&taken->at, taken->stack, STACK_BYTES - i * SHIFT_BYTES % PAGE_BYTES, fiber_main);
    return taken;
}

void fiber_give_back(fiber *given)
{
    stack_unpoison(given->stack);
    pthread_mutex_lock(&spare_lock);
    given->next = spare_fibers;
    spare_fibers = given;
    pthread_mutex_unlock(&spare_lock);
}

fiber *fiber_number(unsigned int i)
{
    if (i == self->fibers_made) {
        self->fibers[i] = fiber_take(i);
        self->fibers_made++;
    }
    return self->fibers[i];
}

void check_stacks(unsigned int used)
{
    for (unsigned int i = 0; i < used; i++)
        if (memcmp(self->fibers[i]->stack, &CANARY, sizeof(CANARY)) != 0)
            sim_die("%s: a thread's stack overflowed", self->kernel->name);
}

runner::~runner()
{
    closing = true;
    self = this;
    for (unsigned int i = 0; i < fibers_made; i++) {
        enter_fiber(fibers[i]);
        fiber_give_back(fibers[i]);
    }
}

/* ---- barriers ---- */

void wait_in(thread_state state, int line)
{
    const unsigned int thread = self->running->thread;
    if (self->kernel->is_early && !self->has_awaited[thread])
        sim_die("%s: line %d: thread %u has not waited for the kernels before, and the kernel was launched early",
                self->kernel->name, line, thread);
    self->states[thread] = state;
    self->lines[thread] = line;
    self->fiber_of[thread] = self->running;
    leave_fiber(false);
}

/* Continue a waiting thread until it waits again or ends. */
void resume(unsigned int thread)
{
    self->states[thread] = RUNNING;
    threadIdx = place_of(thread, self->kernel->block);
    enter_fiber(self->fiber_of[thread]);
}

/* Ends the test unless all threads [begin, end) wait in `state` at the same source line. */
void check_together(unsigned int begin, unsigned int end, thread_state state, const char *what)
{
    unsigned int first = begin;
    while (self->states[first] != state)
        first++;
    for (unsigned int i = begin; i < end; i++)
        if (self->states[i] != state || self->lines[i] != self->lines[first])
            sim_die("%s: thread %u of the block waits at %s in line %d, thread %u %s", self->kernel->name, first, what,
                    self->lines[first], i, self->states[i] == ENDED ? "has ended" : "waits elsewhere");
}

bool any_waits(unsigned int begin, unsigned int end, thread_state state)
{
    for (unsigned int i = begin; i < end; i++)
        if (self->states[i] == state)
            return true;
    return false;
}

/* Run a warp until none of its threads waits at a barrier of the warp. */
void settle_warp(unsigned int warp)
{
    const unsigned int begin = warp * SIM_WARP;
    const unsigned int end = begin + SIM_WARP < self->count ? begin + SIM_WARP : self->count;
    while (any_waits(begin, end, AT_WARP)) {
        check_together(begin, end, AT_WARP, "a shuffle");
        self->turn[warp] ^= 1;
        for (unsigned int i = 0; i < end - begin; i++)
            resume(begin + ordered(i, end - begin));
    }
}

/* Run all threads to the next barrier of the block. Returns false when all have ended instead. */
bool settle_block()
{
    const unsigned int warps = (self->count + SIM_WARP - 1) / SIM_WARP;
    if (self->ended == self->count)
        return false;
    for (unsigned int i = 0; i < warps; i++)
        settle_warp(ordered(i, warps));
    if (self->ended == self->count)
        return false;
    check_together(0, self->count, AT_BLOCK, "__syncthreads");
    return true;
}

void run_block()
{
    unsigned int used = 0;
    self->started = self->ended = self->awaited = 0;
    memset(self->has_awaited, 0, self->count * sizeof(*self->has_awaited));
    while (self->started < self->count)
        enter_fiber(fiber_number(used++));
    while (settle_block())
        for (unsigned int i = 0; i < self->count; i++)
            resume(ordered(i, self->count));
    check_stacks(used);
    if (self->kernel->is_early && self->awaited != self->count)
        sim_die("%s: %u of %u threads of a block wait for the kernels before, and the kernel was launched early",
                self->kernel->name, self->awaited, self->count);
}

/* The operation of the stream. */
void run_grid(void *arguments)
{
    sim_enter("kernel");        /* tests may block it here */
    static thread_local runner own;
    const launch *const kernel = (const launch *)arguments;
    const uint3 grid = kernel->grid, block = kernel->block;
    const unsigned int blocks = grid.x * grid.y * grid.z;
    self = &own;
    self->kernel = kernel;
    self->count = block.x * block.y * block.z;
    gridDim = grid;
    blockDim = block;
    for (unsigned int i = 0; i < blocks; i++) {
        blockIdx = place_of(ordered(i, blocks), grid);
        run_block();
    }
    self->descending = !self->descending;
}

bool has_size(const dim3 &size, unsigned int x, unsigned int y, unsigned int z)
{
    return size.x > 0 && size.x <= x && size.y > 0 && size.y <= y && size.z > 0 && size.z <= z;
}

/* At most the attribute of an early launch. */
bool has_known_attributes(const cudaLaunchConfig_t &config)
{
    return config.numAttrs == 0 ||
           (config.numAttrs == 1 && config.attrs[0].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
            config.attrs[0].val.programmaticStreamSerializationAllowed == 1);
}

/* The limits of a device, and at most 2^32 - 1 blocks: more would never end. */
bool can_launch(const cudaLaunchConfig_t &config)
{
    const dim3 &grid = config.gridDim, &block = config.blockDim;
    return has_size(grid, 0x7FFFFFFF, 0xFFFF, 0xFFFF) && has_size(block, 1024, 1024, 64) &&
           (uint64_t)block.x * block.y * block.z <= THREADS_MAX && (uint64_t)grid.x * grid.y * grid.z <= 0xFFFFFFFF;
}

}

void sim_wait_grids()
{
    bool *const has_awaited = &self->has_awaited[self->running->thread];
    if (*has_awaited)
        sim_die("%s: a thread waits twice for the kernels before", self->kernel->name);
    *has_awaited = true;
    self->awaited++;
}

void sim_start_grids()
{
    if (!self->has_awaited[self->running->thread])
        sim_die("%s: the next kernel may start before this one has waited for those before", self->kernel->name);
}

void sim_wait_block(int line)
{
    wait_in(AT_BLOCK, line);
}

const uint64_t *sim_wait_warp(int line, unsigned int mask, uint64_t bits, unsigned int *lane_out)
{
    const unsigned int thread = self->running->thread, warp = thread / SIM_WARP;
    if (mask != 0xFFFFFFFFu)
        sim_die("%s: line %d: a shuffle with a mask that is not full is not simulated", self->kernel->name, line);
    if (self->count % SIM_WARP != 0)
        sim_die("%s: line %d: a shuffle in a block of %u threads, not whole warps", self->kernel->name, line,
                self->count);
    uint64_t *const given = self->given[self->turn[warp]];
    given[thread] = bits;
    *lane_out = thread % SIM_WARP;
    wait_in(AT_WARP, line);
    return given + warp * SIM_WARP;
}

void sim_check_argument(const void *pointer, const cudaLaunchConfig_t *config, const char *name)
{
    if (pointer != nullptr)
        sim_check_memory(pointer, 1, sim_stream_device(config->stream), name);
}

cudaError_t sim_launch(const cudaLaunchConfig_t *config, const char *name, void (*call)(const void *body),
                       const void *body, size_t bytes)
{
    launch kernel;
    const cudaError_t status = sim_runtime_enter("cudaLaunchKernelEx");
    if (status != cudaSuccess)
        return status;
    if (!can_launch(*config))
        return sim_result(cudaErrorInvalidConfiguration);
    if (config->dynamicSmemBytes != 0 || !has_known_attributes(*config))
        sim_die("%s: dynamic shared memory and other attributes of a launch are not simulated", name);
    kernel.name = name;
    kernel.is_early = config->numAttrs > 0;
    if (kernel.is_early)
        sim_count("early launch");
    kernel.grid = config->gridDim;
    kernel.block = config->blockDim;
    kernel.call = call;
    memcpy(kernel.body, body, bytes);
    sim_stream_push(config->stream, run_grid, &kernel, offsetof(launch, body) + bytes);
    return cudaSuccess;
}
