/* The report page: page.html with the runs as JSON in it. */
#ifndef PIPETRAIN_PAGE_H
#define PIPETRAIN_PAGE_H

#include <stdio.h>

#include <jansson.h>

/* Every page begins so, also those of earlier versions: such a file may be replaced by another page. */
#define PAGE_BEGINS "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"generator\" " \
                    "content=\"pipetrain-report"

/* Write the page of `runs`, an array of the objects that report_input_read makes. 0 or -ENOMEM; errors of writing are
 * the stream's. */
int page_write(FILE *out, json_t *runs);

#endif
