/* pipetrain-report: runs as a page. This file is the program: runs read, page written, exit code. */
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
#include "tools/shards/result_file.h"
#include "tools/version.h"

/* Is the file a page of this program? */
static bool is_page(const char *path)
{
    char begins[sizeof(PAGE_BEGINS) - 1];
    size_t bytes = 0;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    const int rc = file_read_some(fd, 0, begins, sizeof(begins), &bytes);
    close(fd);
    return rc == 0 && bytes == sizeof(begins) && memcmp(begins, PAGE_BEGINS, sizeof(begins)) == 0;
}

/* An exit code, after a message where it is not EXIT_CODE_OK. */
static int write_out(const struct report_request *request, const char *text, size_t bytes)
{
    if (strcmp(request->output, "-") == 0) {
        const int rc = file_write(STDOUT_FILENO, text, bytes);
        if (rc < 0)
            log_message(LOG_ERROR, "stdout: cannot be written: %s", strerror(-rc));
        return rc < 0 ? EXIT_CODE_OUTPUT : EXIT_CODE_OK;
    }
    const bool may_replace = request->may_replace || is_page(request->output);
    const int code = result_file_write(request->output, may_replace, &(struct file_part){ text, bytes }, 1);
    if (code == EXIT_CODE_OK)
        printf("%s: %u run%s, %s\n", request->output, request->run_count, request->run_count == 1 ? "" : "s",
               number_bytes(bytes).text);
    return code;
}

static int no_memory(void)
{
    log_message(LOG_ERROR, "the page: %s", strerror(ENOMEM));
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
    const int code = end_request_code() != 0 ? end_request_code() : write_out(request, text, bytes);
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

/* What was said on stderr counts where the page was written, too. */
static int run(const struct report_request *request)
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
    if (code == end_request_code() && code != 0)
        end_request_tell("nothing was written");
    return code == EXIT_CODE_OK && is_damaged ? EXIT_CODE_DATA : code;
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
    /* A closed pipe and a file that may not grow are errors of the write that meets them. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (report_command_parse(&request, argc, argv) < 0)
        return EXIT_CODE_USAGE;
    const int code = request.wants_help || request.wants_version ? tell(&request) : run(&request);
    return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
}
