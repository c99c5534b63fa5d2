/* The options of a data set, for runs and for feeds. */
#include "tools/lib/config/data_options.h"

struct dataset_options data_options(const struct data_settings *data)
{
    return (struct dataset_options){
        .image_key = data->image_key,
        .label_key = data->label_key,
        .label_offset = data->label_offset,
        .class_names = data->class_names,
        .layout = data->image_layout,
        .range = data->image_range,
        .limit = (uint64_t)data->limit,
        .skip_damage = data->on_corrupt == ON_CORRUPT_SKIP,
        .use_index_cache = data->index_cache,
    };
}
