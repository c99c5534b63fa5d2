/* The table of MPI functions. This file is compiled against each MPI library into a module that contains no other part
 * of the program; launcher.c loads one of these modules. */
#include "sync/ranks/mpi_module.h"

#include <assert.h>
#include <mpi.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An error code of our own; the codes of MPI are positive. */
enum { ERROR_NO_THREADS = -1 };

static MPI_Comm communicator;

/* MPI_Request is an integer in MPICH and a pointer in Open MPI. */
_Static_assert(sizeof(MPI_Request) <= sizeof(((struct mpi_request *)0)->handle), "a handle holds a request");

static struct mpi_request request_pack(MPI_Request native)
{
    struct mpi_request request = { 0 };
    memcpy(&request.handle, &native, sizeof(native));
    return request;
}

static MPI_Request request_unpack(const struct mpi_request *request)
{
    MPI_Request native;
    memcpy(&native, &request->handle, sizeof(native));
    return native;
}

/* MPI_THREAD_FUNNELED: the process has several threads, but only this one calls MPI. A library that does not have
 * MPI_THREAD_MULTIPLE provides what it has instead. */
static int module_init(bool wants_threads, uint32_t *rank_out, uint32_t *size_out, bool *has_threads_out)
{
    int provided, rank, size;
    int rc = MPI_Init_thread(NULL, NULL, wants_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
    if (rc != MPI_SUCCESS)
        return rc;
    if (provided < MPI_THREAD_FUNNELED)
        return ERROR_NO_THREADS;
    /* The duplicated communicator inherits the error handler. */
    if ((rc = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)) != MPI_SUCCESS ||
        (rc = MPI_Comm_dup(MPI_COMM_WORLD, &communicator)) != MPI_SUCCESS ||
        (rc = MPI_Comm_rank(communicator, &rank)) != MPI_SUCCESS ||
        (rc = MPI_Comm_size(communicator, &size)) != MPI_SUCCESS)
        return rc;
    *rank_out = (uint32_t)rank;
    *size_out = (uint32_t)size;
    *has_threads_out = wants_threads && provided == MPI_THREAD_MULTIPLE;
    return 0;
}

/* MPI_Get_library_version returns "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\nMPICH Release ...". */
static void module_name(char *name_out)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
        text[0] = '\0';
    const size_t start = strcspn(text, "0123456789");
    const size_t end = start + strcspn(text + start, ", \t\n");
#ifdef OPEN_MPI
    static const char library[] = "Open MPI";
#else
    static const char library[] = "MPICH";
#endif
    snprintf(name_out, MPI_MODULE_TEXT_BYTES, "%s %.*s", library, (int)(end - start), text + start);
}

static int module_send(const void *data, size_t bytes, uint32_t to, int tag, struct mpi_request *request_out)
{
    assert(bytes <= MPI_MODULE_MESSAGE_MAX);
    MPI_Request native;
    const int rc = MPI_Isend(data, (int)bytes, MPI_BYTE, (int)to, tag, communicator, &native);
    if (rc == MPI_SUCCESS)
        *request_out = request_pack(native);
    return rc;
}

static int module_receive(void *data, size_t bytes, uint32_t from, int tag, struct mpi_request *request_out)
{
    assert(bytes <= MPI_MODULE_MESSAGE_MAX);
    MPI_Request native;
    const int rc = MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)from, tag, communicator, &native);
    if (rc == MPI_SUCCESS)
        *request_out = request_pack(native);
    return rc;
}

static int module_test(struct mpi_request *request, bool *has_passed_out)
{
    MPI_Request native = request_unpack(request);
    int has_passed;
    const int rc = MPI_Test(&native, &has_passed, MPI_STATUS_IGNORE);
    *request = request_pack(native);
    if (rc == MPI_SUCCESS)
        *has_passed_out = has_passed != 0;
    return rc;
}

static void module_cancel(struct mpi_request *request)
{
    MPI_Request native = request_unpack(request);
    if (MPI_Cancel(&native) == MPI_SUCCESS)
        MPI_Request_free(&native);
}

static void module_explain(int error, char *text_out)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (error == ERROR_NO_THREADS)
        strcpy(text, "this MPI library does not support threads (MPI_THREAD_FUNNELED)");
    else if (MPI_Error_string(error, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof(text), "MPI error %d", error);
    for (char *end = text; (end = strchr(end, '\n')) != NULL; )
        *end = ' ';
    snprintf(text_out, MPI_MODULE_TEXT_BYTES, "%.*s", (int)MPI_MODULE_TEXT_BYTES - 1, text);
}

/* ---- the end ---- */

#ifdef MPICH_VERSION
#define FINALIZE "cmd=finalize\n"
#define LEAVE_MS 1000

/* Returns the descriptor of the connection to the launcher; 0: there is none. */
static int find_launcher(void)
{
    const char *const text = getenv("PMI_FD");
    return text != NULL ? atoi(text) : 0;
}

/* Send a command to the launcher, and call MPI until the answer arrives, so that messages make progress meanwhile.
 * Returns whether the answer begins with `answer`. */
static bool launcher_answers(int launcher, const char *command, const char *answer)
{
    char line[128] = "";
    size_t length = 0;
    if (write(launcher, command, strlen(command)) != (ssize_t)strlen(command))
        return false;
    while (strchr(line, '\n') == NULL) {
        struct pollfd fd = { .fd = launcher, .events = POLLIN };
        int is_there;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, &is_there, MPI_STATUS_IGNORE);
        if (poll(&fd, 1, 1) <= 0)
            continue;
        const ssize_t bytes = read(launcher, line + length, sizeof(line) - 1 - length);
        if (bytes <= 0)
            return false;
        length += (size_t)bytes;
        line[length] = '\0';
    }
    return strncmp(line, answer, strlen(answer)) == 0;
}

/* MPI_Finalize of MPICH (4.0.2 with UCX 1.13) often hangs with more than two ranks over TCP: a rank that has closed
 * its connections waits in the launcher's barrier, where it does not answer ranks that are still closing theirs.
 * Therefore ranks enter that barrier without closing their connections, which the kernel closes. The commands are of
 * PMI-1, the protocol between libmpich and the launcher. */
static bool finish_without_finalize(void)
{
    const int launcher = find_launcher();
    return launcher > 0 && launcher_answers(launcher, "cmd=barrier_in\n", "cmd=barrier_out") &&
           launcher_answers(launcher, FINALIZE, "cmd=finalize_ack");
}

/* Returns after any answer, or without one after a time limit. */
static void module_leave(void)
{
    const int launcher = find_launcher();
    struct pollfd fd = { .fd = launcher, .events = POLLIN };
    if (launcher > 0 && write(launcher, FINALIZE, strlen(FINALIZE)) > 0)
        (void)poll(&fd, 1, LEAVE_MS);
}
#else
static bool finish_without_finalize(void)
{
    return false;
}

static void module_leave(void)
{
}
#endif

static int module_finalize(void)
{
    return finish_without_finalize() ? 0 : MPI_Finalize();
}

extern const struct mpi_module pipetrain_mpi;   /* MPI_MODULE_SYMBOL */
const struct mpi_module pipetrain_mpi = {
    .version = MPI_MODULE_VERSION,
    .init = module_init,
    .name = module_name,
    .send = module_send,
    .receive = module_receive,
    .test = module_test,
    .cancel = module_cancel,
    .explain = module_explain,
    .finalize = module_finalize,
    .leave = module_leave,
};
