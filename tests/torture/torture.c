/* The torture driver: run the programs many times while something fails, and check how they end and what they leave.
 * One process per core takes the next trial until there is none. Failures are printed at once, and in a table at the
 * end. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stage/clock.h"
#include "tests/torture/disk.h"
#include "tests/torture/tree.h"
#include "tests/torture/trial.h"
#include "tools/lib/version.h"

#define WORKERS_MAX 64u
#define DEADLINE_US 60000000u

static const char usage[] =
    "usage: torture [OPTION]... [WALK]...\n"
    "Run pipetrain's programs while something fails. WALK: calls, kills, signals, streams, limits,\n"
    "groups, disks, power (default: all).\n\n"
    "  -b BUILD    folder of the programs (default: PIPETRAIN_BUILD or the current one)\n"
    "  -s SEED     of what is chosen at random (default: the time)\n"
    "  -n SHARE    most trials of a row of the table and a scenario (default 2)\n"
    "  -a, --all   all trials, which takes hours\n"
    "  -j JOBS     at once (default: one for each core)\n"
    "  -o FILE     write the table here\n"
    "  -p FILE     and before it the content of this file\n"
    "  -w FOLDER   work here and keep the folders of trials that did not hold\n"
    "  -t TEXT     only trials whose names contain this\n"
    "  -c SCENARIO only this scenario, such as train; others are not prepared\n"
    "  -d SECONDS  after which a program counts as hanging (default 60)\n"
    "\nExit status: 0 all held, 1 something did not, 2 command line, 99 the torture itself failed.\n";

static const struct walk {
    const char *name;
    int (*plan)(struct trials *trials);
} walks[] = {
    { "calls", plan_calls }, { "kills", plan_kills }, { "signals", plan_signals }, { "streams", plan_streams },
    { "limits", plan_limits }, { "groups", plan_groups },
    { "disks", plan_disks }, { "power", plan_power },
};
#define WALK_COUNT (sizeof(walks) / sizeof(walks[0]))

struct torture {
    struct stand stand;
    struct trials trials;
    const char *report, *before, *only;
    bool keeps;
    uint32_t jobs;
    uint64_t took_us[32];
    struct outcome *outcomes;       /* shared with the processes */
    atomic_uint *next;
};

static char work_folder[PATH_MAX], build_folder[PATH_MAX], faults_file[PATH_MAX + 32];

static int parse(struct torture *torture, int argc, char **argv)
{
    const char *build = getenv("PIPETRAIN_BUILD");
    static const struct option options[] = { { "all", no_argument, NULL, 'a' }, { NULL, 0, NULL, 0 } };
    int letter;
    while ((letter = getopt_long(argc, argv, "b:s:n:aj:o:p:w:t:c:d:h", options, NULL)) != -1) {
        switch (letter) {
        case 'b': build = optarg; break;
        case 's': torture->trials.seed = strtoull(optarg, NULL, 10); break;
        case 'n': torture->trials.share = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'a': torture->trials.share = 0; break;
        case 'j': torture->jobs = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'o': torture->report = optarg; break;
        case 'p': torture->before = optarg; break;
        case 'w': snprintf(work_folder, sizeof(work_folder), "%s", optarg); torture->keeps = true; break;
        case 't': torture->only = optarg; break;
        case 'c': torture->stand.only = optarg; break;
        case 'd': torture->trials.deadline_us = strtoull(optarg, NULL, 10) * 1000000; break;
        default: fputs(usage, letter == 'h' ? stdout : stderr); return -EINVAL;
        }
    }
    return realpath(build != NULL ? build : ".", build_folder) != NULL ? 0 : -errno;
}

/* Programs with sanitizers are slow, and complain about preloaded libraries. */
static void prepare_for_sanitizer(struct stand *stand, struct trials *trials)
{
    const char *const sanitizer = getenv("PIPETRAIN_SANITIZER");
    trials->has_sanitizer = sanitizer != NULL && strcmp(sanitizer, "no") != 0 && *sanitizer != '\0';
    trials->patience = trials->has_sanitizer ? 6 : 1;
    stand->refuses_teams = trials->has_sanitizer && strstr(sanitizer, "thread") != NULL;
    if (trials->has_sanitizer)
        setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 0);
}

/* Make it, and set absolute paths, because programs run in folders of their own. */
static int make_work_folder(struct torture *torture)
{
    char name[PATH_MAX];
    const char *const temporary = getenv("TMPDIR");
    snprintf(name, sizeof(name), "%s/pipetrain-torture.XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (torture->keeps)
        snprintf(name, sizeof(name), "%s", work_folder);
    else if (mkdtemp(name) == NULL)
        return -errno;
    if (realpath(name, work_folder) == NULL)
        return -errno;
    snprintf(faults_file, sizeof(faults_file), "%s/tests/torture/faults.so", build_folder);
    torture->stand.build = build_folder;
    torture->stand.work = work_folder;
    torture->stand.faults = faults_file;
    torture->trials.stand = &torture->stand;
    prepare_for_sanitizer(&torture->stand, &torture->trials);
    torture->trials.took_us = torture->took_us;
    return access(faults_file, R_OK) == 0 ? 0 : -errno;
}

static bool groups_are_possible(void)
{
    struct group group;
    const int rc = group_open(&group, 64u << 20);
    if (rc == 0)
        group_close(&group);
    return rc == 0;
}

static int plan(struct torture *torture, char *const *names)
{
    int rc = 0;
    for (size_t w = 0; w < WALK_COUNT && rc == 0; w++) {
        bool is_named = names[0] == NULL;
        for (size_t i = 0; names[i] != NULL; i++)
            is_named |= strcmp(names[i], walks[w].name) == 0;
        if (is_named)
            rc = walks[w].plan(&torture->trials);
    }
    return rc;
}

static bool is_wanted(const struct torture *torture, const struct trial *trial)
{
    return torture->only == NULL || strstr(trial->name, torture->only) != NULL;
}

static void work(struct torture *torture)
{
    struct trials *const trials = &torture->trials;
    for (uint32_t i = atomic_fetch_add(torture->next, 1); i < trials->count; i = atomic_fetch_add(torture->next, 1)) {
        if (!is_wanted(torture, &trials->list[i]))
            continue;
        struct outcome *const outcome = &torture->outcomes[i];
        trial_run(trials, i, outcome);
        if (outcome->verdict[0] != '\0')
            dprintf(STDERR_FILENO, "torture: %u: %s: %s\n", i, trials->list[i].name, outcome->verdict);
    }
}

static void *share_memory(size_t bytes)
{
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

/* Start the processes and wait for their end. */
static int run_all(struct torture *torture)
{
    torture->outcomes = share_memory((torture->trials.count + 1) * sizeof(struct outcome));
    torture->next = share_memory(sizeof(*torture->next));
    if (torture->outcomes == NULL || torture->next == NULL)
        return -ENOMEM;
    uint32_t started = 0;
    fflush(NULL);
    for (; started < torture->jobs && started < WORKERS_MAX; started++) {
        const pid_t process = fork();
        if (process < 0)
            break;
        if (process == 0) {
            if (!torture->trials.has_disks || disk_enter() == 0)
                work(torture);
            _exit(0);
        }
    }
    bool all_ended = started > 0;
    for (int status; started > 0; started--)
        all_ended &= wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return all_ended ? 0 : -ECHILD;
}

/* ---- the report ---- */

struct cell { uint32_t tried, held, died; };

static bool is_same_line(const struct trial *a, const struct trial *b)
{
    return strcmp(a->group, b->group) == 0 && strcmp(a->what, b->what) == 0;
}

/* Is it the first of its row that was run? */
static bool is_first_of_line(const struct trials *trials, const struct outcome *outcomes, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++)
        if (outcomes[i].was_run && is_same_line(&trials->list[i], &trials->list[number]))
            return false;
    return true;
}

static struct cell count_cell(const struct trials *trials, const struct outcome *outcomes, const struct trial *line,
                              const struct scenario *scenario)
{
    struct cell cell = { 0, 0, 0 };
    for (uint32_t i = 0; i < trials->count; i++) {
        if (trials->list[i].scenario != scenario || !is_same_line(&trials->list[i], line) || !outcomes[i].was_run)
            continue;
        cell.tried++;
        cell.held += outcomes[i].verdict[0] == '\0';
        cell.died += outcomes[i].has_died && line->order.caller == CALLER_LIBRARY;
    }
    return cell;
}

static void write_line(const struct trials *trials, const struct outcome *outcomes, const struct trial *line,
                       FILE *out)
{
    fprintf(out, "| %s | %s |", line->group, line->what);
    for (uint32_t s = 0; s < scenario_count; s++) {
        const struct cell cell = count_cell(trials, outcomes, line, &scenarios[s]);
        if (cell.tried == 0)
            fprintf(out, " |");
        else if (cell.held == cell.tried && cell.died > 0)
            fprintf(out, " %u (%u died) |", cell.tried, cell.died);
        else if (cell.held == cell.tried)
            fprintf(out, " %u |", cell.tried);
        else
            fprintf(out, " **%u of %u** |", cell.held, cell.tried);
    }
    fprintf(out, "\n");
}

static void write_head(FILE *out)
{
    fprintf(out, "| what fails | how |");
    for (uint32_t s = 0; s < scenario_count; s++)
        fprintf(out, " %s |", scenarios[s].name);
    fprintf(out, "\n|---|---|");
    for (uint32_t s = 0; s < scenario_count; s++)
        fprintf(out, "---:|");
    fprintf(out, "\n");
}

static uint32_t write_broken(const struct trials *trials, const struct outcome *outcomes, FILE *out)
{
    uint32_t broken = 0;
    for (uint32_t i = 0; i < trials->count; i++) {
        if (!outcomes[i].was_run || outcomes[i].verdict[0] == '\0')
            continue;
        fprintf(out, "%s- %s: %s\n", broken == 0 ? "\nWhat did not hold:\n\n" : "", trials->list[i].name,
                outcomes[i].verdict);
        broken++;
    }
    return broken;
}

/* Markdown: a row for each kind of trial, a column for each scenario. Returns how many trials failed. */
static uint32_t write_table(const struct trials *trials, const struct outcome *outcomes, FILE *out)
{
    uint32_t run = 0;
    write_head(out);
    for (uint32_t i = 0; i < trials->count; i++) {
        run += outcomes[i].was_run;
        if (outcomes[i].was_run && is_first_of_line(trials, outcomes, i))
            write_line(trials, outcomes, &trials->list[i], out);
    }
    const uint32_t broken = write_broken(trials, outcomes, out);
    fprintf(out, "\n%u trials, %u held, %u did not (seed %llu).\n", run, run - broken, broken,
            (unsigned long long)trials->seed);
    return broken;
}

/* Print the processor, the system, and the time that the trials took. */
static void print_machine(double seconds, FILE *out)
{
    struct utsname system;
    char line[200] = "", *model = NULL;
    FILE *const processor = fopen("/proc/cpuinfo", "r");
    while (processor != NULL && model == NULL && fgets(line, sizeof(line), processor) != NULL)
        model = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
    if (processor != NULL)
        fclose(processor);
    if (uname(&system) == 0)
        fprintf(out, "pipetrain %s on%.*s, %ld cores, %s %s, in %.0f minutes:\n\n", PIPETRAIN_VERSION,
                model != NULL ? (int)strcspn(model + 1, "\n") : 0, model != NULL ? model + 1 : "",
                sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release, seconds / 60);
}

static int copy_before(const struct torture *torture, FILE *out)
{
    if (torture->before == NULL)
        return 0;
    struct content before = content_read(torture->before, "");
    const bool is_copied = before.bytes != NULL && fwrite(before.bytes, 1, before.count, out) == before.count;
    content_release(&before);
    return is_copied ? 0 : -EIO;
}

static int write_results(const struct torture *torture, double seconds)
{
    FILE *const out = torture->report != NULL ? fopen(torture->report, "w") : stdout;
    if (out == NULL)
        return perror(torture->report), 99;
    if (copy_before(torture, out) != 0)
        return perror(torture->before), 99;
    print_machine(seconds, out);
    const uint32_t broken = write_table(&torture->trials, torture->outcomes, out);
    if (out != stdout && fclose(out) != 0)
        return perror(torture->report), 99;
    return broken == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct torture torture = { .trials = { .share = 2, .seed = (uint64_t)time(NULL),
                                           .deadline_us = DEADLINE_US },
                              .jobs = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) };
    if (parse(&torture, argc, argv) != 0)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    torture.trials.has_disks = disk_is_possible();
    torture.trials.has_groups = groups_are_possible();
    int rc = make_work_folder(&torture);
    if (rc == 0)
        rc = stand_prepare(&torture.stand, torture.took_us);
    if (rc == 0)
        rc = plan(&torture, argv + optind);
    const uint64_t began_ns = clock_now_ns();
    printf("torture: seed %llu, %u trials, in %s\n", (unsigned long long)torture.trials.seed, torture.trials.count,
           work_folder);
    if (rc == 0)
        rc = run_all(&torture);
    if (rc != 0)
        fprintf(stderr, "torture: %s\n", strerror(-rc));
    const double seconds = (double)(clock_now_ns() - began_ns) / 1e9;
    const int code = rc == 0 ? write_results(&torture, seconds) : 99;
    printf("torture: %.0f s\n", seconds);
    if (!torture.keeps && code == 0)
        tree_remove(work_folder);
    free(torture.trials.list);
    return code;
}
