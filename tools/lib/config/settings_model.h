/* The network of the settings: a model by name or from a file. Main thread only. */
#ifndef PIPETRAIN_SETTINGS_MODEL_H
#define PIPETRAIN_SETTINGS_MODEL_H

#include "compute/net.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/settings.h"

/* Choose between model.name and model.file, read the file, and check that the settings fit the network. 0, or with
 * problems added: -EINVAL or -ENOMEM. */
int settings_find_model(struct settings *settings, struct problems *problems);
/* Open the network with the classes, dropout, auxiliary head and transform of pixels of the settings. After
 * settings_find_model or settings_finish. Returns as model_open. */
int settings_open_net(const struct settings *settings, struct net **net_out);

/* Open the network for training images, with the same parameters as `net`, the network of the settings; NULL if it is
 * `net` itself. Returns as model_open. */
int settings_open_train_net(const struct settings *settings, const struct net *net, struct net **train_net_out);

/* Override the model of the file and of --set by a name, or by a file if it has a slash or the suffix ".net". 0;
 * -EINVAL with a problem of the option `where` added; or -ENOMEM. */
int settings_choose_model(struct settings *settings, const char *where, const char *model, struct problems *problems);

/* Set the defaults of run.name and run.dir, as settings_finish does. 0 or -ENOMEM. */
int settings_fill_names(struct settings *settings);
/* What stands before the name of an option of the command line in messages: "--set ", or "" for a feed. */
const char *settings_prefix(const struct settings *settings);
/* The origin of an option. */
struct option_origin *settings_origin(struct settings *settings, enum section section, const char *key);
/* Report a problem with an option, where it was set (else for the file), unless one was reported already. */
void settings_report(struct settings *settings, struct problems *problems, enum section section, const char *key,
                     const char *message);

#endif
