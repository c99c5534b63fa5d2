/* Writes the report page: page.html with the runs as JSON in it. */
#ifndef PIPETRAIN_PAGE_H
#define PIPETRAIN_PAGE_H

#include <stdio.h>

#include <jansson.h>

/* The first line of every page, also of pages from earlier versions: a file that begins so may be replaced by a new
 * page. */
#define PAGE_BEGINS "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"generator\" " \
                    "content=\"pipetrain-report"

/* Write the page of `runs`, an array of the objects that report_input_read makes. 0 or -ENOMEM; write errors are
 * left to the caller, in the state of the stream. */
int page_write(FILE *out, json_t *runs);

#endif
