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
/* For processes whose environment is refused, too, and as far as it tells: the number of this process, -1 where it names no
 * launcher, and how many there are, 0 where that is not plain. */
int64_t launcher_rank(void);
uint32_t launcher_processes(void);
/* The process of mpirun of MPICH on this host, of which all its ranks here are children; 0: it did not start this one. */
int launcher_mpich_process(void);
/* Have that mpirun end all ranks on all hosts, with this code: it would let them wait in MPI_Init for one that ends before
 * that, and end with 1 where one ends in it. This one is killed, or goes on where another launcher started it. */
void launcher_abort(int code);
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
