/* Chooses devices, backend and reduction. Their operation tables describe what they support. */
#include "tools/lib/run/run_devices.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/folders.h"
#include "stage/log.h"
#include "stage/text/decimal.h"
#include "sync/ranks/rank_gather.h"
#include "sync/reduce_server.h"
#include "tools/lib/config/training.h"

/* Names in the tables for the values of settings; NULL: the best available. */
static const char *const device_names[] = { [DEVICE_CHOICE_CPU] = "cpu", [DEVICE_CHOICE_CUDA] = "cuda",
                                            [DEVICE_CHOICE_NULL] = "null" };
static const char *const backend_names[] = { [BACKEND_CHOICE_ONEDNN] = "onednn",
                                             [BACKEND_CHOICE_REFERENCE] = "reference" };
static const char *const reduce_names[] = { [REDUCE_CHOICE_NCCL] = "nccl",
                                            [REDUCE_CHOICE_NCCL_ALLREDUCE] = "nccl_allreduce",
                                            [REDUCE_CHOICE_PEER] = "peer", [REDUCE_CHOICE_IPC] = "ipc",
                                            [REDUCE_CHOICE_HOST] = "host" };

const char *precision_name(enum precision precision)
{
    static const char *const names[PRECISION_COUNT] = {
        [PRECISION_FP32] = "fp32", [PRECISION_TF32] = "tf32", [PRECISION_BF16] = "bf16", [PRECISION_FP16] = "fp16" };
    return names[precision];
}

/* Report the reason for a refusal; `more`, unless "", is appended. */
static int report_refusal(struct problems *problems, const char *section, const struct unsupported_reason *reason,
                          const char *more, int rc)
{
    char place[64];
    snprintf(place, sizeof(place), "[%s] %s", section, reason->what);
    problems_add(problems, place, "%s%s%s", reason->why, *more != '\0' ? "; " : "", more);
    return rc;
}

/* ---- devices and backend ---- */

/* The backend for this kind of device, by devices.backend; NULL: there is none. */
static const struct backend_ops *find_backend(const struct settings *settings, const char *device)
{
    return backend_choose(backend_names[settings->devices.backend], device);
}

/* Use devices of the named kind. *available_out becomes their number. */
static int use_kind(struct run_devices *devices, const char *name, uint32_t *available_out,
                     struct problems *problems)
{
    const struct device_kind *kind = device_kinds;
    while (strcmp(kind->name, name) != 0)
        kind++;
    const uint32_t count = device_kind_count(kind, devices->note, sizeof(devices->note));
    if (kind->ops == NULL || count == 0) {
        problems_add(problems, "[devices] kind", "there is no %s device to use: %s", name, devices->note);
        return -ENODEV;
    }
    devices->ops = kind->ops;
    *available_out = count;
    return 0;
}

/* Use the first kind that has a device and a backend. Libraries of other kinds are not loaded. */
static int use_best_kind(struct run_devices *devices, const struct settings *settings, uint32_t *available_out)
{
    const struct device_kind *kind = device_kinds;
    *available_out = 0;
    for (; kind->name != NULL && *available_out == 0; kind++) {
        const bool is_out = kind->ops != NULL || backend_names[settings->devices.backend] != NULL;
        if (is_out && find_backend(settings, kind->name) == NULL)
            continue;
        char why[sizeof(devices->note)];
        *available_out = device_kind_count(kind, why, sizeof(why));
        devices->ops = kind->ops;
        if (*available_out == 0)
            memcpy(devices->note, why, sizeof(why));
    }
    return 0;
}

static int choose_kind(struct run_devices *devices, const struct settings *settings, uint32_t *available_out,
                       struct problems *problems)
{
    const char *const name = device_names[settings->devices.kind];
    const char *const backend = backend_names[settings->devices.backend];
    if (name == NULL)
        return use_best_kind(devices, settings, available_out);
    if (device_find(name) != NULL && backend != NULL && backend_find(backend) != NULL &&
        find_backend(settings, name) == NULL) {
        problems_add(problems, "[devices] backend", "%s computes on the %s, and kind = %s", backend,
                     backend_find(backend)->device, name);
        return -EINVAL;
    }
    return use_kind(devices, name, available_out, problems);
}

static int choose_backend(struct run_devices *devices, const struct settings *settings, struct problems *problems)
{
    devices->backend = find_backend(settings, devices->ops->kind);
    if (devices->backend != NULL)
        return 0;
    problems_add(problems, "[devices] backend", "this program was built without %s",
                 backend_names[settings->devices.backend]);
    return -EINVAL;
}

static int add_device(struct run_devices *devices, uint64_t index, uint32_t available, struct problems *problems)
{
    if (index >= available) {
        problems_add(problems, "[devices] list", "there is no device %" PRIu64 ": this run can use %u, numbered from 0",
                     index, available);
        return -ENODEV;
    }
    for (uint32_t i = 0; i < devices->count; i++)
        if (devices->index[i] == (uint32_t)index) {
            problems_add(problems, "[devices] list", "device %" PRIu64 " is named twice", index);
            return -EINVAL;
        }
    devices->index[devices->count++] = (uint32_t)index;
    return 0;
}

/* Read a list of devices such as "0,2,3". */
static int read_list(struct run_devices *devices, const char *list, uint32_t available, struct problems *problems)
{
    int rc = 0;
    for (const char *at = list; rc == 0; at++) {
        uint64_t number;
        const char *const end = decimal_u64_start(at, &number);
        if (end == NULL || (*end != ',' && *end != '\0') || devices->count == DEVICES_MAX) {
            problems_add(problems, "[devices] list", "'%s' is not a list of device numbers such as 0,1", list);
            return -EINVAL;
        }
        rc = add_device(devices, number, available, problems);
        at = end;
        if (*at == '\0')
            break;
    }
    return rc;
}

void run_devices_share(struct run_devices *devices, uint32_t local_rank, uint32_t ranks)
{
    const uint32_t towers = devices->towers.count, count = devices->count;
    uint32_t all[DEVICES_MAX];
    memcpy(all, devices->index, sizeof(all));
    devices->count = count < towers ? count : towers;
    for (uint32_t i = 0; i < devices->count; i++)
        devices->index[i] = all[(local_rank * towers + i) % count];
    devices->sharing = (ranks * devices->count + count - 1) / count;
}

/* If the settings do not select devices and the process sees only one, it assumes that the launcher has selected it. */
static int choose_devices(struct run_devices *devices, const struct settings *settings, uint32_t available,
                          struct problems *problems)
{
    const uint32_t towers = devices->towers.count;
    const char *const list = settings->devices.list;
    const bool are_numbered = available != UINT32_MAX;
    const bool are_shared = are_numbered && (*list != '\0' || available > 1);
    const uint32_t ranks = are_shared ? settings->local_ranks : 1;
    if (*list != '\0' && !are_numbered) {
        problems_add(problems, "[devices] list", "devices of kind %s have no numbers%s%s", devices->ops->kind,
                     devices->note[0] != '\0' ? ": " : "", devices->note);
        return -EINVAL;
    }
    if (*list != '\0') {
        const int rc = read_list(devices, list, available, problems);
        if (rc != 0)
            return rc;
    } else {
        devices->idle = are_numbered && available / ranks > towers ? available / ranks - towers : 0;
        devices->count = available < DEVICES_MAX ? available : DEVICES_MAX;
        for (uint32_t i = 0; i < devices->count; i++)
            devices->index[i] = i;
    }
    run_devices_share(devices, are_shared ? settings->local_rank : 0, ranks);
    return 0;
}

/* ---- checks ---- */

/* Check the backend. If the kind of device was chosen automatically, messages name it, too. */
static int check_backend(const struct run_devices *devices, const struct settings *settings, struct problems *problems)
{
    const struct backend_spec wishes = { .layout = settings->devices.layout, .precision = settings->devices.precision,
                                         .convolution = settings->devices.convolution };
    struct unsupported_reason reason;
    const int rc = devices->backend->supports(&wishes, &reason);
    if (rc == 0)
        return 0;
    return report_refusal(problems, "devices", &reason, devices->note,
                          settings->devices.kind == DEVICE_CHOICE_AUTO ? rc : -EINVAL);
}

static int check_devices(const struct run_devices *devices, struct problems *problems)
{
    struct unsupported_reason reason;
    const int rc = devices->ops->supports(devices->count, &reason);
    if (rc != 0)
        problems_add(problems, reason.what, "%s", reason.why);
    return rc;
}

/* ---- the reduction ---- */

static bool has_to_sum(const struct settings *settings)
{
    const struct sync_ops *const mode = settings_sync(settings, true);
    return settings_towers(settings) > 1 && mode->sum != NULL && mode->serves == SERVES_NOBODY;
}

static struct reduce_towers reduce_towers_of(const struct run_devices *devices, const struct settings *settings)
{
    return (struct reduce_towers){
        .run = settings_towers(settings),
        .here = devices->towers,
        .devices = devices->ops,
        .index = devices->index,
        .device_count = devices->count,
        .has_owners = settings_sync(settings, true)->has_owners || settings->model.parts > 0,
        .has_bf16_grads = settings_use_bf16_grads(settings),
        .in_pairs = settings->train.slices > 0,
        .on_one_host = settings->local_ranks == settings->ranks,
    };
}

static int choose_reduction(struct run_devices *devices, const struct settings *settings, struct problems *problems)
{
    const struct reduce_towers towers = reduce_towers_of(devices, settings);
    struct unsupported_reason reason;
    devices->mode = settings_sync(settings, devices->backend->computes);
    devices->reduce = devices->mode->serves == SERVES_NOBODY ? &reduce_none_ops
                      : settings->ranks > 1 ? &reduce_server_ranks_ops : &reduce_server_ops;
    if (!has_to_sum(settings) || !devices->backend->computes)
        return 0;
    const int rc = reduce_choose(reduce_names[settings->sync.reduce], &towers, &devices->reduce, &reason);
    return rc == 0 ? 0 : report_refusal(problems, "sync", &reason, "", rc);
}

/* ---- all together ---- */

/* Choose the plan cache. Without a writable folder every run has to plan again. */
static void choose_plan_cache(struct run_devices *devices, const struct settings *settings)
{
    const char *const folder = settings->devices.plan_cache;
    if (!devices->backend->keeps_plans || strcmp(folder, "none") == 0)
        return;
    if (*folder != '\0') {
        snprintf(devices->plan_cache, sizeof(devices->plan_cache), "%s", folder);
        (void)mkdir(folder, 0777);      /* errors are found by access() below */
    } else {
        cache_folder_make();
        if (!cache_folder_find(devices->plan_cache, sizeof(devices->plan_cache)))
            devices->plan_cache[0] = '\0';
    }
    devices->keeps_plans = access(devices->plan_cache, W_OK | X_OK) == 0;
}

static int choose(struct run_devices *devices, const struct settings *settings, struct problems *problems)
{
    const uint32_t towers = (uint32_t)settings->devices.towers;
    *devices = (struct run_devices){ .towers = { .first = settings->rank * towers, .count = towers } };
    uint32_t available;
    if (has_to_sum(settings))
        reduce_prepare(reduce_names[settings->sync.reduce], devices->towers.count);
    int rc = choose_kind(devices, settings, &available, problems);
    if (rc == 0)
        rc = choose_devices(devices, settings, available, problems);
    if (rc == 0)
        rc = choose_backend(devices, settings, problems);
    if (rc == 0)
        rc = check_backend(devices, settings, problems);
    if (rc == 0)
        rc = choose_reduction(devices, settings, problems);
    if (rc == 0)
        rc = check_devices(devices, problems);
    if (rc == 0)
        choose_plan_cache(devices, settings);
    return rc;
}

int run_devices_init(struct run_devices *devices, const struct settings *settings, struct problems *problems)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = choose(devices, settings, problems);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* The largest group of 2^n ranks to which this one belongs whose ranks all share memory with it. */
static uint32_t near_ranks(const struct ranks *ranks)
{
    const uint32_t size = ranks_size(ranks), own = ranks_rank(ranks);
    uint32_t near = 1;
    for (uint32_t group = 2; group < size && size % group == 0; group *= 2) {
        const uint32_t first = own / group * group;
        for (uint32_t rank = first; rank < first + group; rank++)
            if (!ranks_can_wake(ranks, rank))
                return near;
        near = group;
    }
    return near;
}

/* Find the ranks that sum first: as many as are near each other around every rank. */
static int find_group(struct run_devices *devices, const struct settings *settings, struct ranks *ranks)
{
    const uint32_t towers = devices->towers.count, near = near_ranks(ranks);
    uint32_t least = near;
    uint32_t *const all = calloc(ranks_size(ranks), sizeof(*all));
    const int rc = all == NULL ? -ENOMEM : rank_gather(ranks, &near, sizeof(near), all);
    for (uint32_t rank = 0; rank < ranks_size(ranks) && rc == 0; rank++)
        least = all[rank] < least ? all[rank] : least;
    free(all);
    if (rc != 0)
        return rc;
    devices->group = settings->sync.group > 0 ? (uint32_t)settings->sync.group : (towers & (towers - 1)) == 0 ? least : 1;
    return 0;
}

static int agree_on_reduction(struct run_devices *devices, const struct settings *settings, struct ranks *ranks)
{
    const char *const name = reduce_names[settings->sync.reduce];
    if (devices->ops->host_memory)
        return 0;
    const struct reduce_towers towers = reduce_towers_of(devices, settings);
    struct unsupported_reason reason;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = reduce_agree(name, &towers, ranks, &devices->reduce, &reason);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0 && *reason.why != '\0')
        log_message(LOG_RUN, "sync.reduce: sums are computed by %s: %s", devices->reduce == &reduce_ranks_ops
                    ? "the host" : devices->reduce->name, reason.why);
    else if (rc != 0 && rc != -ECANCELED)
        log_message(LOG_PROBLEM, "[sync] reduce: %s: use auto or host", reason.why);
    return rc;
}

int run_devices_agree(struct run_devices *devices, const struct settings *settings, struct ranks *ranks)
{
    if (ranks == NULL || !has_to_sum(settings) || !devices->backend->computes)
        return 0;
    const int rc = agree_on_reduction(devices, settings, ranks);
    if (rc == 0 && settings->sync.group > 1 && devices->reduce != &reduce_ranks_ops)
        log_message(LOG_RUN, "sync.group: no group of %lld ranks sums first, because the sums are computed by %s (groups are "
                    "for sums in host memory: sync.reduce = host)", (long long)settings->sync.group,
                    devices->reduce->name);
    return rc == 0 && devices->reduce == &reduce_ranks_ops ? find_group(devices, settings, ranks) : rc;
}

void run_devices_bus(const struct run_devices *devices, uint32_t i, char bus_out[BUS_BYTES])
{
    struct device_description device;
    const bool is_whole = devices->ops->describe(devices->index[i], &device) == 0 && strstr(device.name, " MIG ") == NULL;
    snprintf(bus_out, BUS_BYTES, "%s", is_whole ? device.bus : "");
}
