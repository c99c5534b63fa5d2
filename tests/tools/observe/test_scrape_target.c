/* Tests of where metrics may go. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/config/observe/scrape_target.h"

static enum scrape_kind kind_of(const char *text)
{
    struct scrape_target target;
    const char *problem = NULL;
    assert_int_equal(scrape_target_read(text, &target, &problem), 0);
    assert_null(problem);
    return target.kind;
}

TEST(a_name_that_ends_in_prom_is_a_file)
{
    assert_int_equal(kind_of(""), SCRAPE_NONE);
    assert_int_equal(kind_of("run.prom"), SCRAPE_FILE);
    assert_int_equal(kind_of("/var/lib/node_exporter/run:8080.prom"), SCRAPE_FILE);
}

TEST(ports_of_this_machine_are_taken)
{
    static const char *const hosts[] = { "127.0.0.1", "127.0.0.2", "127.255.255.255", "localhost" };
    static const uint16_t ports[] = { 1, 80, 9464, 65535 };
    struct scrape_target target;
    const char *problem;
    char text[64];
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++)
        for (size_t k = 0; k < sizeof(ports) / sizeof(*ports); k++) {
            snprintf(text, sizeof(text), "%s:%u", hosts[i], ports[k]);
            assert_int_equal(scrape_target_read(text, &target, &problem), 0);
            assert_int_equal(target.kind, SCRAPE_PORT);
            assert_int_equal(target.address.any.sa_family, AF_INET);
            assert_int_equal(ntohs(target.address.v4.sin_port), ports[k]);
            assert_int_equal(ntohl(target.address.v4.sin_addr.s_addr) >> 24, 127);
        }
    assert_int_equal(scrape_target_read("[::1]:9464", &target, &problem), 0);
    assert_int_equal(target.address.any.sa_family, AF_INET6);
    assert_int_equal(ntohs(target.address.v6.sin6_port), 9464);
}

static void expect_refused(const char *text, const char *words)
{
    struct scrape_target target;
    const char *problem = NULL;
    assert_int_equal(scrape_target_read(text, &target, &problem), -EINVAL);
    assert_non_null(strstr(problem, words));
}

TEST(other_machines_are_refused)
{
    static const char *const addresses[] = { "0.0.0.0:9464", "192.168.0.1:9464", "126.255.255.255:1", "128.0.0.1:1",
                                             "[::]:9464", "[fe80::1]:9464", "[::ffff:127.0.0.1]:9464" };
    for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++)
        expect_refused(addresses[i], "is no address of this machine alone");
}

TEST(what_is_neither_is_refused)
{
    static const char *const texts[] = {
        "yes", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:99999999999",
        "127.0.0.1:-1", "127.0.0.1: 80", "127.0.0.1:80x", "127.1:80", "example.org:80", "::1:9464", "[::1]", "[]:1",
        "[:1", "run.prom/", "folder/.prom", ".prom", "run.txt", "[127.0.0.1", ":", "[::1]9464"
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        expect_refused(texts[i], "is neither a file");
    char text[512];
    memset(text, '1', sizeof(text));
    strcpy(text + sizeof(text) - 4, ":80");
    expect_refused(text, "is neither a file");
}

TESTS_MAIN(NULL, NULL)
