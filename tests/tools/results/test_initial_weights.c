/* Names of tensors that a wrapper of PyTorch's was put before: left out and told, unless the network has them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/model.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/lib/results/initial_weights.h"
#include "tools/lib/results/weights.h"
#include "tools/lib/results/weights_agree.h"

/* A safetensors file of zeros: the net's tensors with `prefix` before their names, and one more, an I64, where `more`
 * names it. */
static const char *write_file(const struct net *net, const char *prefix, const char *more)
{
    static char path[512];
    char *header = NULL;
    size_t header_bytes = 0;
    uint64_t at = 0;
    FILE *const out = open_memstream(&header, &header_bytes);
    assert_non_null(out);
    fputc('{', out);
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct parameter *const parameter = &net->parameters[i];
        fprintf(out, "%s\"%s%s\":{\"dtype\":\"F32\",\"shape\":[", i > 0 ? "," : "", prefix, parameter->name);
        for (uint32_t axis = 0; axis < parameter->rank; axis++)
            fprintf(out, "%s%u", axis > 0 ? "," : "", parameter->dims[axis]);
        fprintf(out, "],\"data_offsets\":[%llu,", (unsigned long long)at);
        at += parameter->count * sizeof(float);
        fprintf(out, "%llu]}", (unsigned long long)at);
    }
    if (more != NULL) {
        fprintf(out, ",\"%s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[%llu,%llu]}", more,
                (unsigned long long)at, (unsigned long long)at + 8);
        at += 8;
    }
    fputc('}', out);
    fclose(out);
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "weights.safetensors"));
    fixture_write_tensors(path, header, header_bytes, at);
    free(header);
    return path;
}

static struct net *open_net(const char *name)
{
    struct net *net;
    assert_int_equal(model_open(&net, name, &(const struct model_options){ .dropout = true }), 0);
    return net;
}

/* What initial_weights_print says. */
static void told_of(const struct initial_weights *weights, char *text, size_t text_size)
{
    FILE *const out = fmemopen(text, text_size, "w");
    assert_non_null(out);
    initial_weights_print(weights, out);
    fclose(out);
    /* Lines are broken at blanks: as one line. */
    char *to = text;
    for (const char *from = text; *from != '\0'; from++)
        if (*from != '\n' && !(*from == ' ' && to > text && to[-1] == ' '))
            *to++ = *from;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    *to = '\0';
}

TEST_WITH(what_all_names_begin_with_is_left_out_and_reported, fixture_folder_make, fixture_folder_remove)
{
    static const struct { const char *prefix, *more, *told; } cases[] = {
        { "module.", NULL, "all its names begin with 'module.' (PyTorch's DataParallel), which was removed" },
        { "_orig_mod.", NULL, "all its names begin with '_orig_mod.' (PyTorch's torch.compile), which was removed" },
        { "_orig_mod.module.", "_orig_mod.module.bn.num_batches_tracked",
          "all its names begin with '_orig_mod.module.' (PyTorch's DataParallel and" },
        { "module.", "n_averaged", "all its names begin with 'module.' (PyTorch's DataParallel), which was removed" },
        { "model.", NULL, "all its names begin with 'model.', which was removed" },
        { "model.backbone.", NULL, "all its names begin with 'model.backbone.', which was removed" },
    };
    struct net *const net = open_net("mnist_cnn");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct initial_weights *weights = NULL;
        struct problems problems;
        char text[1024] = "";
        problems_init(&problems);
        const char *const path = write_file(net, cases[i].prefix, cases[i].more);
        assert_int_equal(initial_weights_open(&weights, path, net, NULL, 0, &problems), 0);
        told_of(weights, text, sizeof(text));
        if (strstr(text, cases[i].told) == NULL || strstr(text, "8 of 8 tensors") == NULL)
            fail_msg("'%s': %s", cases[i].prefix, text);
        assert_int_equal(initial_weights_write(weights, NULL), 0);
        initial_weights_close(weights);
        problems_release(&problems);
    }
    net_close(net);
}

/* The value of model.skip that a message has; "" for none. */
static void find_skip(const struct problems *problems, char skip[256])
{
    skip[0] = '\0';
    for (size_t i = 0; i < problems->count; i++) {
        const char *const found = strstr(problems->lines[i], "model.skip = '");
        if (found != NULL)
            (void)sscanf(found, "model.skip = '%255[^']", skip);
    }
}

TEST_WITH(what_others_than_the_networks_tensors_need_is_reported_and_loads_them, fixture_folder_make,
          fixture_folder_remove)
{
    static const struct { const char *prefix, *more, *named, *skip; } cases[] = {
        { "encoder_q.", "queue", "'encoder_q.*'", "queue" },
        { "student.backbone.", "teacher.head.weight", "'student.backbone.*'", "teacher.*" },
        { "model.", "model.criterion.weight", "", "criterion.*" },
        { "", "linear.weight", "", "linear.*" },
        { "", "fc1.mask", "", "fc1.mask" },
        { "encoder_q.", "encoder_k.bn.num_batches_tracked", "'encoder_q.*'", "encoder_k.*" },
        { "encoder_q.", "encoder_q.conv1.num_batches_tracked", NULL, "" },
    };
    struct net *const net = open_net("mnist_cnn");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct initial_weights *weights = NULL;
        struct problems problems;
        char text[1024] = "", skip[256];
        problems_init(&problems);
        const char *const path = write_file(net, cases[i].prefix, cases[i].more);
        assert_int_equal(initial_weights_open(&weights, path, net, "", 0, &problems), cases[i].named != NULL ? -EINVAL : 0);
        find_skip(&problems, skip);
        assert_string_equal(skip, cases[i].skip);
        if (cases[i].named != NULL) {
            assert_non_null(strstr(problems.lines[problems.count - 1], cases[i].named));
            assert_int_equal(initial_weights_open(&weights, path, net, skip, 0, &problems), 0);
        }
        told_of(weights, text, sizeof(text));
        if (strstr(text, "8 of 8 tensors") == NULL)
            fail_msg("'%s', '%s': %s", cases[i].prefix, cases[i].more, text);
        initial_weights_close(weights);
        problems_release(&problems);
    }
    net_close(net);
}

/* Overwrite the last number of the net's first tensor of the kind. */
static void put_number(const char *path, const struct net *net, enum parameter_kind kind, float number)
{
    long after = 0;     /* bytes from there to the end of the file */
    uint32_t i = net->parameter_count;
    uint32_t first = 0;
    while (net->parameters[first].kind != kind)
        first++;
    while (--i > first)
        after += (long)(net->parameters[i].count * sizeof(float));
    FILE *const file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -after - (long)sizeof(number), SEEK_END), 0);
    assert_int_equal(fwrite(&number, sizeof(number), 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

TEST_WITH(a_running_variance_below_0_is_refused, fixture_folder_make, fixture_folder_remove)
{
    static const struct { enum parameter_kind kind; float number; int rc; } cases[] = {
        { PARAMETER_RUNNING_VARIANCE, -1e-3f, -ERANGE }, { PARAMETER_RUNNING_VARIANCE, 1e-3f, 0 },
        { PARAMETER_RUNNING_VARIANCE, -0.0f, 0 },        { PARAMETER_RUNNING_MEAN, -1e-3f, 0 },
        { PARAMETER_GAMMA, -1e-3f, 0 },                  { PARAMETER_WEIGHT, -1e-3f, 0 },
    };
    struct net *const net = open_net("resnet20_v1");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct initial_weights *weights = NULL;
        struct problems problems;
        problems_init(&problems);
        const char *const path = write_file(net, "", NULL);
        put_number(path, net, cases[i].kind, cases[i].number);
        assert_int_equal(initial_weights_open(&weights, path, net, NULL, 0, &problems), 0);
        assert_int_equal(initial_weights_write(weights, NULL), cases[i].rc);
        initial_weights_close(weights);
        problems_release(&problems);
    }
    net_close(net);
}

TEST_WITH(names_that_are_the_networks_say_nothing_of_it, fixture_folder_make, fixture_folder_remove)
{
    struct net *const net = open_net("mnist_cnn");
    struct initial_weights *weights = NULL;
    struct problems problems;
    char text[1024] = "";
    problems_init(&problems);
    assert_int_equal(initial_weights_open(&weights, write_file(net, "", NULL), net, NULL, 0, &problems), 0);
    told_of(weights, text, sizeof(text));
    assert_null(strstr(text, "begin with"));
    initial_weights_close(weights);
    problems_release(&problems);
    net_close(net);
}

/* The advice is about the prefix and the model, not to leave tensors out one by one. */
TEST_WITH(another_networks_weights_are_known_after_it, fixture_folder_make, fixture_folder_remove)
{
    struct net *const theirs = open_net("mnist_cnn"), *const ours = open_net("resnet20_v1");
    struct initial_weights *weights = NULL;
    struct problems problems;
    char all[4096] = "";
    problems_init(&problems);
    assert_int_equal(initial_weights_open(&weights, write_file(theirs, "module.", NULL), ours, "", 0, &problems), -EINVAL);
    for (size_t i = 0; i < problems.count; i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s\n", problems.lines[i]);
    assert_non_null(strstr(all, "all its names begin with 'module.' (PyTorch's DataParallel), which was removed"));
    assert_non_null(strstr(all, "its tensors are those of 'mnist_cnn'"));
    problems_release(&problems);
    net_close(theirs);
    net_close(ours);
}

/* As another program may keep some of a file's metadata. */
TEST_WITH(a_label_offset_without_its_network_is_not_known, fixture_folder_make, fixture_folder_remove)
{
    static const char header[] = "{\"__metadata__\":{\"" WEIGHTS_SETTING "data.label_offset\":\"-1\"}}";
    uint8_t bytes[8 + sizeof(header) - 1] = { sizeof(header) - 1 };
    struct settings settings;
    int64_t offset = 7;
    memcpy(bytes + 8, header, sizeof(header) - 1);
    fixture_write(fixture_path(folder, "weights.safetensors"), bytes, sizeof(bytes));
    assert_int_equal(settings_init(&settings), 0);
    free(settings.model.weights);
    assert_non_null(settings.model.weights = strdup(fixture_path(folder, "weights.safetensors")));
    assert_false(weights_label_offset(&settings, &offset));
    assert_int_equal(offset, 7);
    settings_release(&settings);
}

TESTS_MAIN(NULL, NULL)
