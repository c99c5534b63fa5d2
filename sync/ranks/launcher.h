/* Finds the launcher of MPI programs (mpirun, srun) that started this process, from environment variables: the MPI
 * library that the launcher belongs to, and the rank of this process. This does not load the MPI library. */
#ifndef PIPETRAIN_LAUNCHER_H
#define PIPETRAIN_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCHER_REASON_BYTES 512u
#define LAUNCHER_RANKS_MAX 65536u

enum mpi_library {
    MPI_LIBRARY_NONE,           /* no launcher, or one that started a single process: the program runs alone */
    MPI_LIBRARY_OPENMPI,
    MPI_LIBRARY_MPICH           /* and libraries with its ABI */
};

struct launcher {
    enum mpi_library mpi;
    uint32_t rank, size;        /* of this process, and of the run; 0 and 1 for MPI_LIBRARY_NONE */
    uint32_t local_rank, local_size;    /* rank and size among the processes on this host */
    const char *name;           /* "mpirun of Open MPI", "srun"; NULL: none */
};

/* Read the environment. 0, or -EINVAL if variables contradict each other or belong to a launcher that is not supported;
 * `reason` then describes the problem and names the command to use instead. */
int launcher_find(struct launcher *launcher_out, char reason[LAUNCHER_REASON_BYTES]);
/* The rank of this process, or -1 without a launcher; and the number of processes, or 0 if it is unknown. Both can also
 * be called after launcher_find returned -EINVAL. */
int64_t launcher_rank(void);
uint32_t launcher_processes(void);
/* The process of mpirun of MPICH on this host, which is the parent of all its ranks here; 0: another launcher. */
int launcher_mpich_process(void);
/* Make mpirun of MPICH end all ranks on all hosts, this process too, and exit with this code. By itself mpirun would
 * let the others wait in MPI_Init for a rank that ended earlier, and would exit with 1 if a rank ended in MPI_Init.
 * Does nothing under another launcher. */
void launcher_abort(int code);
/* After MPI_Init: check that rank and size are those of the launcher. 0, or -EINVAL with a reason. */
int launcher_check(const struct launcher *launcher, uint32_t mpi_rank, uint32_t mpi_size,
                   char reason[LAUNCHER_REASON_BYTES]);

/* Load the module for the launcher's library (mpi_module.h) from the folder of the program (/proc/self/exe) or, if it
 * is not there, from the folder of installed modules. It stays loaded until the process ends. 0; or, with a reason and
 * the fix: -ENOENT if the program was built without this library, -EINVAL if the module cannot be loaded. */
struct mpi_module;
int launcher_load(const struct launcher *launcher, const struct mpi_module **module_out,
                  char reason[LAUNCHER_REASON_BYTES]);

#endif
