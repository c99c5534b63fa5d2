/* The network of the settings: a model by name, or a file that describes one. Used by main only. */
#ifndef PIPETRAIN_SETTINGS_MODEL_H
#define PIPETRAIN_SETTINGS_MODEL_H

#include "compute/net.h"
#include "tools/config/options.h"
#include "tools/config/settings.h"

/* Decide between model.name and model.file, read the file, and check that the settings fit the network. 0, or with
 * problems added: -EINVAL or -ENOMEM. */
int settings_find_model(struct settings *settings, struct problems *problems);
/* The network, with the settings' classes, dropout, auxiliary head and transform of pixels. After
 * settings_find_model or settings_finish. As model_open. */
int settings_open_net(const struct settings *settings, struct net **net_out);

/* In place of what the file and --set say: a name, or a file where there is a slash in it or it ends in ".net". 0; or
 * with a problem added, of the option `where`, -EINVAL when it is neither; or -ENOMEM. */
int settings_choose_model(struct settings *settings, const char *where, const char *model, struct problems *problems);

/* What is known of the option of a field. */
struct option_origin *settings_origin(struct settings *settings, enum section section, const char *key);
/* Report a problem with an option where it was given, or in the file where it was not, unless it has one already. */
void settings_report(struct settings *settings, struct problems *problems, enum section section, const char *key,
                     const char *message);

#endif
