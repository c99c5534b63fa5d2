/* pipetrain-shards: inspect and check shards. The main function: command line, signals, exit code. */
#include <signal.h>
#include <stdio.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "tools/lib/signals.h"
#include "tools/lib/version.h"
#include "tools/shards/shards_command.h"

/* Returns an exit code. */
static int run_command(const struct shards_request *request)
{
    struct shard_list list = { 0 };
    const int rc = request->command->takes_patterns ? shard_paths_find(&list, request) : 0;
    const int code = rc < 0 ? (int)exit_code_of(rc, EXIT_CODE_DATA) : request->command->run(request, &list);
    shard_list_release(&list);
    return code;
}

static int run(struct shards_request *request)
{
    request->is_unwanted = signals_requested();
    const int code = run_command(request);
    if (signals_exit_code() == 0)
        return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
    (void)fflush(stdout);
    signals_report("not all shards were read");
    return signals_exit_code();
}

/* Print the help or the version. A signal ends the program even while a write blocks. */
static int print_text(const struct shards_request *request)
{
    (void)output_start();       /* on an error, output is written directly */
    if (request->wants_help)
        shards_command_help(request->command);
    else
        puts(SHARDS_PROGRAM " " PIPETRAIN_VERSION);
    return output_end() != 0 ? EXIT_CODE_OUTPUT : EXIT_CODE_OK;
}

int main(int argc, char **argv)
{
    struct shards_request request;
    log_name(SHARDS_PROGRAM);
    output_fill_closed();
    signals_note(0);            /* a signal then also interrupts a blocking write */
    output_end_with_reader();
    signal(SIGXFSZ, SIG_IGN);   /* a write over the file size limit then fails with EFBIG */
    if (shards_command_parse(&request, argc, argv) < 0)
        return EXIT_CODE_USAGE;
    return request.wants_help || request.wants_version ? print_text(&request) : run(&request);
}
