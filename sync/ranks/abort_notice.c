/* A bound socket name is a flag: binding it raises it, and connecting to it tests it. */
#include "sync/ranks/abort_notice.h"

#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <xxhash.h>

#include "stage/clock.h"
#include "sync/ranks/launcher.h"

#define NOTIFY_NS 1000000000u
#define ANSWER_MS 1000
#define POLL_MS 20
#define KEY_BYTES 512u
#define NOTIFIED_MAX 1024u          /* processes that are remembered, so that each is counted once */

/* ---- the run ---- */

static const char *value_of(const char *variable)
{
    const char *const text = getenv(variable);
    return text != NULL ? text : "";
}

/* A hash of identifiers that only the processes of this run share: those that the launcher set, or else the number of
 * the parent process. Atomic for ranks that are threads of one process, in tests: one may look for notices while
 * another is opened, and sets the same value. */
static atomic_ullong run_hash;

void abort_notice_prepare(void)
{
    char key[KEY_BYTES];
    const int mpich = launcher_mpich_process();
    const char *const pmix = value_of("PMIX_NAMESPACE"), *const step = value_of("SLURM_STEP_ID");
    const char *const torch = value_of("TORCHELASTIC_RUN_ID");
    const bool is_known = *pmix != '\0' || mpich != 0 || *step != '\0' || *torch != '\0';
    snprintf(key, sizeof(key), "%s/%d/%s.%s/%s/%d/%d", pmix, mpich, value_of("SLURM_JOB_ID"), step, torch,
             is_known ? 0 : (int)getppid(), (int)geteuid());
    atomic_store(&run_hash, XXH3_64bits(key, strlen(key)));
}

/* ---- flags ---- */

/* The name of this run's flag for a reason; reason NULL: of the flag for the notice. */
static socklen_t name_flag(const char *reason, struct sockaddr_un *address)
{
    const uint64_t flag = reason == NULL ? 0 : XXH3_64bits(reason, strlen(reason));
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    const int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "pipetrain-abort-%016llx-%016llx",
                                atomic_load(&run_hash), (unsigned long long)flag);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_socket(int flags)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

/* Raise a flag until this process ends. Returns its socket, or -1 where another process has raised it. */
static int raise_flag(const char *reason)
{
    struct sockaddr_un address;
    const socklen_t length = name_flag(reason, &address);
    const int flag = open_socket(SOCK_NONBLOCK);
    if (flag >= 0 && bind(flag, (struct sockaddr *)&address, length) == 0 && listen(flag, SOMAXCONN) == 0)
        return flag;
    if (flag >= 0)
        close(flag);
    return -1;
}

/* Returns a connection to the process that has raised the flag, if it belongs to the same user; else -1. */
static int find_flag(const char *reason)
{
    struct sockaddr_un address;
    struct ucred other;
    socklen_t bytes = sizeof(other);
    const socklen_t length = name_flag(reason, &address);
    const int flag = open_socket(0);
    if (flag >= 0 && connect(flag, (struct sockaddr *)&address, length) == 0 &&
        getsockopt(flag, SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 && other.uid == geteuid())
        return flag;
    if (flag >= 0)
        close(flag);
    return -1;
}

/* Copy the reason without its digits: ranks may report one reason with different numbers. */
static void leave_out_numbers(const char *reason, char *words_out)
{
    size_t length = 0;
    for (; *reason != '\0' && length + 1 < KEY_BYTES; reason++)
        if (*reason < '0' || *reason > '9')
            words_out[length++] = *reason;
    words_out[length] = '\0';
}

bool abort_notice_is_first(const char *reason)
{
    char words[KEY_BYTES];
    leave_out_numbers(reason, words);
    if (raise_flag(words) >= 0)
        return true;
    const int other = find_flag(words);
    if (other >= 0)
        close(other);
    return other < 0;
}

/* ---- the notice ---- */

/* The processes that were notified. A process may connect twice: while it waits for MPI_Init, and when it sends a
 * notice itself. */
struct notified { uint32_t count; pid_t process[NOTIFIED_MAX]; };

/* A process of another PID namespace has the number 0 here, and is counted each time it connects. */
static bool was_notified(const struct notified *notified, pid_t process)
{
    for (uint32_t i = 0; i < notified->count && i < NOTIFIED_MAX; i++)
        if (notified->process[i] == process)
            return process > 0;
    return false;
}

static void add_notified(struct notified *notified, int other)
{
    struct ucred peer = { .pid = 0 };
    socklen_t bytes = sizeof(peer);
    (void)getsockopt(other, SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
    if (was_notified(notified, peer.pid))
        return;
    if (notified->count < NOTIFIED_MAX)
        notified->process[notified->count] = peer.pid;
    notified->count++;
}

/* Send the code to all processes that have connected. Their connections stay open until this process ends. */
static void notify(int flag, int code, struct notified *notified)
{
    const unsigned char byte = (unsigned char)code;
    for (int other; flag >= 0 && (other = accept4(flag, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        (void)send(other, &byte, 1, MSG_NOSIGNAL);
        add_notified(notified, other);
    }
}

static bool has_ended(int other)
{
    unsigned char code;
    return other >= 0 && recv(other, &code, 1, MSG_DONTWAIT) == 0;
}

/* The first process that sends a notice counts the notified processes. Other processes that call this function only
 * wait until the first process ends. */
void abort_notice_send(int code, uint32_t processes)
{
    const uint64_t end_ns = clock_now_ns() + NOTIFY_NS;
    const int flag = raise_flag(NULL), first = flag < 0 ? find_flag(NULL) : -1;
    struct notified notified = { .count = 1, .process = { getpid() } };
    while (clock_now_ns() < end_ns && notified.count != processes && !has_ended(first)) {
        (void)poll(NULL, 0, POLL_MS);
        notify(flag, code, &notified);
    }
    if (flag >= 0 && notified.count < processes)
        launcher_abort(code);
}

int abort_notice_receive(void)
{
    unsigned char code = 0;
    const int flag = find_flag(NULL);
    if (flag < 0)
        return 0;
    struct pollfd answered = { .fd = flag, .events = POLLIN };
    const bool has_code = poll(&answered, 1, ANSWER_MS) > 0 && recv(flag, &code, 1, MSG_DONTWAIT) == 1;
    close(flag);
    return has_code ? code : 0;
}
