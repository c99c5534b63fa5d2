/* What the files of struct ranks share: ranks.c (opening, the communication thread), messages.c, rank_heartbeat.c. */
#ifndef PIPETRAIN_RANKS_PRIVATE_H
#define PIPETRAIN_RANKS_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "stage/thread.h"
#include "sync/ranks/ranks.h"
#include "sync/ranks/wakeup.h"

#define RANK_HOST_BYTES 64u
#define RANK_PHASE_BYTES 32u
#define RANK_TEXT_BYTES 400u            /* of a failure */

/* What a rank is doing: the data of MESSAGE_HEARTBEAT. */
struct rank_heartbeat {
    uint64_t step, bucket;              /* RANKS_NONE: in none */
    char phase[RANK_PHASE_BYTES], host[RANK_HOST_BYTES];
};
struct failure { int32_t code; char text[RANK_TEXT_BYTES]; };

/* Of messages; RANKS_TAG_FREE and more are of jobs. */
enum { ENVELOPE_TAG = 1, PAYLOAD_TAG = 2, WAKEUP_TAG = 3 };    /* and the one after it */

#define EAGER_BYTES 496u           /* longer message is sent as two messages */

/* A message of ENVELOPE_TAG; if the message is longer than it has room for, all data follows in a message of PAYLOAD_TAG. */
struct envelope {
    uint64_t bytes;
    uint32_t kind, is_announced;        /* at the receiver's wakeup_flag */
    unsigned char data[EAGER_BYTES];
};

/* Mail on its way to another rank. */
struct outgoing {
    struct outgoing *next;
    uint32_t to;
    struct mpi_request requests[2];     /* of the envelope and of the data */
    bool has_passed[2];
    struct envelope envelope;
    unsigned char data[];
};

/* Another rank that this one exchanges message with. */
struct peer {
    char name[RANK_HOST_BYTES + 32], host[RANK_HOST_BYTES];     /* constant once is_known */
    /* Of the communication thread: */
    struct envelope envelope;           /* of the message that is received next */
    struct mpi_request request;
    struct message *incoming;              /* longer message whose data is being received; NULL: an envelope is */
    /* Under the lock: */
    bool is_known, is_silent;
    bool has_heartbeat_queued;               /* the last heartbeat to it is not on its way yet */
    uint32_t age;                       /* polls of the watch since its last heartbeat */
    struct rank_heartbeat heartbeat;
    struct message *first, **end;          /* that was not received yet */
};

struct ranks {
    struct launcher launcher;
    const struct mpi_module *module;
    char library[MPI_MODULE_TEXT_BYTES];
    struct peer *peers;                 /* [rank]; of all but this one in rank 0, else of rank 0 only */
    struct wakeup *wakeup;        /* the communication thread sleeps at its own */
    uint32_t announced_received;                /* announced message that was received; used by the communication thread only */
    struct thread *communication, *watch;
    atomic_uint_fast64_t turns;         /* of the communication thread; the watch looks whether they go on */
    atomic_uint unconnected;               /* struct rank_wait of the wakeup: the rank, and */
    atomic_bool lacks_answer;           /* whether it is its answer that is missing */
    _Atomic(const char *) call;         /* the call of MPI it is in, if that may block; NULL */
    _Atomic(const char *) phase;
    atomic_uint_fast64_t step, bucket;
    uint32_t deadline_s;                /* constant */
    char host[RANK_HOST_BYTES];
    pthread_mutex_t lock;               /* of what follows, and of the peers */
    pthread_cond_t changed;             /* for waiting mains: message, failure, opening, linked, handled */
    pthread_cond_t heartbeat_changed;       /* for the watch: it ends */
    bool is_open, is_closing, heartbeat_ends;
    bool are_connected;                    /* the wakeup; read without the lock by the communication thread, which sets it */
    int open_code;                      /* why it could not be opened; 0: it could, or is not yet */
    struct outgoing *out_first, **out_end;      /* queued */
    uint32_t out_count;                 /* queued or in flight */
    struct ranks_job *job_first, **job_end;     /* submitted */
    uint32_t job_count;                 /* submitted or in work */
    bool are_jobs_abandoned;
    bool was_job_abandoned;             /* for good: messages of the job may still be in flight */
    void (*handle)(void *arg, const struct message *message);
    void *handle_arg;
    bool is_handling;
    struct stop *stop;                  /* the run's; NULL: none. Written by main only, not while is_failing */
    bool is_failing;                    /* a thread reports the failure: to `stop`, to the log, to peers */
    bool has_failed;
    bool has_lost_message;                    /* there was no memory for message that another rank may wait for */
    struct failure failure;
    uint32_t failed_polls;              /* of the watch since then */
};

/* The ranks that this one exchanges message with: [first, end). */
static inline uint32_t peers_first(const struct ranks *ranks)
{
    return ranks->launcher.rank == 0 ? 1 : 0;
}
static inline uint32_t peers_end(const struct ranks *ranks)
{
    return ranks->launcher.rank == 0 ? ranks->launcher.size : 1;
}

/* ---- messages.c; in the communication thread ---- */

/* Begin to receive from all peers. 0 or an error of the library; *peer_out is then the rank. */
int messages_begin(struct ranks *ranks, uint32_t *peer_out);
/* Look after all message in flight. *moved_out is set to true if any has passed or was begun. 0 or an error of the library. */
int messages_advance(struct ranks *ranks, struct outgoing **flying, bool *moved_out, uint32_t *peer_out);
/* Give up what is being received. */
void messages_end(struct ranks *ranks);

/* ---- rank_heartbeat.c ---- */

void rank_heartbeat_loop(void *ranks);
/* Send a heartbeat to a peer, unless the last one is still queued. Lock not held. */
void rank_heartbeat_send(struct ranks *ranks, uint32_t to);
/* A heartbeat has come. Lock not held. */
void rank_heartbeat_receive(struct ranks *ranks, uint32_t from, const struct rank_heartbeat *heartbeat);
/* MESSAGE_FAILURE has come. Lock not held. */
void rank_heartbeat_receive_failure(struct ranks *ranks, uint32_t from, const struct failure *failure);
/* This process has found a failure: print the message, end the run, tell the others. Only the first one counts. Lock
 * not held. */
void rank_heartbeat_fail(struct ranks *ranks, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
