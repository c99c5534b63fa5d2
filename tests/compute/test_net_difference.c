/* Tests of the comparison of networks that have equal tensors. */
#include <string.h>

#include "compute/model.h"
#include "compute/net_difference.h"
#include "compute/netfile/net_file.h"
#include "stage/text/names.h"
#include "tests/helpers/test.h"

static void refuse(void *arg, uint32_t line, const char *problem)
{
    (void)arg;
    fail_msg("line %u: %s", line, problem);
}

static struct net *read_net(const char *text)
{
    struct net *net;
    const struct net_file_sink sink = { refuse, NULL };
    assert_int_equal(net_file_read(&net, text, strlen(text), &(const struct model_options){ .dropout = true }, &sink),
                     0);
    return net;
}

static struct net *open_model(const char *name)
{
    struct net *net;
    assert_int_equal(model_open(&net, name, &(const struct model_options){ .dropout = true }), 0);
    return net;
}

/* Compares two nets, of which parameters that match `skip` are not loaded; closes both. */
static int compare(struct net *ours, struct net *theirs, const char *skip, char text[NET_DIFFERENCE_SIZE])
{
    bool is_loaded[NET_PARAMETERS_MAX];
    for (uint32_t i = 0; i < ours->parameter_count; i++)
        is_loaded[i] = !patterns_match(skip, ours->parameters[i].name);
    const int count = net_layers_differ(ours, theirs, is_loaded, text);
    net_close(ours);
    net_close(theirs);
    return count;
}

static const char base[] =
    "model m\nimage 16x16x3\nclasses 4\nconv2d c1 filters 8 kernel 3 padding same\nbatch_norm b1\nrelu r1\n"
    "max_pool p kernel 2 stride 2\nconv2d c2 filters 8 kernel 3 padding same\nadd s from before,p\nrelu r2\n"
    "conv2d c3 filters 8 kernel 3 stride 2 padding same\nglobal_average g\ndense fc units classes\n"
    "softmax_loss loss\n";

/* The base with one text replaced by another. */
static struct net *changed(const char *from, const char *to)
{
    char text[2048];
    const char *const at = strstr(base, from);
    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - base), base, to, at + strlen(from));
    return read_net(text);
}

TEST(what_changes_results_but_no_shape_of_a_tensor_is_a_difference)
{
    const struct { const char *from, *to, *words; } rows[] = {
        { "kernel 3 stride 2 padding same", "kernel 3 stride 1 padding same", "'c3' is conv2d kernel 3x3 stride 1x1" },
        { "filters 8 kernel 3 padding same\nbatch", "filters 8 kernel 3 padding valid\nbatch", "padding 0,0,0,0" },
        { "kernel 3 stride 2 padding same", "kernel 3 stride 2 padding 1", "padding 1,1,1,1, there" },
        { "conv2d c2 filters 8 kernel 3 padding same", "conv2d c2 filters 8 kernel 3 padding same groups 8",
          "'c2' is conv2d kernel 3x3 stride 1x1 padding 1,1,1,1 groups 8, there conv2d kernel 3x3 stride 1x1" },
        { "batch_norm b1", "batch_norm b1 epsilon 0.001", "'b1' is batch_norm epsilon 0.001, there" },
        { "batch_norm b1", "layer_norm b1", "'b1' is layer_norm epsilon 1e-06, there" },
        { "relu r1\n", "", "'c2' reads 'b1' (batch_norm), there relu" },
        { "max_pool p", "average_pool p", "'c2' reads average_pool kernel 2x2" },
        { "max_pool p kernel 2 stride 2", "max_pool p kernel 3 stride 2 padding same", "max_pool kernel 3x3" },
        { "relu r2\n", "", "'c3' reads add, there relu" },
        { "global_average g\n", "relu r3\nglobal_average g\n", "'fc' reads relu, there 'c3' (conv2d)" },
        { "global_average g\n", "max_pool g kernel 4\n", "'fc' reads max_pool" },
        { "softmax_loss loss", "relu r4\nsoftmax_loss loss", "'loss' reads relu, there 'fc' (dense)" },
        { "relu r1\n", "relu r1\nlocal_response_norm l size 5\n", "'c2' reads local_response_norm size 5 alpha" },
        { "add s from before,p", "add s from before,before", "" },
        { "conv2d c2 filters 8 kernel 3 padding same\nadd s from before,p",
          "conv2d c2 filters 8 kernel 3 padding same from image\nmax_pool q kernel 2\nadd s from before,p", "'c2' reads" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[NET_DIFFERENCE_SIZE];
        const int count = compare(changed(rows[i].from, rows[i].to), read_net(base), "", text);
        if (count < 1 || strstr(text, rows[i].words) == NULL)
            fail_msg("%s: %d differences, \"%s\"", rows[i].to, count, text);
    }
}

TEST(what_does_not_change_results_of_loaded_layers_is_none)
{
    const struct { const char *from, *to, *skip; } rows[] = {
        { "model m", "model other", "" },
        { "image 16x16x3", "image 31x17x3", "" },
        { "classes 4", "classes 9", "fc.*" },
        { "relu r1", "relu another", "" },
        { "relu r2", "relu r2\ndropout d rate 0.5", "" },
        { "relu r2", "relu r2\nstochastic_depth d rate 0.5", "" },
        { "batch_norm b1", "batch_norm b1 decay 0.5", "" },
        { "add s from before,p", "add s from p,before", "" },
        { "padding same\nbatch", "padding 1\nbatch", "" },
        { "padding same\nbatch", "padding same init weight he_normal\nbatch", "" },
        { "dense fc", "dense hidden units 5\nrelu r3\ndense fc", "fc.* hidden.*" },
        { "global_average g\ndense fc", "max_pool g kernel 2\ndense head", "head.*" },
        { "c1 filters 8 kernel 3 padding same", "c1 filters 8 kernel 5 padding same", "c1.*" },
        { "batch_norm b1\n", "batch_norm b1 epsilon 0.1\n", "b1.*" },
        { "conv2d c3 filters 8 kernel 3 stride 2", "conv2d n filters 8 kernel 1\nconv2d c3 filters 8 kernel 3 stride 2",
          "n.*" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[NET_DIFFERENCE_SIZE];
        const int count = compare(changed(rows[i].from, rows[i].to), read_net(base), rows[i].skip, text);
        if (count != 0)
            fail_msg("%s: %d differences, \"%s\"", rows[i].to, count, text);
    }
}

/* As opposed to those of a sum: the layers behind see other channels. */
TEST(the_order_of_what_is_concatenated_is_a_difference)
{
    static const char begin[] = "model m\nimage 8x8x3\nclasses 4\nconv2d a filters 4 kernel 1\n"
                                "conv2d b filters 4 kernel 1 from image\n";
    static const char end[] = "conv2d c filters 4 kernel 1\nglobal_average g\ndense fc units classes\nsoftmax_loss loss\n";
    static const char *const orders[] = { "a,b", "b,a" };
    for (size_t i = 0; i < 4; i++) {
        char ours[512], theirs[512], text[NET_DIFFERENCE_SIZE];
        snprintf(ours, sizeof(ours), "%sconcat k from %s\n%s", begin, orders[i / 2], end);
        snprintf(theirs, sizeof(theirs), "%sconcat k from %s\n%s", begin, orders[i % 2], end);
        assert_int_equal(compare(read_net(ours), read_net(theirs), "", text), i / 2 != i % 2);
    }
}

TEST(networks_by_name_equal_themselves_and_differ_from_their_relatives)
{
    const struct { const char *ours, *theirs, *words; } rows[] = {
        { "resnet50_v1", "resnet50_v1.5", "'layer2.0.conv1' is conv2d kernel 1x1 stride 2x2" },
        { "resnet50_v1.5", "torchvision_resnet50", "max_pool kernel 3x3 stride 2x2 padding 0,1,0,1, there max_pool" },
        { "torchvision_resnet50", "resnet50_v1", "padding 1,1,1,1, there max_pool kernel 3x3" },
    };
    char text[NET_DIFFERENCE_SIZE];
    for (const struct model *model = model_table; model->name != NULL; model++)
        assert_int_equal(compare(open_model(model->name), open_model(model->name), "", text), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (compare(open_model(rows[i].ours), open_model(rows[i].theirs), "", text) < 1 ||
            strstr(text, rows[i].words) == NULL)
            fail_msg("%s, %s: \"%s\"", rows[i].ours, rows[i].theirs, text);
}

/* Untrusted: 2^200 paths lead through sums of the same layer. */
TEST(a_chain_of_sums_is_compared_in_no_time)
{
    char text[8192] = "model m\nimage 4x4x1\nclasses 2\nconv2d c filters 1 kernel 1\n";
    char difference[NET_DIFFERENCE_SIZE];
    strcat(text, "repeat 200 as i\nadd a{i} from before,start\nend\n");
    strcat(text, "dense fc units classes\nsoftmax_loss loss\n");
    struct net *const other = read_net("model m\nimage 4x4x1\nclasses 2\nconv2d c filters 1 kernel 1\n"
                                       "relu r\nrepeat 200 as i\nadd a{i} from before,start\nend\n"
                                       "dense fc units classes\nsoftmax_loss loss\n");
    assert_int_equal(compare(read_net(text), other, "", difference), 1);
}

TESTS_MAIN(NULL, NULL)
