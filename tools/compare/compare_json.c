/* A comparison as one JSON object. */
#include "tools/compare/compare_report.h"

#include <errno.h>

#include "formats/json.h"
#include "tools/version.h"

static void write_measure(const struct comparison *comparison, uint32_t variant, enum measure measure,
                          struct json *json)
{
    const struct spread spread = comparison_spread(comparison, variant, measure);
    json_open_object(json, measure_name(measure));
    json_double(json, "median", spread.median);
    json_double(json, "least", spread.least);
    json_double(json, "most", spread.most);
    json_open_array(json, "rounds");
    for (uint32_t r = 0; r < comparison->rounds; r++)
        json_double(json, NULL, comparison_value(comparison, variant, r, measure));
    json_close_array(json);
    json_close_object(json);
}

static void write_variant(const struct comparison *comparison, uint32_t variant, struct json *json)
{
    const struct trial_result *const result = comparison_result(comparison, variant);
    json_open_object(json, NULL);
    json_open_object(json, "settings");
    for (size_t i = 0; i < comparison->axes->count; i++)
        json_quoted(json, comparison->axes->axes[i].key, axes_value(comparison->axes, variant, i));
    json_close_object(json);
    json_quoted(json, "device", result->device);
    json_u64(json, "towers", result->towers);
    json_u64(json, "threads_per_tower", result->threads_per_tower);
    json_u64(json, "batch", result->batch);
    json_open_array(json, "images");
    for (uint32_t r = 0; r < comparison->rounds; r++)
        json_u64(json, NULL, comparison->results[(size_t)variant * comparison->rounds + r].images);
    json_close_array(json);
    json_u64(json, "peak_rss_bytes", result->peak_bytes);
    json_double(json, "efficiency", comparison_efficiency(comparison, variant));
    for (enum measure measure = 0; measure < MEASURE_COUNT; measure++)
        write_measure(comparison, variant, measure, json);
    json_close_object(json);
}

int compare_report_json(const struct comparison *comparison, FILE *out)
{
    struct json json;
    json_init(&json, true);
    json_open_object(&json, NULL);
    json_quoted(&json, "version", PIPETRAIN_VERSION);
    json_quoted(&json, "config", comparison->config_path);
    json_u64(&json, "rounds", comparison->rounds);
    json_u64(&json, "steps", comparison->steps);
    json_double(&json, "seconds", comparison->seconds);
    json_bool(&json, "equal_samples", comparison_has_equal_samples(comparison));
    json_open_array(&json, "variants");
    for (uint32_t v = 0; v < comparison->variants; v++)
        write_variant(comparison, v, &json);
    json_close_array(&json);
    json_close_object(&json);
    const char *const text = json_text(&json);
    if (text != NULL)
        fprintf(out, "%s\n", text);
    json_release(&json);
    return text != NULL ? 0 : -ENOMEM;
}
