/* Looking for weights in run directories. */
#include "tools/predict/found_weights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/checkpoint/reader.h"
#include "tools/results/run_names.h"
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

int found_weights(const struct settings *settings, char path_out[PATH_MAX])
{
    char folder[PATH_MAX];
    const int count = run_name_was_given(settings) ? 1 : run_name_count(settings);
    int rc = -ENOENT;
    for (int number = count; number > 0 && rc == -ENOENT; number--) {
        rc = run_name_numbered(folder, sizeof(folder), settings->run.dir, number);
        if (rc == 0)
            rc = find_in(folder, path_out);
    }
    if (rc == -ENOENT) {
        log_message(LOG_RUN, "no run has left weights in %s: pipetrain -c %s trains the network, --weights FILE names "
                    "others", settings->run.dir, *settings->config_path != '\0' ? settings->config_path : "FILE");
        rc = name_weights(settings->run.dir, path_out);
    }
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "the weights: %s", strerror(-rc));
    return exit_code_of(rc, EXIT_CODE_DATA);
}
