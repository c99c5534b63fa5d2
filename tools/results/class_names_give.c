/* From names of classes to a text that formats/class_names.h reads. */
#include "tools/results/class_names_give.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/text_stream.h"
#include "tools/results/named_classes.h"

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

/* A text to be freed, or NULL where no class has a name. */
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

int class_names_give(struct weights *weights, const struct dataset *dataset)
{
    char *text = NULL;
    const int rc = weights != NULL && dataset != NULL ? make_text(dataset, &text) : 0;
    return rc == 0 && text != NULL ? weights_name_classes(weights, text) : rc;
}
