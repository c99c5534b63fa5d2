/* Texts about a run. */
#include "tools/run/observe/run_texts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/netfile/net_file.h"
#include "stage/text/text_stream.h"

static void write_plan(const struct observed_run *run, FILE *out)
{
    run_plan_print(run->plan, run->settings, run->net, run->datasets, out);
}

static void write_settings(const struct observed_run *run, FILE *out)
{
    (void)settings_write(run->settings, out);   /* the stream knows of failures */
}

static void write_model(const struct observed_run *run, FILE *out)
{
    (void)net_file_write(run->net, out);        /* so here */
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
    int rc = make(&texts->plan, run, write_plan);
    if (rc == 0)
        rc = make(&texts->settings, run, write_settings);
    return rc == 0 ? make(&texts->model, run, write_model) : rc;
}

void run_texts_release(struct run_texts *texts)
{
    free(texts->plan);
    free(texts->settings);
    free(texts->model);
    *texts = (struct run_texts){ .plan = NULL };
}
