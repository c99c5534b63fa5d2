/* Writes metadata. Those of the weights file keep their keys. Called by the writer of ONNX. */
#include "tools/export/onnx_metadata.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "stage/text/decimal.h"
#include "tools/export/onnx_graph.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/results/weights.h"
#include "tools/lib/version.h"

enum { PAIR_KEY = 1, PAIR_VALUE = 2 };          /* fields of StringStringEntryProto */

struct pairs { struct proto *proto; uint32_t field; };

static void add_pair(const struct pairs *pairs, const char *key, const char *value)
{
    proto_open_message(pairs->proto, pairs->field);
    proto_string(pairs->proto, PAIR_KEY, key);
    proto_string(pairs->proto, PAIR_VALUE, value);
    proto_close_message(pairs->proto);
}

/* What the caller has to pass as the image: "uint8 [N, 3, 224, 224], RGB, from 0 to 255". */
static void add_input(const struct pairs *pairs, const struct export_subject *subject)
{
    const struct shape shape = subject->net->input;
    const struct export_options *const options = &subject->options;
    const char *const type = options->input == EXPORT_FLOAT ? "float" : "uint8";
    const char *const colours = shape.channels == 3 ? ", RGB" : shape.channels == 1 ? ", grey" : "";
    char text[160];
    if (options->layout == EXPORT_NCHW)
        snprintf(text, sizeof(text), "%s [N, %u, %u, %u]%s, from 0 to 255", type, shape.channels, shape.height,
                 shape.width, colours);
    else
        snprintf(text, sizeof(text), "%s [N, %u, %u, %u]%s, from 0 to 255", type, shape.height, shape.width,
                 shape.channels, colours);
    add_pair(pairs, "pipetrain." ONNX_INPUT, text);
}

/* Is it about the images of training, or about records? */
static bool is_of_training(const char *key)
{
    return strcmp(key, "pipetrain.images.train") == 0 ||
           strncmp(key, WEIGHTS_SETTING "data.", strlen(WEIGHTS_SETTING "data.")) == 0;
}

static int add_about(const struct pairs *pairs, const struct export_subject *subject)
{
    struct pixels_text pixels;
    struct weights_about *about = NULL;
    uint32_t count;
    pixels_describe(subject->settings, subject->net, &pixels);
    if (weights_about_open(&about, subject->net, &pixels) != 0)
        return -ENOMEM;
    const struct safetensors_text *const texts = weights_about_texts(about, &count);
    for (uint32_t i = 0; i < count; i++)
        if (!is_of_training(texts[i].key))
            add_pair(pairs, texts[i].key, texts[i].value);
    weights_about_close(about);
    return 0;
}

/* The names of all classes as an array of JSON, "" for one without a name. */
static int add_names(const struct pairs *pairs, const struct export_subject *subject)
{
    struct json json;
    if (subject->names == NULL)
        return 0;
    json_init(&json, false);
    json_open_array(&json, NULL);
    for (uint32_t c = 0; c < subject->net->classes; c++)
        json_quoted(&json, NULL, subject->names[c]);
    json_close_array(&json);
    const char *const text = json_text(&json);
    if (text != NULL)
        add_pair(pairs, "class_names", text);
    json_release(&json);
    return text != NULL ? 0 : -ENOMEM;
}

/* The steps of training; the text is that of the weights, which is untrusted. */
static void add_steps(const struct pairs *pairs, const struct export_subject *subject)
{
    const char *const text = initial_weights_text(subject->weights, WEIGHTS_STEPS);
    uint64_t steps;
    if (text != NULL && decimal_u64(text, &steps))
        add_pair(pairs, WEIGHTS_STEPS, text);
}

int onnx_metadata_add(struct proto *proto, uint32_t field, const struct export_subject *subject)
{
    const struct pairs pairs = { proto, field };
    add_pair(&pairs, "pipetrain.version", PIPETRAIN_VERSION);
    add_steps(&pairs, subject);
    add_input(&pairs, subject);
    int rc = add_names(&pairs, subject);
    if (rc == 0)
        rc = add_about(&pairs, subject);
    return rc != 0 ? rc : proto->failed;
}
