/* The table of settings, the reason for the result, and the lines to set in the configuration. */
#include "tools/tune/tune_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "stage/text/program_folder.h"
#include "tools/lib/run/verdict.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

#define OTHERS_NOTED 0.1        /* share of the cores' time used by other programs that is worth a note */

static const struct tune_setting *best_setting(const struct tune_result *result)
{
    return &result->candidates[result->best].setting;
}

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

static void print_alone(const struct tune_result *result, FILE *out)
{
    const struct tune_setting *const best = best_setting(result);
    if (isfinite(result->towers_alone))
        wrapped_print(out, "towers    alone, input already in memory: %s images/s (%u thread%s each)",
                      number_rate(result->towers_alone).text, best->tower_threads, plural(best->tower_threads));
    if (isfinite(result->input_alone))
        wrapped_print(out, "input     alone, nothing computed: %s images/s (%u reader%s, %u decoder%s)",
                      number_rate(result->input_alone).text, best->readers, plural(best->readers), best->decoders,
                      plural(best->decoders));
}

static void print_search(const struct tune_result *result, FILE *out)
{
    if (result->count < 2)
        wrapped_print(out, "search    no other setting tried; %.0f s in all", result->seconds);
    else if (result->rounds == 0)
        wrapped_print(out, "search    %u other setting%s tried for %.1f s each, none faster; %.0f s in all",
                      result->count - 1, plural(result->count - 1), result->trial_seconds, result->seconds);
    else
        wrapped_print(out, "search    %u other setting%s tried for %.1f s each; the best %u compared with the "
                           "configuration in %u round%s of up to %.1f s; %.0f s in all", result->count - 1,
                      plural(result->count - 1), result->trial_seconds, result->compared, result->rounds,
                      plural(result->rounds), result->round_seconds, result->seconds);
}

static struct number speed_cell(double images_per_second)
{
    return number_cell(images_per_second, number_rate_digits(images_per_second), "", 9);
}

static void print_candidate(const struct tune_result *result, uint32_t i, FILE *out)
{
    const struct tune_candidate *const candidate = &result->candidates[i];
    const struct tune_setting *const setting = &candidate->setting;
    fprintf(out, "%5u %4u %4u %4u %5u%c", setting->tower_threads, setting->readers, setting->decoders,
            setting->prefetch_depth, setting->staging_depth, setting->is_cached ? 'c' : ' ');
    if (candidate->is_refused) {
        fputs("  needs too much memory\n", out);
        return;
    }
    fprintf(out, "%9s %6.1f", speed_cell(candidate->tried_speed).text, 100 * candidate->tried_wait);
    if (candidate->rounds > 0)
        fprintf(out, " %9s %6s %6.1f %8s%s", speed_cell(tune_candidate_speed(candidate)).text,
                number_cell(100 * tune_candidate_range(candidate), 1, "", 6).text,
                100 * tune_candidate_wait(candidate),
                number_cell((double)candidate->planned_bytes / (1 << 20), 1, "", 8).text,
                i == result->best ? " <" : "");
    fputc('\n', out);
}

static void print_table(const struct tune_result *result, FILE *out)
{
    bool has_cached = false;
    fputs("\n   threads      depth          tried        compared in rounds\n"
          "tower read dec. ring slots  images/s wait %  images/s  +/- % wait %      MiB\n", out);
    for (uint32_t i = 0; i < result->count; i++) {
        print_candidate(result, i, out);
        has_cached = has_cached || result->candidates[i].setting.is_cached;
    }
    fprintf(out, "first row: as configured%s%s\n\n", result->rounds > 0 ? "; <: best" : "",
            has_cached ? "; c: with input.source = cached" : "");
}

/* ---- the reason, and what else would help ---- */

/* Decoding time is about proportional to the pixels. */
static void print_smaller_images(const struct tune_result *result, FILE *out)
{
    const uint32_t side = sides_smaller(result->stored_side, result->taken_side);
    const double ratio = side > 0 ? (double)result->stored_side / side : 0;
    if (side > 0)
        wrapped_print(out, "fix       store smaller images (short side %u: about %s images/s decoded instead of %s): "
                           "%spipetrain-convert tfrecord SHARDS -o resized-%u --resize-short=%u", side,
                      number_rate(result->input_alone * ratio * ratio).text, number_rate(result->input_alone).text,
                      program_folder(), side, side);
    else if (result->stored_side > 0)
        wrapped_print(out, "fix       store pixels, which need no decoding: %spipetrain-convert tfrecord SHARDS -o raw "
                           "--raw", program_folder());
    else
        wrapped_print(out, "fix       more cores");
}

/* The speed is still limited with the best setting: print what limits it, and what would help. */
static void print_missing(const struct tune_result *result, FILE *out)
{
    const char *const label = tune_kind_of(result) == TUNE_CHANGED ? "still    " : "reason   ";
    const double speed = tune_candidate_speed(&result->candidates[result->best]);
    const bool lacks_input = tune_lacks_input(result);
    if (lacks_input)
        wrapped_print(out, "%s a deficit: the input pipeline alone gives %s of the %s images/s that the towers alone "
                           "compute, so no depth helps", label, number_rate(result->input_alone).text,
                      number_rate(result->towers_alone).text);
    else
        wrapped_print(out, "%s towers and input share %.0f cores: together %s images/s, while the towers alone compute "
                           "%s and the input pipeline alone gives %s", label, result->space.cores,
                      number_rate(speed).text, number_rate(result->towers_alone).text,
                      number_rate(result->input_alone).text);
    if (lacks_input && !result->decoding_is_slower)
        wrapped_print(out, "fix       reading limits: a faster disk, or input.source = cached if the shards fit into "
                           "memory");
    else
        print_smaller_images(result, out);
}

static void print_gain(const struct tune_result *result, FILE *out)
{
    const struct tune_setting *const now = &result->candidates[0].setting, *const best = best_setting(result);
    const bool has_depth = now->prefetch_depth != best->prefetch_depth || now->staging_depth != best->staging_depth;
    const bool has_threads = now->tower_threads != best->tower_threads || now->readers != best->readers ||
                             now->decoders != best->decoders;
    if (best->is_cached && !now->is_cached)
        wrapped_print(out, "reason    reading waits for files, and the shards fit into memory: %.1f %% more images/s "
                           "once they are read", 100 * result->gain);
    else
        wrapped_print(out, "reason    %s%s%s: %.1f %% more images/s", has_threads ? "other numbers of threads" : "",
                      has_threads && has_depth ? " and " : "", has_depth ? "another depth" : "", 100 * result->gain);
}

static void print_reason(const struct tune_result *result, FILE *out)
{
    const double wait = 100 * tune_candidate_wait(&result->candidates[0]);
    switch (tune_kind_of(result)) {
    case TUNE_UNTRIED:
        wrapped_print(out, "reason    there was no time to try another setting: --tune=%.0f; of the run as "
                           "configured: %s", result->enough_seconds, result->verdict);
        return;
    case TUNE_FED:
        wrapped_print(out, "reason    towers wait %.1f %% of their time for input: the input pipeline keeps up", wait);
        return;
    case TUNE_UNEVEN:
        wrapped_print(out, "reason    the input pipeline is fast enough on average (%s of %s images/s) but not evenly: "
                           "towers wait %.1f %% of their time, and no setting was measurably faster",
                      number_rate(result->input_alone).text, number_rate(result->towers_alone).text, wait);
        return;
    case TUNE_UNKNOWN:
        wrapped_print(out, "reason    towers wait %.1f %% of their time for input, and no setting was measurably "
                           "faster; of the run as configured: %s", wait, result->verdict);
        return;
    case TUNE_CHANGED: print_gain(result, out); break;
    default: break;
    }
    if (tune_lacks_input(result) || tune_lacks_cores(result))
        print_missing(result, out);
}

/* The measured speed is that of the cores which other programs left idle. */
static void print_other_load(const struct tune_result *result, FILE *out)
{
    if (result->other_load > OTHERS_NOTED)
        wrapped_print(out, "note      other programs used %.1f of the %.0f core%s meanwhile: the result is for what "
                           "they left; tune again when they have ended", result->other_load * result->space.cores,
                      result->space.cores, result->space.cores > 1 ? "s" : "");
}

static void print_changes(const struct tune_result *result, FILE *out)
{
    struct config_change changes[TUNE_CHANGES_MAX];
    const uint32_t count = tune_changes(best_setting(result), &result->candidates[0].setting,
                                        result->space.has_cpu_towers, changes);
    const char *section = "";
    fputs(count == 0 ? "set       nothing: the configuration stays as it is\n" : "set\n", out);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(changes[i].section, section) != 0)
            fprintf(out, "\n[%s]\n", changes[i].section);
        fprintf(out, "%s = %s\n", changes[i].key, changes[i].value);
        section = changes[i].section;
    }
}

void tune_report(const struct tune_result *result, FILE *out)
{
    print_alone(result, out);
    print_search(result, out);
    print_table(result, out);
    print_reason(result, out);
    print_other_load(result, out);
    print_changes(result, out);
}
