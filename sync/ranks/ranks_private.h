/* Internals of struct ranks, shared by ranks.c (opening, the communication thread), messages.c and rank_heartbeat.c. */
#ifndef PIPETRAIN_RANKS_PRIVATE_H
#define PIPETRAIN_RANKS_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "stage/thread.h"
#include "sync/ranks/rank_hosts.h"
#include "sync/ranks/ranks.h"
#include "sync/ranks/wakeup.h"

#define RANK_PHASE_BYTES 32u
#define RANK_TEXT_BYTES 400u            /* of the message of a failure */

/* The data of MESSAGE_HEARTBEAT. */
struct rank_heartbeat {
    uint64_t step, bucket;              /* RANKS_NONE: no step or bucket */
    /* To the parent: the least of ranks_set_sums of the sender and the ranks below it; from the parent: ranks_sums. */
    uint64_t sums;
    char phase[RANK_PHASE_BYTES], host[RANK_HOST_BYTES];
};
struct failure {
    int32_t code;
    uint32_t origin;                    /* the rank that has failed, or has found that another is silent */
    uint32_t silent;                    /* a rank that is silent; RANK_NOBODY: the cause is another */
    char text[RANK_TEXT_BYTES];
};
#define RANK_NOBODY UINT32_MAX

/* Tags of MPI messages; those from RANKS_TAG_FREE on are for jobs. */
/* rank_memory_connect also uses WAKEUP_TAG + 1, and rank_hosts_exchange HOSTS_TAG + 1. */
enum { ENVELOPE_TAG = 1, PAYLOAD_TAG = 2, WAKEUP_TAG = 3, HOSTS_TAG = 5 };

#define EAGER_BYTES 496u                /* data up to this size is sent within the envelope */

/* The first part of a message, sent with ENVELOPE_TAG. Data that does not fit follows with PAYLOAD_TAG. */
struct envelope {
    uint32_t bytes;                     /* at most MPI_MODULE_MESSAGE_MAX */
    /* With a tree: the rank that sends it to rank 0, or to which rank 0 sends it, RANK_ALL: all; else 0. Not for
     * MESSAGE_HEARTBEAT and MESSAGE_FAILURE, which go from neighbour to neighbour. */
    uint32_t other;
    uint16_t kind;                      /* enum message_kind */
    uint16_t is_bundle;                 /* it consists of messages of this kind from several ranks to rank 0 */
    uint32_t is_announced;              /* wakeup_announce has counted the message */
    unsigned char data[EAGER_BYTES];
};
#define RANK_ALL UINT32_MAX

/* Messages to rank 0 that a rank collects of the ranks below it and of itself, to send them to its parent as one. Of the
 * kinds that are collected every rank sends equally many. The messages wait for those of the others with the same
 * number; not after a failure, and not if they are many bytes. Used with the lock of the ranks. */
struct collection {
    unsigned char *data;                /* a struct bundle_head, and the messages, each behind a struct bundled */
    size_t used, room;
    uint32_t *counts;                   /* [neighbour]: messages that came from below it; neighbour 0, the parent: own */
    uint32_t sent;                      /* as many messages of each rank were sent to the parent */
};
enum { COLLECTED_KINDS = 3 };           /* MESSAGE_COLLECTIVE, MESSAGE_REPORT, MESSAGE_COUNTS */

/* A message that is queued or in flight. */
struct outgoing {
    struct outgoing *next;
    uint32_t to;                        /* the rank that it is sent to next: a neighbour */
    struct mpi_request requests[2];     /* of the envelope and of the payload */
    bool has_passed[2];
    struct envelope envelope;
    unsigned char data[];
};

#define RANK_NUMBER_BYTES 16u           /* "rank 65535" */

/* A rank of the run. */
struct peer {
    /* "rank 2 (node7)", or "rank 2" before is_known or for lack of memory; constant then. Names stay valid until
     * ranks_close. */
    _Atomic(const char *) name;
    char *known_name;                   /* NULL: not known */
    const char *host;                   /* a part of the struct neighbour, or of rank_hosts */
    /* Guarded by the lock: */
    bool is_known, is_silent;
    struct message *first, **end;       /* received messages for ranks_receive */
};

/* A rank with which this process exchanges messages. */
struct neighbour {
    uint32_t rank;
    /* Used by the communication thread only: */
    struct envelope envelope;           /* of the next message from it */
    struct mpi_request request;
    /* The message whose payload is being received; NULL: an envelope is being received. */
    struct message *incoming;
    /* Guarded by the lock: */
    bool has_heartbeat_queued;          /* the latest heartbeat to it is not sent yet */
    uint32_t age;                       /* polls of the heartbeat thread since its last heartbeat */
    struct rank_heartbeat heartbeat;
    char host[RANK_HOST_BYTES];         /* of its first heartbeat */
};

/* A communication thread. Thread 0 exchanges the messages of messages.c, too. */
struct communication_thread {
    struct ranks *ranks;
    uint32_t number;
    struct thread *thread;
    /* Turns of the thread's loop, which the heartbeat thread watches. */
    atomic_uint_fast64_t turns;
    /* Guarded by the lock: */
    struct ranks_job *job_first, **job_end;     /* submitted */
    uint32_t job_count;                 /* submitted or being executed */
    bool are_jobs_abandoned;            /* the thread is to drop its jobs */
};

struct ranks {
    struct launcher launcher;
    const struct mpi_module *module;
    char library[MPI_MODULE_TEXT_BYTES];
    struct peer *peers;                 /* [rank] */
    char (*numbers)[RANK_NUMBER_BYTES]; /* [rank]: names of ranks on unknown hosts */
    /* The ranks with which this one exchanges messages: other ranks' first one is the parent, the others are children.
     * With few ranks all others are children of rank 0. With many they are set when the ranks have connected, and then
     * constant: an acquired count that is not 0 makes them visible. */
    struct neighbour *neighbours;
    atomic_uint neighbour_count;
    uint32_t *parents;                  /* [rank]; NULL: of all it is rank 0 */
    struct collection collections[COLLECTED_KINDS];     /* guarded by the lock */
    struct rank_hosts *hosts;
    bool are_hosts_known;               /* used by the communication thread only */
    struct wakeup *wakeup;
    /* Announced messages that were received; used by the communication thread only. */
    uint32_t announced_received;
    struct thread *heartbeat;
    struct communication_thread threads[RANKS_THREADS_MAX];
    atomic_uint thread_count;           /* 1 until MPI is initialized */
    /* While the ranks are being connected: the rank of which a message is missing, and whether this message is an answer
     * (struct rank_wait). */
    atomic_uint unconnected;
    atomic_bool lacks_answer;
    /* The MPI function in which the communication thread may block now; NULL: none. */
    _Atomic(const char *) call;
    _Atomic(const char *) phase;
    atomic_uint_fast64_t step, bucket;
    atomic_uint_fast64_t sums;          /* of ranks_set_sums and ranks_add_sum */
    atomic_uint waiting_jobs;           /* between ranks_begin_wait and ranks_end_wait */
    atomic_uint_fast64_t moves;         /* of ranks_note_move */
    atomic_uint awaited, awaited_round; /* of ranks_wait_for */
    uint32_t reductions;                /* calls of ranks_number_reduction; used by main only */
    uint32_t deadline_s;                /* constant */
    char host[RANK_HOST_BYTES];
    pthread_mutex_t lock;               /* guards the members below, and parts of the peers */
    /* Main waits for it: a message, a failure, or a change of is_open, are_connected or is_handling. */
    pthread_cond_t changed;
    pthread_cond_t heartbeat_changed;   /* heartbeat_ends is set */
    bool is_open, is_closing, heartbeat_ends;
    /* The wake-up is connected; written only by the communication thread, which reads it without the lock. */
    bool are_connected;
    int open_code;                      /* the exit code if opening failed; 0: it succeeded or has not ended */
    struct outgoing *out_first, **out_end;      /* queued */
    uint32_t out_count;                 /* queued or in flight */
    /* A job was ever abandoned: its messages may be in flight until the process ends. */
    bool was_job_abandoned;
    void (*handle)(void *arg, const struct message *message);
    void *handle_arg;
    bool is_handling;
    /* Of ranks_set_stop; NULL: none. Written by main only, and not while is_failing. */
    struct stop *stop;
    bool is_failing;                    /* a thread is reporting the failure to `stop`, the log and the peers */
    bool has_failed;
    bool has_lost_message;              /* a message for which another rank may wait was lost for lack of memory */
    /* This process found that a rank, or its own MPI library, stands still, and may never end without the launcher. */
    bool needs_launcher;
    struct failure failure;
    uint32_t failed_polls;              /* polls since the failure in which this process could not end by itself */
};

static inline uint32_t neighbour_count(const struct ranks *ranks)
{
    return atomic_load(&((struct ranks *)ranks)->neighbour_count);
}

/* The neighbour with this rank, which is one. */
static inline struct neighbour *neighbour_of(const struct ranks *ranks, uint32_t rank)
{
    struct neighbour *neighbour = ranks->neighbours;
    while (neighbour->rank != rank)
        neighbour++;
    return neighbour;
}

/* Name a rank whose host is known. `host` is kept. Lock held. */
void ranks_know(struct ranks *ranks, uint32_t rank, const char *host);

/* ---- messages.c; called by the communication thread ---- */

/* Post the first receive for every neighbour. 0, or an error of the MPI library with the peer's rank in *peer_out. */
int messages_begin(struct ranks *ranks, uint32_t *peer_out);
/* Send the queued messages, and handle those that were received or sent; *moved_out becomes true if there were any.
 * Errors as for messages_begin. `in_flight`: the messages that are being sent. */
int messages_advance(struct ranks *ranks, struct outgoing **in_flight, bool *moved_out, uint32_t *peer_out);
/* Cancel the receives from all neighbours. */
void messages_end(struct ranks *ranks);
/* Called when the neighbours are set, if this rank has some below it and is not rank 0: collect messages of the ranks
 * below. 0 or -ENOMEM. */
int messages_collect(struct ranks *ranks);
/* Queue what was collected, because a rank has failed. Lock held. */
void messages_queue_collected(struct ranks *ranks);
/* Can a message between that rank and rank 0 not arrive, because a rank on its way is silent? Lock held. */
bool messages_are_cut(const struct ranks *ranks, uint32_t rank);

/* ---- rank_heartbeat.c; called without the lock ---- */

/* The main function of the heartbeat thread. */
void rank_heartbeat_loop(void *ranks);
/* Send a heartbeat to a peer, unless the previous one is still queued. */
void rank_heartbeat_send(struct ranks *ranks, uint32_t to);
/* Handle a heartbeat from a peer. */
void rank_heartbeat_receive(struct ranks *ranks, uint32_t from, const struct rank_heartbeat *heartbeat);
/* Handle MESSAGE_FAILURE from a peer. */
void ranks_receive_failure(struct ranks *ranks, uint32_t from, const struct failure *failure);
/* Fail the run because of an error that this process has detected: print the message, end the run of this process, and
 * report the failure to the other ranks. Only the first failure counts. */
void ranks_fail(struct ranks *ranks, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
