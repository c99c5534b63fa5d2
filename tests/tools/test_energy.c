/* Tests of the energy of CPU packages, over folders that look like the kernel's, and of who reads it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/energy.h"
#include "tools/lib/run/ranks/energy_share.h"

#define RANGE "262143328850"

static struct energy energy;

/* Write FOLDER/sys/class/powercap/DOMAIN/NAME, with the folders on the way. */
static void put(const char *domain, const char *name, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/sys/class/powercap/%s/%s", folder, domain, name);
    for (char *slash = strchr(full + strlen(folder) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    fixture_write_text(full, text);
}

static void put_domain(const char *domain, const char *name, const char *range, const char *value)
{
    put(domain, "name", name);
    put(domain, "max_energy_range_uj", range);
    put(domain, "energy_uj", value);
}

/* As the kernel does it, in place: the meter keeps the file open. */
static void set_value(const char *domain, const char *value)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/sys/class/powercap/%s/energy_uj", folder, domain);
    const int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, value, strlen(value)), strlen(value));
    close(fd);
}

static uint64_t sum(void)
{
    energy_read(&energy);
    return energy_sum(&energy);
}

TEST_WITH(without_counters_nothing_is_measured, fixture_folder_make, fixture_folder_remove)
{
    energy_open(&energy, folder);
    assert_int_equal(energy.package_count, 0);
    assert_non_null(strstr(energy.why_no_package, "no CPU package in /"));
    assert_int_equal(sum(), 0);
    energy_close(&energy);
}

TEST_WITH(packages_are_added_and_their_parts_are_not, fixture_folder_make, fixture_folder_remove)
{
    put_domain("intel-rapl:0", "package-0\n", RANGE "\n", "1000\n");
    put_domain("intel-rapl:1", "package-1-die-0\n", RANGE "\n", "5000\n");
    put_domain("intel-rapl:2", "psys\n", RANGE "\n", "0\n");
    put_domain("intel-rapl:0:0", "dram\n", RANGE "\n", "0\n");
    put_domain("intel-rapl-mmio:0", "package-0\n", RANGE "\n", "0\n");
    put_domain("dtpm", "package-0\n", RANGE "\n", "0\n");
    energy_open(&energy, folder);
    assert_int_equal(energy.package_count, 2);
    assert_int_equal(energy.packages_read, 2);
    assert_string_equal(energy.why_no_package, "");
    assert_int_equal(sum(), 0);
    set_value("intel-rapl:0", "1700\n");
    set_value("intel-rapl:1", "5011\n");
    set_value("intel-rapl:0:0", "999\n");
    set_value("intel-rapl-mmio:0", "999\n");
    assert_int_equal(sum(), 711);
    assert_false(energy_is_partial(&energy));
    energy_close(&energy);
}

TEST_WITH(a_counter_begins_again_after_its_range, fixture_folder_make, fixture_folder_remove)
{
    put_domain("intel-rapl:0", "package-0\n", "10000000000\n", "9999999990\n");
    energy_open(&energy, folder);
    for (uint64_t i = 0; i < 5; i++) {
        set_value("intel-rapl:0", "7\n");
        assert_int_equal(sum(), i * UINT64_C(10000000000) + 17);
        set_value("intel-rapl:0", "9999999990\n");
        assert_int_equal(sum(), (i + 1) * UINT64_C(10000000000));
    }
    assert_false(energy_is_partial(&energy));
    energy_close(&energy);
}

TEST_WITH(the_watchdog_only_reads_what_is_due, fixture_folder_make, fixture_folder_remove)
{
    put_domain("intel-rapl:0", "package-0\n", RANGE "\n", "0\n");
    energy_open(&energy, folder);
    set_value("intel-rapl:0", "5\n");
    energy_poll(&energy);
    assert_int_equal(energy_sum(&energy), 0);
    energy.packages[0].counter.read_ns -= UINT64_C(6000000000);
    energy_poll(&energy);
    assert_int_equal(energy_sum(&energy), 5);
    energy_close(&energy);
}

TEST_WITH(a_counter_that_was_not_read_for_long_makes_the_sum_partial, fixture_folder_make, fixture_folder_remove)
{
    put_domain("intel-rapl:0", "package-0\n", "65532610987\n", "0\n");
    energy_open(&energy, folder);
    energy.packages[0].counter.read_ns -= UINT64_C(60000000000);
    (void)sum();
    assert_false(energy_is_partial(&energy));
    energy.packages[0].counter.read_ns -= UINT64_C(66000000000);
    (void)sum();
    assert_true(energy_is_partial(&energy));
    energy_close(&energy);
}

TEST(a_counter_that_never_begins_again_was_reset)
{
    struct energy_counter counter = { .range = UINT64_MAX, .latest = 100 };
    assert_true(energy_count(&counter, 30, 1));
    assert_int_equal(counter.sum, 30);
    assert_true(energy_count(&counter, 31, UINT64_MAX - 1));
    assert_int_equal(counter.sum, 31);
}

TEST(a_counter_that_was_reset_has_not_passed_its_range)
{
    struct energy_counter counter = { .range = 65532610987, .latest = 50000000 };
    assert_false(energy_count(&counter, 1000, 1000000000));
    assert_int_equal(counter.sum, 1000);
    assert_true(energy_count(&counter, 3000, 2000000000));
    assert_int_equal(counter.sum, 3000);
}

TEST_WITH(what_cannot_be_read_is_explained, fixture_folder_make, fixture_folder_remove)
{
    put_domain("intel-rapl:0", "package-0\n", RANGE "\n", "1000\n");
    put_domain("intel-rapl:1", "package-1\n", RANGE "\n", "soon\n");
    energy_open(&energy, folder);
    assert_int_equal(energy.package_count, 2);
    assert_int_equal(energy.packages_read, 1);
    assert_non_null(strstr(energy.why_no_package, "intel-rapl:1/energy_uj: Bad message"));
    energy_close(&energy);
    put_domain("intel-rapl:1", "package-1\n", "0\n", "1000\n");
    energy_open(&energy, folder);
    assert_int_equal(energy.packages_read, 1);
    energy_close(&energy);
}

TEST_WITH(only_root_may_read_most_counters, fixture_folder_make, fixture_folder_remove)
{
    char path[512];
    put_domain("intel-rapl:0", "package-0\n", RANGE "\n", "1000\n");
    snprintf(path, sizeof(path), "%s/sys/class/powercap/intel-rapl:0/energy_uj", folder);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    const uid_t user = geteuid();
    if (user == 0)
        assert_int_equal(seteuid(65534), 0);
    energy_open(&energy, folder);
    if (user == 0)
        assert_int_equal(seteuid(user), 0);
    assert_int_equal(energy.package_count, 1);
    assert_int_equal(energy.packages_read, 0);
    assert_non_null(strstr(energy.why_no_package, "Permission denied (only root may read it, or everybody after: chmod a+r "
                                                  "/sys/class/powercap/intel-rapl:*/energy_uj)"));
    energy_close(&energy);
}

TEST_WITH(a_counter_that_disappears_makes_the_sum_partial, fixture_folder_make, fixture_folder_remove)
{
    put_domain("intel-rapl:0", "package-0\n", RANGE "\n", "1000\n");
    energy_open(&energy, folder);
    set_value("intel-rapl:0", "");
    assert_int_equal(sum(), 0);
    assert_true(energy_is_partial(&energy));
    energy_close(&energy);
}

TEST_WITH(what_another_rank_reads_is_not_counted, fixture_folder_make, fixture_folder_remove)
{
    put_domain("intel-rapl:0", "package-0\n", RANGE "\n", "1000\n");
    energy_open(&energy, folder);
    energy_keep(&energy, false, NULL);
    set_value("intel-rapl:0", "2000\n");
    assert_int_equal(sum(), 0);
    assert_false(energy_is_partial(&energy));
    energy_close(&energy);
}

/* ---- ranks ---- */

static struct energy_share share;

/* Find the share of user `index`, host by host; the users of a host follow each other. */
static void find_share(const struct energy_user *users, uint32_t count, uint32_t index)
{
    share = (struct energy_share){ .packages = false };
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && strcmp(users[end].host, users[first].host) == 0; end++)
            continue;
        energy_share_add(users + first, end - first, count, &share.all);
        if (index >= first && index < end)
            energy_share_of(users + first, end - first, index - first, &share);
    }
}

static struct energy_user user_of(const char *host, uint32_t packages, uint32_t packages_read)
{
    struct energy_user user = { .packages = packages, .packages_read = packages_read };
    snprintf(user.host, sizeof(user.host), "%s", host);
    snprintf(user.why_no_package, sizeof(user.why_no_package), "%s", packages_read < packages ? "forbidden" : "");
    return user;
}

static void add_gpu(struct energy_user *user, const char *bus, bool is_read)
{
    snprintf(user->bus[user->gpus], BUS_BYTES, "%s", bus);
    user->reads[user->gpus++] = is_read;
    if (!is_read)
        snprintf(user->why_no_gpu, sizeof(user->why_no_gpu), "too old");
}

TEST(the_lowest_rank_of_a_host_reads_its_packages)
{
    const struct energy_user users[] = { user_of("a", 2, 2), user_of("a", 2, 2), user_of("a", 2, 2), user_of("b", 1, 1),
                                         user_of("b", 1, 1) };
    static const bool reads[] = { true, false, false, true, false };
    for (uint32_t i = 0; i < 5; i++) {
        find_share(users, 5, i);
        assert_int_equal(share.packages, reads[i]);
        assert_int_equal(share.all.packages, 3);
        assert_int_equal(share.all.blind_hosts, 0);
        assert_string_equal(share.all.why_no_package, "");
    }
}

TEST(a_rank_that_may_reads_for_one_that_may_not)
{
    const struct energy_user users[] = { user_of("a", 2, 0), user_of("a", 2, 1), user_of("a", 2, 2), user_of("b", 1, 0) };
    static const bool reads[] = { false, false, true, false };
    for (uint32_t i = 0; i < 4; i++) {
        find_share(users, 4, i);
        assert_int_equal(share.packages, reads[i]);
        assert_int_equal(share.all.packages, 2);
        assert_int_equal(share.all.blind_hosts, 1);
        assert_string_equal(share.all.why_no_package, "b: forbidden");
    }
    find_share(users, 2, 1);
    assert_true(share.packages);
    assert_int_equal(share.all.packages, 1);
    assert_int_equal(share.all.blind_hosts, 1);
}

TEST(a_gpu_of_several_ranks_is_read_once)
{
    static struct energy_user users[3];
    users[0] = user_of("a", 1, 1);
    users[1] = user_of("a", 1, 1);
    users[2] = user_of("b", 1, 1);
    add_gpu(&users[0], "0000:01:00.0", true);
    add_gpu(&users[0], "0000:02:00.0", false);
    add_gpu(&users[1], "0000:02:00.0", true);
    add_gpu(&users[1], "0000:01:00.0", true);
    add_gpu(&users[2], "0000:01:00.0", true);
    add_gpu(&users[2], "", false);
    static const bool reads[3][2] = { { true, false }, { true, false }, { true, false } };
    for (uint32_t i = 0; i < 3; i++) {
        find_share(users, 3, i);
        assert_int_equal(share.gpu[0], reads[i][0]);
        assert_int_equal(share.gpu[1], reads[i][1]);
        assert_int_equal(share.all.gpus, 3);
        assert_int_equal(share.all.blind_gpus, 1);
        assert_string_equal(share.all.why_no_gpu, "b: too old");
    }
}

TEST(a_process_alone_reads_all_it_can)
{
    struct energy_user user = user_of("a", 2, 2);
    add_gpu(&user, "0000:01:00.0", false);
    find_share(&user, 1, 0);
    assert_true(share.packages);
    assert_false(share.gpu[0]);
    assert_int_equal(share.all.blind_gpus, 1);
    assert_string_equal(share.all.why_no_gpu, "too old");
}

TESTS_MAIN(NULL, NULL)
