/* Reading energy counters. */
#include "tools/lib/run/energy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/heartbeat.h"
#include "stage/text/decimal.h"

#define FOLDER "/sys/class/powercap"
#define PREFIX "intel-rapl:"            /* also for AMD */
#define POLL_NS UINT64_C(5000000000)    /* between readings of the packages; in 65 s 1 kW passes a range of 65 kJ */

/* ---- counters ---- */

/* The energy since the latest value, if the counter has begun again after its range; UINT64_MAX if that cannot be, and
 * it was reset, as when a driver is loaded again or after a suspension. 1 kW is a microjoule in a nanosecond; half a
 * range is for clocks of tests. */
static uint64_t around(const struct energy_counter *counter, uint64_t value, uint64_t passed_ns)
{
    if (counter->range == UINT64_MAX || counter->latest > counter->range || value > counter->range)
        return UINT64_MAX;
    const uint64_t energy = value + (counter->range - counter->latest);
    return energy > passed_ns && energy > counter->range / 2 ? UINT64_MAX : energy;
}

/* A range is also the shortest time in which 1 kW passes it. */
bool energy_count(struct energy_counter *counter, uint64_t value, uint64_t now_ns)
{
    const uint64_t passed_ns = now_ns - counter->read_ns;
    bool is_sure = passed_ns < counter->range;
    if (value >= counter->latest)
        counter->sum += value - counter->latest;
    else {
        const uint64_t energy = around(counter, value, passed_ns);
        counter->sum += energy < UINT64_MAX ? energy : value;
        is_sure = is_sure && (energy < UINT64_MAX || counter->range == UINT64_MAX);
    }
    counter->latest = value;
    counter->read_ns = now_ns;
    return is_sure;
}

static struct energy_counter begin_counter(uint64_t value, uint64_t range)
{
    return (struct energy_counter){ .range = range, .latest = value, .read_ns = clock_now_ns() };
}

/* ---- packages ---- */

/* Read the number in a file of sysfs, from its start. 0 or a negative errno. */
static int read_number(int fd, uint64_t *number_out)
{
    char text[32];
    const ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
    if (bytes < 0)
        return -errno;
    text[bytes] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return decimal_u64(text, number_out) ? 0 : -EBADMSG;
}

static int read_file(const char *folder, const char *name, char *text_out, size_t text_size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd >= 0 ? read(fd, text_out, text_size - 1) : -1;
    if (fd >= 0)
        close(fd);
    text_out[bytes > 0 ? bytes : 0] = '\0';
    text_out[strcspn(text_out, "\n")] = '\0';
    return bytes < 0 ? -errno : 0;
}

/* Is it the folder of a package? Others are parts of one (intel-rapl:0:0), or of the whole machine ("psys"), whose
 * energy contains that of the packages. */
static bool is_package(const char *name, const char *folder)
{
    char domain[64];
    uint64_t number;
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && decimal_u64(name + strlen(PREFIX), &number) &&
           read_file(folder, "name", domain, sizeof(domain)) == 0 && strncmp(domain, "package", 7) == 0;
}

static int open_counter(const char *folder, struct energy_package *package)
{
    char path[PATH_MAX], range_text[32];
    uint64_t range, value;
    snprintf(path, sizeof(path), "%s/energy_uj", folder);
    package->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (package->fd < 0)
        return -errno;
    int rc = read_number(package->fd, &value);
    if (rc == 0)
        rc = read_file(folder, "max_energy_range_uj", range_text, sizeof(range_text));
    if (rc == 0 && (!decimal_u64(range_text, &range) || range == 0))
        rc = -EBADMSG;
    if (rc == 0) {
        package->counter = begin_counter(value, range);
        return 0;
    }
    close(package->fd);
    package->fd = -1;
    return rc;
}

static void explain(struct energy *energy, const char *root, const char *name, int rc)
{
    const bool is_forbidden = rc == -EACCES || rc == -EPERM;
    snprintf(energy->why_no_package, sizeof(energy->why_no_package), "%.40s" FOLDER "/%.24s/energy_uj: %s%s", root, name,
             strerror(-rc),
             is_forbidden ? " (only root may read it, or everybody after: chmod a+r " FOLDER "/" PREFIX "*/energy_uj)" : "");
}

static void add_package(struct energy *energy, const char *root, const char *name)
{
    char folder[512];
    snprintf(folder, sizeof(folder), "%.200s" FOLDER "/%.200s", root, name);
    if (!is_package(name, folder) || energy->package_count == ENERGY_PACKAGES_MAX)
        return;
    const int rc = open_counter(folder, &energy->packages[energy->package_count++]);
    energy->packages_read += rc == 0;
    if (rc != 0)
        explain(energy, root, name, rc);
}

void energy_open(struct energy *energy, const char *root)
{
    char path[PATH_MAX];
    memset(energy, 0, sizeof(*energy));
    pthread_mutex_init(&energy->lock, NULL);
    snprintf(path, sizeof(path), "%s" FOLDER, root);
    DIR *const entries = opendir(path);
    const int error = errno;
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;)
        add_package(energy, root, entry->d_name);
    if (entries != NULL)
        closedir(entries);
    if (entries == NULL && error != ENOENT)
        snprintf(energy->why_no_package, sizeof(energy->why_no_package), "%.40s" FOLDER ": %s", root, strerror(error));
    else if (energy->package_count == 0)
        snprintf(energy->why_no_package, sizeof(energy->why_no_package),
                 "no CPU package in %.40s" FOLDER ", as in most virtual machines and containers", root);
}

static void drop_packages(struct energy *energy)
{
    for (uint32_t i = 0; i < energy->package_count; i++)
        if (energy->packages[i].fd >= 0)
            close(energy->packages[i].fd);
    for (uint32_t i = 0; i < energy->package_count; i++)
        energy->packages[i] = (struct energy_package){ .fd = -1 };
}

/* Lock held. */
static void read_packages(struct energy *energy)
{
    for (uint32_t i = 0; i < energy->package_count; i++) {
        struct energy_package *const package = &energy->packages[i];
        uint64_t value;
        if (package->fd < 0)
            continue;
        const bool is_read = read_number(package->fd, &value) == 0;
        if (!is_read || !energy_count(&package->counter, value, clock_now_ns()))
            energy->package_is_partial = true;
    }
}

static bool is_due(const struct energy *energy)
{
    for (uint32_t i = 0; i < energy->package_count; i++)
        if (energy->packages[i].fd >= 0)
            return clock_now_ns() - energy->packages[i].counter.read_ns >= POLL_NS;
    return false;
}

void energy_poll(void *arg)
{
    struct energy *const energy = arg;
    pthread_mutex_lock(&energy->lock);
    if (is_due(energy))
        read_packages(energy);
    pthread_mutex_unlock(&energy->lock);
}

/* ---- GPUs ---- */

static int read_gpu(const struct energy *energy, const struct energy_gpu *gpu, uint64_t *value_out)
{
    heartbeat_begin("nvmlDeviceGetTotalEnergyConsumption");
    const int rc = nvml_energy(energy->nvml, gpu->device, value_out);
    heartbeat_end();
    return rc;
}

static void add_gpu(struct energy *energy, struct energy_gpu *gpu, const char *bus)
{
    uint64_t value;
    const char *why = NULL;
    if (*bus == '\0')
        why = "a part of a GPU (MIG) has no counter of its own";
    else if (nvml_find(energy->nvml, bus, &gpu->device) != 0)
        why = "NVML does not find the GPU";
    else if (read_gpu(energy, gpu, &value) != 0)
        why = "the GPU or its driver does not report it";
    gpu->is_read = why == NULL;
    if (gpu->is_read)
        gpu->counter = begin_counter(value, UINT64_MAX);
    else
        snprintf(energy->why_no_gpu, sizeof(energy->why_no_gpu), "%s%s%s", bus, *bus != '\0' ? ": " : "", why);
}

void energy_add_gpus(struct energy *energy, char (*buses)[BUS_BYTES], uint32_t count)
{
    if (count == 0)
        return;
    energy->gpu_count = count;
    if (nvml_open(&energy->nvml, energy->why_no_gpu, sizeof(energy->why_no_gpu)) != 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        add_gpu(energy, &energy->gpus[i], buses[i]);
}

static void read_gpus(struct energy *energy)
{
    for (uint32_t i = 0; i < energy->gpu_count; i++) {
        struct energy_gpu *const gpu = &energy->gpus[i];
        uint64_t value;
        if (!gpu->is_read)
            continue;
        if (read_gpu(energy, gpu, &value) == 0)
            (void)energy_count(&gpu->counter, value, clock_now_ns());
        else
            energy->gpu_is_partial = true;
    }
}

/* ---- both ---- */

void energy_keep(struct energy *energy, bool has_packages, const bool *gpus)
{
    pthread_mutex_lock(&energy->lock);
    if (!has_packages)
        drop_packages(energy);
    pthread_mutex_unlock(&energy->lock);
    for (uint32_t i = 0; i < energy->gpu_count; i++)
        energy->gpus[i].is_read = energy->gpus[i].is_read && gpus[i];
}

void energy_read(struct energy *energy)
{
    pthread_mutex_lock(&energy->lock);
    read_packages(energy);
    pthread_mutex_unlock(&energy->lock);
    read_gpus(energy);
}

uint64_t energy_sum(struct energy *energy)
{
    uint64_t sum = 0;
    pthread_mutex_lock(&energy->lock);
    for (uint32_t i = 0; i < energy->package_count; i++)
        sum += energy->packages[i].counter.sum;
    pthread_mutex_unlock(&energy->lock);
    for (uint32_t i = 0; i < energy->gpu_count; i++)
        sum += energy->gpus[i].counter.sum;
    return sum;
}

bool energy_is_partial(struct energy *energy)
{
    pthread_mutex_lock(&energy->lock);
    const bool is_partial = energy->package_is_partial;
    pthread_mutex_unlock(&energy->lock);
    return is_partial || energy->gpu_is_partial;
}

void energy_close(struct energy *energy)
{
    drop_packages(energy);
    nvml_close(energy->nvml);
    pthread_mutex_destroy(&energy->lock);
}
