/* What a launcher of MPI programs (mpirun, srun) left in the environment: which MPI library it speaks to, and which of
 * its processes this is. Nothing of MPI is loaded to find that out. */
#ifndef PIPETRAIN_LAUNCHER_H
#define PIPETRAIN_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCHER_REASON_BYTES 512u
#define LAUNCHER_RANKS_MAX 65536u

enum mpi_library {
    MPI_LIBRARY_NONE,           /* no launcher, or one that started a single process: the program runs alone */
    MPI_LIBRARY_OPENMPI,
    MPI_LIBRARY_MPICH           /* and those with its ABI */
};

struct launcher {
    enum mpi_library mpi;
    uint32_t rank, size;        /* of this process, of the run; 0 and 1 for MPI_LIBRARY_NONE */
    uint32_t local_rank, local_size;    /* the same among the processes on this host */
    const char *name;           /* in words: "mpirun of Open MPI", "srun"; NULL: none */
};

/* Read the environment, strictly. 0, or -EINVAL where variables contradict each other, or name a launcher that this
 * program cannot run under; `reason` then says what, and with which command it would work. */
int launcher_find(struct launcher *launcher_out, char reason[LAUNCHER_REASON_BYTES]);
/* When something is wrong for all processes of a launcher, only the first one should print it. Is it this one, as far as the
 * environment tells? True in rank 0, and where the environment names no launcher; it may be true in other ranks, too. */
bool launcher_is_first(void);
/* After MPI_Init: does MPI agree with the launcher? 0, or -EINVAL with a reason. */
int launcher_check(const struct launcher *launcher, uint32_t mpi_rank, uint32_t mpi_size,
                   char reason[LAUNCHER_REASON_BYTES]);

/* Load the module of a library (mpi_module.h): from the folder of the program (/proc/self/exe) or, if it is not there,
 * the folder of installed modules. It stays loaded until the process ends. 0, or -ENOENT or -EINVAL with a reason that
 * says what to do: this program was built without that MPI, or its library is not there. */
struct mpi_module;
int launcher_load(const struct launcher *launcher, const struct mpi_module **module_out,
                  char reason[LAUNCHER_REASON_BYTES]);

#endif
