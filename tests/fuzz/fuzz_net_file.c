/* Fuzz target: any bytes as the description of a network. Either lines of it are told of, in words that a terminal
 * shows as they are, or it is a network whose written copy reads back as the same. */
#include <errno.h>
#include <stdio.h>

#include "compute/netfile/net_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/helpers/network/net_compare.h"

#define SEED(text) { text, sizeof(text) - 1 }
#define HEAD "model m\nimage 9x8x3\nclasses 4\n"
#define TAIL "dense fc units classes\nsoftmax_loss loss\n"

const struct fuzz_seed fuzz_seeds[] = {
    SEED("\xef\xbb\xbf# c\r\nmodel a.b-c_d\r\nimage 32x32x3 # x\r\nclasses 10\r\n"
         "transform divisor 127.5 mean 1,2,3 deviation .5\r\n" TAIL),
    SEED(HEAD "conv2d a filters 8 kernel 3x1 stride 2x1 padding 1,0,0,0 no_bias init weight variance_scaling\n"
         "batch_norm b decay 0.997 epsilon 1e-3 no_gamma init beta constant 0.1\nrelu c\n"
         "local_response_norm d size 5 alpha 0.002 beta 0.5 k 2\nmax_pool e kernel 2\n"
         "average_pool f from d kernel 2 padding same stride 2\nconcat g from e,f\n"
         "pad_channels h channels 20 stride 1\n"
         "conv2d i filters 20 groups 4 kernel 1 from g init bias normal 0.5 init weight he_normal_fan_out\nadd j from h,before\n"
         "dense k units classes no_bias\nauxiliary_loss l weight 0.4\nglobal_average m from j\n"
         "dropout n rate 0.25\nlayer_norm o epsilon 1e-3\nscale p init gamma constant 1e-6\n"
         "stochastic_depth q rate 0.125\n" TAIL),
    SEED(HEAD "repeat 2 as s\nrepeat 3 as i from 0\nconv2d b{s}.{i} filters {s} kernel 3 padding same\n"
         "relu r{s}.{i}\nend\nend\n" TAIL),
    SEED(HEAD "repeat 2\nconv2d c filters 3 kernel 3 padding same\nadd a from before,start\nend\nend\nrepeat\n" TAIL),
    SEED("model\nimage 0x8\nclasses x\nconv a\nrelu b{i}\nrelu {\nrelu {\ti}\nconv2d filters 3\nsoftmax_loss l\n"
         "relu image\nrelu x"),
    { NULL, 0 },
};

struct told { uint32_t count, lines; };

static void hear(void *arg, uint32_t line, const char *problem)
{
    struct told *const told = arg;
    require(line <= told->lines && *problem != '\0');
    for (; *problem != '\0'; problem++)
        require((unsigned char)*problem >= 0x20 && (unsigned char)*problem < 0x7f);
    told->count++;
}

static uint32_t count_lines(const uint8_t *data, size_t bytes)
{
    uint32_t lines = 1;
    for (size_t i = 0; i < bytes; i++)
        lines += data[i] == '\n';
    return lines;
}

static void check_copy(const struct net *net)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    require(out != NULL && net_file_write(net, out) == 0);
    fclose(out);
    struct told told = { 0, count_lines((const uint8_t *)text, bytes) };
    struct net *again;
    const struct model_options options = { .dropout = true };
    require(net_file_read(&again, text, bytes, &options, &(const struct net_file_sink){ hear, &told }) == 0);
    require(net_difference(net, again) == NULL);
    net_close(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    for (int dropout = 0; dropout < 2; dropout++) {
        struct told told = { 0, count_lines(data, bytes) };
        struct net *net = NULL;
        const struct model_options options = { .dropout = dropout != 0 };
        const int rc = net_file_read(&net, (const char *)data, bytes, &options,
                                     &(const struct net_file_sink){ hear, &told });
        require(rc == (told.count > 0 ? -EINVAL : 0) && (net != NULL) == (rc == 0));
        if (net != NULL)
            check_copy(net);
        net_close(net);
    }
    return 0;
}
