/* What is compared: keys with the values they take. The variants are all combinations, the last key changing fastest.
 * Where ways of working together are compared, one tower alone comes first, with each key's first value: what they all
 * are to be measured by. Used by main only. */
#ifndef PIPETRAIN_AXES_H
#define PIPETRAIN_AXES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/config/options.h"
#include "tools/config/problems.h"

#define AXES_MAX 8u
#define AXES_VARIANTS_MAX 64u

struct axis {
    const struct option_row *option;
    char *key;                  /* "devices.towers" */
    const char *name;           /* the same, or "towers" where no other section has such a key */
    char **values;              /* as written, but for \, which is a comma */
    size_t count;
};

struct axes {                   /* begins as all 0 */
    struct axis axes[AXES_MAX];
    size_t count;
    bool has_one_tower;         /* variant 0 is that */
};

#define AXES_ONE_TOWER "one tower"

/* Take "KEY=VALUE,VALUE,..."; KEY without its section where only one has it. A key that is there already gets more
 * values. `settings` is for hints. 0, -EINVAL with a problem added, or -ENOMEM. */
int axes_add(struct axes *axes, const char *text, struct settings *settings, struct problems *problems);
/* The axis of a key ("devices.towers"); NULL: it is not compared. */
const struct axis *axes_find(const struct axes *axes, const char *key);
/* Put one tower in front where a key of [sync] is compared, towers are not, and `settings` has more. */
void axes_add_one_tower(struct axes *axes, const struct settings *settings);
/* Accepts a struct of zeros. */
void axes_release(struct axes *axes);

/* How many variants there are; UINT64_MAX: too many to count. 1 without an axis. */
uint64_t axes_variants(const struct axes *axes);
const char *axes_value(const struct axes *axes, uint64_t variant, size_t axis);
/* "towers=2 source=real", cut where it does not fit. */
void axes_name(const struct axes *axes, uint64_t variant, char *name_out, size_t name_size);

#endif
