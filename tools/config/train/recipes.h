/* How each model is usually trained (doc/training.md, "Recipes"). Used by main only. */
#ifndef PIPETRAIN_RECIPES_H
#define PIPETRAIN_RECIPES_H

#include <stdbool.h>

#include "tools/config/options.h"
#include "tools/config/settings.h"

struct recipe_value { const char *key, *value; };

/* The values that `model`, one of model_table's names, is usually trained with, ended by one without a key: from
 * tf_cnn_benchmarks and the models' papers. NULL: it has none. Constant. */
const struct recipe_value *recipe_find(const char *model);
/* SECTION_TRAIN or SECTION_AUGMENT. */
enum section recipe_section(const struct recipe_value *value);

/* Give the keys that nothing was said of the values of the model's recipe, and ORIGIN_MODEL: the batch;
 * where no other optimizer than the recipe's is given also that, its rate, decay and momentum, and where no schedule
 * is given the recipe's with its warm-up; and what is done to training images, each key by itself, where these are not
 * drawn. Before the checks between keys. 0 or -ENOMEM. */
int recipe_apply(struct settings *settings);
/* Only how validation images are scaled, as it says. 0 or -ENOMEM. */
int recipe_apply_evaluation(struct settings *settings);

#define RECIPE_TEXT_SIZE 320
/* The keys that recipe_apply gave values, with commas. False: none. */
bool recipe_describe_used(const struct settings *settings, char text[RECIPE_TEXT_SIZE]);
/* What recipe_find gives as "key = value, ...". */
void recipe_describe(const struct recipe_value *recipe, char text[RECIPE_TEXT_SIZE]);

#endif
