/* Choosing devices, backend and reduction. */
#include "tools/run/device_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/cache_folder.h"

static bool is_cuda(const struct device_plan *plan)
{
    return strcmp(plan->ops->kind, "cuda") == 0;
}

const char *device_plan_word(const struct device_plan *plan)
{
    return plan->backend == NULL ? "null" : is_cuda(plan) ? "cuda" : "cpu";
}

const char *precision_name(enum precision precision)
{
    static const char *const names[PRECISION_COUNT] = {
        [PRECISION_FP32] = "fp32", [PRECISION_TF32] = "tf32", [PRECISION_BF16] = "bf16", [PRECISION_FP16] = "fp16" };
    return names[precision];
}

/* How many CUDA devices there are; 0 with the reason. */
static uint32_t count_cuda(char *why, size_t why_size)
{
    const struct device_ops *const cuda = device_find("cuda");
    if (cuda != NULL)
        return cuda->count(why, why_size);
    snprintf(why, why_size, "this program was built without CUDA");
    return 0;
}

static bool is_cpu_backend(const struct settings *settings)
{
    return settings->devices.backend == BACKEND_CHOICE_ONEDNN || settings->devices.backend == BACKEND_CHOICE_REFERENCE;
}

/* The kind of device; *available gets how many of it there are. */
static int choose_kind(struct device_plan *plan, const struct settings *settings, bool must_exist,
                       uint32_t *available, struct problems *problems)
{
    const enum device_choice kind = settings->devices.kind;
    *available = UINT32_MAX;
    plan->ops = kind == DEVICE_CHOICE_NULL ? &device_null_ops : &device_host_ops;
    if (kind == DEVICE_CHOICE_NULL || kind == DEVICE_CHOICE_CPU)
        return 0;
    if (is_cpu_backend(settings)) {
        if (kind == DEVICE_CHOICE_AUTO)
            return 0;
        problems_add(problems, "[devices] backend", "computes on the CPU, and kind = cuda");
        return -EINVAL;
    }
    const uint32_t count = count_cuda(plan->note, sizeof(plan->note));
    if (count == 0 && kind == DEVICE_CHOICE_AUTO)
        return 0;
    const struct device_ops *const cuda = device_find("cuda");
    if (cuda == NULL || (count == 0 && must_exist)) {
        problems_add(problems, "[devices] kind", "there is no CUDA device to use: %s", plan->note);
        return -ENODEV;
    }
    plan->ops = cuda;
    *available = count > 0 ? count : DEVICES_MAX;
    return 0;
}

static int add_device(struct device_plan *plan, int64_t index, uint32_t available, struct problems *problems)
{
    if (index >= available) {
        problems_add(problems, "[devices] list", "there is no device %lld: this run can use %u, numbered from 0",
                     (long long)index, available);
        return -ENODEV;
    }
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->index[i] == (uint32_t)index) {
            problems_add(problems, "[devices] list", "device %lld is named twice", (long long)index);
            return -EINVAL;
        }
    plan->index[plan->count++] = (uint32_t)index;
    return 0;
}

/* "0,2,3" */
static int read_list(struct device_plan *plan, const char *list, uint32_t available, struct problems *problems)
{
    int rc = 0;
    for (const char *at = list; rc == 0; at++) {
        char *end;
        errno = 0;
        const long number = strtol(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || errno != 0 || (*end != ',' && *end != '\0') ||
            plan->count == DEVICES_MAX) {
            problems_add(problems, "[devices] list", "'%s' is not a list of device numbers such as 0,1", list);
            return -EINVAL;
        }
        rc = add_device(plan, number, available, problems);
        at = end;
        if (*at == '\0')
            break;
    }
    return rc;
}

/* No more devices than towers are of use. */
static int choose_devices(struct device_plan *plan, const struct settings *settings, uint32_t available,
                          struct problems *problems)
{
    const uint32_t towers = (uint32_t)settings->devices.towers;
    const char *const list = settings->devices.list;
    if (*list != '\0' && !is_cuda(plan)) {
        problems_add(problems, "[devices] list", "only CUDA devices have numbers, and this run uses none%s%s",
                     plan->note[0] != '\0' ? ": " : "", plan->note);
        return -EINVAL;
    }
    if (*list != '\0') {
        const int rc = read_list(plan, list, available, problems);
        plan->count = plan->count < towers ? plan->count : towers;
        return rc;
    }
    plan->idle = available != UINT32_MAX && available > towers ? available - towers : 0;
    plan->count = available < towers ? available : towers;
    for (uint32_t i = 0; i < plan->count; i++)
        plan->index[i] = i;
    return 0;
}

static int choose_backend(struct device_plan *plan, const struct settings *settings, struct problems *problems)
{
    if (settings->devices.kind == DEVICE_CHOICE_NULL)
        return 0;
    const enum backend_choice choice = settings->devices.backend;
    const char *const name = is_cuda(plan) ? "cuda" : choice == BACKEND_CHOICE_REFERENCE ? "reference" : "onednn";
    plan->backend = backend_find(name);
    if (plan->backend == NULL && choice == BACKEND_CHOICE_AUTO)
        plan->backend = backend_find("reference");
    if (plan->backend != NULL)
        return 0;
    problems_add(problems, "[devices] backend", "this program was built without %s", name);
    return -EINVAL;
}

static int check_layout(const struct device_plan *plan, const struct settings *settings, struct problems *problems)
{
    if (plan->backend == NULL || !is_cuda(plan) || settings->devices.layout != LAYOUT_NCHW)
        return 0;
    problems_add(problems, "[devices] layout", "on CUDA devices activations are nhwc only");
    return -EINVAL;
}

static int check_precision(const struct device_plan *plan, const struct settings *settings, struct problems *problems)
{
    if (plan->backend == NULL || is_cuda(plan) || settings->devices.precision == PRECISION_FP32)
        return 0;
    problems_add(problems, "[devices] precision", "the CPU computes in fp32 only%s%s", plan->note[0] != '\0' ? "; " : "",
                 plan->note);
    return settings->devices.kind == DEVICE_CHOICE_AUTO ? -ENODEV : -EINVAL;
}

static int refuse_reduction(struct problems *problems, int rc, const char *why)
{
    problems_add(problems, "[sync] reduce", "%s", why);
    return rc;
}

/* Can all devices of the run use each other's memory? */
static bool is_connected(const struct device_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++)
        for (uint32_t j = 0; j < plan->count; j++)
            if (i != j && !plan->ops->reaches(plan->index[i], plan->index[j]))
                return false;
    return true;
}

static const char *choose_cuda_reduction(const struct device_plan *plan, uint32_t towers)
{
    if (towers == plan->count)
        return "nccl";
    return is_connected(plan) ? "peer" : "host";
}

static int choose_reduction(struct device_plan *plan, const struct settings *settings, struct problems *problems)
{
    static const char *const names[] = {
        [REDUCE_CHOICE_NCCL] = "nccl", [REDUCE_CHOICE_PEER] = "peer", [REDUCE_CHOICE_HOST] = "host" };
    const uint32_t towers = (uint32_t)settings->devices.towers;
    const enum reduce_choice choice = settings->sync.reduce;
    plan->reduce = &reduce_none_ops;
    if (towers == 1 || sync_table[settings->sync.mode]->sum == NULL || plan->backend == NULL)
        return 0;
    if (!is_cuda(plan) && (choice == REDUCE_CHOICE_NCCL || choice == REDUCE_CHOICE_PEER))
        return refuse_reduction(problems, -EINVAL, "nccl and peer are for CUDA devices, and this run computes on the CPU: "
                                "use auto or host");
    if (choice == REDUCE_CHOICE_NCCL && towers > plan->count)
        return refuse_reduction(problems, -ENODEV, "NCCL takes one tower a device, and there are more towers than "
                                "devices: use auto, peer or host");
    if (choice == REDUCE_CHOICE_PEER && !is_connected(plan))
        return refuse_reduction(problems, -ENODEV, "the devices cannot use each other's memory: use auto or host");
    const char *const name = choice != REDUCE_CHOICE_AUTO ? names[choice]
                             : is_cuda(plan)              ? choose_cuda_reduction(plan, towers)
                                                          : "host";
    plan->reduce = reduce_find(name);
    return 0;
}

/* With it every launch waits for its end, and streams that wait for each other may hang. */
static int check_environment(const struct device_plan *plan, struct problems *problems)
{
    const char *const blocking = getenv("CUDA_LAUNCH_BLOCKING");
    if (!is_cuda(plan) || plan->count == 1 || blocking == NULL || strcmp(blocking, "0") == 0 || *blocking == '\0')
        return 0;
    problems_add(problems, "CUDA_LAUNCH_BLOCKING",
                 "is set, and with %u devices in one process that can hang: unset it, or use one device", plan->count);
    return -ENODEV;
}

/* A folder that is not there or cannot be written costs the planning time, nothing else. */
static void choose_plan_cache(struct device_plan *plan, const struct settings *settings)
{
    const char *const folder = settings->devices.plan_cache;
    if (!is_cuda(plan) || strcmp(folder, "none") == 0)
        return;
    if (*folder != '\0') {
        snprintf(plan->plan_cache, sizeof(plan->plan_cache), "%s", folder);
        (void)mkdir(folder, 0777);      /* whether that worked shows when a file is made there */
        return;
    }
    cache_folder_make();
    if (!cache_folder_find(plan->plan_cache, sizeof(plan->plan_cache)))
        plan->plan_cache[0] = '\0';
}

/* A kernel that is loaded when it is first called stops its device meanwhile, and with it for
 * ever a collective of NCCL that waits for a peer. Loading all of the libraries' kernels at
 * the start takes seconds and memory, so only runs that may use NCCL do. Before the first call
 * of CUDA, which reads this. */
static void choose_loading(const struct settings *settings)
{
    const enum reduce_choice reduce = settings->sync.reduce;
    if (settings->devices.towers > 1 && sync_table[settings->sync.mode]->sum != NULL &&
        (reduce == REDUCE_CHOICE_AUTO || reduce == REDUCE_CHOICE_NCCL))
        setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

int device_plan_init(struct device_plan *plan, const struct settings *settings, bool must_exist,
                     struct problems *problems)
{
    *plan = (struct device_plan){ .ops = NULL };
    uint32_t available;
    choose_loading(settings);
    int rc = choose_kind(plan, settings, must_exist, &available, problems);
    if (rc == 0)
        rc = choose_devices(plan, settings, available, problems);
    if (rc == 0)
        rc = choose_backend(plan, settings, problems);
    if (rc == 0)
        rc = check_precision(plan, settings, problems);
    if (rc == 0)
        rc = check_layout(plan, settings, problems);
    if (rc == 0)
        rc = choose_reduction(plan, settings, problems);
    if (rc == 0)
        rc = check_environment(plan, problems);
    if (rc == 0)
        choose_plan_cache(plan, settings);
    return rc;
}
