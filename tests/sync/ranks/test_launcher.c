/* Tests of what launchers leave in the environment. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sync/ranks/launcher.h"
#include "tests/helpers/test.h"

enum { VARIABLES_MAX = 12 };

/* An environment, as "NAME=value", and what is found in it: a launcher, or words of the reason it is refused for. */
struct row {
    const char *variables[VARIABLES_MAX];
    struct launcher launcher;
    const char *reason;
};

#define ALONE { .mpi = MPI_LIBRARY_NONE, .rank = 0, .size = 1, .local_rank = 0, .local_size = 1 }
#define OPENMPI_OF(size, rank) "OMPI_COMM_WORLD_SIZE=" size, "OMPI_COMM_WORLD_RANK=" rank, "PMIX_RANK=" rank
#define OPENMPI_LOCAL(size, rank) "OMPI_COMM_WORLD_LOCAL_SIZE=" size, "OMPI_COMM_WORLD_LOCAL_RANK=" rank
#define MPICH_OF(size, rank) "PMI_SIZE=" size, "PMI_RANK=" rank, "PMI_FD=6"
#define MPICH_LOCAL(size, rank) "MPI_LOCALNRANKS=" size, "MPI_LOCALRANKID=" rank
#define SRUN_OF(size, rank) "SLURM_JOB_ID=7", "SLURM_STEP_NUM_TASKS=" size, "SLURM_PROCID=" rank
#define SRUN_LOCAL(tasks, node, rank) "SLURM_STEP_TASKS_PER_NODE=" tasks, "SLURM_NODEID=" node, "SLURM_LOCALID=" rank

static void set_environment(const struct row *row)
{
    clearenv();
    for (size_t i = 0; i < VARIABLES_MAX && row->variables[i] != NULL; i++) {
        char name[64];
        const char *const value = strchr(row->variables[i], '=') + 1;
        snprintf(name, sizeof(name), "%.*s", (int)(value - 1 - row->variables[i]), row->variables[i]);
        assert_int_equal(setenv(name, value, 1), 0);
    }
}

static void check_launcher(const struct launcher *found, const struct launcher *expected)
{
    assert_int_equal(found->mpi, expected->mpi);
    assert_int_equal(found->rank, expected->rank);
    assert_int_equal(found->size, expected->size);
    assert_int_equal(found->local_rank, expected->local_rank);
    assert_int_equal(found->local_size, expected->local_size);
    assert_int_equal(found->name == NULL, expected->name == NULL);
    if (found->name != NULL)
        assert_string_equal(found->name, expected->name);
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct launcher found = { .size = 99 };
        char reason[LAUNCHER_REASON_BYTES] = "";
        set_environment(&rows[i]);
        const int rc = launcher_find(&found, reason);
        if (rc != (rows[i].reason != NULL ? -EINVAL : 0) || (rows[i].reason != NULL && strstr(reason, rows[i].reason) == NULL))
            fail_msg("row %zu: %d, \"%s\"", i, rc, reason);
        assert_true(rc == 0 || found.size == 99);
        if (rc == 0)
            check_launcher(&found, &rows[i].launcher);
    }
}
#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof(*(rows)))

TEST(launchers_of_several_processes_are_found)
{
    static const struct row rows[] = {
        { { OPENMPI_OF("6", "4"), OPENMPI_LOCAL("2", "0") }, { MPI_LIBRARY_OPENMPI, 4, 6, 0, 2, "mpirun of Open MPI" }, NULL },
        { { MPICH_OF("6", "5"), MPICH_LOCAL("3", "2") }, { MPI_LIBRARY_MPICH, 5, 6, 2, 3, "mpirun of MPICH" }, NULL },
        { { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1"), "PMIX_RANK=1" }, { MPI_LIBRARY_OPENMPI, 1, 2, 1, 2, "srun" }, NULL },
        { { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1"), MPICH_OF("2", "1") }, { MPI_LIBRARY_MPICH, 1, 2, 1, 2, "srun" }, NULL },
    };
    CHECK_ROWS(rows);
}

TEST(local_sizes_of_srun_are_those_of_the_node)
{
#define ON_NODE(node, tasks, rank) { SRUN_OF("11", "3"), SRUN_LOCAL(tasks, node, rank), "PMIX_RANK=3" }
    static const struct row rows[] = {
        { ON_NODE("0", "4(x2),3", "3"), { MPI_LIBRARY_OPENMPI, 3, 11, 3, 4, "srun" }, NULL },
        { ON_NODE("1", "4(x2),3", "3"), { MPI_LIBRARY_OPENMPI, 3, 11, 3, 4, "srun" }, NULL },
        { ON_NODE("2", "4(x2),3", "2"), { MPI_LIBRARY_OPENMPI, 3, 11, 2, 3, "srun" }, NULL },
        { ON_NODE("2", "4(x2),3", "3"), ALONE, "SLURM_LOCALID is \"3\": a number from 0 to 2" },
        { ON_NODE("3", "4(x2),3", "0"), ALONE, "no number of tasks from 1 to 11 for node 3" },
        { ON_NODE("0", "", "0"), ALONE, "SLURM_STEP_TASKS_PER_NODE" },
        { ON_NODE("0", "12", "0"), ALONE, "SLURM_STEP_TASKS_PER_NODE" },
        { ON_NODE("0", "0", "0"), ALONE, "SLURM_STEP_TASKS_PER_NODE" },
        { ON_NODE("1", "4(x2", "0"), ALONE, "SLURM_STEP_TASKS_PER_NODE" },
        { ON_NODE("1", "4(2),3", "0"), ALONE, "SLURM_STEP_TASKS_PER_NODE" },
        { ON_NODE("1", "4 (x2)", "0"), ALONE, "SLURM_STEP_TASKS_PER_NODE" },
        { ON_NODE("1", "4,", "0"), ALONE, "SLURM_STEP_TASKS_PER_NODE" },
        { ON_NODE("9", "4(x99999999999999999999)", "0"), ALONE, "SLURM_STEP_TASKS_PER_NODE" },
        { ON_NODE("9", "4(x18446744073709551615)", "0"), { MPI_LIBRARY_OPENMPI, 3, 11, 0, 4, "srun" }, NULL },
        { { SRUN_OF("11", "3"), "SLURM_TASKS_PER_NODE=8,3", "SLURM_NODEID=1", "SLURM_LOCALID=2", "PMIX_RANK=3" },
          { MPI_LIBRARY_OPENMPI, 3, 11, 2, 3, "srun" }, NULL },
        { { SRUN_OF("11", "3"), "SLURM_NODEID=1", "SLURM_LOCALID=2", "PMIX_RANK=3" }, ALONE, "SLURM_TASKS_PER_NODE is not set" },
    };
    CHECK_ROWS(rows);
}

TEST(one_process_runs_without_mpi)
{
    static const struct row rows[] = {
        { { NULL }, ALONE, NULL },
        { { "RANK=3", "WORLD_SIZE=4" }, ALONE, NULL },
        { { OPENMPI_OF("1", "0"), OPENMPI_LOCAL("1", "0") }, ALONE, NULL },
        { { MPICH_OF("1", "0"), MPICH_LOCAL("1", "0") }, ALONE, NULL },
        { { SRUN_OF("1", "0"), SRUN_LOCAL("1", "0", "0") }, ALONE, NULL },
        { { SRUN_OF("1", "0"), SRUN_LOCAL("1", "0", "0"), "PMIX_RANK=0" }, ALONE, NULL },
        { { "MV2_COMM_WORLD_SIZE=1" }, ALONE, NULL },
        { { "TORCHELASTIC_RUN_ID=x", "WORLD_SIZE=1", "RANK=0" }, ALONE, NULL },
        { { "MASTER_ADDR=node1", "WORLD_SIZE=1", "RANK=0" }, ALONE, NULL },
        { { "WORLD_SIZE=8" }, ALONE, NULL },
    };
    CHECK_ROWS(rows);
}

/* SLURM_NTASKS and SLURM_PROCID describe the job, whose script is one process. */
TEST(scripts_of_slurm_run_alone_and_so_do_tasks_without_the_size_of_the_step)
{
    static const struct row rows[] = {
        { { "SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_LOCALID=0" }, ALONE, NULL },
        { { "SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_TASKS_PER_NODE=4" }, ALONE, NULL },
        { { "SLURM_JOB_ID=7", "SLURM_NTASKS=2", "SLURM_PROCID=1", SRUN_LOCAL("2", "0", "1") }, ALONE, NULL },
        { { "SLURM_JOB_ID=7", "SLURM_PROCID=1", SRUN_LOCAL("2", "0", "1"), "PMIX_RANK=1" }, ALONE, NULL },
        { { "SLURM_JOB_ID=7", "SLURM_PROCID=1", SRUN_LOCAL("2", "0", "1"), MPICH_OF("2", "1") }, ALONE, NULL },
    };
    CHECK_ROWS(rows);
}

/* Their daemons are tasks of srun, and there are as many as nodes. */
TEST(mpirun_in_a_job_of_slurm_is_found_before_srun)
{
    static const struct row rows[] = {
        { { SRUN_OF("1", "0"), SRUN_LOCAL("1", "0", "0"), OPENMPI_OF("6", "4"), OPENMPI_LOCAL("2", "0") },
          { MPI_LIBRARY_OPENMPI, 4, 6, 0, 2, "mpirun of Open MPI" }, NULL },
        { { SRUN_OF("2", "0"), SRUN_LOCAL("1(x2)", "0", "0"), "PMIX_RANK=0", MPICH_OF("6", "5"), MPICH_LOCAL("3", "2") },
          { MPI_LIBRARY_MPICH, 5, 6, 2, 3, "mpirun of MPICH" }, NULL },
    };
    CHECK_ROWS(rows);
}

TEST(variables_of_the_other_pmi_are_left_by_the_step_in_which_srun_is_called)
{
#define BOTH(type) { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1"), "PMIX_RANK=1", MPICH_OF("2", "1"), "SLURM_MPI_TYPE=" type }
    static const struct row rows[] = {
        { BOTH("pmix"), { MPI_LIBRARY_OPENMPI, 1, 2, 1, 2, "srun" }, NULL },
        { BOTH("pmi2"), { MPI_LIBRARY_MPICH, 1, 2, 1, 2, "srun" }, NULL },
    };
    CHECK_ROWS(rows);
}

TEST(launchers_that_cannot_work_are_refused_with_a_command_that_works)
{
    static const struct row rows[] = {
        { { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1") }, ALONE, "use srun --mpi=pmix (Open MPI)" },
        { { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1") }, ALONE, "use srun env -u SLURM_STEP_NUM_TASKS ./pipetrain" },
        { { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1"), "PMI_RANK=1" }, ALONE, "neither PMIx nor PMI2" },
        { { "TORCHELASTIC_RUN_ID=x", "WORLD_SIZE=4", "RANK=0" }, ALONE, "mpirun -n 4 ./pipetrain" },
        { { "TORCHELASTIC_RUN_ID=x", "WORLD_SIZE=4", "RANK=0" }, ALONE, "--set devices.towers=4" },
        { { "TORCHELASTIC_RUN_ID=x", "WORLD_SIZE=4", SRUN_OF("2", "1"), SRUN_LOCAL("1(x2)", "1", "0") }, ALONE, "torchrun" },
        { { "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_RANK=0" }, ALONE, "a launcher started 2 processes (MV2_COMM_WORLD_SIZE)" },
        { { "HOROVOD_SIZE=2", "HOROVOD_RANK=1" }, ALONE, "a launcher started 2 processes (HOROVOD_SIZE)" },
        { { "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=node1", "MASTER_PORT=29500" }, ALONE, "mpirun -n 2 ./pipetrain" },
        { { "PMI_SIZE=3", "PMI_RANK=0", "PALS_RANKID=0" }, ALONE, "a launcher started 3 processes (PMI_SIZE)" },
        { { "PMIX_RANK=0" }, ALONE, "not the number of processes" },
        { { "PMI_ID=0", "PMI_PORT=node1:39177", MPICH_LOCAL("1", "0") }, ALONE, "without -pmi-port" },
    };
    CHECK_ROWS(rows);
}

TEST(variables_that_contradict_each_other_are_refused)
{
    static const struct row rows[] = {
        { { OPENMPI_OF("2", "2"), OPENMPI_LOCAL("1", "0") }, ALONE, "OMPI_COMM_WORLD_RANK is \"2\": a number from 0 to 1" },
        { { OPENMPI_OF("2", "0"), OPENMPI_LOCAL("3", "0") }, ALONE, "OMPI_COMM_WORLD_LOCAL_SIZE is \"3\"" },
        { { OPENMPI_OF("2", "0"), OPENMPI_LOCAL("1", "1") }, ALONE, "OMPI_COMM_WORLD_LOCAL_RANK is \"1\"" },
        { { OPENMPI_OF("2", "0"), "PMIX_RANK=1", OPENMPI_LOCAL("1", "0") }, ALONE, "PMIX_RANK is 1, but OMPI_COMM_WORLD_RANK is 0" },
        { { OPENMPI_OF("2", "0") }, ALONE, "OMPI_COMM_WORLD_LOCAL_SIZE is not set" },
        { { OPENMPI_OF("2", "0"), OPENMPI_LOCAL("2", "0"), MPICH_OF("2", "0"), MPICH_LOCAL("2", "0") }, ALONE,
          "mpirun of Open MPI (OMPI_COMM_WORLD_SIZE) and of MPICH" },
        { { MPICH_OF("2", "2"), MPICH_LOCAL("2", "0") }, ALONE, "PMI_RANK is \"2\"" },
        { { "PMI_RANK=0", "PMI_FD=6", MPICH_LOCAL("2", "0") }, ALONE, "PMI_SIZE is not set" },
        { { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1"), MPICH_OF("1", "0") }, ALONE, "PMI_SIZE is 1, but SLURM_STEP_NUM_TASKS is 2" },
        { { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1"), MPICH_OF("2", "0") }, ALONE, "PMI_RANK is 0, but SLURM_PROCID is 1" },
        { { SRUN_OF("1", "0"), SRUN_LOCAL("1", "0", "0"), MPICH_OF("2", "0") }, ALONE, "PMI_SIZE is 2, but SLURM_STEP_NUM_TASKS is 1" },
        { { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1"), "PMIX_RANK=0" }, ALONE, "PMIX_RANK is 0, but SLURM_PROCID is 1" },
        { { SRUN_OF("2", "2"), SRUN_LOCAL("2", "0", "1") }, ALONE, "SLURM_PROCID is \"2\"" },
    };
    CHECK_ROWS(rows);
}

TEST(numbers_are_digits_and_nothing_else)
{
    static const char *const bad[] = { "", "0", " 2", "2 ", "+2", "-2", "2.0", "0x2", "two", "65537", "18446744073709551617" };
    static const char *const sizes[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        for (size_t j = 0; j < sizeof(sizes) / sizeof(*sizes); j++) {
            static const struct row row = { { "PMI_RANK=0", "PMI_FD=6", MPICH_LOCAL("1", "0") }, ALONE, NULL };
            static const struct row nothing = { { NULL }, ALONE, NULL };
            struct launcher launcher;
            char reason[LAUNCHER_REASON_BYTES];
            set_environment(strcmp(sizes[j], "PMI_SIZE") == 0 ? &row : &nothing);
            assert_int_equal(setenv(sizes[j], bad[i], 1), 0);
            assert_int_equal(launcher_find(&launcher, reason), -EINVAL);
            assert_non_null(strstr(reason, sizes[j]));
        }
    }
}

TEST(the_rank_and_the_processes_are_known_without_a_launcher_that_works)
{
    static const struct { struct row environment; int64_t rank; uint32_t processes; } rows[] = {
        { { .variables = { "HOME=/" } }, -1, 0 },
        { { .variables = { SRUN_OF("2", "0") } }, 0, 2 },
        { { .variables = { SRUN_OF("2", "1") } }, 1, 2 },
        { { .variables = { "SLURM_JOB_ID=7", "SLURM_PROCID=1" } }, -1, 0 },
        { { .variables = { OPENMPI_OF("2", "1") } }, 1, 2 },
        { { .variables = { OPENMPI_OF("2", "0"), SRUN_OF("2", "1") } }, 0, 2 },
        { { .variables = { OPENMPI_OF("3", "2"), SRUN_OF("2", "1") } }, 2, 3 },
        { { .variables = { OPENMPI_OF("3", "2"), SRUN_OF("2", "0") } }, 0, 3 },
        { { .variables = { OPENMPI_OF("3", "x"), "PMI_RANK=1" } }, 1, 3 },
        { { .variables = { MPICH_OF("2", "1"), "SLURM_JOB_ID=7", "SLURM_PROCID=0" } }, 1, 2 },
        { { .variables = { "PMI_RANK=1", "PMI_SIZE=many" } }, 1, 0 },
        { { .variables = { "TORCHELASTIC_RUN_ID=x", "WORLD_SIZE=2", "RANK=1" } }, 1, 2 },
        { { .variables = { "MASTER_ADDR=node1", "WORLD_SIZE=2", "RANK=1" } }, 1, 2 },
        { { .variables = { "HOROVOD_SIZE=2", "HOROVOD_RANK=1" } }, 1, 2 },
        { { .variables = { "RANK=1" } }, -1, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        set_environment(&rows[i].environment);
        if (launcher_rank() != rows[i].rank || launcher_processes() != rows[i].processes)
            fail_msg("row %zu: rank %d of %u", i, (int)launcher_rank(), launcher_processes());
    }
}

TEST(the_mpirun_of_mpich_is_known_by_its_end_of_a_socket)
{
    int ends[2];
    char number[16];
    const struct row row = { .variables = { MPICH_LOCAL("2", "0") } };
    set_environment(&row);
    assert_int_equal(launcher_mpich_process(), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(number, sizeof(number), "%d", i < 2 ? ends[0] : STDOUT_FILENO);
        assert_int_equal(setenv("PMI_FD", number, 1), 0);
        if (i == 1)
            assert_int_equal(unsetenv("MPI_LOCALNRANKS"), 0);       /* srun --mpi=pmi2 speaks another language */
        assert_int_equal(launcher_mpich_process(), i == 0 ? getpid() : 0);
    }
    launcher_abort(2);
    const int input = dup(STDIN_FILENO);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(setenv("MPI_LOCALNRANKS", "2", 1), 0);
    assert_int_equal(setenv("PMI_FD", "0", 1), 0);                  /* what a word is read as, too */
    assert_int_equal(launcher_mpich_process(), 0);
    assert_true(input < 0 || dup2(input, STDIN_FILENO) == STDIN_FILENO);
    close(input);
    close(ends[0]);
    close(ends[1]);
}

TEST(mpi_has_to_agree_with_the_launcher)
{
    char reason[LAUNCHER_REASON_BYTES];
    const struct row row = { { SRUN_OF("2", "1"), SRUN_LOCAL("2", "0", "1"), "PMIX_RANK=1" }, ALONE, NULL };
    struct launcher srun;
    set_environment(&row);
    assert_int_equal(launcher_find(&srun, reason), 0);
    assert_int_equal(launcher_check(&srun, 1, 2, reason), 0);
    assert_int_equal(launcher_check(&srun, 0, 1, reason), -EINVAL);
    assert_non_null(strstr(reason, "srun started rank 1 of 2, but for Open MPI it is rank 0 of 1"));
    assert_non_null(strstr(reason, "mpirun -n 2 ./pipetrain"));
    const struct launcher mpirun = { MPI_LIBRARY_MPICH, 1, 2, 1, 2, "mpirun of MPICH" };
    assert_int_equal(launcher_check(&mpirun, 1, 2, reason), 0);
    assert_int_equal(launcher_check(&mpirun, 0, 2, reason), -EINVAL);
    assert_non_null(strstr(reason, "use the mpirun of the MPICH that pipetrain was built with"));
}

/* No module is in the folder of this test. */
TEST(a_missing_module_is_reported_with_its_package)
{
    char reason[LAUNCHER_REASON_BYTES];
    const struct mpi_module *module;
    const struct launcher mpirun = { MPI_LIBRARY_OPENMPI, 1, 2, 1, 2, "mpirun of Open MPI" };
    const int rc = launcher_load(&mpirun, &module, reason);
    if (rc == 0)
        skip();         /* the package is installed here */
    assert_int_equal(rc, -ENOENT);
    assert_non_null(strstr(reason, "mpirun of Open MPI started 2 processes, but pipetrain was built without Open MPI"));
    assert_non_null(strstr(reason, "libopenmpi-dev"));
}

TESTS_MAIN(NULL, NULL)
