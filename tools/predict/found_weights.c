/* Looking for weights in run directories. */
#include "tools/predict/found_weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/checkpoint/reader.h"
#include "tools/results/run_names.h"
#include "tools/results/tensor_file.h"
#include "tools/results/weights.h"

/* 0 or -ENAMETOOLONG. */
static int name_weights(const char *folder, char path_out[PATH_MAX])
{
    const int length = snprintf(path_out, PATH_MAX, "%s/" WEIGHTS_FILE, folder);
    return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* 0, -ENOENT (the directory has none), or another negative errno. */
static int find_in(const char *folder, char path_out[PATH_MAX])
{
    struct checkpoint_reader *state = NULL;
    struct checkpoint_problem problem;
    int rc = name_weights(folder, path_out);
    if (rc != 0 || access(path_out, F_OK) == 0)
        return rc;
    rc = checkpoint_reader_find(&state, folder, &problem);
    if (rc != 0)
        return rc == -ENOMEM ? rc : -ENOENT;
    snprintf(path_out, PATH_MAX, "%s", checkpoint_reader_path(state));
    log_message(LOG_RUN, "%s has no " WEIGHTS_FILE ": the newest saved state is taken, %s", folder, path_out);
    checkpoint_reader_close(state);
    return 0;
}

/* Whether weights are of a run that did not learn the data, which is told. What cannot be read is told by who takes
 * them. */
static bool learned_something_else(const char *path)
{
    char problem[256], shown[256];
    struct tensor_file file;
    if (tensor_file_open(&file, AT_FDCWD, path, problem, sizeof(problem)) != 0)
        return false;
    const char *const learned = safetensors_index_text(&file.index, WEIGHTS_LEARNED);
    if (learned != NULL) {
        log_plain(learned, shown, sizeof(shown));
        log_message(LOG_RUN, "%s learned %s: skipped (--weights=%s uses it)", path, shown, path);
    }
    tensor_file_close(&file);
    return learned != NULL;
}

/* As find_in, of the last run that has weights of the data. Those after it are told of. */
static int find_last(const struct settings *settings, char path_out[PATH_MAX])
{
    char folder[PATH_MAX];
    const int count = run_name_was_given(settings) ? 1 : run_name_count(settings);
    int rc = -ENOENT, number = count;
    for (; number > 0 && rc == -ENOENT; number--) {
        rc = run_name_numbered(folder, sizeof(folder), settings->run.dir, number);
        if (rc == 0)
            rc = find_in(folder, path_out);
        if (rc == -ENOENT && count > 1)
            log_message(LOG_RUN, "%s has no weights", folder);
        else if (rc == 0 && learned_something_else(path_out))
            rc = -ENOENT;
    }
    if (rc == 0 && number + 1 < count)
        log_message(LOG_RUN, "using the weights of an earlier run: %s", path_out);
    return rc;
}

int found_weights(const struct settings *settings, char path_out[PATH_MAX])
{
    int rc = find_last(settings, path_out);
    if (rc == -ENOENT) {
        log_message(LOG_ERROR, "no run has left weights in %s: pipetrain -c %s trains the network, --weights FILE "
                    "names others", settings->run.dir, *settings->config_path != '\0' ? settings->config_path : "FILE");
        return EXIT_CODE_DATA;
    }
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "the weights: %s", strerror(-rc));
    return exit_code_of(rc, EXIT_CODE_DATA);
}
