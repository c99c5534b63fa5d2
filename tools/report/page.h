/* The report: one page of HTML, well-formed as XML too, that needs nothing but itself. */
#ifndef PIPETRAIN_PAGE_H
#define PIPETRAIN_PAGE_H

#include <stdio.h>

#include "tools/report/cell.h"
#include "tools/report/shown_run.h"

/* What every page begins with, and no other file: such a one may be replaced by another page. */
#define PAGE_BEGINS "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"generator\" " \
                    "content=\"pipetrain-report"

/* The page of at least one run. Failures are the stream's; -ENOMEM where memory for a part is missing, else 0. */
int page_write(FILE *out, const struct shown_run *runs, uint32_t run_count);

/* What its parts are made of; lent. */
struct page {
    FILE *out;
    const struct shown_run *runs;
    uint32_t run_count;
    struct cell *cells;         /* one for each run */
};

/* The parts, each with its heading. */
int page_curves(const struct page *page);       /* 0 or -ENOMEM */
int page_times(const struct page *page);        /* 0 or -ENOMEM */
void page_tiles(const struct page *page);       /* of the first run */
void page_results(const struct page *page);
void page_settings(const struct page *page);    /* those that differ between runs */
void page_plan(const struct page *page);
void page_environment(const struct page *page);
int page_confusion(const struct page *page);    /* nothing where there is no evaluation; 0 or -ENOMEM */
void page_damage(const struct page *page);      /* records; nothing where there are none */
void page_sources(const struct page *page);     /* run.conf of every run, folded */
/* What a run is called: its number, where there are several, and its name. */
void page_name(const struct page *page, const struct shown_run *run);

extern const char page_style[];         /* CSS */

#endif
