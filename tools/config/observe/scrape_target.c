/* Reading report.prometheus. */
#include "tools/config/observe/scrape_target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PORT_MAX 65535
#define HOST_BYTES 64u
#define NEITHER "is neither a file, as in metrics/run.prom, nor a port of this machine, as in 127.0.0.1:9464"
#define NOT_ALONE "is no address of this machine alone: take 127.0.0.1 or [::1]"

static bool ends_in(const char *text, const char *end)
{
    const size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes > end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

/* 0: it is none. */
static uint16_t read_port(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    const long port = digits > 0 && digits <= 5 && text[digits] == '\0' ? strtol(text, NULL, 10) : 0;
    return port <= PORT_MAX ? (uint16_t)port : 0;
}

/* The address, but for its port; what is wrong with it, or NULL. */
static const char *read_host(const char *host, struct scrape_target *target)
{
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &target->address.v4.sin_addr) == 1) {
        target->address.v4.sin_family = AF_INET;
        target->address_bytes = sizeof(target->address.v4);
        return ntohl(target->address.v4.sin_addr.s_addr) >> 24 == 127 ? NULL : NOT_ALONE;
    }
    if (inet_pton(AF_INET6, host, &target->address.v6.sin6_addr) != 1)
        return NEITHER;
    target->address.v6.sin6_family = AF_INET6;
    target->address_bytes = sizeof(target->address.v6);
    return IN6_IS_ADDR_LOOPBACK(&target->address.v6.sin6_addr) ? NULL : NOT_ALONE;
}

/* "HOST:PORT" or "[HOST]:PORT", in its parts; false: it is none. */
static bool split(const char *text, char host_out[HOST_BYTES], uint16_t *port_out)
{
    const char *const colon = strrchr(text, ':');
    if (colon == NULL)
        return false;
    const char *begin = text, *end = colon;
    if (*text == '[' && colon - text >= 2 && colon[-1] == ']') {
        begin++;
        end--;
    } else if (memchr(text, ':', (size_t)(colon - text)) != NULL) {
        return false;
    }
    const size_t bytes = (size_t)(end - begin);
    *port_out = read_port(colon + 1);
    if (bytes == 0 || bytes >= HOST_BYTES || *port_out == 0)
        return false;
    memcpy(host_out, begin, bytes);
    host_out[bytes] = '\0';
    return true;
}

int scrape_target_read(const char *text, struct scrape_target *target_out, const char **problem_out)
{
    struct scrape_target target = { .kind = SCRAPE_NONE };
    char host[HOST_BYTES];
    uint16_t port = 0;
    const char *problem = NULL;
    if (*text == '\0') {
        *target_out = target;
        return 0;
    }
    target.kind = ends_in(text, ".prom") && !ends_in(text, "/.prom") ? SCRAPE_FILE : SCRAPE_PORT;
    if (target.kind == SCRAPE_PORT)
        problem = split(text, host, &port) ? read_host(host, &target) : NEITHER;
    if (problem != NULL) {
        *problem_out = problem;
        return -EINVAL;
    }
    if (target.address.any.sa_family == AF_INET)
        target.address.v4.sin_port = htons(port);
    else if (target.address.any.sa_family == AF_INET6)
        target.address.v6.sin6_port = htons(port);
    *target_out = target;
    return 0;
}
