/* Build a tower for evaluation, and run batches through it. */
#include "tools/predict/inference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "stage/log.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/tower_pipeline.h"

/* The results of a batch on the host, in pinned memory. */
struct outcome { struct backend_result result; int32_t labels[]; };

struct inference {
    struct inference_spec spec;
    struct tower_pipeline tower_pipeline;
    struct tower *tower;
    struct outcome *outcome;
    uint64_t *ids;
    float *logits;
};

static uint32_t capacity_of(const struct inference *inference)
{
    return inference->spec.plan->layout.capacity;
}

static size_t logits_bytes(const struct inference *inference)
{
    return (size_t)capacity_of(inference) * inference->spec.net->classes * sizeof(float);
}

/* ---- planning ---- */

/* 0, or the exit code after a message. */
static int inference_fail(const struct inference *inference, const char *what, int rc)
{
    if (rc == 0)
        return 0;
    stop_fail(inference->spec.stop, exit_code_of(rc, EXIT_CODE_DEVICE), "the network could not be %s: %s", what,
              exit_cause(rc));
    return (int)stop_code(inference->spec.stop);
}

/* The threads of a team belong to the thread that computes, here the main thread. */
static int plan_tower(struct inference *inference)
{
    const struct run_plan *const plan = inference->spec.plan;
    struct tower_spec spec = run_plan_tower(plan, inference->spec.settings, 0);
    spec.net = inference->spec.net;
    spec.device = inference->tower_pipeline.device;
    spec.compute = inference->tower_pipeline.compute;
    const int rc = spec.backend->has_teams ? team_start(spec.backend_spec.threads) : 0;
    return rc == 0 ? tower_open(&inference->tower, &spec) : rc;
}

static void add_memory(const struct inference *inference)
{
    struct memory_plan *const memory = &inference->spec.plan->memory;
    const struct trainer_needs needs = { .tower = tower_needs(inference->tower), .samples = capacity_of(inference) };
    memory_plan_add_tower(memory, 0, &needs);
    memory_share_add(&memory->host, MEMORY_RESULTS, logits_bytes(inference));
}

static int check_memory(const struct inference *inference)
{
    struct run_plan *const plan = inference->spec.plan;
    struct device *const device = inference->tower_pipeline.device;
    struct memory_there there;
    struct problems problems;
    size_t total;
    memory_host_there(&plan->memory, inference->spec.settings, &there);
    const int rc = plan->memory.device_count > 0 ? device->ops->memory(device, &there.devices[0], &total) : 0;
    if (rc != 0)
        return inference_fail(inference, "planned", rc);
    problems_init(&problems);
    int code = 0;
    memory_plan_fit_images(&plan->memory, inference->spec.settings, &there);
    if (memory_plan_check(&plan->memory, inference->spec.settings, &there, NULL, &problems) != 0) {
        problems_print(&problems);
        code = EXIT_CODE_MEMORY;
    }
    problems_release(&problems);
    return code;
}

static int plan(struct inference *inference)
{
    int rc = tower_pipeline_open(&inference->tower_pipeline, &inference->spec.plan->devices, 0);
    if (rc == 0)
        rc = stop_on_failure(inference->spec.stop, device_cancel, inference->tower_pipeline.device);
    if (rc == 0)
        rc = plan_tower(inference);
    if (rc != 0)
        return inference_fail(inference, "planned", rc);
    add_memory(inference);
    return check_memory(inference);
}

int inference_open(struct inference **inference_out, const struct inference_spec *spec)
{
    struct inference *const inference = calloc(1, sizeof(*inference));
    if (inference == NULL) {
        log_message(LOG_ERROR, "the network: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    inference->spec = *spec;
    const int code = plan(inference);
    if (code == 0)
        *inference_out = inference;
    else
        inference_close(inference);
    return code;
}

/* ---- memory, weights and threads ---- */

static int allocate(struct inference *inference)
{
    struct device *const device = inference->tower_pipeline.device;
    const size_t count = capacity_of(inference);
    void *memory;
    inference->ids = calloc(count, sizeof(*inference->ids));
    inference->logits = malloc(logits_bytes(inference));
    if (inference->ids == NULL || inference->logits == NULL)
        return -ENOMEM;
    const int rc = device->ops->alloc_pinned(device, sizeof(struct outcome) + count * sizeof(int32_t), &memory);
    if (rc == 0)
        inference->outcome = memory;
    return rc;
}

/* Register everything that can block with stop, before starting threads that use it. */
static int open_stages(struct inference *inference)
{
    const struct inference_spec *const spec = &inference->spec;
    const struct input_settings *const input = &spec->settings->input;
    struct tower_pipeline *const pipeline = &inference->tower_pipeline;
    int rc = tower_pipeline_open_ring(pipeline, (uint32_t)input->prefetch_depth, &spec->plan->layout);
    if (rc == 0)
        rc = stop_on_failure(spec->stop, ring_cancel, pipeline->ring);
    if (rc == 0)
        rc = slots_open(&pipeline->slots, pipeline->device, (uint32_t)input->staging_depth, &spec->plan->layout);
    if (rc == 0)
        rc = stop_on_failure(spec->stop, slots_cancel, pipeline->slots);
    if (rc == 0)
        rc = allocate(inference);
    return rc == 0 ? tower_allocate(inference->tower) : rc;
}

static int start_feeder(struct inference *inference)
{
    const struct inference_spec *const spec = &inference->spec;
    struct tower_pipeline *const pipeline = &inference->tower_pipeline;
    const struct feeder_spec feeder = {
        .name = pipeline->feeder_name,
        .device = pipeline->device,
        .ring = pipeline->ring,
        .slots = pipeline->slots,
        .stop = spec->stop,
        .schedule = &spec->plan->schedule,
        .classes = spec->net->classes,
        .layout = &spec->plan->layout,
    };
    ring_range(pipeline->ring, 0, schedule_batch_count(&spec->plan->schedule));
    return feeder_start(&pipeline->feeder, &feeder);
}

static int write_weights(const struct inference *inference)
{
    const int rc = initial_weights_write(inference->spec.weights, inference->tower);
    return rc == 0 ? 0 : rc == -EREMOTEIO ? EXIT_CODE_DEVICE : (int)exit_code_of(rc, EXIT_CODE_DATA);
}

int inference_begin(struct inference *inference)
{
    int code = inference_fail(inference, "set up", open_stages(inference));
    if (code == 0)
        code = write_weights(inference);
    return code != 0 ? code : inference_fail(inference, "set up", start_feeder(inference));
}

struct ring *inference_ring(struct inference *inference)
{
    return inference->tower_pipeline.ring;
}

/* ---- batches ---- */

/* The slot is free again once the work that reads it is queued. */
static int run_slot(struct inference *inference, struct slot *slot)
{
    const struct device_ops *const ops = inference->tower_pipeline.device->ops;
    struct stream *const compute = inference->tower_pipeline.compute;
    const uint32_t count = slot->local.count;
    int rc = stream_wait(compute, slot->ready);
    if (rc == 0)
        rc = ops->copy(compute, inference->outcome->labels, slot->labels, count * sizeof(*slot->labels),
                       COPY_FROM_DEVICE);
    if (rc == 0)
        rc = tower_forward(inference->tower, slot, 0, false);
    memcpy(inference->ids, slot->ids, count * sizeof(*slot->ids));
    slots_give_back(inference->tower_pipeline.slots, slot);
    if (rc == 0)
        rc = tower_result(inference->tower, &inference->outcome->result);
    return rc == 0 ? tower_logits(inference->tower, inference->logits) : rc;
}

int inference_next(struct inference *inference, struct inference_batch *batch_out)
{
    struct slot *slot;
    int rc = slots_take(inference->tower_pipeline.slots, &slot);
    if (rc != 0)
        return rc;
    const struct local_batch local = slot->local;
    rc = run_slot(inference, slot);
    if (rc != 0)
        return rc == -ECANCELED ? rc : stop_fail(inference->spec.stop, exit_code_of(rc, EXIT_CODE_DEVICE),
                                                 "batch %llu could not be computed: %s",
                                                 (unsigned long long)local.number + 1, exit_cause(rc));
    *batch_out = (struct inference_batch){ local, inference->ids, inference->outcome->labels, inference->logits,
                                           inference->outcome->result };
    return 0;
}

/* ---- the end ---- */

void inference_end(void *ended)
{
    struct inference *const inference = ended;
    ring_cancel(inference->tower_pipeline.ring);
    slots_cancel(inference->tower_pipeline.slots);
}

static void join_feeder(struct tower_pipeline *pipeline)
{
    if (pipeline->ring != NULL)
        ring_cancel(pipeline->ring);
    if (pipeline->slots != NULL)
        slots_end(pipeline->slots);
    feeder_join(pipeline->feeder, NULL);
}

/* Close the tower before the device, which owns its streams and memory. */
void inference_close(struct inference *inference)
{
    if (inference == NULL)
        return;
    struct device *const device = inference->tower_pipeline.device;
    join_feeder(&inference->tower_pipeline);
    stop_forget(inference->spec.stop);
    tower_pipeline_close_stream(&inference->tower_pipeline.communication);
    tower_close(inference->tower);
    if (inference->outcome != NULL)
        device->ops->free_pinned(device, inference->outcome);
    tower_pipeline_close(&inference->tower_pipeline);
    if (device != NULL)
        device->ops->close(device);
    free(inference->logits);
    free(inference->ids);
    free(inference);
}
