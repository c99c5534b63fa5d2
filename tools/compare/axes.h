/* The keys that --compare varies, with their values. The variants are all combinations; the last key changes
 * fastest. If a key of [sync] is compared, one tower alone with the first value of every key is added as the first
 * variant: the baseline. Main thread only. */
#ifndef PIPETRAIN_AXES_H
#define PIPETRAIN_AXES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/lib/config/options.h"
#include "tools/lib/config/problems.h"

#define AXES_MAX 8u
#define AXES_VARIANTS_MAX 64u

struct axis {
    const struct option_row *option;
    char *key;                  /* "devices.towers" */
    /* the key without its section for messages ("towers"), if it is unique among all sections; else the same as
     * `key` */
    const char *name;
    char **values;              /* as written, except that \, is replaced by a comma */
    size_t count;
};

struct axes {                   /* initialised with zeros */
    struct axis axes[AXES_MAX];
    size_t count;
    bool has_one_tower;         /* variant 0 is one tower alone */
};

#define AXES_ONE_TOWER "one tower"

/* Parse "KEY=VALUE,VALUE,..."; KEY may lack its section if only one section has it. If the key has an axis already,
 * the values are appended to it. `settings` is used for hints. Returns 0, -EINVAL with a problem added, or -ENOMEM. */
int axes_add(struct axes *axes, const char *text, struct settings *settings, struct problems *problems);
/* The axis of a key ("devices.towers"), NULL if it is not compared. */
const struct axis *axes_find(const struct axes *axes, const char *key);
/* If a key of [sync] is compared, devices.towers is not, and `settings` has several towers, add the variant with one
 * tower. */
void axes_add_one_tower(struct axes *axes, const struct settings *settings);
/* Accepts a struct of zeros. */
void axes_release(struct axes *axes);

/* The number of variants; UINT64_MAX if it overflows; 1 without an axis. */
uint64_t axes_variants(const struct axes *axes);
const char *axes_value(const struct axes *axes, uint64_t variant, size_t axis);
/* The values of a variant as text: "towers=2 source=real", truncated to name_size. */
void axes_name(const struct axes *axes, uint64_t variant, char *name_out, size_t name_size);

#endif
