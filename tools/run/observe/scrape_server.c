/* Answering scrapes. The thread waits in await() alone, which ends when the server is closed: for a client, for its
 * request, and for room for the answer. Main and the thread meet in `text`. */
#include "tools/run/observe/scrape_server.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/thread.h"

#define CLIENT_NS UINT64_C(1000000000)  /* that a client may take */
#define PAUSE_NS UINT64_C(100000000)    /* after a client that could not be accepted */
#define REQUEST_MAX 4096u
#define HEAD_MAX 256u
#define CLIENTS_WAITING 16

struct scrape_server {
    int listener;
    int end;                    /* an event: readable when the server is closed */
    struct thread *thread;
    pthread_mutex_t lock;       /* of text and bytes */
    char *text;
    size_t bytes, text_max;
    char *answer;               /* the thread's: a head and a text */
};

/* Until fd (-1: none) can do `events`. False when the server is closed, or at `until_ns` (0: never). */
static bool await(const struct scrape_server *server, int fd, short events, uint64_t until_ns)
{
    struct pollfd polled[] = { { .fd = server->end, .events = POLLIN }, { .fd = fd, .events = events } };
    for (;;) {
        const uint64_t now_ns = clock_now_ns();
        if (until_ns != 0 && now_ns >= until_ns)
            return false;
        const int limit_ms = until_ns == 0 ? -1 : (int)((until_ns - now_ns) / 1000000 + 1);
        const int ready = poll(polled, 2, limit_ms);
        if (polled[0].revents != 0 || (ready < 0 && errno != EINTR))
            return false;
        if (ready > 0 && polled[1].revents != 0)
            return true;
    }
}

/* The head of a request, as far as it fits; false: it did not come. */
static bool receive(const struct scrape_server *server, int client, uint64_t until_ns, char request[REQUEST_MAX + 1])
{
    size_t bytes = 0;
    request[0] = '\0';
    while (strstr(request, "\r\n\r\n") == NULL && strstr(request, "\n\n") == NULL) {
        if (bytes == REQUEST_MAX || !await(server, client, POLLIN, until_ns))
            return false;
        const ssize_t got = recv(client, request + bytes, REQUEST_MAX - bytes, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        bytes += got > 0 ? (size_t)got : 0;
        request[bytes] = '\0';
    }
    return true;
}

static void send_all(const struct scrape_server *server, int client, uint64_t until_ns, const char *bytes, size_t count)
{
    while (count > 0 && await(server, client, POLLOUT, until_ns)) {
        const ssize_t sent = send(client, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return;
        bytes += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* "/metrics" of "GET /metrics HTTP/1.1", and what browsers ask for first. */
static bool is_known(const char *request)
{
    const char *const path = strchr(request, ' ') + 1;
    return begins(path, "/metrics ") || begins(path, "/metrics?") || begins(path, "/ ");
}

/* Head and text of the answer; its length. */
static size_t make_answer(struct scrape_server *server, const char *request)
{
    const bool is_head = begins(request, "HEAD "), is_understood = is_head || begins(request, "GET ");
    const char *const status = !is_understood ? "405 Method Not Allowed" : is_known(request) ? "200 OK"
                                                                                         : "404 Not Found";
    const bool is_fine = begins(status, "200");
    pthread_mutex_lock(&server->lock);
    const size_t body = is_fine ? server->bytes : 0;
    const int head = snprintf(server->answer, HEAD_MAX,
                              "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                              "Content-Length: %zu\r\n%sConnection: close\r\n\r\n",
                              status, body, is_understood ? "" : "Allow: GET, HEAD\r\n");
    if (!is_head)
        memcpy(server->answer + head, server->text, body);
    pthread_mutex_unlock(&server->lock);
    return (size_t)head + (is_head ? 0 : body);
}

static void serve(struct scrape_server *server, int client)
{
    char request[REQUEST_MAX + 1];
    const uint64_t until_ns = clock_now_ns() + CLIENT_NS;
    if (receive(server, client, until_ns, request))
        send_all(server, client, until_ns, server->answer, make_answer(server, request));
}

static void loop(void *arg)
{
    struct scrape_server *const server = arg;
    while (await(server, server->listener, POLLIN, 0)) {
        const int client = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client >= 0) {
            serve(server, client);
            close(client);
        } else if (errno != EAGAIN) {
            (void)await(server, -1, 0, clock_now_ns() + PAUSE_NS);
        }
    }
}

/* 0 or a negative errno. */
static int begin_listening(struct scrape_server *server, const struct scrape_target *target)
{
    const int yes = 1;
    server->listener = socket(target->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->listener < 0)
        return -errno;
    /* A port of a run that has just ended is free. */
    (void)setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(server->listener, &target->address.any, target->address_bytes) != 0 ||
        listen(server->listener, CLIENTS_WAITING) != 0)
        return -errno;
    server->end = eventfd(0, EFD_CLOEXEC);
    return server->end >= 0 ? 0 : -errno;
}

static int start(struct scrape_server *server, const struct scrape_target *target)
{
    server->text = malloc(server->text_max);
    server->answer = malloc(HEAD_MAX + server->text_max);
    if (server->text == NULL || server->answer == NULL)
        return -ENOMEM;
    const int rc = begin_listening(server, target);
    return rc == 0 ? thread_start(&server->thread, "metrics", loop, server) : rc;
}

int scrape_server_start(struct scrape_server **server_out, const struct scrape_target *target, size_t text_max)
{
    assert(target->kind == SCRAPE_PORT);
    struct scrape_server *const server = calloc(1, sizeof(*server));
    if (server == NULL)
        return -ENOMEM;
    *server = (struct scrape_server){ .listener = -1, .end = -1, .text_max = text_max };
    pthread_mutex_init(&server->lock, NULL);
    const int rc = start(server, target);
    if (rc != 0) {
        scrape_server_close(server);
        return rc;
    }
    *server_out = server;
    return 0;
}

void scrape_server_put(struct scrape_server *server, const char *text, size_t bytes)
{
    assert(bytes <= server->text_max);
    pthread_mutex_lock(&server->lock);
    memcpy(server->text, text, bytes);
    server->bytes = bytes;
    pthread_mutex_unlock(&server->lock);
}

void scrape_server_close(struct scrape_server *server)
{
    if (server == NULL)
        return;
    if (server->thread != NULL)
        (void)eventfd_write(server->end, 1);
    thread_join(server->thread);
    if (server->listener >= 0)
        close(server->listener);
    if (server->end >= 0)
        close(server->end);
    pthread_mutex_destroy(&server->lock);
    free(server->text);
    free(server->answer);
    free(server);
}
