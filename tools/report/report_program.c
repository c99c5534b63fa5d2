/* pipetrain-report: runs as a page, a trace as a drawing. This file is the program: what is read, the file that is
 * written, the exit code. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/file_read.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "stage/text/text_stream.h"
#include "tools/config/number.h"
#include "tools/end_request.h"
#include "tools/report/page.h"
#include "tools/report/report_command.h"
#include "tools/report/run_file.h"
#include "tools/report/trace/trace_drawing.h"
#include "tools/shards/result_file.h"
#include "tools/version.h"

/* What is written; a file that begins in the same way may be replaced by it. */
struct product {
    const char *text;
    size_t bytes;
    const char *begins;
    char what[64];              /* is in it, for the line on stdout */
};

/* Is the file such a product of this program? */
static bool is_ours(const char *path, const char *begins)
{
    char found[256];
    size_t bytes = 0;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    const int rc = file_read_some(fd, 0, found, sizeof(found), &bytes);
    close(fd);
    return rc == 0 && bytes >= strlen(begins) && memcmp(found, begins, strlen(begins)) == 0;
}

/* An exit code, after a message where it is not EXIT_CODE_OK. */
static int write_out(const struct report_request *request, const struct product *product)
{
    if (end_request_code() != 0)
        return end_request_code();

    if (strcmp(request->output, "-") == 0) {
        const int rc = file_write(STDOUT_FILENO, product->text, product->bytes);
        if (rc < 0)
            log_message(LOG_ERROR, "standard output: not all could be written: %s", strerror(-rc));
        return rc < 0 ? EXIT_CODE_OUTPUT : EXIT_CODE_OK;
    }
    const bool may_replace = request->may_replace || is_ours(request->output, product->begins);
    const struct file_part part = { product->text, product->bytes };
    const int code = result_file_write(request->output, may_replace, &part, 1);
    if (code == EXIT_CODE_OK)
        printf("%s: %s, %s\n", request->output, product->what, number_bytes(product->bytes).text);
    return code;
}

static int no_memory(void)
{
    log_message(LOG_ERROR, "what should be written: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

static int make_page(const struct report_request *request, const struct shown_run *runs)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const stream = open_memstream(&text, &bytes);
    if (stream == NULL)
        return no_memory();
    const int rc = page_write(stream, runs, request->run_count);
    if (text_stream_end(stream, &text) != 0 || rc != 0) {
        free(text);
        return no_memory();
    }
    struct product product = { text, bytes, PAGE_BEGINS, "" };
    snprintf(product.what, sizeof(product.what), "%u run%s", request->run_count, request->run_count == 1 ? "" : "s");
    const int code = write_out(request, &product);
    free(text);
    return code;
}

/* Where two directories end alike, their paths tell them apart. */
static void name_runs(struct shown_run *runs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++)
            if (i != j && strcmp(runs[j].name, runs[i].name) == 0) {
                runs[i].name = runs[i].path;
                runs[j].name = runs[j].path;
            }
}

static int read_runs(const struct report_request *request, struct shown_run *runs)
{
    for (uint32_t i = 0; i < request->run_count; i++) {
        const int code = shown_run_read(&runs[i], request->runs[i]);
        if (code != EXIT_CODE_OK)
            return code;
        runs[i].number = i;
    }
    name_runs(runs, request->run_count);
    return EXIT_CODE_OK;
}

/* The steps of a trace that has slices. */
static int draw_steps(const struct report_request *request, const struct trace *trace)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const stream = open_memstream(&text, &bytes);
    if (stream == NULL)
        return no_memory();
    const struct trace_window window = trace_window_find(trace);
    trace_draw(stream, trace, &window, request->trace);
    if (text_stream_end(stream, &text) != 0)
        return no_memory();
    struct product product = { text, bytes, TRACE_DRAWING_BEGINS, "" };
    snprintf(product.what, sizeof(product.what), "%.4g ms", (window.end - window.begin) / 1e3);
    const int code = write_out(request, &product);
    free(text);
    return code;
}

/* A trace that is damaged is drawn as far as it goes. */
static int draw_trace(const struct report_request *request)
{
    struct trace trace;
    char *text = NULL, problem[512] = "";
    size_t bytes;
    int rc = run_file_read(AT_FDCWD, request->trace, &text, &bytes);
    if (rc != 0) {
        log_message(LOG_ERROR, "%s: %s", request->trace, rc == -EINVAL ? "is no regular file" : strerror(-rc));
        return (int)exit_code_of(rc, EXIT_CODE_DATA);
    }
    rc = trace_read(&trace, text, bytes, problem, sizeof(problem));
    free(text);
    if (rc == 0 && trace.slice_count == 0)
        snprintf(problem, sizeof(problem), "there is no slice in it to draw");
    if (*problem != '\0')
        log_message(LOG_ERROR, "%s: %s", request->trace, problem);
    int code = rc == -ENOMEM ? no_memory() : EXIT_CODE_OK;
    if (code == EXIT_CODE_OK && trace.slice_count > 0)
        code = draw_steps(request, &trace);
    trace_release(&trace);
    return code == EXIT_CODE_OK && *problem != '\0' ? EXIT_CODE_DATA : code;
}

/* What was said on stderr counts where the page was written, too. */
static int show_runs(const struct report_request *request)
{
    bool is_damaged = false;
    struct shown_run *const runs = calloc(request->run_count, sizeof(*runs));
    int code = runs != NULL ? read_runs(request, runs) : no_memory();
    if (code == EXIT_CODE_OK)
        code = make_page(request, runs);
    for (uint32_t i = 0; i < request->run_count && runs != NULL; i++) {
        is_damaged |= runs[i].remarks.count > 0;
        shown_run_release(&runs[i]);
    }
    free(runs);
    return code == EXIT_CODE_OK && is_damaged ? EXIT_CODE_DATA : code;
}

static int run(const struct report_request *request)
{
    const int code = request->trace != NULL ? draw_trace(request) : show_runs(request);
    if (code != 0 && code == end_request_code())
        end_request_tell("nothing was written");
    return code;
}

static int tell(const struct report_request *request)
{
    if (request->wants_help)
        report_command_help();
    else
        puts(REPORT_PROGRAM " " PIPETRAIN_VERSION);
    return EXIT_CODE_OK;
}

int main(int argc, char **argv)
{
    struct report_request request;
    log_name(REPORT_PROGRAM);
    output_fill_closed();
    end_request_catch(SA_RESTART);
    output_end_with_reader();
    signal(SIGXFSZ, SIG_IGN);   /* a file that may not grow is an error of the write that meets it */
    if (report_command_parse(&request, argc, argv) < 0)
        return EXIT_CODE_USAGE;
    const int code = request.wants_help || request.wants_version ? tell(&request) : run(&request);
    return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
}
