/* pipetrain-report: writes a page for browsers that shows runs. The main function: command line, files, exit code. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "stage/text/text_stream.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/results/result_file.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/number.h"
#include "tools/lib/version.h"
#include "tools/report/page.h"
#include "tools/report/report_input.h"

#define PROGRAM "pipetrain-report"
#define OUTPUT "report.html"

/* ---- the command line ---- */

struct request {
    bool wants_help, wants_version;
    char **runs;                /* directories of runs, without trailing slashes; the strings are those of argv */
    size_t run_count;
    const char *output;         /* the file to write; "-": stdout */
    bool may_replace;           /* overwrite any existing file */
};

#define FIELD(name) .offset = offsetof(struct request, name)

static const struct program_option options[] = {
    { .letter = 'o', .name = "output", .value = "FILE", .store = STORE_TEXT, FIELD(output),
      .help = "the page to write (default " OUTPUT "); -: to stdout" },
    { .letter = 'f', .name = "force", .store = STORE_FLAG, FIELD(may_replace),
      .help = "replace a file that exists and is not such a page" },
    { .letter = 'h', .name = "help", .store = STORE_FLAG, FIELD(wants_help), .help = "this text" },
    { .name = "version", .store = STORE_FLAG, FIELD(wants_version), .help = "the version" },
    { .name = "trace", .value = "FILE", .refused = "is no longer needed: open the trace in https://ui.perfetto.dev" },
    { .name = NULL },
};

static const struct program_command command_line = { .usage = PROGRAM, .options = options };

#define usage_error(...) program_usage_error(&command_line, __VA_ARGS__)

static int check_request(const struct request *request)
{
    if (request->wants_help || request->wants_version)
        return 0;
    if (request->run_count == 0)
        return usage_error("name the directory of a run: " PROGRAM " runs/run");
    if (*request->output == '\0')
        return usage_error("--output: the name of the file is empty");
    return 0;
}

static int read_command_line(struct request *request, int argc, char **argv)
{
    int first;
    *request = (struct request){ .output = NULL };
    const int rc = program_options_read(&command_line, argc, argv, request, &first);
    if (rc < 0)
        return rc;
    request->output = request->output != NULL ? request->output : OUTPUT;
    request->runs = argv + first;
    request->run_count = (size_t)(argc - first);
    for (size_t i = 0; i < request->run_count; i++)
        for (size_t end = strlen(request->runs[i]); end > 1 && request->runs[i][end - 1] == '/'; end--)
            request->runs[i][end - 1] = '\0';
    return check_request(request);
}

static void print_help(void)
{
    fputs("Usage: " PROGRAM " RUN... [OPTION]...\n"
          "Show runs as one page for a browser: curves, where the time went, step times,\n"
          "results, plan, environment, damaged records; several runs side by side.\n\n", stdout);
    program_option_help(options, stdout);
    fputs("\n"
          "A RUN is the directory of a run, such as runs/run, finished or still going on.\n"
          "The page is one file and loads nothing. Files of a run that are missing or\n"
          "damaged are reported on stderr and on the page, which shows the rest.\n"
          "Exit status: 0 success, 2 command line, 3 not a run (no page is written), or\n"
          "some of its files are missing or damaged, 4 out of memory, 5 the page could\n"
          "not be written, 75 stopped by a signal, 130 by SIGINT.\n\n"
          "  " PROGRAM " runs/run\n"
          "  " PROGRAM " runs/run runs/run-2 -o compared.html\n"
          "  " PROGRAM " runs/run -o - > page.html\n", stdout);
}

/* ---- the page ---- */

static int fail_without_memory(void)
{
    log_message(LOG_ERROR, "the page: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

static bool is_report_page(const char *path)
{
    char found[256];
    size_t bytes = 0;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    const int rc = file_read_some(fd, 0, found, sizeof(found), &bytes);
    close(fd);
    return rc == 0 && bytes >= strlen(PAGE_BEGINS) && memcmp(found, PAGE_BEGINS, strlen(PAGE_BEGINS)) == 0;
}

/* Write the page to the output. Returns an exit code, after a message if it is not EXIT_CODE_OK. */
static int write_output(const struct request *request, const char *text, size_t bytes)
{
    if (signals_exit_code() != 0)
        return signals_exit_code();
    if (strcmp(request->output, "-") == 0) {
        const int rc = file_write(STDOUT_FILENO, text, bytes);
        if (rc < 0)
            log_message(LOG_ERROR, "standard output: the page could not be written: %s", strerror(-rc));
        return rc < 0 ? EXIT_CODE_OUTPUT : EXIT_CODE_OK;
    }
    const bool may_replace = request->may_replace || is_report_page(request->output);
    const int code = result_file_write(request->output, may_replace, &(struct file_part){ text, bytes }, 1);
    if (code == EXIT_CODE_OK)
        printf("%s: %zu run%s, %s\n", request->output, request->run_count, request->run_count == 1 ? "" : "s",
               number_bytes(bytes).text);
    return code;
}

static int make_page(const struct request *request, json_t *runs)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const stream = open_memstream(&text, &bytes);
    if (stream == NULL)
        return fail_without_memory();
    const int rc = page_write(stream, runs);
    const int code = text_stream_end(stream, &text) != 0 || rc != 0 ? fail_without_memory()
                                                                    : write_output(request, text, bytes);
    free(text);
    return code;
}

static int read_runs(const struct request *request, json_t *runs, bool *is_damaged_out)
{
    for (size_t i = 0; i < request->run_count; i++) {
        json_t *run = NULL;
        const int code = report_input_read(&run, request->runs[i]);
        if (code != EXIT_CODE_OK)
            return code;
        *is_damaged_out |= json_array_size(json_object_get(run, "problems")) > 0;
        if (json_array_append_new(runs, run) != 0)
            return fail_without_memory();
    }
    return EXIT_CODE_OK;
}

/* Write the page of all runs. EXIT_CODE_DATA also if the page was written, but parts of a run could not be read. */
static int show_runs(const struct request *request)
{
    bool is_damaged = false;
    json_t *const runs = json_array();
    int code = runs != NULL ? read_runs(request, runs, &is_damaged) : fail_without_memory();
    if (code == EXIT_CODE_OK)
        code = make_page(request, runs);
    json_decref(runs);
    if (code != EXIT_CODE_OK && code == signals_exit_code())
        signals_report("nothing was written");
    return code == EXIT_CODE_OK && is_damaged ? EXIT_CODE_DATA : code;
}

int main(int argc, char **argv)
{
    struct request request;
    int code = EXIT_CODE_OK;
    log_name(PROGRAM);
    output_fill_closed();
    signals_note(SA_RESTART);
    output_end_with_reader();
    signal(SIGXFSZ, SIG_IGN);   /* a write over the file size limit then fails with EFBIG */
    if (read_command_line(&request, argc, argv) < 0)
        return EXIT_CODE_USAGE;
    if (request.wants_help)
        print_help();
    else if (request.wants_version)
        puts(PROGRAM " " PIPETRAIN_VERSION);
    else
        code = show_runs(&request);
    return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
}
