/* From the metadata of a file of weights to settings. */
#include "tools/predict/own_network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "compute/net.h"
#include "stage/stop.h"
#include "tools/config/config.h"
#include "tools/config/pixels.h"
#include "tools/config/settings_model.h"
#include "tools/config/train/recipes.h"
#include "tools/results/tensor_file.h"
#include "tools/results/weights.h"

/* How images were scaled, key by key: of the model, so that what the command line says goes before. What another
 * program wrote has none. */
static int take_scaling(struct settings *settings, const struct safetensors_index *index, bool *is_known_out,
                        struct problems *problems)
{
    int rc = 0;
    for (size_t i = 0; i < PIXELS_SETTINGS && rc == 0; i++) {
        char key[96], *assignment;
        snprintf(key, sizeof(key), WEIGHTS_SETTING "%s", pixels_settings[i]);
        const char *const value = safetensors_index_text(index, key);
        if (value == NULL)
            continue;
        if (asprintf(&assignment, "%s=%s", pixels_settings[i], value) < 0)
            return -ENOMEM;
        rc = config_set(settings, assignment, problems);
        free(assignment);
        settings_origin(settings, SECTION_AUGMENT, strchr(pixels_settings[i], '.') + 1)->origin = ORIGIN_MODEL;
        *is_known_out = true;
    }
    return rc;
}

/* The text is untrusted; what is wrong with it is nobody's to mend. */
static int take_text(struct settings *settings, const char *text, const char *path, struct problems *problems)
{
    struct net *net = NULL;
    settings->model_text = strdup(text);
    settings->model_bytes = strlen(text);
    if (settings->model_text == NULL)
        return -ENOMEM;
    const int rc = settings_open_net(settings, &net);
    if (rc == -EINVAL)
        problems_add(problems, path, "its description of a network makes none: name one with --model=NAME, or give the "
                                     "configuration with -c FILE");
    if (rc == 0)
        pixels_check_resize(settings, net, problems);
    net_close(net);
    return rc;
}

static int take_model(struct settings *settings, const struct network_words *words,
                      const struct safetensors_index *index, bool is_scaling_known, struct problems *problems)
{
    const char *const text = safetensors_index_text(index, WEIGHTS_NET);
    pixels_choose_scaling(settings);
    if (words->model == NULL && text != NULL)
        return take_text(settings, text, words->weights, problems);
    if (words->model == NULL) {
        problems_add(problems, words->weights, "says nothing of its network: name it with --model=NAME, or give the "
                                                 "configuration with -c FILE");
        return -EINVAL;
    }
    int rc = settings_choose_model(settings, "--model", words->model, problems);
    if (rc == 0)
        rc = settings_find_model(settings, problems);
    return rc == 0 && !is_scaling_known ? recipe_apply_evaluation(settings) : rc;
}

static int take_all(struct settings *settings, const struct network_words *words, struct problems *problems)
{
    char problem[256];
    struct tensor_file file;
    int rc = tensor_file_open(&file, AT_FDCWD, words->weights, problem, sizeof(problem));
    if (rc != 0) {
        problems_add(problems, words->weights, "%s", problem[0] != '\0' ? problem : strerror(-rc));
        return rc;
    }
    bool is_scaling_known = false;
    rc = take_scaling(settings, &file.index, &is_scaling_known, problems);
    for (int i = 0; i < words->assignment_count && (rc == 0 || rc == -EINVAL); i++)
        rc = config_set(settings, words->assignments[i], problems);
    if (rc == 0 && problems->count == 0)
        rc = take_model(settings, words, &file.index, is_scaling_known, problems);
    tensor_file_close(&file);
    return rc;
}

int own_network_settings(struct settings *settings, const struct network_words *words)
{
    struct problems problems;
    problems_init(&problems);
    const int rc = take_all(settings, words, &problems);
    if (rc == -ENOMEM && problems.count == 0)
        problems_add(&problems, words->weights, "%s", strerror(ENOMEM));
    problems_print(&problems);
    const int code = rc == -EBADMSG || rc == -ENODATA ? EXIT_CODE_DATA : (int)exit_code_of(rc, EXIT_CODE_USAGE);
    const bool is_right = rc == 0 && problems.count == 0;
    const int wrong = problems_code(&problems, code);
    problems_release(&problems);
    return is_right ? 0 : wrong;
}
