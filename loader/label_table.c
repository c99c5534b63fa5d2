/* Reads the labels of a data set: each thread those of a range of records. */
#include "loader/label_table.h"

#include <errno.h>
#include <stdlib.h>

#include "loader/record.h"
#include "stage/thread.h"

/* The part of a thread. */
struct part {
    const struct dataset *dataset;
    int32_t *labels;            /* of the whole data set */
    uint64_t first, end;        /* ids */
    struct thread *thread;
    int rc;
};

static int32_t label_of(struct decode_context *context, uint64_t id)
{
    const struct dataset_options *const options = &context->dataset->options;
    struct record_problem problem;
    struct sample_label label;
    uint64_t bytes;
    int64_t moved;
    const uint8_t *const payload = record_payload(context, id, &bytes, &problem);
    if (payload == NULL || sample_read_label(&context->dataset->format, payload, bytes, &label, problem.text,
                                             sizeof(problem.text)) < 0)
        return LABEL_UNKNOWN;
    const bool overflows = __builtin_add_overflow(label.stored, options->label_offset, &moved);
    return !overflows && moved >= 0 && moved < (int64_t)options->classes ? (int32_t)moved : LABEL_UNKNOWN;
}

static void read_part(void *arg)
{
    struct part *const part = arg;
    struct decode_context *context;
    part->rc = decode_context_open(&context, part->dataset);
    if (part->rc != 0)
        return;
    for (uint64_t id = part->first; id < part->end && !dataset_is_unwanted(part->dataset); id++)
        part->labels[id] = label_of(context, id);
    decode_context_close(context);
}

static int read_all(struct part *parts, uint32_t threads, const struct dataset *dataset, int32_t *labels)
{
    int rc = 0;
    for (uint32_t i = 0; i < threads && rc == 0; i++) {
        parts[i] = (struct part){ .dataset = dataset, .labels = labels, .first = dataset->record_count * i / threads,
                                  .end = dataset->record_count * (i + 1) / threads };
        rc = thread_start(&parts[i].thread, "labels", read_part, &parts[i]);
    }
    for (uint32_t i = 0; i < threads; i++) {
        thread_join(parts[i].thread);
        rc = rc == 0 ? parts[i].rc : rc;
    }
    return rc == 0 && dataset_is_unwanted(dataset) ? -ECANCELED : rc;
}

int label_table_make(int32_t **labels_out, const struct dataset *dataset, uint32_t threads)
{
    int32_t *const labels = calloc(dataset->record_count + 1, sizeof(*labels));
    struct part *const parts = calloc(threads, sizeof(*parts));
    int rc = labels != NULL && parts != NULL ? read_all(parts, threads, dataset, labels) : -ENOMEM;
    free(parts);
    if (rc == 0)
        *labels_out = labels;
    else
        free(labels);
    return rc;
}
