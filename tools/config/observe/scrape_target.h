/* Where metrics for Prometheus go, as people write it. Pure, any thread. */
#ifndef PIPETRAIN_SCRAPE_TARGET_H
#define PIPETRAIN_SCRAPE_TARGET_H

#include <netinet/in.h>

enum scrape_kind { SCRAPE_NONE, SCRAPE_FILE, SCRAPE_PORT };

struct scrape_target {
    enum scrape_kind kind;
    union {                     /* SCRAPE_PORT: of this machine alone */
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t address_bytes;
};

/* "" (none), "run.prom" (a file), "127.0.0.1:9464", "localhost:9464", "[::1]:9464". 0, or -EINVAL with what is wrong,
 * in words that go behind the value, in *problem_out. */
int scrape_target_read(const char *text, struct scrape_target *target_out, const char **problem_out);

#endif
