/* Internals of struct ranks, shared by ranks.c (opening, the communication thread), messages.c and rank_heartbeat.c. */
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

/* The data of MESSAGE_HEARTBEAT. */
struct rank_heartbeat {
    uint64_t step, bucket;              /* RANKS_NONE: none */
    char phase[RANK_PHASE_BYTES], host[RANK_HOST_BYTES];
};
struct failure { int32_t code; char text[RANK_TEXT_BYTES]; };

/* Tags of MPI messages; those from RANKS_TAG_FREE on are for jobs. */
enum { ENVELOPE_TAG = 1, PAYLOAD_TAG = 2, WAKEUP_TAG = 3 };     /* rank_memory_connect also uses WAKEUP_TAG + 1 */

#define EAGER_BYTES 496u                /* data up to this size is sent within the envelope */

/* What is sent with ENVELOPE_TAG. Longer data follows with PAYLOAD_TAG. */
struct envelope {
    uint64_t bytes;
    uint32_t kind, is_announced;        /* is_announced: was counted by wakeup_announce */
    unsigned char data[EAGER_BYTES];
};

/* A message that is queued or in flight. */
struct outgoing {
    struct outgoing *next;
    uint32_t to;
    struct mpi_request requests[2];     /* of the envelope and of the payload */
    bool has_passed[2];
    struct envelope envelope;
    unsigned char data[];
};

/* Another rank that this one exchanges messages with. */
struct peer {
    char name[RANK_HOST_BYTES + 32], host[RANK_HOST_BYTES];     /* constant once is_known */
    /* Used by the communication thread only: */
    struct envelope envelope;           /* of the next message from it */
    struct mpi_request request;
    struct message *incoming;           /* whose payload is being received; NULL: an envelope is being received */
    /* Guarded by the lock: */
    bool is_known, is_silent;
    bool has_heartbeat_queued;          /* the latest heartbeat to it was not sent yet */
    uint32_t age;                       /* polls of the heartbeat thread since its last heartbeat */
    struct rank_heartbeat heartbeat;
    struct message *first, **end;       /* that have arrived and wait for ranks_receive */
};

struct ranks {
    struct launcher launcher;
    const struct mpi_module *module;
    char library[MPI_MODULE_TEXT_BYTES];
    struct peer *peers;                 /* [rank]; rank 0 uses those of all others, the others only that of rank 0 */
    struct wakeup *wakeup;
    uint32_t announced_received;        /* messages; used by the communication thread only */
    struct thread *communication, *heartbeat;
    atomic_uint_fast64_t turns;         /* of the communication thread's loop, which the heartbeat thread watches */
    /* While the wake-up is being connected (struct rank_wait): the rank that is missing, and whether only its answer
     * is. */
    atomic_uint unconnected;
    atomic_bool lacks_answer;
    _Atomic(const char *) call;         /* of MPI, in which the communication thread may block now; NULL: none */
    _Atomic(const char *) phase;
    atomic_uint_fast64_t step, bucket;
    uint32_t deadline_s;                /* constant */
    char host[RANK_HOST_BYTES];
    pthread_mutex_t lock;               /* guards what follows, and parts of the peers */
    pthread_cond_t changed;             /* main waits: a message, a failure, opened, connected, handled */
    pthread_cond_t heartbeat_changed;   /* heartbeat_ends is set */
    bool is_open, is_closing, heartbeat_ends;
    bool are_connected;                 /* by the wake-up; only the communication thread writes, and reads without the lock */
    int open_code;                      /* why it could not be opened; 0: it is open, or not yet */
    struct outgoing *out_first, **out_end;      /* queued */
    uint32_t out_count;                 /* queued or in flight */
    struct ranks_job *job_first, **job_end;     /* submitted */
    uint32_t job_count;                 /* submitted or in work */
    bool are_jobs_abandoned;
    bool was_job_abandoned;             /* ever: its messages may be in flight until the process ends */
    void (*handle)(void *arg, const struct message *message);
    void *handle_arg;
    bool is_handling;
    struct stop *stop;                  /* of ranks_set_stop; NULL: none. Written by main only, not while is_failing */
    bool is_failing;                    /* a thread is reporting the failure to `stop`, the log and the peers */
    bool has_failed;
    bool has_lost_message;              /* out of memory for one that another rank may wait for */
    struct failure failure;
    uint32_t failed_polls;              /* of the heartbeat thread since the failure */
};

/* The ranks that this one exchanges messages with: [first, end). */
static inline uint32_t peers_first(const struct ranks *ranks)
{
    return ranks->launcher.rank == 0 ? 1 : 0;
}
static inline uint32_t peers_end(const struct ranks *ranks)
{
    return ranks->launcher.rank == 0 ? ranks->launcher.size : 1;
}

/* ---- messages.c; called by the communication thread ---- */

/* Begin to receive from all peers. 0, or an error of the MPI library with the peer's rank in *peer_out. */
int messages_begin(struct ranks *ranks, uint32_t *peer_out);
/* Send what is queued, and handle what has arrived or was sent. *moved_out becomes true if there was anything.
 * Errors as above; `in_flight` are messages that are being sent. */
int messages_advance(struct ranks *ranks, struct outgoing **in_flight, bool *moved_out, uint32_t *peer_out);
/* Cancel what is being received. */
void messages_end(struct ranks *ranks);

/* ---- rank_heartbeat.c; called without the lock ---- */

/* The thread. */
void rank_heartbeat_loop(void *ranks);
/* Send a heartbeat to a peer, unless the previous one is still queued. */
void rank_heartbeat_send(struct ranks *ranks, uint32_t to);
/* A heartbeat has arrived. */
void rank_heartbeat_receive(struct ranks *ranks, uint32_t from, const struct rank_heartbeat *heartbeat);
/* MESSAGE_FAILURE has arrived. */
void ranks_receive_failure(struct ranks *ranks, uint32_t from, const struct failure *failure);
/* This process has detected a failure: print the message, end the run, and report it to the other ranks. Only the first
 * failure counts. */
void ranks_fail(struct ranks *ranks, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
