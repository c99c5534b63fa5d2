/* Finds, compares and saves the names of classes. */
#include "tools/results/named_classes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/text_stream.h"

#define SHOWN_MAX 6u            /* names in a message */
#define NAME_BYTES 40u          /* of such a name */

const char *named_classes_find(const struct named_classes *names, uint32_t class)
{
    const struct class_names *const listed = names->listed;
    if (listed->count > 0)
        return class < listed->count ? listed->names[class] : "";
    const char *const beside = names->beside != NULL ? label_names_find(names->beside, class) : NULL;
    return beside != NULL ? beside : "";
}

bool named_classes_differ(const struct named_classes *a, const struct named_classes *b, uint32_t classes)
{
    for (uint32_t c = 0; c < classes; c++) {
        const char *const one = named_classes_find(a, c), *const other = named_classes_find(b, c);
        if (*one != '\0' && *other != '\0' && strcmp(one, other) != 0)
            return true;
    }
    return false;
}

void named_classes_describe(const struct named_classes *names, uint32_t classes, char *text_out, size_t text_size)
{
    size_t used = 0;
    uint32_t shown_count = 0;
    text_out[0] = '\0';
    for (uint32_t c = 0; c < classes && shown_count <= SHOWN_MAX && used < text_size; c++) {
        const char *const name = named_classes_find(names, c);
        char shown[NAME_BYTES];
        if (*name == '\0')
            continue;
        log_escape(name, strlen(name), shown, sizeof(shown));
        used += (size_t)snprintf(text_out + used, text_size - used, "%s%s", shown_count > 0 ? ", " : "",
                                 shown_count < SHOWN_MAX ? shown : "...");
        shown_count++;
    }
}

int datasets_name_differently(const struct dataset *a, const struct dataset *b, char *a_out, char *b_out,
                              size_t text_size)
{
    struct label_names beside_a, beside_b;
    const struct named_classes one = { &a->class_names, &beside_a }, other = { &b->class_names, &beside_b };
    const uint32_t classes = a->options.classes;
    const int rc_a = label_names_read(&beside_a, a->paths[0]), rc_b = label_names_read(&beside_b, b->paths[0]);
    const int rc = rc_a != 0 ? rc_a : rc_b;
    const bool differ = rc == 0 && named_classes_differ(&one, &other, classes);
    if (differ) {
        named_classes_describe(&one, classes, a_out, text_size);
        named_classes_describe(&other, classes, b_out, text_size);
    }
    label_names_release(&beside_a);
    label_names_release(&beside_b);
    return rc != 0 ? rc : differ;
}

int dataset_names_differ(const struct dataset *dataset, const char *text, char *data_out, char *network_out,
                         size_t text_size)
{
    char problem[256];
    struct class_names listed = { .count = 0 };
    struct label_names beside;
    if (text == NULL)
        return 0;
    int rc = class_names_read(&listed, text, strlen(text), problem, sizeof(problem));
    if (rc < 0)
        return rc;
    rc = label_names_read(&beside, dataset->paths[0]);
    const struct named_classes data = { &dataset->class_names, &beside }, network = { &listed, NULL };
    const uint32_t classes = dataset->options.classes;
    const bool differ = rc == 0 && named_classes_differ(&data, &network, classes);
    if (differ) {
        named_classes_describe(&data, classes, data_out, text_size);
        named_classes_describe(&network, classes, network_out, text_size);
    }
    label_names_release(&beside);
    class_names_release(&listed);
    return rc != 0 ? rc : differ;
}

static bool write_names(const struct dataset *dataset, const struct label_names *beside, FILE *out)
{
    const struct named_classes names = { &dataset->class_names, beside };
    const uint32_t classes = dataset->options.classes;
    bool has_any = false;
    for (uint32_t c = 0; c < classes; c++) {
        const char *const name = named_classes_find(&names, c);
        if (*name == '\0' || strpbrk(name, "\r\n") != NULL)
            continue;
        fprintf(out, "%" PRIu32 ":%s\n", c, name);
        has_any = true;
    }
    return has_any;
}

/* The names as a text that formats/class_names.h reads; to be freed. NULL where no class has a name. */
static int make_text(const struct dataset *dataset, char **text_out)
{
    struct label_names beside;
    char *text = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    const int read_rc = label_names_read(&beside, dataset->paths[0]);
    const bool has_any = write_names(dataset, &beside, out);
    label_names_release(&beside);
    const int written_rc = text_stream_end(out, &text), rc = read_rc != 0 ? read_rc : written_rc;
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
