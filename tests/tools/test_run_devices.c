/* Tests of choosing what computes: what the tables' rows refuse is told with the key it is about
 * and the right kind of failure. None of them needs a device beside the CPU. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/run_devices.h"

static struct settings settings;
static struct run_devices devices;
static char said[1024];

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(settings_init(&settings), 0);
    settings.devices.kind = DEVICE_CHOICE_CPU;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    settings_release(&settings);
    return 0;
}

/* The devices of the settings; `said` is what is wrong with them. */
static int choose(void)
{
    struct problems problems;
    struct capture capture;
    problems_init(&problems);
    const int rc = run_devices_init(&devices, &settings, &problems);
    capture_begin(&capture);
    problems_print(&problems);
    capture_end(&capture, said, sizeof(said));
    problems_release(&problems);
    return rc;
}

static void assert_refused(int error, const char *key, const char *words)
{
    assert_int_equal(choose(), error);
    if (strstr(said, key) == NULL || strstr(said, words) == NULL)
        fail_msg("no \"%s\" and \"%s\" in: %s", key, words, said);
}

TEST_WITH(the_cpu_has_a_backend_and_as_many_places_as_towers, set_up, tear_down)
{
    settings.devices.towers = 3;
    assert_int_equal(choose(), 0);
    assert_ptr_equal(devices.ops, &device_host_ops);
    assert_string_equal(devices.backend->device, "cpu");
    assert_true(devices.backend->computes);
    assert_ptr_equal(devices.reduce, &reduce_host_ops);
    for (uint32_t tower = 0; tower < 3; tower++)
        assert_int_equal(run_devices_index(&devices, tower), tower);
}

TEST_WITH(a_backend_is_chosen_by_name, set_up, tear_down)
{
    settings.devices.backend = BACKEND_CHOICE_REFERENCE;
    assert_int_equal(choose(), 0);
    assert_ptr_equal(devices.backend, &backend_reference_ops);
    settings.devices.kind = DEVICE_CHOICE_AUTO;
    assert_int_equal(choose(), 0);
    assert_ptr_equal(devices.backend, &backend_reference_ops);
    assert_string_equal(devices.note, "");         /* no other device was asked for */
}

TEST_WITH(the_null_device_computes_nothing_whatever_backend_is_named, set_up, tear_down)
{
    settings.devices.kind = DEVICE_CHOICE_NULL;
    settings.devices.towers = 2;
    settings.devices.backend = BACKEND_CHOICE_REFERENCE;
    settings.sync.reduce = REDUCE_CHOICE_NCCL;
    assert_int_equal(choose(), 0);
    assert_ptr_equal(devices.ops, &device_null_ops);
    assert_ptr_equal(devices.backend, &backend_null_ops);
    assert_ptr_equal(devices.reduce, &reduce_none_ops);
}

TEST_WITH(nothing_is_reduced_where_towers_are_independent, set_up, tear_down)
{
    assert_int_equal(choose(), 0);
    assert_ptr_equal(devices.reduce, &reduce_none_ops);
    settings.devices.towers = 2;
    settings.sync.mode = SYNC_INDEPENDENT;
    assert_int_equal(choose(), 0);
    assert_ptr_equal(devices.reduce, &reduce_none_ops);
    settings.sync.mode = SYNC_AVERAGING;
    assert_int_equal(choose(), 0);
    assert_ptr_equal(devices.reduce, &reduce_host_ops);
}

TEST_WITH(a_precision_the_cpu_does_not_have_is_refused_by_its_backend, set_up, tear_down)
{
    settings.devices.precision = PRECISION_FP16;
    assert_refused(-EINVAL, "[devices] precision", "computes in fp32");
    settings.devices.kind = DEVICE_CHOICE_AUTO;
    settings.devices.backend = BACKEND_CHOICE_REFERENCE;
    assert_refused(-ENODEV, "[devices] precision", "the reference backend computes in fp32 only");
}

TEST_WITH(a_way_to_convolve_the_backend_does_not_have_is_refused, set_up, tear_down)
{
    settings.devices.convolution = CONVOLUTION_WINOGRAD;
    settings.devices.backend = BACKEND_CHOICE_REFERENCE;
    assert_refused(-EINVAL, "[devices] convolution", "computes directly only");
}

TEST_WITH(a_backend_of_another_device_is_refused, set_up, tear_down)
{
    settings.devices.kind = DEVICE_CHOICE_CUDA;
    settings.devices.backend = BACKEND_CHOICE_REFERENCE;
    if (device_find("cuda") != NULL)
        assert_refused(-EINVAL, "[devices] backend", "reference computes on the cpu, and kind = cuda");
    else
        assert_refused(-ENODEV, "[devices] kind", "built without cuda");
}

TEST_WITH(the_cpu_has_no_list_of_devices, set_up, tear_down)
{
    free(settings.devices.list);
    settings.devices.list = strdup("0,1");
    assert_refused(-EINVAL, "[devices] list", "devices of kind cpu have no numbers");
}

TEST_WITH(a_reduction_between_gpus_is_refused_on_the_cpu, set_up, tear_down)
{
    static const enum reduce_choice choices[] = { REDUCE_CHOICE_NCCL, REDUCE_CHOICE_PEER };
    settings.devices.towers = 2;
    for (int i = 0; i < 2; i++) {
        settings.sync.reduce = choices[i];
        assert_refused(-EINVAL, "[sync] reduce", "use auto or host");
    }
    settings.sync.reduce = REDUCE_CHOICE_HOST;
    assert_int_equal(choose(), 0);
}

TESTS_MAIN(NULL, NULL)
