/* Tests of the simulated cuDNN: its heuristics, and that it refuses what the real library refuses. */
#include <stdbool.h>

#include "tests/helpers/test.h"
#include "tests/sim/check/sim_cudnn_fixture.h"

/* ---- heuristics and engines ---- */

static part heuristics_start(struct parts *parts, part graph, cudnnBackendHeurMode_t mode)
{
    part made = keep(parts, part_new(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    set_part(made, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(made, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    return made;
}

static bool has_note(part engine, cudnnBackendNumericalNote_t note)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    assert_cudnn(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == note)
            return true;
    return false;
}

/* Fills in the numbers of the proposed engines, at most 16, and returns their count. */
static int64_t proposals(const struct wish *wish, cudnnBackendHeurMode_t mode, int64_t *engines)
{
    struct parts parts = { .count = 0 };
    part found = heuristics_start(&parts, graph_new(&parts, wish), mode), configs[16];
    int64_t most = -1, count = -1;
    assert_cudnn(cudnnBackendFinalize(found));
    assert_cudnn(cudnnBackendGetAttribute(found, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                          &most, NULL));
    assert_in_range(most, 1, 16);
    for (int64_t i = 0; i < most; i++)
        configs[i] = part_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    assert_cudnn(cudnnBackendGetAttribute(found, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, most,
                                          &count, configs));
    assert_true(count < most);
    for (int64_t i = 0; i < most; i++) {
        if (i < count) {
            part engine = part_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
            assert_cudnn(cudnnBackendGetAttribute(configs[i], CUDNN_ATTR_ENGINECFG_ENGINE,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL, &engine));
            engines[i] = index_of(engine);
            part_free(engine);
        }
        part_free(configs[i]);
    }
    parts_free(&parts);
    return count;
}

BENCH_TEST(heuristics_announce_more_engines_than_they_propose)
{
    int64_t engines[16];
    const struct wish wish = wish_for(&shapes[0], WGRAD, PRECISION_FP16);
    assert_int_equal(proposals(&wish, CUDNN_HEUR_MODE_A, engines), 8);
    assert_int_equal(engines[0], SIM_ENGINE_VARYING);
    assert_int_equal(proposals(&wish, CUDNN_HEUR_MODE_FALLBACK, engines), 1);
    assert_int_equal(engines[0], SIM_ENGINE_PLAIN);
}

BENCH_TEST(engines_tell_what_they_do_in_their_notes)
{
    for (size_t type = 0; type < TYPES; type++) {
        struct parts parts = { .count = 0 };
        const bool is_float = precisions[type] == PRECISION_FP32;
        const struct wish wish = wish_for(&shapes[0], FPROP, precisions[type]);
        part graph = graph_new(&parts, &wish);
        for (int64_t index = SIM_ENGINE_VARYING; index <= SIM_ENGINE_REVERSED; index++) {
            part engine = part_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
            set_part(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
            set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
            assert_cudnn(cudnnBackendFinalize(engine));
            int64_t count = -1;
            assert_cudnn(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, 0,
                                                  &count, NULL));
            assert_int_equal(count, index == SIM_ENGINE_COMPILED);
            assert_int_equal(has_note(engine, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC), index == SIM_ENGINE_VARYING);
            assert_int_equal(has_note(engine, CUDNN_NUMERICAL_NOTE_TENSOR_CORE), index == SIM_ENGINE_TENSOR);
            assert_int_equal(has_note(engine, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS),
                             is_float && index == SIM_ENGINE_TENSOR);
            part_free(engine);
        }
        parts_free(&parts);
    }
}

BENCH_TEST(tests_choose_what_is_not_supported)
{
    int64_t engines[16];
    struct parts parts = { .count = 0 };
    struct wish plain = wish_for(&shapes[0], FPROP, PRECISION_FP32), fused = plain;
    fused.shape.bias = true;
    sim_cudnn_refuse(SIM_CUDNN_FUSION);
    assert_int_equal(cudnnBackendFinalize(heuristics_start(&parts, graph_new(&parts, &fused), CUDNN_HEUR_MODE_A)),
                     CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    assert_int_equal(proposals(&plain, CUDNN_HEUR_MODE_A, engines), 8);
    sim_cudnn_refuse(SIM_CUDNN_FUSION_ENGINES);
    assert_int_equal(proposals(&fused, CUDNN_HEUR_MODE_A, engines), 0);
    assert_int_equal(proposals(&fused, CUDNN_HEUR_MODE_FALLBACK, engines), 0);
    assert_int_equal(proposals(&plain, CUDNN_HEUR_MODE_A, engines), 8);
    sim_cudnn_refuse(SIM_CUDNN_HEURISTICS);
    assert_int_equal(proposals(&plain, CUDNN_HEUR_MODE_A, engines), 4);
    assert_int_equal(proposals(&plain, CUDNN_HEUR_MODE_FALLBACK, engines), 1);
    sim_cudnn_refuse(SIM_CUDNN_ENGINES);
    assert_int_equal(proposals(&plain, CUDNN_HEUR_MODE_FALLBACK, engines), 0);
    parts_free(&parts);
}

BENCH_TEST(no_engine_takes_tensors_of_several_types)
{
    int64_t engines[16];
    struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP16);
    wish.tensors[W].type = CUDNN_DATA_BFLOAT16;
    assert_int_equal(proposals(&wish, CUDNN_HEUR_MODE_A, engines), 0);
}

BENCH_TEST(some_engines_cannot_be_planned_or_want_much_workspace)
{
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    part graph = graph_new(&parts, &wish);
    part refused = plan_start(&parts, *state, config_new(&parts, graph, SIM_ENGINE_UNPLANNED));
    assert_int_equal(cudnnBackendFinalize(refused), CUDNN_STATUS_NOT_SUPPORTED);
    part large = plan_start(&parts, *state, config_new(&parts, graph, SIM_ENGINE_LARGE));
    assert_cudnn(cudnnBackendFinalize(large));
    assert_true(workspace_of(large) >= 1 << 30);
    parts_free(&parts);
}

/* ---- strictness ---- */

/* The status of finalising the convolution. */
static cudnnStatus_t convolution_status(const struct wish *wish)
{
    struct parts parts = { .count = 0 };
    part made = convolution_start(&parts, wish, add_tensor(&parts, wish, Y));
    const cudnnStatus_t status = cudnnBackendFinalize(made);
    parts_free(&parts);
    return status;
}

static cudnnStatus_t graph_status(const struct wish *wish)
{
    struct parts parts = { .count = 0 };
    const cudnnStatus_t status = cudnnBackendFinalize(graph_start(&parts, wish));
    parts_free(&parts);
    return status;
}

BENCH_TEST(attributes_want_their_type_and_number)
{
    const int64_t dims[5] = { 1, 1, 1, 1, 1 };
    int64_t count = -1;
    part tensor = part_new(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, dims),
                     CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, dims),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, NULL),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2, dims),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, dims),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendSetAttribute(NULL, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, dims),
                     CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(cudnnBackendGetAttribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 0, &count, NULL),
                     CUDNN_STATUS_NOT_INITIALIZED);
    assert_int_equal(cudnnBackendFinalize(tensor), CUDNN_STATUS_BAD_PARAM);
    part_free(tensor);
    assert_int_equal(cudnnBackendDestroyDescriptor(NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)99, &tensor),
                     CUDNN_STATUS_NOT_SUPPORTED);
}

BENCH_TEST(finalised_descriptors_can_be_read_and_not_set)
{
    const struct wish wish = wish_for(&shapes[1], FPROP, PRECISION_FP32);
    part tensor = tensor_new(&wish.tensors[X]);
    int64_t dims[8] = { 0 }, count = -1;
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendFinalize(tensor), CUDNN_STATUS_BAD_PARAM);
    assert_cudnn(cudnnBackendGetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, &count, NULL));
    assert_int_equal(count, 4);
    assert_cudnn(cudnnBackendGetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2, &count, dims));
    assert_int_equal(count, 2);
    assert_int_equal(dims[1], shapes[1].in_channels);
    assert_int_equal(dims[2], 0);
    assert_int_equal(cudnnBackendGetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_CHAR, 4, &count, dims),
                     CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    part_free(tensor);
}

/* The status of finalising a valid tensor after one attribute is set again. */
static cudnnStatus_t tensor_status(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                                   const void *values)
{
    const struct wish wish = wish_for(&shapes[1], FPROP, PRECISION_FP32);
    part tensor = tensor_start(&wish.tensors[X]);
    set(tensor, name, type, count, values);
    const cudnnStatus_t status = cudnnBackendFinalize(tensor);
    part_free(tensor);
    return status;
}

BENCH_TEST(tensors_want_positive_dimensions_and_whole_alignments)
{
    const int64_t zero[4] = { 1, 0, 5, 9 }, backwards[4] = { 360, -1, 72, 8 }, odd = 3, good = 4;
    const cudnnDataType_t type = CUDNN_DATA_INT8;
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, zero), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, backwards), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 3, zero), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &odd),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type),
                     CUDNN_STATUS_NOT_SUPPORTED);
    assert_cudnn(tensor_status(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &good));
}

BENCH_TEST(convolutions_want_dimensions_that_fit)
{
    static const int tensors[] = { X, W, Y };
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
        for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++)
            for (int dim = 0; dim < 4; dim++) {
                struct wish wish = wish_for(&shapes[0], pass, PRECISION_FP32);
                assert_cudnn(convolution_status(&wish));
                wish.tensors[tensors[i]].dims[dim]++;
                assert_int_equal(convolution_status(&wish), CUDNN_STATUS_BAD_PARAM);
            }
    struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    wish.shape.pad_bottom = 2;
    assert_int_equal(convolution_status(&wish), CUDNN_STATUS_BAD_PARAM);
}

BENCH_TEST(factors_other_than_1_and_0_are_refused)
{
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        struct wish wish = wish_for(&shapes[0], pass, PRECISION_FP32);
        wish.alpha = 1;
        assert_cudnn(convolution_status(&wish));
        wish.beta = 1;
        assert_int_equal(convolution_status(&wish), CUDNN_STATUS_NOT_SUPPORTED);
        wish.alpha = 2;
        wish.beta = 0;
        assert_int_equal(convolution_status(&wish), CUDNN_STATUS_NOT_SUPPORTED);
    }
}

/* Real engines compute wrong results for it. */
BENCH_TEST(weight_gradients_of_uneven_padding_are_refused)
{
    struct wish wish = wish_for(&shapes[1], WGRAD, PRECISION_FP32);
    assert_cudnn(convolution_status(&wish));
    wish.shape.pad_bottom++;        /* room for no other row of windows */
    assert_int_equal(convolution_status(&wish), CUDNN_STATUS_NOT_SUPPORTED);
}

BENCH_TEST(operations_want_all_their_parts_finalised_and_of_the_right_type)
{
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    part operation = keep(&parts, part_new(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
    part open = keep(&parts, tensor_start(&wish.tensors[X])), none = NULL;
    part window = keep(&parts, window_new(&wish.shape));
    const cudnnBackendAttributeName_t x = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X;
    const double one = 1;
    assert_int_equal(cudnnBackendSetAttribute(operation, x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &open),
                     CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    assert_int_equal(cudnnBackendSetAttribute(operation, x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &window),
                     CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
    assert_int_equal(cudnnBackendSetAttribute(operation, x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &none),
                     CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(cudnnBackendSetAttribute(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                              CUDNN_TYPE_DOUBLE, 1, &one), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(cudnnBackendFinalize(operation), CUDNN_STATUS_BAD_PARAM);
    part graph = keep(&parts, part_new(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    assert_int_equal(cudnnBackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                              &operation), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    parts_free(&parts);
}

BENCH_TEST(graphs_want_distinct_ids_and_virtual_tensors_inside_alone)
{
    const struct wish good = wish_for(&shapes[0], FPROP, PRECISION_FP16);
    struct wish wish = good;
    assert_cudnn(graph_status(&wish));
    wish.tensors[Y].id = X;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    wish = good;
    wish.tensors[Y].is_virtual = true;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_BAD_PARAM);
    wish = good;
    wish.shape.bias = wish.shape.relu = true;
    assert_cudnn(graph_status(&wish));
    wish.tensors[SUM].is_virtual = false;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_NOT_SUPPORTED);
    wish.tensors[SUM].is_virtual = true;
    wish.tensors[BIAS].id = SUM;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    wish.tensors[BIAS].id = BIAS;
    wish.tensors[BIAS].dims[1] = 1;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
}

BENCH_TEST(a_gradient_is_a_graph_of_its_own)
{
    struct wish wish = wish_for(&shapes[0], WGRAD, PRECISION_FP16);
    wish.shape.bias = true;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
}

BENCH_TEST(plans_want_a_device_and_a_configuration)
{
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    part config = config_new(&parts, graph_new(&parts, &wish), SIM_ENGINE_TILED);
    part homeless = keep(&parts, part_new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    set_part(homeless, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    assert_int_equal(cudnnBackendFinalize(homeless), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendFinalize(plan_start(&parts, *state, NULL)), CUDNN_STATUS_BAD_PARAM);
    parts_free(&parts);
}

/* ---- failures on demand ---- */

BENCH_TEST(calls_fail_when_wanted_and_say_why)
{
    char message[64];
    part made = NULL;
    sim_fail("cudnnBackendCreateDescriptor", 2, CUDNN_STATUS_INTERNAL_ERROR);
    assert_cudnn(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &made));
    part_free(made);
    made = NULL;
    assert_int_equal(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &made),
                     CUDNN_STATUS_INTERNAL_ERROR);
    assert_null(made);
    cudnnGetLastErrorString(message, sizeof(message));
    assert_string_equal(message, "cudnnBackendCreateDescriptor is made to fail");
    assert_string_equal(cudnnGetErrorString(CUDNN_STATUS_INTERNAL_ERROR), "CUDNN_STATUS_INTERNAL_ERROR");
    sim_fail("cudnnGraphVersionCheck", 1, CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
    assert_int_equal(cudnnGraphVersionCheck(), CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
    assert_cudnn(cudnnGraphVersionCheck());
    assert_int_equal(cudnnGetVersion(), CUDNN_VERSION);
}

TESTS_MAIN(NULL, NULL)
