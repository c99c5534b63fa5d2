/* The functions of MPI that we use, as a table. The ABIs of MPI libraries differ, so mpi_module.c is compiled
 * against each of them into a module, a shared library that contains only this table. The program loads that of its
 * launcher. */
#ifndef PIPETRAIN_MPI_MODULE_H
#define PIPETRAIN_MPI_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPI_MODULE_VERSION 2u           /* of struct mpi_module */
#define MPI_MODULE_SYMBOL "pipetrain_mpi"       /* the name of the table in a module */
#define MPI_MODULE_TEXT_BYTES 256u
#define MPI_MODULE_MESSAGE_MAX ((size_t)1 << 30)        /* bytes of one message */

struct mpi_request { uint64_t handle; };        /* MPI_Request of a message in flight */

/* All functions except `leave` are called by the thread that called init. Only init and finalize block. They return
 * 0, or an error of the library, whose text is that of `explain`. */
struct mpi_module {
    uint32_t version;
    /* MPI_Init, and a communicator of our own whose errors are returned. */
    int (*init)(uint32_t *rank_out, uint32_t *size_out);
    /* "Open MPI 4.1.4", terminated, at most MPI_MODULE_TEXT_BYTES. */
    void (*name)(char *name_out);
    /* Begin to send or receive a message of at most MPI_MODULE_MESSAGE_MAX bytes: MPI_Isend, MPI_Irecv. The data
     * must stay, and for a receive must not be read, until `test` says that the request is complete. Messages with
     * the same tag between two ranks arrive in the order in which they were sent. A message may be shorter than the
     * receiver's buffer. */
    int (*send)(const void *data, size_t bytes, uint32_t to, int tag, struct mpi_request *request_out);
    int (*receive)(void *data, size_t bytes, uint32_t from, int tag, struct mpi_request *request_out);
    /* Is the request complete? Then it is released. */
    int (*test)(struct mpi_request *request, bool *has_passed_out);
    /* Cancel and release a receive to which nothing will be sent. */
    void (*cancel)(struct mpi_request *request);
    /* The text of an error, one line, terminated, at most MPI_MODULE_TEXT_BYTES. */
    void (*explain)(int error, char *text_out);
    /* MPI_Finalize, with no request left. Waits for the other ranks. */
    int (*finalize)(void);
    /* Called instead of finalize before this process ends, when the run has failed and all ranks end by themselves:
     * some launchers would otherwise kill the other ranks as soon as one ends. Any thread. */
    void (*leave)(void);
};

#endif
