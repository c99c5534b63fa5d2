/* From settings and a file of weights to a tower. */
#include "tools/predict/trained.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/log.h"
#include "tools/config/config.h"
#include "tools/config/number.h"
#include "tools/config/settings_model.h"
#include "tools/run/run_data.h"
#include "tools/run/run_plan.h"
#include "tools/text/wrapped.h"

/* Print what is collected and return `code`. */
static int refuse(struct problems *problems, int code)
{
    problems_print(problems);
    return problems_code(problems, code);
}

static int out_of_memory(const char *what)
{
    log_message(LOG_ERROR, "%s: %s", what, strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

/* ---- settings ---- */

/* One tower of the batches that each tower of the training has. What feeds towers in training does not matter. */
static void use_one_tower(struct settings *settings)
{
    const int64_t towers = settings->devices.towers;
    settings->train.batch = (settings_batch(settings) + towers - 1) / towers;
    settings->train.accumulate = 1;
    settings->train.batch_per_tower = 0;
    settings->devices.towers = 1;
    if (settings->input.source == INPUT_SYNTHETIC)
        settings->input.source = INPUT_REAL;
}

static int collect(struct settings *settings, const struct network_words *words, struct problems *problems)
{
    int rc = config_read(settings, words->config, problems);
    const bool is_unread = rc != 0 && rc != -EINVAL;
    for (int i = 0; i < words->assignment_count && rc != -ENOMEM; i++)
        rc = config_set(settings, words->assignments[i], problems);
    run_data_take_classes(settings);
    return rc == -ENOMEM || is_unread ? rc : settings_finish(settings, problems);
}

int trained_read_settings(struct settings *settings, const struct network_words *words)
{
    struct problems problems;
    problems_init(&problems);
    const int rc = collect(settings, words, &problems);
    int code = 0;
    if (rc != 0 || problems.count > 0)
        code = refuse(&problems, exit_code_of(rc, EXIT_CODE_USAGE));
    else
        use_one_tower(settings);
    problems_release(&problems);
    return code;
}

/* A pipe is empty when the program starts again. */
static bool can_be_read_again(const char *path)
{
    struct stat status;
    return *path == '\0' || (stat(path, &status) == 0 && S_ISREG(status.st_mode));
}

bool trained_may_restart(const struct settings *settings)
{
    return can_be_read_again(settings->config_path) && can_be_read_again(settings->model.file) &&
           run_plan_has_teams(settings);
}

/* ---- network and weights ---- */

int trained_open(struct trained *trained, struct settings *settings, const char *weights_path)
{
    struct problems problems;
    *trained = (struct trained){ .settings = settings, .weights_path = weights_path };
    memory_bound_images(settings);
    if (stop_open(&trained->stop) != 0 || settings_open_net(settings, &trained->net) != 0)
        return out_of_memory("the model");
    problems_init(&problems);
    const int rc = initial_weights_open(&trained->weights, weights_path, trained->net, NULL, &problems);
    const int code = rc == 0 ? 0 : refuse(&problems, rc == -EINVAL ? EXIT_CODE_USAGE
                                                                   : (int)exit_code_of(rc, EXIT_CODE_DATA));
    problems_release(&problems);
    if (code == 0)
        initial_weights_tell_prefix(trained->weights);
    return code;
}

/* ---- the plan ---- */

static int choose_device(struct trained *trained, struct problems *problems)
{
    const int rc = device_plan_init(&trained->plan.devices, trained->settings, problems);
    if (rc != 0)
        return refuse(problems, rc == -ENODEV ? EXIT_CODE_DEVICE : EXIT_CODE_USAGE);
    if (trained->plan.devices.backend->computes)
        return 0;
    problems_add(problems, "[devices] kind", "%s computes nothing: use auto, cpu or cuda",
                 trained->plan.devices.ops->kind);
    return refuse(problems, EXIT_CODE_USAGE);
}

static int plan_samples(struct trained *trained, const struct dataset *dataset, uint64_t samples,
                        struct problems *problems)
{
    const struct dataset *const datasets[PHASE_COUNT] = { [PHASE_EVALUATE] = dataset };
    struct run_plan *const plan = &trained->plan;
    plan->only_evaluated = samples;
    if (run_plan_init(plan, trained->settings, trained->net, datasets, problems) != 0)
        return refuse(problems, EXIT_CODE_USAGE);
    if (trained->settings->input.source != INPUT_SYNTHETIC)
        return 0;
    /* Which plans neither batches on the host nor images. */
    memory_share_add(&plan->memory.host, MEMORY_BATCHES,
                     (size_t)trained->settings->input.prefetch_depth * plan->layout.block_bytes);
    memory_plan_add_images(&plan->memory, trained->settings);
    return 0;
}

int trained_plan(struct trained *trained, const struct dataset *dataset, uint64_t samples)
{
    struct problems problems;
    problems_init(&problems);
    int code = choose_device(trained, &problems);
    if (code == 0)
        code = plan_samples(trained, dataset, samples, &problems);
    problems_release(&problems);
    const struct inference_parts parts = {
        .settings = trained->settings,
        .plan = &trained->plan,
        .net = trained->net,
        .weights = trained->weights,
        .stop = trained->stop,
    };
    return code == 0 ? inference_open(&trained->inference, &parts) : code;
}

void trained_close(struct trained *trained)
{
    inference_close(trained->inference);
    initial_weights_close(trained->weights);
    net_close(trained->net);
    stop_close(trained->stop);
    *trained = (struct trained){ .settings = NULL };
}

void trained_print_device(const struct trained *trained, FILE *out)
{
    const struct run_plan *const plan = &trained->plan;
    const uint32_t threads = plan->threads_per_tower;
    char more[64] = "";
    if (plan->devices.ops->host_memory)
        snprintf(more, sizeof(more), ", %u thread%s", threads, threads == 1 ? "" : "s");
    wrapped_print(out, "device    %s, %s, %s%s, batches of %u", plan->devices.ops->kind, plan->devices.backend->name,
                  precision_name(trained->settings->devices.precision), more, plan->schedule.batch);
}
