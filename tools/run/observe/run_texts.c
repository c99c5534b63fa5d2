/* Texts about a run. */
#include "tools/run/observe/run_texts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "stage/text/text_stream.h"

static void write_plan(const struct observed_run *run, FILE *out)
{
    run_plan_print(run->plan, run->settings, run->net, run->datasets, out);
}

static void write_settings(const struct observed_run *run, FILE *out)
{
    (void)settings_write(run->settings, out);   /* the stream knows of failures */
}

/* The lines as they are. */
static int make(char **text_out, const struct observed_run *run,
                void (*write)(const struct observed_run *run, FILE *out))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    fputs("```\n", out);
    write(run, out);
    fputs("```\n", out);
    const int rc = text_stream_end(out, &text);
    *text_out = text;
    return rc;
}

int run_texts_make(struct run_texts *texts, const struct observed_run *run)
{
    *texts = (struct run_texts){ .plan = NULL };
    const int rc = make(&texts->plan, run, write_plan);
    return rc == 0 ? make(&texts->settings, run, write_settings) : rc;
}

void run_texts_release(struct run_texts *texts)
{
    free(texts->plan);
    free(texts->settings);
    *texts = (struct run_texts){ .plan = NULL };
}
