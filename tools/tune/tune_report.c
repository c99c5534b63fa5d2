/* The table, the picture, the reason, the lines. */
#include "tools/tune/tune_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "tools/config/number.h"
#include "tools/run/pace/sides.h"
#include "tools/text/wrapped.h"

#define STEPS 400u              /* that a prediction is made of */
#define BAR_COLUMNS 40u
#define DRAWN_DEPTH 16u
#define OTHERS_NAMED 0.1        /* share of the cores that other programs hold before it is worth a word */

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

/* What was measured stage by stage. */
static void print_stages(const struct tune_outcome *outcome, FILE *out)
{
    const struct feed_model *const model = &outcome->model;
    const double per_piece = (double)model->batch / model->towers / model->pieces;
    for (uint32_t i = 0; i < model->step_kinds; i++) {
        const double seconds = feed_mean(&model->step[i]);
        wrapped_print(out, "towers    alone give %s images/s (%u thread%s each; a step %.2f ms, spread %.0f %%)",
                      number_rate(model->batch / seconds).text, model->step_threads[i],
                      plural(model->step_threads[i]), 1e3 * seconds, 100 * feed_spread(&model->step[i]));
    }
    wrapped_print(out, "reading   one reader gives %s images/s (spread %.0f %%; %.0f %% of its time it computes)",
                  number_rate(per_piece / feed_mean(&model->read)).text, 100 * feed_spread(&model->read),
                  100 * model->read_cores);
    wrapped_print(out, "decoding  one decoder gives %s images/s (spread %.0f %%)",
                  number_rate(per_piece / feed_mean(&model->decode)).text, 100 * feed_spread(&model->decode));
    if (model->copy.count > 0)
        wrapped_print(out, "copying   %.3f ms a batch (spread %.0f %%)", 1e3 * feed_mean(&model->copy),
                      100 * feed_spread(&model->copy));
    if (outcome->rounds == 0) {
        wrapped_print(out, "search    %u settings predicted, none run: too little time was left; %.0f s in all",
                      outcome->search.predicted, outcome->seconds);
        return;
    }
    wrapped_print(out, "search    %u settings predicted; %u of them run, %u time%s %.1f s each; %.0f s in all",
                  outcome->search.predicted, outcome->count, outcome->rounds, plural(outcome->rounds),
                  outcome->trial_seconds, outcome->seconds);
}

static struct number speed_cell(double images_per_second)
{
    return number_cell(images_per_second, number_rate_digits(images_per_second), "", 9);
}

/* Of one round nothing is known of how far it is off. */
static void print_measured(const struct tune_outcome *outcome, uint32_t i, FILE *out)
{
    const struct candidate *const candidate = &outcome->candidates[i];
    fprintf(out, " %9s %6s %6.1f %8s%s\n", speed_cell(candidate_speed(candidate)).text,
            number_cell(100 * candidate_range(candidate), 1, "", 6).text, 100 * candidate_wait(candidate),
            number_cell((double)candidate->planned_bytes / (1 << 20), 1, "", 8).text, i == outcome->best ? " <" : "");
}

static void print_candidate(const struct tune_outcome *outcome, uint32_t i, FILE *out)
{
    const struct candidate *const candidate = &outcome->candidates[i];
    const struct feed_setting *const is = &candidate->setting;
    const struct feed_prediction *const predicted = &candidate->predicted;
    fprintf(out, "%5u %4u %4u %4u %5u%c%9s %6.1f", is->threads, is->readers, is->decoders, is->ring, is->slots,
            candidate->is_cached ? 'c' : ' ', speed_cell(predicted->images_per_second).text,
            100 * predicted->input_wait);
    if (candidate->is_refused)
        fputs("  needs too much memory\n", out);
    else if (candidate->rounds == 0)
        fputs("  not run\n", out);
    else
        print_measured(outcome, i, out);
}

static void print_table(const struct tune_outcome *outcome, FILE *out)
{
    fputs("\n   threads      depth      predicted             measured\n"
          "tower read dec. ring slots  images/s wait %  images/s  +/- % wait %      MiB\n", out);
    for (uint32_t i = 0; i < outcome->count; i++)
        print_candidate(outcome, i, out);
    fprintf(out, "first: as configured%s%s\n", outcome->candidates[outcome->best].rounds > 0 ? "; <: the best" : "",
            outcome->candidates[outcome->count - 1].is_cached ? "; c: with input.source = cached" : "");
}

static double measured_wait(const struct tune_outcome *outcome, const struct feed_setting *setting)
{
    for (uint32_t i = 0; i < outcome->count; i++)
        if (search_is_same(&outcome->candidates[i].setting, setting))
            return candidate_wait(&outcome->candidates[i]);
    return NAN;
}

/* Input wait over the depth, with the best one's threads. */
static int draw_depths(const struct tune_outcome *outcome, FILE *out)
{
    static const char bar[] = "########################################";
    struct feed_setting setting = outcome->candidates[outcome->best].setting;
    int rc = 0;
    fprintf(out, "\ninput wait by prefetch_depth (threads: tower %u, read %u, decode %u)\n", setting.threads,
            setting.readers, setting.decoders);
    for (uint32_t depth = 1; depth <= DRAWN_DEPTH && rc == 0; depth += depth < 4 ? 1 : depth) {
        struct feed_prediction prediction;
        setting.ring = depth;
        rc = feed_predict(&outcome->model, &setting, STEPS, &prediction);
        const double wait = rc == 0 ? prediction.input_wait : 0;
        const double measured = measured_wait(outcome, &setting);
        fprintf(out, "%4u  %-*.*s %5.1f %%", depth, (int)BAR_COLUMNS, (int)lround(wait * BAR_COLUMNS), bar, 100 * wait);
        if (isfinite(measured))
            fprintf(out, ", measured %.1f %%", 100 * measured);
        fputc('\n', out);
    }
    return rc;
}

uint32_t tune_lines(const struct tune_outcome *outcome, struct tune_line lines_out[TUNE_LINES_MAX])
{
    const struct feed_setting *const now = &outcome->candidates[0].setting;
    const struct feed_setting *const best = &outcome->candidates[outcome->best].setting;
    const bool is_cached = outcome->candidates[outcome->best].is_cached;
    const struct { struct tune_line line; uint32_t now; } all[TUNE_LINES_MAX] = {
        { { "input", "source", is_cached, "cached" }, false },
        { { "input", "prefetch_depth", best->ring, NULL }, now->ring },
        { { "input", "staging_depth", best->slots, NULL }, now->slots },
        { { "input", "read_threads", best->readers, NULL }, now->readers },
        { { "input", "decode_threads", best->decoders, NULL }, now->decoders },
        { { "devices", "threads_per_tower", best->threads, NULL }, now->threads },
    };
    uint32_t count = 0;
    for (uint32_t i = 0; i < TUNE_LINES_MAX; i++)
        if (all[i].line.value != all[i].now)
            lines_out[count++] = all[i].line;
    return count;
}

/* By their pixels, which is about what decoding goes by. */
static double given_when_smaller(const struct tune_outcome *outcome, uint32_t side)
{
    const double ratio = (double)outcome->stored_side / side;
    return outcome->given * ratio * ratio;
}

/* Images that take less to decode; "" where they are pixels already. */
struct cure_text { char text[160]; };
static struct cure_text less_decoding(const struct tune_outcome *outcome)
{
    const uint32_t side = sides_smaller(outcome->stored_side, outcome->taken_side);
    struct cure_text cure = { "" };
    if (side > 0)
        snprintf(cure.text, sizeof(cure.text), "shards at %u pixels would give about %s: pipetrain-convert tfrecord "
                 "SHARDS -o resized-%u --resize-short=%u", side,
                 number_rate(given_when_smaller(outcome, side)).text, side, side);
    else if (outcome->stored_side > 0)
        snprintf(cure.text, sizeof(cure.text), "shards without compression take no decoding: pipetrain-convert "
                 "tfrecord SHARDS -o raw --raw");
    return cure;
}

static void cure_decoding(const struct tune_outcome *outcome, FILE *out)
{
    const double busy = outcome->candidates[outcome->best].predicted.cores_busy;
    const struct cure_text cure = less_decoding(outcome);
    wrapped_print(out, "cure      %.0f of %.0f cores busy, %s images/s decoded, %s wanted: %s", busy,
                  outcome->model.cores, number_rate(outcome->given).text, number_rate(outcome->wanted).text,
                  *cure.text != '\0' ? cure.text : "it takes more cores");
}

/* A feed that is slower than the towers, with what is recommended as well: what is missing, and what would help. */
static void explain_deficit(const struct tune_outcome *outcome, FILE *out)
{
    const struct candidate *const best = &outcome->candidates[outcome->best];
    const uint32_t ready = best->setting.ring + best->setting.slots;
    wrapped_print(out, "%s a deficit: the feed gives %s of the %s images/s that the towers would take, at any "
                       "depth; %u batches that are ready last for %.0f steps", outcome->kind == TUNE_DEFICIT
                       ? "reason   " : "still    ", number_rate(outcome->given).text, number_rate(outcome->wanted).text,
                  ready, outcome->drain_steps);
    if (best->predicted.decoders_busy >= best->predicted.readers_busy)
        cure_decoding(outcome, out);
    else
        wrapped_print(out, "cure      files are read as fast as they can be: input.source = cached where the shards "
                           "fit into memory, or a faster disk");
}

/* Both are fast enough, but not at the same time. */
static void explain_cores(const struct tune_outcome *outcome, FILE *out)
{
    const double measured = candidate_speed(&outcome->candidates[outcome->best]);
    const struct cure_text cure = less_decoding(outcome);
    if (outcome->kind != TUNE_SHARED)
        wrapped_print(out, "still     %s of the %s images/s that the towers would take: they and the feed compute on "
                           "the same %.0f cores", number_rate(measured).text, number_rate(outcome->wanted).text,
                      outcome->model.cores);
    wrapped_print(out, "cure      more cores%s%s", *cure.text != '\0' ? ", or fewer for the feed: " : "", cure.text);
}

/* What was measured is what they left. */
static void explain_others(const struct tune_outcome *outcome, FILE *out)
{
    if (outcome->others > OTHERS_NAMED)
        wrapped_print(out, "note      other programs used %.1f of the %.0f cores meanwhile: what is found here is for "
                           "the cores they left; tune again when they have ended",
                      outcome->others * outcome->model.cores, outcome->model.cores);
}

static void explain_kind(const struct tune_outcome *outcome, FILE *out)
{
    const struct number given = number_rate(outcome->given), wanted = number_rate(outcome->wanted);
    switch (outcome->kind) {
    case TUNE_UNTRIED:
        wrapped_print(out, "reason    there was no time to run what the model proposes, and nothing is recommended "
                           "that did not run: --tune=%.0f", outcome->enough_seconds);
        return;
    case TUNE_FED:
        wrapped_print(out, "reason    towers wait %.1f %% of their time for input: the feed keeps up, and nothing "
                           "measurably better was found", 100 * candidate_wait(&outcome->candidates[0]));
        return;
    case TUNE_SPREAD:
        wrapped_print(out, "reason    spread: the feed is fast enough on average (%s of %s images/s), but not evenly; "
                           "batches that are ready in advance take that up: %.1f %% more images/s", given.text,
                      wanted.text, 100 * outcome->gain);
        return;
    case TUNE_DEPTH:
        wrapped_print(out, "reason    another depth: %.1f %% more images/s", 100 * outcome->gain);
        return;
    case TUNE_CACHED:
        wrapped_print(out, "reason    reading waits for files, and the shards have room in memory: %.1f %% more "
                           "images/s once they are read", 100 * outcome->gain);
        return;
    case TUNE_THREADS:
        wrapped_print(out, "reason    other numbers of threads: %.1f %% more images/s", 100 * outcome->gain);
        return;
    case TUNE_BOTH:
        wrapped_print(out, "reason    other numbers of threads and another depth: %.1f %% more images/s",
                      100 * outcome->gain);
        return;
    case TUNE_SHARED:
        wrapped_print(out, "reason    towers and the feed compute on the same %.0f cores: each would be fast enough "
                           "alone (towers %s, the feed %s images/s), and nothing that shares them measurably better "
                           "was found", outcome->model.cores, wanted.text, given.text);
        return;
    case TUNE_UNEVEN:
        wrapped_print(out, "reason    the feed is fast enough on average (%s of %s images/s), but not evenly: towers "
                           "wait %.1f %% of their time, and no setting was measurably better", given.text, wanted.text,
                      100 * candidate_wait(&outcome->candidates[0]));
        return;
    default: return;        /* a deficit is explained in any case */
    }
}

static void explain(const struct tune_outcome *outcome, FILE *out)
{
    explain_kind(outcome, out);
    if (outcome_lacks_input(outcome))
        explain_deficit(outcome, out);
    else if (outcome_lacks_cores(outcome))
        explain_cores(outcome, out);
    explain_others(outcome, out);
}

static void print_lines(const struct tune_outcome *outcome, FILE *out)
{
    struct tune_line lines[TUNE_LINES_MAX];
    const uint32_t count = tune_lines(outcome, lines);
    const char *section = "";
    if (count == 0)
        fputs("set       nothing: the configuration stays as it is\n", out);
    else
        fputs("set\n", out);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(lines[i].section, section) != 0)
            fprintf(out, "\n[%s]\n", lines[i].section);
        if (lines[i].word != NULL)
            fprintf(out, "%s = %s\n", lines[i].key, lines[i].word);
        else
            fprintf(out, "%s = %" PRIu32 "\n", lines[i].key, lines[i].value);
        section = lines[i].section;
    }
}

int tune_report(const struct tune_outcome *outcome, FILE *out)
{
    print_stages(outcome, out);
    print_table(outcome, out);
    const int rc = draw_depths(outcome, out);
    fputc('\n', out);
    explain(outcome, out);
    print_lines(outcome, out);
    return rc;
}
