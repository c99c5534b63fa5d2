/* Tests of what the simulated CUDA does not let pass: the program is run again for each mistake,
 * which has to end it with a message. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/sim/check/sim_fixture.h"

static const char *program;     /* this one */

static void die_by_double_free(void)
{
    void *const memory = device_new(4);
    cudaFree(memory);
    cudaFree(memory);
}

static void die_by_host_pointer(void)
{
    uint32_t local;
    test_fill(stream_new(), &local, 1, 1);
}

static void die_by_foreign_memory(void)
{
    cudaSetDevice(1);
    uint32_t *const memory = device_new(4);
    cudaSetDevice(0);
    test_fill(stream_new(), memory, 1, 1);
}

static void die_by_foreign_stream(void)
{
    uint32_t *const memory = device_new(4);
    cudaStream_t stream = stream_new();
    cudaSetDevice(1);
    test_fill(stream, memory, 1, 1);
}

static void die_by_copy_past_the_end(void)
{
    char *const memory = device_new(16), local[17] = "";
    cudaMemcpy(memory, local, 17, cudaMemcpyHostToDevice);
}

static void die_by_wrong_direction(void)
{
    char *const memory = device_new(16), local[16];
    cudaMemcpy(memory, local, 16, cudaMemcpyDeviceToHost);
}

static void die_by_write_past_the_end(void)
{
    uint32_t *const memory = device_new(4 * sizeof(*memory));
    test_fill(stream_new(), memory, 5, 1);
    cudaFree(memory);
}

static void die_by_dead_stream(void)
{
    cudaStream_t stream = stream_new();
    cudaStreamDestroy(stream);
    cudaStreamSynchronize(stream);
}

static void die_by_dead_event(void)
{
    cudaEvent_t event = event_new();
    cudaEventDestroy(event);
    cudaEventQuery(event);
}

static void call_cuda(void *argument)
{
    (void)argument;
    cudaGetLastError();
    cudaDeviceSynchronize();
}

static void die_by_cuda_in_a_host_function(void)
{
    cudaStream_t stream = stream_new();
    cudaLaunchHostFunc(stream, call_cuda, NULL);
    cudaStreamSynchronize(stream);
}

static void die_by_barrier_one_thread_misses(void)
{
    cudaStream_t stream = stream_new();
    test_missing_at_barrier(stream, 63);
    cudaStreamSynchronize(stream);
}

static void die_by_shuffle_one_thread_misses(void)
{
    cudaStream_t stream = stream_new();
    test_missing_at_shuffle(stream, 5);
    cudaStreamSynchronize(stream);
}

static void die_by_two_barriers(void)
{
    cudaStream_t stream = stream_new();
    test_two_barriers(stream);
    cudaStreamSynchronize(stream);
}

#ifdef __SANITIZE_THREAD__
/* Time in between does not order two streams, nor does more work on the first. */
static void die_by_missing_wait(void)
{
    uint32_t *const memory = device_new(8);
    cudaStream_t producer = stream_new(), consumer = stream_new();
    cudaEvent_t event = event_new();
    test_fill(producer, memory, 1, 1);
    usleep(20000);
    test_fill(producer, memory + 1, 1, 1);
    usleep(20000);
    cudaEventRecord(event, producer);
    test_fill(consumer, memory, 1, 2);
    cudaDeviceSynchronize();
}
#endif

static const struct death { const char *name; void (*die)(void); const char *message; } deaths[] = {
    { "double_free", die_by_double_free, "is freed already" },
    { "host_pointer", die_by_host_pointer, "is not device memory" },
    { "foreign_memory", die_by_foreign_memory, "is memory of device 1, used on device 0" },
    { "foreign_stream", die_by_foreign_stream, "device 1 is current, the stream is of device 0" },
    { "copy_past_the_end", die_by_copy_past_the_end, "go past the end of the allocation" },
    { "wrong_direction", die_by_wrong_direction, "is device memory" },
    { "dead_stream", die_by_dead_stream, "use of a stream that was destroyed" },
    { "dead_event", die_by_dead_event, "use of an event that was destroyed" },
    { "cuda_in_a_host_function", die_by_cuda_in_a_host_function, "called by a host function" },
    { "barrier_one_thread_misses", die_by_barrier_one_thread_misses, "thread 63 has ended" },
    { "shuffle_one_thread_misses", die_by_shuffle_one_thread_misses, "thread 5 waits elsewhere" },
    { "two_barriers", die_by_two_barriers, "waits elsewhere" },
#ifdef __SANITIZE_THREAD__
    { "missing_wait", die_by_missing_wait, "data race" },
#endif
    { "write_past_the_end", die_by_write_past_the_end, "bytes past the end" },
};

/* Run this program for one of the deaths; its messages to `text`. */
static int run_death(const char *name, char *text, size_t text_size)
{
    int ends[2], status = -1;
    size_t used = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        execl(program, program, "--die", name, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && used + 1 < text_size; used += (size_t)(got > 0 ? got : 0))
        got = read(ends[0], text + used, text_size - 1 - used);
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

TEST(mistakes_end_the_test_with_a_message)
{
    for (size_t i = 0; i < sizeof(deaths) / sizeof(*deaths); i++) {
        char text[8192];
        const int status = run_death(deaths[i].name, text, sizeof(text));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            fail_msg("%s went unnoticed", deaths[i].name);
        if (strstr(text, deaths[i].message) == NULL && strstr(text, "Sanitizer") == NULL)
            fail_msg("%s: %s", deaths[i].name, text);
    }
}

TEST(the_environment_sets_devices_and_failures)
{
    char text[8192];
    assert_int_equal(setenv("SIM_DEVICES", "0", 1), 0);
    assert_int_equal(WEXITSTATUS(run_death("environment", text, sizeof(text))), 10 + cudaErrorNoDevice);
    assert_int_equal(setenv("SIM_DEVICES", "3", 1), 0);
    assert_int_equal(setenv("SIM_FAIL", "cudaSetDevice:1:1,cudaMalloc:2:2", 1), 0);
    assert_int_equal(WEXITSTATUS(run_death("environment", text, sizeof(text))), 10 + cudaErrorInvalidValue);
    unsetenv("SIM_DEVICES");
    unsetenv("SIM_FAIL");
    assert_int_equal(WEXITSTATUS(run_death("environment", text, sizeof(text))), 10 + cudaErrorInvalidDevice);
}

static int die(const char *name)
{
    if (strcmp(name, "environment") == 0)
        return 10 + (int)cudaSetDevice(2);
    for (size_t i = 0; i < sizeof(deaths) / sizeof(*deaths); i++)
        if (strcmp(deaths[i].name, name) == 0)
            deaths[i].die();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--die") == 0)
        return die(argv[2]);
    program = argv[0];
    return tests_run(NULL, NULL);
}
