/* What we use of MPI, as a table of functions. The ABIs of MPI libraries differ, so mpi_module.c is compiled once
 * against each of them into a module of its own, which is loaded when a launcher of that library has started the
 * program. Modules contain nothing but this table. */
#ifndef PIPETRAIN_MPI_MODULE_H
#define PIPETRAIN_MPI_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPI_MODULE_VERSION 2u           /* of struct mpi_module */
#define MPI_MODULE_SYMBOL "pipetrain_mpi"       /* the name of the table in a module */
#define MPI_MODULE_TEXT_BYTES 256u
#define MPI_MODULE_MESSAGE_MAX ((size_t)1 << 30)        /* bytes of one message */

struct mpi_request { uint64_t handle; };        /* a message in flight; the handle is the library's */

/* All functions but `leave` are called by one thread, the one that called init. None blocks, but init and finalize. They
 * return 0, or an error of the library, for `explain`. */
struct mpi_module {
    uint32_t version;
    /* MPI_Init, and a communicator of our own whose errors are returned. */
    int (*init)(uint32_t *rank_out, uint32_t *size_out);
    /* "Open MPI 4.1.4", terminated, at most MPI_MODULE_TEXT_BYTES. */
    void (*name)(char *name_out);
    /* Begin a message of at most MPI_MODULE_MESSAGE_MAX bytes. The data must stay, and for receive not be read, until
     * the message has passed. Messages of one tag between two ranks arrive in the order of their sends. A message is
     * not longer than the receiver's room; it may be shorter. */
    int (*send)(const void *data, size_t bytes, uint32_t to, int tag, struct mpi_request *request_out);
    int (*receive)(void *data, size_t bytes, uint32_t from, int tag, struct mpi_request *request_out);
    /* Has the message passed? Then the request is released. */
    int (*test)(struct mpi_request *request, bool *has_passed_out);
    /* Release the request of a receive that nobody will send to. */
    void (*cancel)(struct mpi_request *request);
    /* A line about an error, terminated, at most MPI_MODULE_TEXT_BYTES. */
    void (*explain)(int error, char *text_out);
    /* No request is left. Waits for the other ranks. */
    int (*finalize)(void);
    /* Instead of finalize, before this process ends: the run has failed, and all ranks end by themselves. Without it some
     * launchers kill the others as soon as one ends. Any thread. */
    void (*leave)(void);
};

#endif
