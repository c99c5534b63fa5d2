/* What launchers put into the environment. */
#include "tools/launcher.h"

#include <stdlib.h>

#include "stage/log.h"
#include "stage/text/decimal.h"

/* Each has the number of processes and the number of this one. */
static const struct { const char *name, *size, *rank; } launchers[] = {
    { "mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK" },      /* Open MPI */
    { "mpirun", "PMI_SIZE", "PMI_RANK" },                              /* MPICH and its relatives */
    { "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID" },
};

/* 0 where the variable is not set, or is no number. */
static uint64_t number_in(const char *variable)
{
    const char *const text = getenv(variable);
    uint64_t number;
    return text != NULL && decimal_u64(text, &number) ? number : 0;
}

bool launcher_refuses(void)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers); i++) {
        const uint64_t processes = number_in(launchers[i].size);
        if (processes < 2)
            continue;
        if (number_in(launchers[i].rank) == 0)
            log_message(LOG_ERROR, "%s started %llu processes (%s), but a run is one process: start one, which uses all "
                        "GPUs or cores of a machine with --set devices.towers=N", launchers[i].name,
                        (unsigned long long)processes, launchers[i].size);
        return true;
    }
    return false;
}
