/* Count and write results. */
#include "tests/torture/report.h"

#include <string.h>

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

uint32_t report_write(const struct trials *trials, const struct outcome *outcomes, FILE *out)
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
