/* Tests of the port where metrics are read: what clients get, and that none of them holds up the end. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stage/clock.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_long.h"
#include "tools/run/observe/scrape_server.h"

#define TEXT_MAX 1000u

struct port { struct scrape_target target; struct scrape_server *server; };

/* A port that is free, as the system gives one. */
static void find_port(struct scrape_target *target)
{
    const char *problem;
    assert_int_equal(scrape_target_read("127.0.0.1:1", target, &problem), 0);
    target->address.v4.sin_port = 0;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, &target->address.any, target->address_bytes), 0);
    socklen_t bytes = sizeof(target->address.v4);
    assert_int_equal(getsockname(fd, &target->address.any, &bytes), 0);
    close(fd);
}

static int join(const struct port *port)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, &port->target.address.any, port->target.address_bytes), 0);
    return fd;
}

/* All that comes until the other side closes. */
static size_t read_all(int fd, char *out, size_t room)
{
    size_t bytes = 0;
    for (ssize_t got = 1; got > 0; bytes += got > 0 ? (size_t)got : 0)
        got = read(fd, out + bytes, room - 1 - bytes);
    out[bytes] = '\0';
    close(fd);
    return bytes;
}

/* In pieces of `piece` bytes, as networks do. */
static size_t ask(const struct port *port, const char *request, size_t piece, char *out, size_t room)
{
    const int fd = join(port);
    for (size_t at = 0; at < strlen(request); at += piece) {
        const size_t left = strlen(request) - at;
        assert_true(send(fd, request + at, left < piece ? left : piece, MSG_NOSIGNAL) > 0);
    }
    return read_all(fd, out, room);
}

static void expect_answer(const struct port *port, const char *request, const char *status, const char *body)
{
    char answer[4096], length[64];
    for (size_t piece = 1; piece < 64; piece *= 3) {
        ask(port, request, piece, answer, sizeof(answer));
        assert_int_equal(strncmp(answer, status, strlen(status)), 0);
        assert_non_null(strstr(answer, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
        const char *const end = strstr(answer, "\r\n\r\n");
        assert_non_null(end);
        assert_string_equal(end + 4, body);
        snprintf(length, sizeof(length), "\r\nContent-Length: %zu\r\n", strlen(body));
        assert_true(strncmp(request, "HEAD", 4) == 0 || strstr(answer, length) != NULL);
    }
}

static int set_up(void **state)
{
    static struct port port;
    find_port(&port.target);
    *state = &port;
    return scrape_server_start(&port.server, &port.target, TEXT_MAX);
}

static int tear_down(void **state)
{
    scrape_server_close(((struct port *)*state)->server);
    return 0;
}

TEST_WITH(the_latest_text_is_read, set_up, tear_down)
{
    struct port *const port = *state;
    expect_answer(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 OK\r\n", "");
    scrape_server_put(port->server, "first 1\n", 8);
    expect_answer(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 OK\r\n", "first 1\n");
    scrape_server_put(port->server, "b 2\n", 4);
    expect_answer(port, "GET / HTTP/1.0\n\n", "HTTP/1.1 200 OK\r\n", "b 2\n");
    expect_answer(port, "GET /metrics?name[]=b HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "b 2\n");
    expect_answer(port, "HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type", "");
}

TEST_WITH(other_requests_get_nothing, set_up, tear_down)
{
    struct port *const port = *state;
    scrape_server_put(port->server, "secret 1\n", 9);
    expect_answer(port, "GET /other HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "");
    expect_answer(port, "GET /metricses HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "");
    expect_answer(port, "POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n", "");
    expect_answer(port, "GET \r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "");
    expect_answer(port, "\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n", "");
}

/* Requests that are too long, or never end, or of clients that leave: the next client is served. */
TEST_WITH(no_client_holds_up_others_for_long, set_up, tear_down)
{
    struct port *const port = *state;
    char request[20000], answer[4096];
    scrape_server_put(port->server, "a 1\n", 4);
    memset(request, 'a', sizeof(request));
    const int loud = join(port), silent = join(port), gone = join(port);
    (void)send(loud, request, sizeof(request), MSG_NOSIGNAL);
    close(gone);
    const uint64_t begun_ns = clock_now_ns();
    expect_answer(port, "GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "a 1\n");
    assert_true(clock_now_ns() - begun_ns < UINT64_C(120000000000));
    assert_int_equal(read_all(silent, answer, sizeof(answer)), 0);
    close(loud);
}

TEST_WITH(a_silent_client_does_not_hold_up_the_end, set_up, tear_down)
{
    struct port *const port = *state;
    const int silent = join(port);
    usleep(20000);
    const uint64_t begun_ns = clock_now_ns();
    scrape_server_close(port->server);
    port->server = NULL;
    if (test_is_long())
        assert_true(clock_now_ns() - begun_ns < UINT64_C(900000000));
    close(silent);
}

TEST_WITH(a_port_in_use_is_told, set_up, tear_down)
{
    struct port *const port = *state;
    struct scrape_server *second = NULL;
    assert_int_equal(scrape_server_start(&second, &port->target, TEXT_MAX), -EADDRINUSE);
    assert_null(second);
    scrape_server_close(port->server);
    assert_int_equal(scrape_server_start(&port->server, &port->target, TEXT_MAX), 0);
}

struct writing { struct scrape_server *server; bool ends; pthread_mutex_t lock; };

static bool ends(struct writing *writing)
{
    pthread_mutex_lock(&writing->lock);
    const bool is_over = writing->ends;
    pthread_mutex_unlock(&writing->lock);
    return is_over;
}

/* Texts of one letter each, of any length. */
static void *write_texts(void *arg)
{
    struct writing *const writing = arg;
    char text[TEXT_MAX];
    for (unsigned i = 0; !ends(writing); i++) {
        memset(text, 'a' + (int)(i % 26), sizeof(text));
        scrape_server_put(writing->server, text, 1 + i * 7 % TEXT_MAX);
    }
    return NULL;
}

TEST_WITH(a_text_is_never_seen_in_part, set_up, tear_down)
{
    struct port *const port = *state;
    struct writing writing = { .server = port->server };
    pthread_t writer;
    char answer[4096];
    scrape_server_put(port->server, "a", 1);
    pthread_mutex_init(&writing.lock, NULL);
    assert_int_equal(pthread_create(&writer, NULL, write_texts, &writing), 0);
    for (int i = 0; i < 300; i++) {
        ask(port, "GET /metrics HTTP/1.1\r\n\r\n", 100, answer, sizeof(answer));
        const char *const text = strstr(answer, "\r\n\r\n") + 4;
        const char letter[] = { text[0], '\0' };
        assert_int_equal(strspn(text, letter), strlen(text));
        assert_int_equal(strlen(text), strtoul(strstr(answer, "Content-Length: ") + 16, NULL, 10));
    }
    pthread_mutex_lock(&writing.lock);
    writing.ends = true;
    pthread_mutex_unlock(&writing.lock);
    pthread_join(writer, NULL);
    pthread_mutex_destroy(&writing.lock);
}

TESTS_MAIN(NULL, NULL)
