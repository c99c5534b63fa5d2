/* Tests of what control groups leave, over folders that look like the kernel's. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/lib/limits.h"

/* With the folders on the way. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s", folder, path);
    for (char *slash = strchr(full + strlen(folder) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    fixture_write_text(full, text);
}

static void put_group(const char *group, const char *limit, const char *usage)
{
    char path[256];
    snprintf(path, sizeof(path), "sys/fs/cgroup/%s/memory.max", group);
    put(path, limit);
    snprintf(path, sizeof(path), "sys/fs/cgroup/%s/memory.current", group);
    put(path, usage);
}

TEST_WITH(without_groups_there_is_no_limit, fixture_folder_make, fixture_folder_remove)
{
    assert_true(cgroup_memory_left(folder) == SIZE_MAX);
    put("proc/self/cgroup", "0::/none/such\n");
    assert_true(cgroup_memory_left(folder) == SIZE_MAX);
}

TEST_WITH(max_is_no_limit, fixture_folder_make, fixture_folder_remove)
{
    put("proc/self/cgroup", "0::/a\n");
    put_group("a", "max\n", "4096\n");
    assert_true(cgroup_memory_left(folder) == SIZE_MAX);
}

TEST_WITH(what_is_used_is_not_left, fixture_folder_make, fixture_folder_remove)
{
    put("proc/self/cgroup", "0::/a\n");
    put_group("a", "1000000\n", "400000\n");
    assert_int_equal(cgroup_memory_left(folder), 600000);
    put_group("a", "1000000\n", "1000001\n");
    assert_int_equal(cgroup_memory_left(folder), 0);
}

TEST_WITH(file_pages_that_can_be_dropped_are_left, fixture_folder_make, fixture_folder_remove)
{
    put("proc/self/cgroup", "0::/a\n");
    put_group("a", "1000000\n", "400000\n");
    put("sys/fs/cgroup/a/memory.stat", "anon 100000\ninactive_file 200000\nactive_file 50000\nshmem 7\n");
    assert_int_equal(cgroup_memory_left(folder), 850000);
    put("sys/fs/cgroup/a/memory.stat", "inactive_file 900000\n");
    assert_int_equal(cgroup_memory_left(folder), 1000000);
}

TEST_WITH(the_tightest_group_on_the_way_up_decides, fixture_folder_make, fixture_folder_remove)
{
    put("proc/self/cgroup", "0::/outer/middle/inner\n");
    put_group("outer/middle/inner", "max\n", "10\n");
    put_group("outer/middle", "5000\n", "1000\n");
    put_group("outer", "9000\n", "8000\n");
    assert_int_equal(cgroup_memory_left(folder), 1000);
    put_group("outer", "90000\n", "8000\n");
    assert_int_equal(cgroup_memory_left(folder), 4000);
}

TEST_WITH(a_container_sees_its_own_group_as_the_mount, fixture_folder_make, fixture_folder_remove)
{
    put("proc/self/cgroup", "0::/a/path/of/the/host\n");
    put_group(".", "3000\n", "1000\n");
    assert_int_equal(cgroup_memory_left(folder), 2000);
}

TEST_WITH(version_1_is_read_too, fixture_folder_make, fixture_folder_remove)
{
    put("proc/self/cgroup", "5:cpu,cpuacct:/elsewhere\n4:pids,memory:/box\n1:name=systemd:/\n0::/\n");
    put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "8000\n");
    put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "5000\n");
    put("sys/fs/cgroup/memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 400\ntotal_active_file 600\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    assert_int_equal(cgroup_memory_left(folder), 4000);
}

TEST_WITH(another_controllers_group_is_not_asked, fixture_folder_make, fixture_folder_remove)
{
    put("proc/self/cgroup", "5:memoryless:/box\n");
    put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "8000\n");
    put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "5000\n");
    assert_true(cgroup_memory_left(folder) == SIZE_MAX);
}

TEST_WITH(processor_time_has_no_limit_without_a_quota, fixture_folder_make, fixture_folder_remove)
{
    assert_true(isinf(cgroup_cpu(folder).cpus));
    put("proc/self/cgroup", "0::/a\n");
    assert_true(isinf(cgroup_cpu(folder).cpus));
    put("sys/fs/cgroup/a/cpu.max", "max 100000\n");
    assert_true(isinf(cgroup_cpu(folder).cpus));
    put("proc/self/cgroup", "3:cpu,cpuacct:/box\n");
    put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
    assert_true(isinf(cgroup_cpu(folder).cpus));
}

TEST_WITH(the_tightest_quota_is_the_limit_of_processor_time, fixture_folder_make, fixture_folder_remove)
{
    put("proc/self/cgroup", "0::/outer/inner\n");
    put("sys/fs/cgroup/outer/inner/cpu.max", "400000 100000\n");
    put("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
    put("sys/fs/cgroup/outer/cpu.stat", "usage_usec 9\nnr_periods 200\nnr_throttled 50\nthrottled_usec 7\n");
    const struct cgroup_cpu cpu = cgroup_cpu(folder);
    assert_true(cpu.cpus == 1.5);
    assert_true(cpu.id != 0);
    assert_string_equal(cpu.name + strlen(cpu.name) - strlen("/outer"), "/outer");
    assert_int_equal(cpu.periods, 200);
    assert_int_equal(cpu.throttled, 50);
}

TEST(a_part_of_a_cpu_is_worth_a_thread)
{
    static const struct { double quota; uint32_t cpus, cores; } rows[] = {
        { INFINITY, 4, 4 }, { 8, 4, 4 }, { 4, 4, 4 }, { 3.5, 4, 4 }, { 2.5, 4, 3 }, { 2, 4, 2 }, { 1.01, 4, 2 },
        { 1, 4, 1 }, { 0.5, 4, 1 }, { 0.01, 4, 1 }, { 0.5, 0, 1 }, { INFINITY, 0, 1 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(cgroup_cores(rows[i].quota, rows[i].cpus), rows[i].cores);
}

TEST_WITH(version_1_has_quotas_too, fixture_folder_make, fixture_folder_remove)
{
    put("proc/self/cgroup", "4:memory:/m\n3:cpuacct,cpu:/box\n0::/\n");
    put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "250000\n");
    put("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
    assert_true(cgroup_cpu(folder).cpus == 2.5);
}

TESTS_MAIN(NULL, NULL)
