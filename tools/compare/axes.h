/* The keys that are compared, with their values. The variants are all combinations, in which the last key changes
 * fastest. Where a key of [sync] is compared, the first variant is one tower alone with the first value of every key:
 * the baseline of the others. Main thread only. */
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
    const char *name;           /* the same, or "towers" if no other section has a key of this name */
    char **values;              /* as written, with \, replaced by a comma */
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
/* Add the variant of one tower, if a key of [sync] is compared, devices.towers is not, and `settings` has several. */
void axes_add_one_tower(struct axes *axes, const struct settings *settings);
/* Accepts a struct of zeros. */
void axes_release(struct axes *axes);

/* The number of variants; UINT64_MAX if it overflows; 1 without an axis. */
uint64_t axes_variants(const struct axes *axes);
const char *axes_value(const struct axes *axes, uint64_t variant, size_t axis);
/* "towers=2 source=real", truncated to name_size. */
void axes_name(const struct axes *axes, uint64_t variant, char *name_out, size_t name_size);

#endif
