/* Training recipes of the models (doc/training.md, "Recipes"). Main thread only. */
#ifndef PIPETRAIN_RECIPES_H
#define PIPETRAIN_RECIPES_H

#include <stdbool.h>

#include "tools/lib/config/options.h"
#include "tools/lib/config/settings.h"

struct recipe_value { const char *key, *value; };

/* The recipe of `model`, a name of model_table: its values, from tf_cnn_benchmarks and the papers of the models; the
 * last row has a NULL key. NULL: no recipe. */
const struct recipe_value *recipe_find(const char *model);
/* The section of the key: SECTION_TRAIN or SECTION_AUGMENT. */
enum section recipe_section(const struct recipe_value *value);

/* Set the keys that the user has not set from the recipe of the model, with ORIGIN_MODEL: the batch size; optimizer,
 * rate, decay and momentum unless another optimizer is set; the schedule with its warm-up unless a schedule is set;
 * and every key of augmentation, unless images are synthetic. Before the checks between keys. 0 or -ENOMEM. */
int recipe_apply(struct settings *settings);
/* Apply only the recipe's scaling of validation images. 0 or -ENOMEM. */
int recipe_apply_evaluation(struct settings *settings);

#define RECIPE_TEXT_SIZE 480
/* List the keys that recipe_apply has set. False: there are none. */
bool recipe_describe_used(const struct settings *settings, char text[RECIPE_TEXT_SIZE]);
/* The recipe as "key = value, ...". */
void recipe_describe(const struct recipe_value *recipe, char text[RECIPE_TEXT_SIZE]);

#endif
