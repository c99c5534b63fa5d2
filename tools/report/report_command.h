/* What the words and options of a pipetrain-report command line come to. */
#ifndef PIPETRAIN_REPORT_COMMAND_H
#define PIPETRAIN_REPORT_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#define REPORT_PROGRAM "pipetrain-report"

struct report_request {
    bool wants_help, wants_version;
    char **runs;                /* directories, of argv; slashes at their ends are taken off */
    uint32_t run_count;
    const char *trace;          /* a trace to draw steps of instead of runs; NULL: none */
    const char *output;         /* the file to write; "-": stdout */
    bool may_replace;           /* whatever file is there */
};

/* 0, or -EINVAL after a message. */
int report_command_parse(struct report_request *request_out, int argc, char **argv);
/* The usage, to stdout. */
void report_command_help(void);

#endif
