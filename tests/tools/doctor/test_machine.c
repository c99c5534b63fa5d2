/* Tests of what is found about memory and instructions on machines of files, of shards, and of the forms of
 * findings. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tests/tools/doctor/machine_fixture.h"
#include "tools/doctor/page_cache.h"
#include "tools/doctor/topics.h"

#define FLAGS_512 "avx512f avx512bw avx512dq avx512vl"

TEST_WITH(memory_that_others_hold_is_noted, machine_make, machine_remove)
{
    machine_put("MemTotal: 1000000 kB\nMemAvailable:  900000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n", "proc/meminfo");
    topic_memory(&findings, &machine);
    expect_finding("memory", "ram", JUDGEMENT_FINE, "878.9 MiB of 976.6 MiB", "");
    expect_finding("memory", "group", JUDGEMENT_FINE, "no control group", "");
    expect_finding("memory", "swap", JUDGEMENT_FINE, "none", "");
    forget_findings();
    machine_put("MemTotal: 1000000 kB\nMemAvailable:  100000 kB\nSwapTotal: 4000000 kB\nSwapFree: 1000000 kB\n",
                "proc/meminfo");
    topic_memory(&findings, &machine);
    expect_finding("memory", "ram", JUDGEMENT_NOTE, "97.7 MiB of", "page cache");
    expect_finding("memory", "swap", JUDGEMENT_NOTE, "2.9 GiB of 3.8 GiB in use", "--check");
}

TEST_WITH(a_group_that_leaves_less_is_noted, machine_make, machine_remove)
{
    machine_put("MemTotal: 1000000 kB\nMemAvailable:  900000 kB\n", "proc/meminfo");
    machine_put("0::/job\n", "proc/self/cgroup");
    machine_put("104857600\n", "sys/fs/cgroup/job/memory.max");
    machine_put("0\n", "sys/fs/cgroup/job/memory.current");
    topic_memory(&findings, &machine);
    expect_finding("memory", "group", JUDGEMENT_NOTE, "leaves 100.0 MiB", "memory.max");
}

TEST_WITH(little_memory_to_lock_and_share_matters_to_several_gpus, machine_make, machine_remove)
{
    topic_memory(&findings, &machine);
    expect_finding("memory", "memlock", JUDGEMENT_FINE, "any amount", "");
    forget_findings();
    machine.memlock_bytes = 64 << 10;
    topic_memory(&findings, &machine);
    expect_finding("memory", "memlock", JUDGEMENT_FINE, "64.0 KiB", "");
    expect_none("memory", "shared");
    forget_findings();
    machine.gpus = 2;
    topic_memory(&findings, &machine);
    expect_finding("memory", "memlock", JUDGEMENT_NOTE, "64.0 KiB", "ulimit -l unlimited");
    expect_finding("memory", "shared", JUDGEMENT_WARN, "no /dev/shm", "tmpfs");
}

TEST_WITH(huge_pages_that_are_off_are_noted, machine_make, machine_remove)
{
    machine_put("always [madvise] never\n", "sys/kernel/mm/transparent_hugepage/enabled");
    topic_memory(&findings, &machine);
    expect_finding("memory", "huge pages", JUDGEMENT_FINE, "given", "");
    forget_findings();
    machine_put("always madvise [never]\n", "sys/kernel/mm/transparent_hugepage/enabled");
    topic_memory(&findings, &machine);
    expect_finding("memory", "huge pages", JUDGEMENT_NOTE, "none", "echo madvise");
}

TEST_WITH(instructions_that_are_not_taken_are_told_with_the_cause, machine_make, machine_remove)
{
    unsetenv("ONEDNN_MAX_CPU_ISA");
    unsetenv("DNNL_MAX_CPU_ISA");
    topic_instructions(&findings, &machine, INSTRUCTIONS_AVX512);
    assert_int_equal(findings.count, 0);
    machine_put("model name\t: A CPU\nflags\t\t: fpu avx2 fma " FLAGS_512 " hypervisor\n", "proc/cpuinfo");
    topic_instructions(&findings, &machine, INSTRUCTIONS_AVX512);
    expect_finding("cpu", "processor", JUDGEMENT_FINE, "A CPU, with AVX-512, in a virtual machine", "");
    expect_finding("cpu", "oneDNN", JUDGEMENT_FINE, "computes with AVX-512", "");
    forget_findings();
    topic_instructions(&findings, &machine, INSTRUCTIONS_AVX2);
    expect_finding("cpu", "oneDNN", JUDGEMENT_NOTE, "computes with AVX2", "the CPU's AVX-512: the library is too old");
    forget_findings();
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    topic_instructions(&findings, &machine, INSTRUCTIONS_AVX2);
    unsetenv("ONEDNN_MAX_CPU_ISA");
    expect_finding("cpu", "oneDNN", JUDGEMENT_WARN, "AVX2", "ONEDNN_MAX_CPU_ISA in the environment");
    forget_findings();
    machine_put("flags : avx2 fma " FLAGS_512 " avx512_vnni avx512_bf16 amx_tile amx_int8 amx_bf16\n", "proc/cpuinfo");
    topic_instructions(&findings, &machine, INSTRUCTIONS_BF16);
    expect_finding("cpu", "oneDNN", JUDGEMENT_NOTE, "AVX512-BF16", "only devices.precision = bf16");
    forget_findings();
    machine_put("flags : avx2x fma xavx512f\n", "proc/cpuinfo");
    topic_instructions(&findings, &machine, INSTRUCTIONS_BASE);
    expect_finding("cpu", "processor", JUDGEMENT_FINE, "with SSE", "");
}

/* ---- shards ---- */

static void make_file(const char *name, size_t bytes)
{
    char *const text = malloc(bytes);
    assert_non_null(text);
    memset(text, 'x', bytes);
    fixture_write(fixture_path(folder, name), text, bytes);
    free(text);
}

TEST_WITH(files_that_were_just_written_are_in_the_page_cache, machine_make, machine_remove)
{
    uint64_t cached = 0;
    make_file("file", 1000000);
    const char *const path = fixture_path(folder, "file");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(page_cache_count(fd, path, 1000000, &cached), 0);
    assert_int_equal(cached, 1000000);
    close(fd);
}

TEST_WITH(reading_past_the_page_cache_ends_where_it_is_told, machine_make, machine_remove)
{
    struct disk_read read = { 0 };
    make_file("file", 8u << 20);
    const int rc = disk_read(fixture_path(folder, "file"), 8u << 20, 3u << 20, UINT64_MAX, &read);
    if (rc == -EINVAL)
        skip();                         /* a file system in memory */
    assert_int_equal(rc, 0);
    assert_int_equal(read.bytes, 4u << 20);     /* whole reads of 2 MiB */
    assert_true(read.elapsed_ns > 0);
    assert_int_equal(disk_read(fixture_path(folder, "none"), 1, 1, 1, &read), -ENOENT);
}

static void look_at_data(char *train, uint64_t available_kib)
{
    static char none[] = "";
    static struct settings settings;
    char text[64];
    settings = (struct settings){ .data = { .train = train, .validation = none } };
    machine.settings = &settings;
    snprintf(text, sizeof(text), "MemAvailable: %llu kB\n", (unsigned long long)available_kib);
    machine_put(text, "proc/meminfo");
    forget_findings();
    topic_data(&findings, &machine);
}

TEST_WITH(shards_are_told_with_their_size, machine_make, machine_remove)
{
    char train[512];
    topic_data(&findings, &machine);
    expect_finding("data", "none", JUDGEMENT_FINE, "-c run.conf", "");
    make_file("train-00000-of-00002", 1u << 20);
    make_file("train-00001-of-00002", 2u << 20);
    snprintf(train, sizeof(train), "%s/train-*", folder);
    look_at_data(train, 1u << 20);
    expect_finding("data", "train", JUDGEMENT_FINE, "3.0 MiB in 2 files", "");
    assert_non_null(findings_find(&findings, "data", "disk"));
    snprintf(train, sizeof(train), "%s/absent-*", folder);
    look_at_data(train, 1u << 20);
    expect_finding("data", "train", JUDGEMENT_WARN, "absent", "a run is refused");
}

/* A file with a hole, of which no page was ever read. */
TEST_WITH(shards_that_do_not_fit_into_the_page_cache_are_noted, machine_make, machine_remove)
{
    char train[512];
    make_file("train-00000-of-00001", 1);
    snprintf(train, sizeof(train), "%s/train-*", folder);
    assert_int_equal(truncate(fixture_path(folder, "train-00000-of-00001"), 100 << 20), 0);
    look_at_data(train, 200 << 10);
    if (findings_find(&findings, "data", "page cache") == NULL)
        skip();                         /* a file system in memory */
    expect_finding("data", "page cache", JUDGEMENT_FINE, "0 % of 100.0 MiB of train", "");
    look_at_data(train, 50 << 10);
    expect_finding("data", "page cache", JUDGEMENT_NOTE, "0 % of 100.0 MiB of train", "the 50.0 MiB that can be had");
    machine_put("0::/job\n", "proc/self/cgroup");
    machine_put("10485760\n", "sys/fs/cgroup/job/memory.max");
    machine_put("0\n", "sys/fs/cgroup/job/memory.current");
    look_at_data(train, 200 << 10);
    expect_finding("data", "page cache", JUDGEMENT_NOTE, "100.0 MiB", "the 10.0 MiB that can be had");
}

/* ---- forms ---- */

static const char *text_of(int (*print)(const struct findings *findings, FILE *out))
{
    static char text[8192];
    FILE *const out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    assert_int_equal(print(&findings, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static int print(const struct findings *list, FILE *out)
{
    findings_print(list, out);
    return 0;
}

TEST_WITH(the_table_fits_a_terminal_and_counts, machine_make, machine_remove)
{
    findings_add(&findings, "one", "first", "%s",
                 "many words that go on and on, as they do where devices have long names");
    findings_judge(&findings, JUDGEMENT_NOTE, "a %s of many words that goes on and on, beyond what a line has room "
                   "for", "note");
    findings_judge(&findings, JUDGEMENT_WARN, "worse");
    findings_judge(&findings, JUDGEMENT_NOTE, "not as bad");
    findings_add(&findings, "one", "second", "ok\x1b[31m");
    const char *line = text_of(print);
    assert_non_null(strstr(line, "one       warn  first: many"));
    assert_non_null(strstr(line, "          -> worse\n          fine  second: ok\\x1b[31m\n"));
    assert_non_null(strstr(line, "\ndoctor    2 findings: 1 fine, 0 notes, 1 warning\n"));
    for (; *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
}

TEST_WITH(every_line_of_json_is_an_object, machine_make, machine_remove)
{
    findings_add(&findings, "one", "first", "a \"quoted\" text");
    findings_add(&findings, "two", "second", "bad");
    findings_judge(&findings, JUDGEMENT_WARN, "do this");
    const char *const text = text_of(findings_write);
    json_t *const first = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    json_t *const second = json_loads(strchr(text, '\n') + 1, JSON_DISABLE_EOF_CHECK, NULL);
    assert_string_equal(json_string_value(json_object_get(first, "found")), "a \"quoted\" text");
    assert_string_equal(json_string_value(json_object_get(first, "judgement")), "fine");
    assert_string_equal(json_string_value(json_object_get(second, "topic")), "two");
    assert_string_equal(json_string_value(json_object_get(second, "judgement")), "warn");
    assert_string_equal(json_string_value(json_object_get(second, "advice")), "do this");
    json_decref(first);
    json_decref(second);
}

TESTS_MAIN(NULL, NULL)
