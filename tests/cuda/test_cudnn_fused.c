/* cuDNN compiles plans for data gradients that add another gradient and apply the mask of a ReLU, for devices that are
 * only described to it. Compiling needs a driver library, for which CUDA's stub is enough; loading the kernels then
 * fails, so the plans cannot run. A run plans three shapes for sm_90; with the argument `all` every shape of a table in
 * both 16-bit types for all devices, in minutes. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/cuda/cudnn_planning_fixture.h"
#include "tests/helpers/test.h"

static bool plans_all;

/* Shapes of ResNet-50 v1.5, square. The first rows are those of a short run. */
static const struct { uint32_t in, size, out, kernel, stride; enum conv_after after; } rows[] = {
    { 256, 56, 64, 1, 1, CONV_AFTER_ADD_DRELU }, { 64, 56, 64, 1, 1, CONV_AFTER_ADD },
    { 2048, 7, 512, 1, 1, CONV_AFTER_DRELU },    { 512, 28, 128, 1, 1, CONV_AFTER_ADD_DRELU },
    { 256, 56, 128, 1, 1, CONV_AFTER_ADD_DRELU }, { 1024, 14, 256, 1, 1, CONV_AFTER_ADD_DRELU },
    { 256, 56, 512, 1, 2, CONV_AFTER_ADD_DRELU }, { 64, 32, 64, 3, 1, CONV_AFTER_ADD },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]), SHORT_ROWS = 3 };

static void assert_fuses(int device, enum precision precision, size_t row)
{
    const struct conv_planner planner = planner_for(device);
    struct conv_shape shape = square(DGRAD, precision, rows[row].in, rows[row].size, rows[row].out, rows[row].kernel,
                                     rows[row].stride, rows[row].kernel / 2, rows[row].kernel / 2);
    struct conv_plan *plan = NULL;
    char text[128];
    shape.after = rows[row].after;
    assert_int_equal(conv_plan_open(&plan, &planner, &shape, false), 0);
    conv_plan_describe(plan, text, sizeof(text));
    print_message("%s, %u at %ux%u: %s\n", planner.name, shape.in_channels, shape.in_h, shape.in_w, text);
    assert_null(strstr(text, "apart"));
    conv_plan_close(plan);
}

TEST(data_gradients_with_sums_and_masks_are_compiled)
{
    static const int devices[] = { SM_90, SM_80, SM_100, SM_120 };
    if (!plans_all)
        for (size_t i = 0; i < SHORT_ROWS; i++)
            assert_fuses(SM_90, PRECISION_BF16, i);
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]) && plans_all; d++)
        for (size_t i = 0; i < 2 * ROWS; i++)
            assert_fuses(devices[d], i % 2 != 0 ? PRECISION_FP16 : PRECISION_BF16, i / 2);
}

/* What devices.batch_statistics = fused asks for; `shapes`: for how many of the shapes below there is a plan. */
static const struct {
    const char *name;
    enum product_pass pass;
    enum precision precision;
    enum conv_before before;
    enum conv_after after;
    uint32_t shapes[DEVICE_COUNT];
} uses[] = {
    { "bf16, forward, sums", FPROP, PRECISION_BF16, CONV_BEFORE_NOTHING, CONV_AFTER_STATISTICS,
      { [SM_80] = 3, [SM_90] = 3, [SM_100] = 3, [SM_120] = 3 } },
    { "fp16, forward, sums", FPROP, PRECISION_FP16, CONV_BEFORE_NOTHING, CONV_AFTER_STATISTICS,
      { [SM_80] = 3, [SM_90] = 3, [SM_100] = 3, [SM_120] = 3 } },
    { "fp16, forward, normalised input, sums", FPROP, PRECISION_FP16, CONV_BEFORE_SCALE_RELU, CONV_AFTER_STATISTICS,
      { [SM_80] = 3, [SM_90] = 3, [SM_100] = 3, [SM_120] = 3 } },
    { "fp16, weight gradient, normalised input", WGRAD, PRECISION_FP16, CONV_BEFORE_SCALE_RELU, CONV_AFTER_NOTHING,
      { [SM_80] = 3, [SM_90] = 3, [SM_100] = 3, [SM_120] = 3 } },
    { "fp16, data gradient, sums for a normalisation", DGRAD, PRECISION_FP16, CONV_BEFORE_NOTHING, CONV_AFTER_NORM,
      { [SM_80] = 0, [SM_90] = 3, [SM_100] = 0, [SM_120] = 0 } },
};

/* Is there a plan for the whole shape? */
static bool is_planned(const struct conv_planner *planner, const struct conv_shape *shape, const char *name)
{
    struct conv_plan *plan = NULL;
    char text[128] = "no plan";
    const int rc = conv_plan_open(&plan, planner, shape, false);
    assert_true(rc == 0 || rc == -ENOTSUP);
    if (rc == 0)
        conv_plan_describe(plan, text, sizeof(text));
    conv_plan_close(plan);
    print_message("%s, %s, %u at %ux%u, window %u: %s\n", planner->name, name, shape->in_channels, shape->in_h,
                  shape->in_w, shape->kernel_h, text);
    return rc == 0 && strstr(text, "apart") == NULL;
}

TEST(convolutions_for_statistics_are_planned_where_cudnn_has_them)
{
    static const struct { uint32_t in, size, out, kernel, stride; } shapes[] = {
        { 64, 56, 256, 1, 1 }, { 64, 56, 64, 3, 1 }, { 128, 56, 128, 3, 2 },
    };
    for (int device = SM_80; device < DEVICE_COUNT && plans_all; device++)
        for (size_t u = 0; u < sizeof(uses) / sizeof(uses[0]); u++) {
            const struct conv_planner planner = planner_for(device);
            uint32_t count = 0;
            for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
                const uint32_t side = shapes[i].kernel / 2;
                struct conv_shape shape = square(uses[u].pass, uses[u].precision, shapes[i].in, shapes[i].size,
                                                 shapes[i].out, shapes[i].kernel, shapes[i].stride, side, side);
                shape.bias = shape.relu = false;
                shape.before = uses[u].before;
                shape.after = uses[u].after;
                count += is_planned(&planner, &shape, uses[u].name);
            }
            assert_int_equal(count, uses[u].shapes[device]);
        }
}

/* A library with the name of the driver's that is loaded already is the one that cuDNN finds. */
static bool has_driver(void)
{
    static const char *const places[] = { "libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so",
                                          "/usr/local/cuda/targets/x86_64-linux/lib/stubs/libcuda.so",
                                          "/usr/lib/x86_64-linux-gnu/stubs/libcuda.so" };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (dlopen(places[i], RTLD_NOW | RTLD_GLOBAL) != NULL)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    plans_all = argc == 2 && strcmp(argv[1], "all") == 0;
    if (!has_driver()) {
        fprintf(stderr, "neither the driver's library nor CUDA's stub of it is here\n");
        return 77;
    }
    if (!described_devices_open()) {
        fprintf(stderr, "cuDNN cannot plan here\n");
        return 77;
    }
    const int failed = tests_run(NULL, NULL);
    described_devices_close();
    return failed;
}
