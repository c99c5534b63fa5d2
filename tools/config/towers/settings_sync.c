/* Modes of synchronisation by their settings. Main only. */
#include "tools/config/towers/settings_sync.h"

#include "tools/config/settings_model.h"

static enum sync_mode mode_of(const struct sync_settings *sync)
{
    const bool is_relaxed = sync->consistency == CONSISTENCY_RELAXED;
    if (sync->mode == SYNC_REPLICATED && is_relaxed)
        return SYNC_RELAXED;
    if (sync->mode != SYNC_SERVER_DEVICE)
        return sync->mode;
    if (sync->server == SYNC_PLACE_CPU)
        return is_relaxed ? SYNC_SERVER_HOST_RELAXED : SYNC_SERVER_HOST;
    return is_relaxed ? SYNC_SERVER_DEVICE_RELAXED : SYNC_SERVER_DEVICE;
}

const struct sync_ops *settings_sync(const struct settings *settings, bool computes)
{
    const struct sync_settings *const sync = &settings->sync;
    return sync_choose(computes ? mode_of(sync) : SYNC_REPLICATED, (uint32_t)settings->devices.towers,
                       (uint32_t)sync->max_staleness);
}

/* What a step finds out about its gradients comes too late for the one before. */
static void check_consistency(struct settings *settings, struct problems *problems)
{
    if (settings->sync.consistency == CONSISTENCY_STRONG)
        return;
    if (settings->sync.mode == SYNC_ASYNC)
        settings_report(settings, problems, SECTION_SYNC, "consistency",
                        "relaxed is not for mode = async, which waits for no sum: use a larger max_staleness");
    else if (!settings_sync(settings, true)->sums[REGION_GRADIENTS])
        settings_report(settings, problems, SECTION_SYNC, "consistency",
                        "relaxed hides the sum of gradients, and this mode has none: use mode = replicated or "
                        "parameter_server");
    if (settings->devices.precision == PRECISION_FP16)
        settings_report(settings, problems, SECTION_SYNC, "consistency",
                        "relaxed does not scale losses as fp16 needs it: use devices.precision = bf16");
    if (settings->train.on_nan == ON_NAN_SKIP)
        settings_report(settings, problems, SECTION_SYNC, "consistency",
                        "relaxed sees a step's gradients after the next one was computed, too late for train.on_nan "
                        "= skip: use rollback");
}

/* Weights would lose what updates add to their last digits. */
static void check_wire(struct settings *settings, struct problems *problems)
{
    const struct sync_ops *const mode = settings_sync(settings, true);
    if (settings->sync.wire == WIRE_FP32 || mode->sums[REGION_GRADIENTS])
        return;
    settings_report(settings, problems, SECTION_SYNC, "wire",
                    "bf16 is for gradients, and towers of this mode send none: use fp32, or mode = replicated, "
                    "parameter_server or async");
}

bool settings_use_bf16_grads(const struct settings *settings)
{
    return settings->sync.wire == WIRE_BF16 && settings->devices.towers > 1;
}

/* A server updates for towers that do not see the sum of the gradients. */
void settings_check_sync(struct settings *settings, struct problems *problems)
{
    const struct sync_ops *const mode = settings_sync(settings, true);
    check_consistency(settings, problems);
    check_wire(settings, problems);
    const bool is_served = mode->has_owners || mode->serves != SERVES_NOBODY;
    if (is_served && settings->devices.precision == PRECISION_FP16)
        settings_report(settings, problems, SECTION_SYNC, "mode",
                        "fp16 needs every tower to see whether the gradients overflowed, and a server alone sees "
                        "their sum: use replicated, or devices.precision = bf16");
    if (is_served && settings->train.on_nan == ON_NAN_SKIP)
        settings_report(settings, problems, SECTION_SYNC, "mode",
                        "train.on_nan = skip needs every tower to see the sum of the gradients, and a server alone "
                        "does: use replicated, or on_nan = rollback");
    if (mode->serves == SERVES_EACH && settings->train.ema > 0)
        settings_report(settings, problems, SECTION_SYNC, "mode",
                        "train.ema has no weights to average that all towers have: use another mode than async");
}
