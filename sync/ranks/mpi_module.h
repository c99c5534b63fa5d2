/* The functions of MPI that we use, as a table. The ABIs of MPI libraries differ, so mpi_module.c is compiled against
 * each of them into a module, a shared library that contains only this table. The program loads the module for the
 * library of its launcher. */
#ifndef PIPETRAIN_MPI_MODULE_H
#define PIPETRAIN_MPI_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MPI_MODULE_VERSION 3u           /* of struct mpi_module */
#define MPI_MODULE_SYMBOL "pipetrain_mpi"       /* the name of the table in a module */
#define MPI_MODULE_TEXT_BYTES 256u
#define MPI_MODULE_MESSAGE_MAX ((size_t)1 << 30)        /* bytes of one message */

struct mpi_request { uint64_t handle; };        /* MPI_Request of a message in flight */

/* All functions except `leave` are called by the thread that called init; send, receive and test also by others, at the
 * same time, if init found that they may. Only init and finalize block. They return 0, or an error code of the library,
 * which `explain` describes. */
struct mpi_module {
    uint32_t version;
    /* Call MPI_Init_thread, and create a communicator whose errors are returned. `wants_threads`: several threads are to
     * call MPI; *has_threads_out: the library allows it (MPI_THREAD_MULTIPLE). */
    int (*init)(bool wants_threads, uint32_t *rank_out, uint32_t *size_out, bool *has_threads_out);
    /* Write the name and version, such as "Open MPI 4.1.4", terminated, at most MPI_MODULE_TEXT_BYTES. */
    void (*name)(char *name_out);
    /* MPI_Isend and MPI_Irecv: start to send or receive a message of at most MPI_MODULE_MESSAGE_MAX bytes. The data
     * must stay unchanged, and received data must not be read, until `test` reports the request as complete. Messages
     * with the same tag between two ranks arrive in the order in which they were sent. A message may be shorter than
     * the receiver's buffer. */
    int (*send)(const void *data, size_t bytes, uint32_t to, int tag, struct mpi_request *request_out);
    int (*receive)(void *data, size_t bytes, uint32_t from, int tag, struct mpi_request *request_out);
    /* Test whether the request is complete, and release it if so. */
    int (*test)(struct mpi_request *request, bool *has_passed_out);
    /* Cancel and release a receive for which no message will be sent. */
    void (*cancel)(struct mpi_request *request);
    /* Write the description of an error, one line, terminated, at most MPI_MODULE_TEXT_BYTES. */
    void (*explain)(int error, char *text_out);
    /* MPI_Finalize, after all requests are released. Waits for the other ranks. */
    int (*finalize)(void);
    /* Called instead of finalize when the run has failed and each rank ends by itself: some launchers would otherwise
     * kill the other ranks as soon as one ends. Any thread. */
    void (*leave)(void);
};

#endif
