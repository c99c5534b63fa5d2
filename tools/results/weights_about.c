/* The texts that make a file of weights complete. */
#include "tools/results/weights_about.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/netfile/net_file.h"
#include "stage/text/text_stream.h"

#define TEXT_BYTES 1024u        /* of one, at most, but for those below */
#define LAYER_TEXT_BYTES 512u   /* of a line of the network's text, twice; in fact some 100 */

struct weights_about {
    const struct net *net;
    struct pixels_text pixels;
    char setting_keys[PIXELS_SETTINGS][64];
    char *net_text, *class_names;       /* NULL: there is none */
    struct safetensors_text texts[WEIGHTS_ABOUT_TEXTS];
    uint32_t count;
};

size_t weights_about_bytes(const struct net *net)
{
    return sizeof(struct weights_about) + WEIGHTS_ABOUT_TEXTS * TEXT_BYTES +
           (size_t)net->layer_count * LAYER_TEXT_BYTES + (size_t)net->classes * WEIGHTS_CLASS_BYTES;
}

static void add(struct weights_about *about, const char *key, const char *text)
{
    about->texts[about->count++] = (struct safetensors_text){ key, text };
}

static void add_pixels(struct weights_about *about)
{
    const struct pixels_text *const pixels = &about->pixels;
    add(about, "pipetrain.input", "(pixel / divisor - mean) / deviation");
    add(about, "pipetrain.input.divisor", pixels->divisor);
    add(about, "pipetrain.input.mean", pixels->mean);
    add(about, "pipetrain.input.deviation", pixels->deviation);
    add(about, "pipetrain.images.train", pixels->images[PHASE_TRAIN]);
    add(about, "pipetrain.images.validation", pixels->images[PHASE_EVALUATE]);
    for (size_t i = 0; i < PIXELS_SETTINGS; i++) {
        char *const key = about->setting_keys[i];
        snprintf(key, sizeof(about->setting_keys[i]), WEIGHTS_SETTING "%s", pixels_settings[i]);
        add(about, key, pixels->settings[i]);
    }
}

/* Without a text where a name of the network does not fit into one. */
static int add_net(struct weights_about *about)
{
    size_t bytes;
    FILE *const out = open_memstream(&about->net_text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    const int rc = net_file_write(about->net, out);
    const int ended = text_stream_end(out, &about->net_text);
    if (rc == 0 && ended == 0)
        add(about, WEIGHTS_NET, about->net_text);
    return rc == -EINVAL ? 0 : rc != 0 ? -ENOMEM : ended;
}

int weights_about_open(struct weights_about **about_out, const struct net *net, const struct pixels_text *pixels)
{
    struct weights_about *const about = calloc(1, sizeof(*about));
    if (about == NULL)
        return -ENOMEM;
    about->net = net;
    about->pixels = *pixels;
    add(about, "pipetrain.model", net->model);
    add_pixels(about);
    const int rc = add_net(about);
    if (rc != 0)
        weights_about_close(about);
    else
        *about_out = about;
    return rc;
}

void weights_about_classes(struct weights_about *about, char *names)
{
    const bool is_short = strlen(names) <= (size_t)about->net->classes * WEIGHTS_CLASS_BYTES / 2;
    about->class_names = names;
    if (is_short)
        add(about, WEIGHTS_CLASS_NAMES, names);
}

void weights_about_learned(struct weights_about *about, const char *learned)
{
    add(about, WEIGHTS_LEARNED, learned);
}

const struct safetensors_text *weights_about_texts(const struct weights_about *about, uint32_t *count_out)
{
    *count_out = about->count;
    return about->texts;
}

void weights_about_close(struct weights_about *about)
{
    if (about == NULL)
        return;
    free(about->net_text);
    free(about->class_names);
    free(about);
}
