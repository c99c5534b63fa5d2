/* Compares, prints and saves the names of classes. */
#include "tools/lib/results/named_classes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset_shards.h"
#include "loader/set_names.h"
#include "stage/log.h"
#include "stage/text/text_stream.h"

struct class_text class_text(const char *name, uint32_t class)
{
    struct class_text text;
    const int used = snprintf(text.text, sizeof(text.text), *name == '\0' ? "%" PRIu32 : "%" PRIu32 " ", class);
    if (*name != '\0')
        log_plain(name, text.text + used, sizeof(text.text) - (size_t)used);
    return text;
}

struct class_text class_text_of(const struct class_names *names, uint32_t class)
{
    return class_text(class < names->count ? names->names[class] : "", class);
}

static bool compare_sets(const struct set_names *one, const struct set_names *other, char *one_out, char *other_out,
                         size_t text_size)
{
    if (!set_names_differ(one, other))
        return false;
    set_names_describe(one, one_out, text_size);
    set_names_describe(other, other_out, text_size);
    return true;
}

bool datasets_name_differently(const struct dataset *a, const struct dataset *b, char *a_out, char *b_out,
                               size_t text_size)
{
    const struct set_names one = { .names = a->class_names, .classes = a->stored_classes };
    const struct set_names other = { .names = b->class_names, .classes = b->stored_classes };
    return compare_sets(&one, &other, a_out, b_out, text_size);
}

bool shards_name_differently(const char *a, const char *b, const char *label_key, char *a_out, char *b_out,
                             size_t text_size)
{
    struct set_names one, other;
    dataset_shards_names(&one, a, label_key);
    dataset_shards_names(&other, b, label_key);
    const bool differ = compare_sets(&one, &other, a_out, b_out, text_size);
    set_names_release(&one);
    set_names_release(&other);
    return differ;
}

int dataset_names_differ(const struct dataset *dataset, const char *text, char *data_out, char *network_out,
                         size_t text_size)
{
    char problem[256];
    struct class_names network = { .count = 0 };
    if (text == NULL)
        return 0;
    const int rc = class_names_read(&network, text, strlen(text), problem, sizeof(problem));
    if (rc < 0)
        return rc;
    const bool differ = class_names_differ(&dataset->class_names, &network);
    if (differ) {
        class_names_describe(&dataset->class_names, data_out, text_size);
        class_names_describe(&network, network_out, text_size);
    }
    class_names_release(&network);
    return differ;
}

static bool has_name(const struct class_names *names, uint32_t class)
{
    return class < names->count && *names->names[class] != '\0';
}

uint32_t dataset_names_lost(const struct dataset *dataset, const char *text)
{
    char problem[256];
    struct class_names network = { .count = 0 };
    uint32_t lost = 0;
    if (text == NULL || class_names_read(&network, text, strlen(text), problem, sizeof(problem)) < 0)
        return 0;
    for (uint32_t c = 0; c < network.count; c++)
        lost += has_name(&network, c) && !has_name(&dataset->class_names, c);
    class_names_release(&network);
    return lost;
}

/* Write a name on one line, with line ends in it as formats/class_names.h reads them. */
static void write_name(const char *name, FILE *out)
{
    for (; *name != '\0'; name++)
        if (*name == '\n' || *name == '\r')
            fputs(*name == '\n' ? "\\x0a" : "\\x0d", out);
        else
            fputc(*name, out);
    fputc('\n', out);
}

static bool write_names(const struct dataset *dataset, FILE *out)
{
    const struct class_names *const names = &dataset->class_names;
    bool has_any = false;
    for (uint32_t c = 0; c < names->count && c < dataset->options.classes; c++) {
        const char *const name = names->names[c];
        if (*name == '\0')
            continue;
        fprintf(out, "%" PRIu32 ":", c);
        write_name(name, out);
        has_any = true;
    }
    return has_any;
}

/* Make a text of the names that formats/class_names.h reads, and that the caller frees. NULL if no class has a name. */
static int make_text(const struct dataset *dataset, char **text_out)
{
    char *text = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    const bool has_any = write_names(dataset, out);
    const int rc = text_stream_end(out, &text);
    if (rc == 0 && has_any)
        *text_out = text;
    else
        free(text);
    return rc;
}

int named_classes_save(struct weights *weights, const struct dataset *dataset)
{
    char *text = NULL;
    const int rc = weights != NULL && dataset != NULL ? make_text(dataset, &text) : 0;
    return rc == 0 && text != NULL ? weights_name_classes(weights, text) : rc;
}
