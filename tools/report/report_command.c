/* The command line of pipetrain-report. Called once by main. */
#include "tools/report/report_command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "stage/log.h"
#include "tools/config/long_option.h"
#include "tools/config/words/program_option.h"

#define OUTPUT "report.html"
#define TRACE_OUTPUT "steps.svg"
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Without a letter. */
enum { OPTION_VERSION = 256, OPTION_TRACE };

static const struct program_option options[] = {
    { 'o', "output", "FILE", false, "the page to write (default " OUTPUT "; of a trace " TRACE_OUTPUT "); -: to stdout",
      NULL, NULL },
    { 'f', "force", NULL, false, "replace a file that is there and is no such page", NULL, NULL },
    { OPTION_TRACE, "trace", "FILE", false,
      "draw a few steps of a trace (Chrome's JSON) as one SVG: a row a thread or stream, a bar a slice", NULL, NULL },
    { 'h', "help", NULL, false, "this text", NULL, NULL },
    { OPTION_VERSION, "version", NULL, false, "the version", NULL, NULL },
    { 0, NULL, NULL, false, NULL, NULL, NULL },
};

static int usage_error(const char *message)
{
    log_message(LOG_ERROR, "%s (" REPORT_PROGRAM " --help shows the usage)", message);
    return -EINVAL;
}

static int take_letter(struct report_request *request, int letter)
{
    switch (letter) {
    case 'o': request->output = optarg; return 0;
    case 'f': request->may_replace = true; return 0;
    case OPTION_TRACE: request->trace = optarg; return 0;
    case 'h': request->wants_help = true; return 0;
    case OPTION_VERSION: request->wants_version = true; return 0;
    default: return -EINVAL;    /* getopt_long has said what is wrong */
    }
}

static void cut_slashes(char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
}

static int check(const struct report_request *request)
{
    if (request->wants_help || request->wants_version)
        return 0;
    if (request->run_count > 0 && request->trace != NULL)
        return usage_error("either runs or --trace, not both");
    if (request->run_count == 0 && request->trace == NULL)
        return usage_error("name the directory of a run: " REPORT_PROGRAM " runs/run");
    if (*request->output == '\0')
        return usage_error("--output: the name of the file is empty");
    return 0;
}

int report_command_parse(struct report_request *request_out, int argc, char **argv)
{
    struct report_request request = { .output = NULL };
    struct program_words words;
    program_option_words(options, "", &words);
    int letter, rc = long_option_check(argc, argv, words.rows);
    while (rc == 0 && (letter = getopt_long(argc, argv, words.letters, words.rows, NULL)) != -1)
        rc = take_letter(&request, letter);
    if (rc < 0)
        return rc;
    request.runs = argv + optind;
    request.run_count = (uint32_t)(argc - optind);
    for (uint32_t i = 0; i < request.run_count; i++)
        cut_slashes(request.runs[i]);
    if (request.output == NULL)
        request.output = request.trace != NULL ? TRACE_OUTPUT : OUTPUT;
    *request_out = request;
    return check(&request);
}

void report_command_help(void)
{
    fputs("Usage: " REPORT_PROGRAM " RUN... [OPTION]...\n"
          "  or   " REPORT_PROGRAM " --trace=FILE [OPTION]...\n"
          "Show runs as one page that a browser opens: curves, where the time went, step\n"
          "times, plan, environment, damaged records; several runs side by side.\n\n", stdout);
    program_option_help(options, stdout);
    fputs("\n"
          "A RUN is the directory of a run, as runs/run; one that goes on is shown as far\n"
          "as it is. The page needs nothing besides itself: no network, no script. What is\n"
          "missing or damaged in a directory is said on stderr and on the page, which is\n"
          "written all the same.\n"
          "Exit status: 0 all right, 2 command line, 3 a directory is no run's (and there\n"
          "is no page), or something in it is missing or damaged, 4 out of memory, 5 page\n"
          "not written, 75 stopped by a signal, 130 by SIGINT.\n\n"
          "  " REPORT_PROGRAM " runs/run\n"
          "  " REPORT_PROGRAM " runs/run runs/run-2 -o compared.html\n"
          "  " REPORT_PROGRAM " runs/run -o - > page.html\n"
          "  " REPORT_PROGRAM " --trace trace.json -o steps.svg\n", stdout);
}
