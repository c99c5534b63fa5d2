/* Tests of the arithmetic of several ranks: towers of the run, and the cores, devices and memory of a host that its
 * ranks share. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/training.h"
#include "tools/lib/run/memory_needs.h"
#include "tools/lib/run/ranks/core_share.h"
#include "tools/lib/run/ranks/device_share.h"
#include "tools/lib/run/run_devices.h"
#include "tools/lib/run/run_plan.h"

/* The settings of these assignments for one rank of `ranks`, and the first problem, until the next call. */
static struct settings settings;
static char problem[512];

static void read_settings(uint32_t ranks, const char *const *assignments)
{
    struct problems problems;
    settings_release(&settings);
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    settings.ranks = ranks;
    assert_int_equal(config_set(&settings, "input.source=synthetic", &problems), 0);
    assert_int_equal(config_set(&settings, "devices.kind=cpu", &problems), 0);
    for (; *assignments != NULL; assignments++)
        assert_int_equal(config_set(&settings, *assignments, &problems), 0);
    (void)settings_finish(&settings, &problems);
    snprintf(problem, sizeof(problem), "%s", problems.count > 0 ? problems.lines[0] : "");
    problems_release(&problems);
}

#define SETTINGS(ranks, ...) read_settings(ranks, (const char *const[]){ __VA_ARGS__, NULL })

static void assert_problem(const char *words)
{
    if (strstr(problem, words) == NULL)
        fail_msg("no \"%s\" in: %s", words, problem);
}

TEST(a_batch_per_tower_is_for_the_towers_of_all_ranks)
{
    SETTINGS(4, "devices.towers=2", "train.batch_per_tower=16");
    assert_string_equal(problem, "");
    assert_int_equal(settings_towers(&settings), 8);
    assert_int_equal(settings_batch(&settings), 128);
}

TEST(a_run_has_at_most_65536_towers)
{
    SETTINGS(8192, "devices.towers=8", "train.batch=65536");
    assert_string_equal(problem, "");
    SETTINGS(8192, "devices.towers=9", "train.batch=65536");
    assert_problem("towers: 8192 ranks with 9 towers each are 73728, and a run has at most 65536: use at most 8 with so "
                   "many");
    SETTINGS(65536, "devices.towers=1", "train.batch=65536");
    assert_string_equal(problem, "");
    SETTINGS(65537, "devices.towers=1", "train.batch=65536");
    assert_problem("start at most 65536 ranks");
    SETTINGS(1u << 24, "devices.towers=256", "train.batch=65536");      /* 2^32 towers, 0 in 32 bits */
    assert_problem("16777216 ranks have a tower each, and a run has at most 65536");
}

TEST(a_server_in_one_process_has_at_most_256_towers)
{
    SETTINGS(128, "devices.towers=2", "sync.mode=async");
    assert_string_equal(problem, "");
    SETTINGS(257, "sync.mode=async", "train.batch=512");
    assert_problem("mode: with async one process serves all towers, at most 256, and there are 257: use replicated");
}

TEST(slices_are_shared_by_the_towers_of_all_ranks)
{
    SETTINGS(2, "devices.towers=2", "train.slices=8");
    assert_string_equal(problem, "");
    SETTINGS(3, "devices.towers=2", "train.slices=8");
    assert_problem("8 slices can be shared by 1, 2, 4 or 8 towers, because their sums are added in pairs; 3 ranks have 6");
}

/* A group is a whole subtree of the additions in pairs. */
TEST(groups_of_ranks_that_do_not_fit_are_refused)
{
    static const struct { uint32_t ranks; const char *group, *other, *words; } rows[] = {
        { 4, "2", "devices.towers=2", "" },
        { 4, "4", "devices.towers=1", "" },
        { 6, "2", "devices.towers=1", "" },
        { 6, "1", "devices.towers=3", "" },
        { 6, "0", "devices.towers=3", "" },
        { 6, "4", "devices.towers=1", "group: sums are added in pairs" },
        { 6, "4", "devices.towers=1", "here 4 of 6 ranks with 1: use another number, or 1 for no groups" },
        { 6, "3", "devices.towers=1", "here 3 of 6 ranks with 1" },
        { 4, "8", "devices.towers=1", "here 8 of 4 ranks with 1" },
        { 4, "2", "devices.towers=3", "here 2 of 4 ranks with 3" },
        { 4, "2", "sync.reduce=host", "" },
        { 4, "2", "sync.reduce=nccl", "group: groups are for sums on the CPU" },
        { 4, "2", "sync.reduce=ipc", "use sync.reduce = host, or 1 for no groups" },
        { 4, "1", "sync.reduce=nccl", "" },
        { 1, "3", "sync.reduce=auto", "" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char group[32];
        snprintf(group, sizeof(group), "sync.group=%s", rows[i].group);
        SETTINGS(rows[i].ranks, group, rows[i].other);
        assert_problem(rows[i].words);
        assert_true(*rows[i].words != '\0' || problem[0] == '\0');
    }
}

TEST(bf16_is_sent_between_ranks_of_one_tower)
{
    SETTINGS(1, "sync.wire=bf16");
    assert_false(settings_use_bf16_grads(&settings));
    SETTINGS(2, "sync.wire=bf16");
    assert_true(settings_use_bf16_grads(&settings));
}

TEST(what_works_in_one_process_only_is_refused)
{
    static const struct { const char *assignment, *words; } rows[] = {
        { "sync.mode=async", "" },
        { "sync.reduce=nccl", "" },
        { "sync.reduce=peer", "reduce: peer sums within one process" },
        { "sync.reduce=host", "" },
        { "sync.mode=averaging", "" },
        { "sync.mode=parameter_server", "" },
        { "sync.mode=independent", "" },
        { "sync.consistency=relaxed", "" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        SETTINGS(2, rows[i].assignment);
        assert_problem(rows[i].words);
        assert_true(*rows[i].words != '\0' || problem[0] == '\0');
        SETTINGS(1, rows[i].assignment);
        assert_string_equal(problem, "");
    }
}

TEST(what_works_between_processes_only_is_refused)
{
    SETTINGS(1, "sync.reduce=ipc");
    assert_problem("reduce: ipc sums over several processes, and there is one: use auto or peer");
    SETTINGS(2, "sync.reduce=ipc");
    assert_string_equal(problem, "");
}

TEST(the_towers_of_a_rank_follow_those_of_lower_ranks)
{
    struct run_devices devices;
    struct problems problems;
    problems_init(&problems);
    SETTINGS(4, "devices.towers=2", "devices.kind=null");
    settings.rank = 3;
    assert_int_equal(run_devices_init(&devices, &settings, &problems), 0);
    assert_int_equal(devices.towers.first, 6);
    assert_int_equal(devices.towers.count, 2);
    problems_release(&problems);
}

TEST(devices_are_dealt_to_the_ranks_of_a_host_in_turn)
{
    static const struct {
        uint32_t devices, towers, local_rank, ranks;
        uint32_t count, first, second, sharing;
    } rows[] = {
        { .devices = 4, .towers = 2, .local_rank = 0, .ranks = 2, .count = 2, .first = 0, .second = 1, .sharing = 1 },
        { .devices = 4, .towers = 2, .local_rank = 1, .ranks = 2, .count = 2, .first = 2, .second = 3, .sharing = 1 },
        { .devices = 3, .towers = 2, .local_rank = 1, .ranks = 2, .count = 2, .first = 2, .second = 0, .sharing = 2 },
        { .devices = 1, .towers = 2, .local_rank = 2, .ranks = 3, .count = 1, .first = 0, .second = 9, .sharing = 3 },
        { .devices = 8, .towers = 1, .local_rank = 5, .ranks = 8, .count = 1, .first = 5, .second = 9, .sharing = 1 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run_devices devices = { .towers = { .count = rows[i].towers }, .count = rows[i].devices };
        for (uint32_t d = 0; d < devices.count; d++)
            devices.index[d] = d;
        run_devices_share(&devices, rows[i].local_rank, rows[i].ranks);
        assert_int_equal(devices.count, rows[i].count);
        assert_int_equal(devices.index[0], rows[i].first);
        if (devices.count > 1)
            assert_int_equal(devices.index[1], rows[i].second);
        assert_int_equal(devices.sharing, rows[i].sharing);
    }
}

TEST(ranks_divide_the_cores_that_they_share)
{
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    const uint32_t count = (uint32_t)CPU_COUNT(&all);
    SETTINGS(2, "devices.threads_per_tower=0");
    assert_int_equal(run_plan_cores(&settings), count);
    settings.core_ranks = count;
    for (uint32_t rank = 0; rank < count; rank++) {
        settings.core_rank = rank;
        assert_int_equal(run_plan_cores(&settings), 1);
        assert_int_equal(run_plan_threads(&settings, 1), 1);
        const uint32_t cpu = run_plan_cpu(&settings, 0);
        assert_true(CPU_ISSET(cpu, &all));
        CPU_CLR(cpu, &all);
    }
    settings.core_ranks = 2 * count;
    assert_int_equal(run_plan_cores(&settings), 1);
}

static struct core_user user(const char *host, unsigned first, unsigned last)
{
    struct core_user made = { .group = 0 };
    snprintf(made.host, sizeof(made.host), "%s", host);
    CPU_ZERO(&made.cpus);
    for (unsigned cpu = first; cpu <= last; cpu++)
        CPU_SET(cpu, &made.cpus);
    return made;
}

TEST(ranks_share_cores_on_one_host_only)
{
    const struct core_user users[] = { user("a", 0, 7), user("a", 8, 15), user("b", 0, 15), user("a", 0, 7),
                                       user("b", 0, 15), user("a", 16, 16), user("a", 8, 15), user("a", 0, 7) };
    static const struct core_share shares[] = { { 0, 3, 1 }, { 0, 2, 1 }, { 0, 2, 1 }, { 1, 3, 1 }, { 1, 2, 1 },
                                                { 0, 1, 1 }, { 1, 2, 1 }, { 2, 3, 1 } };
    for (uint32_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
        const struct core_share share = core_share_of(users, sizeof(users) / sizeof(users[0]), i);
        assert_int_equal(share.rank, shares[i].rank);
        assert_int_equal(share.ranks, shares[i].ranks);
    }
}

TEST(ranks_of_a_control_group_share_its_time)
{
    struct core_user users[] = { user("a", 0, 0), user("a", 1, 1), user("a", 2, 2), user("b", 0, 0), user("a", 3, 3),
                                 user("a", 4, 4) };
    static const uint64_t groups[] = { 7, 7, 0, 7, 9, 0 };      /* 0: not known */
    static const uint32_t ranks[] = { 2, 2, 1, 1, 1, 1 };
    for (uint32_t i = 0; i < sizeof(users) / sizeof(users[0]); i++)
        users[i].group = groups[i];
    for (uint32_t i = 0; i < sizeof(users) / sizeof(users[0]); i++)
        assert_int_equal(core_share_of(users, sizeof(users) / sizeof(users[0]), i).quota_ranks, ranks[i]);
}

TEST(ranks_of_a_host_divide_its_memory)
{
    const struct memory_needs memory = { .device_count = 0 };
    struct memory_there alone, shared;
    SETTINGS(2, "devices.towers=1");
    memory_host_there(&memory, &settings, &alone);
    settings.local_ranks = 2;
    memory_host_there(&memory, &settings, &shared);
    assert_in_range(shared.host, alone.host / 3, alone.host / 5 * 3);
    assert_non_null(strstr(shared.host_says, "a rank's share of what"));
}

static int release(void **state)
{
    (void)state;
    settings_release(&settings);
    return 0;
}

TEST(ranks_that_see_one_gpu_share_it)
{
    static struct device_user users[] = {
        { "node1", 1, { "0000:1b:00.0" } }, { "node1", 1, { "0000:1b:00.0" } }, { "node2", 1, { "0000:1b:00.0" } },
        { "node1", 2, { "0000:1b:00.0", "0000:1c:00.0" } }, { "node1", 1, { "" } }, { "node1", 1, { "" } },
        { "node2", 1, { "0000:1c:00.0" } }, { "node3", 1, { "0000:1b:00.0" } },
        { "node3", 2, { "0000:1c:00.0", "0000:1b:00.0" } },
    };
    static const uint32_t shares[] = { 3, 3, 1, 3, 1, 1, 1, 2, 2 };
    enum { USERS = sizeof(users) / sizeof(*users) };
    for (uint32_t i = 0; i < USERS; i++)
        assert_int_equal(device_share_of(users, USERS, i), shares[i]);
}

TESTS_MAIN(NULL, release)
