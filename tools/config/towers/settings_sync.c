/* Modes of synchronisation by their settings. Main only. */
#include "tools/config/towers/settings_sync.h"

#include "tools/config/settings_model.h"

static enum sync_mode mode_of(const struct sync_settings *sync)
{
    return sync->mode == SYNC_SERVER_DEVICE && sync->server == SYNC_PLACE_CPU ? SYNC_SERVER_HOST : sync->mode;
}

const struct sync_ops *settings_sync(const struct settings *settings, bool computes)
{
    const struct sync_settings *const sync = &settings->sync;
    return sync_choose(computes ? mode_of(sync) : SYNC_REPLICATED, (uint32_t)settings->devices.towers,
                       (uint32_t)sync->max_staleness);
}

/* A server updates for towers that do not see the sum of the gradients. */
void settings_check_sync(struct settings *settings, struct problems *problems)
{
    const struct sync_ops *const mode = settings_sync(settings, true);
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
