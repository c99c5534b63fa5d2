/* Finds the launcher that started this process, and loads the MPI module for it. Called by main before there are other
 * threads. */
#include "sync/ranks/launcher.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stage/text/decimal.h"
#include "sync/ranks/mpi_module.h"

/* What differs between the MPI libraries. */
static const struct {
    const char *name, *file, *package, *srun;
} libraries[] = {
    [MPI_LIBRARY_OPENMPI] = { "Open MPI", "pipetrain-openmpi.so", "libopenmpi-dev", "srun --mpi=pmix" },
    [MPI_LIBRARY_MPICH] = { "MPICH", "pipetrain-mpich.so", "libmpich-dev", "srun --mpi=pmi2" },
};

#define ABORTED_MS 1000         /* the longest wait for the launcher to kill this process */

static const char srun_name[] = "srun";

static __attribute__((format(printf, 2, 3))) int launcher_refuse(char *reason, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, LAUNCHER_REASON_BYTES, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

/* ---- the environment ---- */

static bool is_set(const char *variable)
{
    return getenv(variable) != NULL;
}

/* Read a variable that has to be set to a number from `least` to `most`. */
static int read_number(const char *variable, uint32_t least, uint32_t most, uint32_t *number_out, char *reason)
{
    const char *const text = getenv(variable);
    uint64_t number;
    if (text == NULL)
        return launcher_refuse(reason, "%s is not set, but other variables of the same launcher are", variable);
    if (!decimal_u64(text, &number) || number < least || number > most)
        return launcher_refuse(reason, "%s is \"%.40s\": a number from %u to %u is expected", variable, text, least,
                               most);
    *number_out = (uint32_t)number;
    return 0;
}

/* Returns 0 if the variable is unset or has this value. */
static int check_number(const char *variable, uint32_t number, const char *other_variable, char *reason)
{
    uint32_t value = 0;
    if (!is_set(variable))
        return 0;
    const int rc = read_number(variable, 0, UINT32_MAX, &value, reason);
    if (rc == 0 && value != number)
        return launcher_refuse(reason, "%s is %u, but %s is %u: one launcher was started by another, or variables of "
                               "an earlier one are left in the environment", variable, value, other_variable, number);
    return rc;
}

/* Returns the number of processes that a variable of an unsupported launcher states; 0: it is not set, or no such
 * number. */
static uint32_t processes_named(const char *variable)
{
    const char *const text = getenv(variable);
    uint64_t number;
    return text != NULL && decimal_u64(text, &number) && number <= UINT32_MAX ? (uint32_t)number : 0;
}

/* ---- srun ---- */

/* Read an entry of a list such as "4(x2),3", which means 4 tasks on each of 2 nodes, then 3 on one. Returns the end of
 * the entry, or NULL if it is invalid. */
static const char *read_tasks_entry(const char *text, uint64_t *tasks_out, uint64_t *nodes_out)
{
    const char *end = decimal_u64_start(text, tasks_out);
    *nodes_out = 1;
    if (end != NULL && strncmp(end, "(x", 2) == 0) {
        end = decimal_u64_start(end + 2, nodes_out);
        if (end == NULL || *end++ != ')')
            return NULL;
    }
    return end != NULL && (*end == ',' || *end == '\0') ? end : NULL;
}

/* Read the number of tasks of this step on this node. The list has an entry for every node of the step. */
static int read_tasks_of_node(uint32_t size, uint32_t *tasks_out, char *reason)
{
    const char *const variable = is_set("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE"
                                                                     : "SLURM_TASKS_PER_NODE";
    const char *const list = getenv(variable);
    uint32_t node = 0;
    const int rc = read_number("SLURM_NODEID", 0, size - 1, &node, reason);
    if (rc != 0)
        return rc;
    if (list == NULL)
        return launcher_refuse(reason, "%s is not set, but SLURM_STEP_NUM_TASKS is", variable);
    uint64_t first = 0, tasks, nodes;
    for (const char *entry = list; (entry = read_tasks_entry(entry, &tasks, &nodes)) != NULL; entry++) {
        if (node - first < nodes && tasks >= 1 && tasks <= size) {
            *tasks_out = (uint32_t)tasks;
            return 0;
        }
        if (nodes > node - first || *entry == '\0')
            break;
        first += nodes;
    }
    return launcher_refuse(reason, "%s is \"%.60s\", which has no number of tasks from 1 to %u for node %u "
                           "(SLURM_NODEID)", variable, list, size, node);
}

static int find_srun(struct launcher *found, char *reason)
{
    int rc;
    found->name = srun_name;
    if ((rc = read_number("SLURM_STEP_NUM_TASKS", 1, LAUNCHER_RANKS_MAX, &found->size, reason)) != 0 ||
        (rc = read_number("SLURM_PROCID", 0, found->size - 1, &found->rank, reason)) != 0 ||
        (rc = read_tasks_of_node(found->size, &found->local_size, reason)) != 0 ||
        (rc = read_number("SLURM_LOCALID", 0, found->local_size - 1, &found->local_rank, reason)) != 0)
        return rc;
    const bool has_pmi2 = is_set("PMI_RANK") && (is_set("PMI_FD") || is_set("PMI_PORT"));
    const char *const type = getenv("SLURM_MPI_TYPE");
    /* PMIX_RANK may be left from the step in which this srun was called. */
    const bool is_pmi2 = has_pmi2 && (!is_set("PMIX_RANK") || (type != NULL && strcmp(type, "pmi2") == 0));
    if (is_pmi2) {
        found->mpi = MPI_LIBRARY_MPICH;
        rc = check_number("PMI_SIZE", found->size, "SLURM_STEP_NUM_TASKS", reason);
        return rc != 0 ? rc : check_number("PMI_RANK", found->rank, "SLURM_PROCID", reason);
    }
    if (is_set("PMIX_RANK")) {
        found->mpi = MPI_LIBRARY_OPENMPI;
        return check_number("PMIX_RANK", found->rank, "SLURM_PROCID", reason);
    }
    if (found->size == 1)
        return 0;
    return launcher_refuse(reason, "srun started %u tasks with neither PMIx nor PMI2, so they cannot find each other: "
                           "for one run of %u ranks, use srun --mpi=pmix (Open MPI) or srun --mpi=pmi2 (MPICH); for "
                           "independent runs, such as seeds, use srun env -u SLURM_STEP_NUM_TASKS ./pipetrain ...",
                           found->size, found->size);
}

/* ---- mpirun ---- */

static int find_openmpi(struct launcher *found, char *reason)
{
    int rc;
    found->mpi = MPI_LIBRARY_OPENMPI;
    found->name = "mpirun of Open MPI";
    if ((rc = read_number("OMPI_COMM_WORLD_SIZE", 1, LAUNCHER_RANKS_MAX, &found->size, reason)) != 0 ||
        (rc = read_number("OMPI_COMM_WORLD_RANK", 0, found->size - 1, &found->rank, reason)) != 0 ||
        (rc = read_number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, found->size, &found->local_size, reason)) != 0 ||
        (rc = read_number("OMPI_COMM_WORLD_LOCAL_RANK", 0, found->local_size - 1, &found->local_rank, reason)) != 0)
        return rc;
    return check_number("PMIX_RANK", found->rank, "OMPI_COMM_WORLD_RANK", reason);
}

static int find_mpich(struct launcher *found, char *reason)
{
    int rc;
    found->mpi = MPI_LIBRARY_MPICH;
    found->name = "mpirun of MPICH";
    if (!is_set("PMI_RANK") && is_set("PMI_PORT"))
        return launcher_refuse(reason, "mpirun of MPICH does not say which rank this is: use it without -pmi-port");
    if ((rc = read_number("PMI_SIZE", 1, LAUNCHER_RANKS_MAX, &found->size, reason)) != 0 ||
        (rc = read_number("PMI_RANK", 0, found->size - 1, &found->rank, reason)) != 0 ||
        (rc = read_number("MPI_LOCALNRANKS", 1, found->size, &found->local_size, reason)) != 0)
        return rc;
    return read_number("MPI_LOCALRANKID", 0, found->local_size - 1, &found->local_rank, reason);
}

/* ---- launchers that are refused ---- */

/* Checked before other launchers: torchrun starts its processes itself, even if a launcher started torchrun. */
static int refuse_torchrun(char *reason)
{
    const uint32_t processes = is_set("TORCHELASTIC_RUN_ID") ? processes_named("WORLD_SIZE") : 0;
    if (processes <= 1)
        return 0;
    return launcher_refuse(reason, "torchrun started %u processes, but pipetrain is started by MPI launchers: use "
                           "mpirun -n %u ./pipetrain ..., or one process with --set devices.towers=%u", processes,
                           processes, processes);
}

/* Under a launcher that sets none of the variables above, each of its processes would start a run of its own. */
static int refuse_unknown(char *reason)
{
    static const char *const sizes[] = { "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "HOROVOD_SIZE" };
    const bool is_distributed = is_set("MASTER_ADDR") && is_set("RANK");
    const uint32_t workers = is_distributed ? processes_named("WORLD_SIZE") : 0;
    if (workers > 1)
        return launcher_refuse(reason, "RANK, WORLD_SIZE and MASTER_ADDR say that this is one of %u processes of "
                               "PyTorch: use mpirun -n %u ./pipetrain ..., or one process with --set "
                               "devices.towers=%u, without them (env -u WORLD_SIZE)", workers, workers, workers);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const uint32_t processes = processes_named(sizes[i]);
        if (processes > 1)
            return launcher_refuse(reason, "a launcher started %u processes (%s) in a way that pipetrain does not "
                                   "know: use mpirun of Open MPI or MPICH, srun --mpi=pmix or srun --mpi=pmi2",
                                   processes, sizes[i]);
    }
    if (is_set("PMIX_RANK"))
        return launcher_refuse(reason, "a launcher set PMIX_RANK, but not the number of processes: use mpirun of Open "
                               "MPI or srun --mpi=pmix");
    return 0;
}

/* ---- the order ---- */

/* mpirun is looked for before srun: under Slurm it starts its daemons with srun, whose variables count the daemons. */
static int find_any(struct launcher *found, char *reason)
{
    const bool has_openmpi = is_set("OMPI_COMM_WORLD_SIZE");
    const bool has_mpich = is_set("MPI_LOCALNRANKS") && (is_set("PMI_RANK") || is_set("PMI_PORT"));
    if (has_openmpi && has_mpich)
        return launcher_refuse(reason, "variables of mpirun of Open MPI (OMPI_COMM_WORLD_SIZE) and of MPICH "
                               "(MPI_LOCALNRANKS) are set: one was started by the other, or its variables are left in "
                               "the environment");
    if (has_openmpi)
        return find_openmpi(found, reason);
    if (has_mpich)
        return find_mpich(found, reason);
    if (is_set("SLURM_STEP_NUM_TASKS"))
        return find_srun(found, reason);
    /* This is a batch script, a shell of salloc, or a task of srun that the user has made an independent run. */
    if (is_set("SLURM_PROCID") || is_set("SLURM_JOB_ID"))
        return 0;
    return refuse_unknown(reason);
}

int launcher_find(struct launcher *launcher_out, char reason[LAUNCHER_REASON_BYTES])
{
    static const struct launcher alone = { .mpi = MPI_LIBRARY_NONE, .rank = 0, .size = 1, .local_rank = 0,
                                           .local_size = 1 };
    struct launcher found = alone;
    int rc = refuse_torchrun(reason);
    if (rc == 0)
        rc = find_any(&found, reason);
    if (rc == 0)
        *launcher_out = found.size > 1 ? found : alone;
    return rc;
}

/* The variables of rank and size of each launcher, and one that only this launcher sets: SLURM_PROCID is also set in a
 * batch script. */
static const struct { const char *rank, *size, *launcher; } numbers[] = {
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE" },
    { "PMI_RANK", "PMI_SIZE", "PMI_RANK" },
    { "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE" },
    { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS" },
    { "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_SIZE" },
    { "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID" },
    { "RANK", "WORLD_SIZE", "MASTER_ADDR" },
};
enum { LAUNCHERS = sizeof(numbers) / sizeof(*numbers) };

/* Where the variables of several launchers are set, a process that is rank 0 of any of them counts as rank 0. */
int64_t launcher_rank(void)
{
    int64_t found = -1;
    for (size_t i = 0; i < LAUNCHERS && found != 0; i++) {
        const char *const text = is_set(numbers[i].launcher) ? getenv(numbers[i].rank) : NULL;
        uint64_t number;
        if (text != NULL && decimal_u64(text, &number) && number <= UINT32_MAX && (found < 0 || number == 0))
            found = (int64_t)number;
    }
    return found;
}

uint32_t launcher_processes(void)
{
    uint32_t found = 0;
    for (size_t i = 0; i < LAUNCHERS && found == 0; i++)
        found = is_set(numbers[i].launcher) ? processes_named(numbers[i].size) : 0;
    return found;
}

/* Find the connection to mpirun of MPICH. Returns the process at its other end; 0: there is no connection. */
static int find_mpich_launcher(int *descriptor_out)
{
    const char *const text = getenv("PMI_FD");
    struct ucred other;
    socklen_t bytes = sizeof(other);
    const int descriptor = text != NULL && is_set("MPI_LOCALNRANKS") ? atoi(text) : 0;
    if (descriptor <= 0 || getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &other, &bytes) != 0)
        return 0;
    *descriptor_out = descriptor;
    return other.pid;
}

int launcher_mpich_process(void)
{
    int descriptor;
    return find_mpich_launcher(&descriptor);
}

/* Sends a command of PMI-1, the protocol between MPICH and its launcher. */
void launcher_abort(int code)
{
    int descriptor;
    char command[32];
    if (find_mpich_launcher(&descriptor) == 0)
        return;
    snprintf(command, sizeof(command), "cmd=abort exitcode=%d\n", code);
    if (send(descriptor, command, strlen(command), MSG_NOSIGNAL) > 0)
        (void)poll(NULL, 0, ABORTED_MS);
}

int launcher_check(const struct launcher *launcher, uint32_t mpi_rank, uint32_t mpi_size,
                   char reason[LAUNCHER_REASON_BYTES])
{
    if (mpi_rank == launcher->rank && mpi_size == launcher->size)
        return 0;
    const char *const library = libraries[launcher->mpi].name;
    if (launcher->name == srun_name)
        return launcher_refuse(reason, "srun started rank %u of %u, but for %s it is rank %u of %u: this %s does not "
                               "speak to this Slurm; use mpirun -n %u ./pipetrain ... in sbatch or salloc",
                               launcher->rank, launcher->size, library, mpi_rank, mpi_size, library, launcher->size);
    return launcher_refuse(reason, "%s started rank %u of %u, but for the library it is rank %u of %u: mpirun and the "
                           "library are of different installations; use the mpirun of the %s that pipetrain was built "
                           "with", launcher->name, launcher->rank, launcher->size, mpi_rank, mpi_size, library);
}

/* ---- modules ---- */

/* Find the program's file; without /proc, from the path by which it was started, with links resolved. */
static bool find_program(char path[PATH_MAX])
{
    const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length > 0)
        path[length] = '\0';
    const char *const started_by = (const char *)getauxval(AT_EXECFN);
    return length > 0 || (started_by != NULL && realpath(started_by, path) != NULL);
}

/* Write the path of a file in the program's folder. False if the path is too long. */
static bool path_beside_program(const char *file, char path[PATH_MAX])
{
    if (!find_program(path))
        return false;
    char *const name = strrchr(path, '/') + 1;
    const size_t room = (size_t)(path + PATH_MAX - name);
    return (size_t)snprintf(name, room, "%s", file) < room;
}

static bool module_path(enum mpi_library library, char path[PATH_MAX])
{
    if (path_beside_program(libraries[library].file, path) && access(path, F_OK) == 0)
        return true;
    snprintf(path, PATH_MAX, PKGLIBDIR "/%s", libraries[library].file);
    return access(path, F_OK) == 0;
}

static int refuse_missing(const struct launcher *launcher, char *reason)
{
    char path[PATH_MAX];
    const enum mpi_library other = launcher->mpi == MPI_LIBRARY_OPENMPI ? MPI_LIBRARY_MPICH : MPI_LIBRARY_OPENMPI;
    const bool is_srun = launcher->name == srun_name;
    const char *const started = is_srun ? libraries[launcher->mpi].srun : launcher->name;
    const int length = snprintf(reason, LAUNCHER_REASON_BYTES, "%s started %u processes, but pipetrain was built "
                                "without %s: install it (Debian: %s), then ./configure and make again", started,
                                launcher->size, libraries[launcher->mpi].name, libraries[launcher->mpi].package);
    if (module_path(other, path))
        snprintf(reason + length, LAUNCHER_REASON_BYTES - (size_t)length, "; or use %s%s", is_srun ? "" : "mpirun of ",
                 is_srun ? libraries[other].srun : libraries[other].name);
    return -ENOENT;
}

int launcher_load(const struct launcher *launcher, const struct mpi_module **module_out,
                  char reason[LAUNCHER_REASON_BYTES])
{
    char path[PATH_MAX];
    if (!module_path(launcher->mpi, path))
        return refuse_missing(launcher, reason);
    void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return launcher_refuse(reason, "cannot load the module for %s: %.300s", libraries[launcher->mpi].name,
                               dlerror());
    const struct mpi_module *const module = dlsym(library, MPI_MODULE_SYMBOL);
    if (module == NULL || module->version != MPI_MODULE_VERSION)
        return launcher_refuse(reason, "%.300s is of another version of pipetrain: run make, or make install, again",
                               path);
    *module_out = module;
    return 0;
}
