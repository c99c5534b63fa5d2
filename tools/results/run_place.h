/* The place of a run's directory: entering it, alone, and leaving it as it was. Used by main only. */
#ifndef PIPETRAIN_RUN_PLACE_H
#define PIPETRAIN_RUN_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define RUN_MODEL_FILE "run.net"        /* what model.file held */
#define RUN_EVENTS_FOLDER "tensorboard"

struct run_place {
    char path[PATH_MAX];
    size_t made;                /* length of the shortest path that this run made a directory of, 0: none */
    int fd, lock_fd;            /* -1: not entered */
    bool is_tried;              /* set by the caller: no lock is made, and no file */
    bool is_locked, is_ours;    /* is_ours: nobody else is in it, as far as locks tell */
    char obstacle[192];         /* what stands in the place of a file, or who holds the lock; "" = nothing */
};

void run_place_init(struct run_place *place);
/* Make (with parents), open and lock the directory; the lock's file names this process. 0; -EWOULDBLOCK: another run
 * holds it, told in place->obstacle as far as it is known; or a negative errno, maybe with the reason there: also where
 * what stands in the place of a result is no regular file. Whatever it is, the caller withdraws or not, and leaves. */
int run_place_enter(struct run_place *place, const char *path);
/* The same of the first of base, base-2, ... that holds no run, and that no run is in. -EEXIST: all do. */
int run_place_enter_free(struct run_place *place, const char *base);
/* Is the directory still what its path names? *words_out is "" then, else what became of it, with its path of now where
 * there is one. 0; -ESTALE: it was moved, or another stands in its place; -ENOENT: it was removed, and no file can be
 * written there any more. */
int run_place_look(const struct run_place *place, char *words_out, size_t words_size);
/* Temporary files that runs left which died go, where it is locked. */
void run_place_clear(const struct run_place *place);
/* What was made on entering goes again, as far as nothing else is in it. */
void run_place_withdraw(struct run_place *place);
/* The lock ends, and names nobody. */
void run_place_leave(struct run_place *place);

#endif
