# tests/sim/: a CUDA that computes on the CPU (sim.h). The tests of the CUDA side are linked to it, and twins of other
# tests (NAME_sim): the same object file, linked to the simulation.
if HAVE_CUDA
check_LIBRARIES += %D%/libsim.a
AM_CXXFLAGS = -std=c++17 -pthread -fPIE -ffp-contract=off -Wall -Wextra -I$(top_srcdir)/%D%/include $(SANITIZER_CFLAGS)
%C%_libsim_a_LIBADD = $(sim_kernels)
%C%_libsim_a_SOURCES = \
	%D%/sim_cublaslt.c \
	%D%/sim_cudnn.c %D%/sim_cudnn_descriptor.c %D%/sim_cudnn_engine.c %D%/sim_cudnn_graph.c %D%/sim_cudnn_run.c \
	%D%/sim_cuda_calls.c %D%/sim_driver.c %D%/sim_fail.c \
	%D%/sim_event.c %D%/sim_graph.c %D%/sim_memory.c %D%/sim_runtime.c %D%/sim_stream.c \
	%D%/sim_kernel.cc \
	%D%/sim_nccl.c
tests_helpers_libhelpers_a_SOURCES += \
	tests/cuda/backend_cuda_fixture.c tests/cuda/cudnn_conv_fixture.c tests/cuda/cudnn_planning_fixture.c \
	tests/cuda/kernel_fixture.c %D%/check/sim_test_kernels.cc
compute_tests += tests/cuda/test_cublaslt tests/cuda/test_cudnn_fused tests/cuda/test_cudnn_models tests/cuda/test_cudnn_planning \
	tests/cuda/test_kernels tests/cuda/test_kernels_activation tests/cuda/test_kernels_channels tests/cuda/test_kernels_loss \
	tests/cuda/test_kernels_norm tests/cuda/test_kernels_pool tests/cuda/test_kernels_residual tests/cuda/test_kernels_share tests/cuda/test_kernels_step
if HAVE_CUPTI
tests_helpers_libhelpers_a_SOURCES += tests/cuda/cuda_calls_cupti.c
sync_tests += tests/cuda/test_timeline
endif

# The kernels are compiled as C++, and the whole simulation is one object file. It comes before the archives at the link,
# so nothing is linked from the CUDA libraries or from the objects that nvcc made.
SIM_KERNEL = $(CXX) -x c++ $(AM_CPPFLAGS) $(AM_CXXFLAGS) $(CXXFLAGS) -MD -MP -c
sim_kernels = $(kernels:compute/cuda/%.cu=%D%/%.$(OBJEXT))
$(sim_kernels): %D%/%.$(OBJEXT): compute/cuda/%.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(SIM_KERNEL) $(if $(findstring kernels_step,$@),,$(SIM_CONTRACT)) $< -o $@
# check-fma sets it to contract products and sums, as nvcc does in all kernels except those of kernels_step.cu.
SIM_CONTRACT =
-include $(sim_kernels:.$(OBJEXT)=.d)
SIM = tests/sim.$(OBJEXT)
tests/sim.$(OBJEXT): %D%/libsim.a
	$(AM_V_GEN)$(CC) -r -nostdlib -o $@ -Wl,--whole-archive %D%/libsim.a
SIM_STAGE = stage/libstage.a $(XXHASH_LIBS) $(ONEDNN_LIBS) $(OPENMP_CFLAGS) -lstdc++

sim_stage_tests = tests/cuda/test_device_cuda %D%/check/test_sim_strict
sim_stage_twins = tests/stage/test_device_sim tests/stage/test_device_events_sim tests/stage/test_slots_sim
$(sim_stage_tests) $(sim_stage_twins): LDADD = $(SIM) $(HELPERS) $(SIM_STAGE)

sim_compute_tests = tests/cuda/test_backend_cuda tests/cuda/test_cuda_failures tests/cuda/test_cuda_steps \
	tests/cuda/test_cudnn_conv tests/cuda/test_cudnn_failures tests/cuda/test_dense \
	%D%/check/test_sim_cudnn_strict
sim_compute_twins = tests/cuda/test_kernels_sim tests/cuda/test_kernels_channels_sim \
	tests/cuda/test_kernels_loss_sim \
	tests/cuda/test_kernels_norm_sim tests/cuda/test_kernels_pool_sim tests/cuda/test_kernels_residual_sim \
	tests/cuda/test_kernels_share_sim tests/cuda/test_kernels_step_sim \
	tests/cuda/test_kernels_activation_sim tests/compute/test_activations_sim \
	tests/compute/test_average_sim tests/compute/test_frozen_sim tests/compute/test_graph_sim tests/compute/test_groups_sim \
	tests/compute/test_evaluation_sim \
	tests/compute/test_layers_sim tests/compute/test_precisions_sim tests/compute/test_residual_sim tests/compute/test_skip_sim tests/compute/loss/test_mixing_sim \
	tests/compute/loss/test_class_weights_sim tests/compute/loss/test_smoothing_sim \
	tests/compute/test_share_sim tests/compute/test_snapshot_sim tests/compute/test_tower_parts_sim tests/compute/test_tower_sim \
	tests/compute/test_update_sim
$(sim_compute_tests) $(sim_compute_twins): LDADD = $(SIM) $(HELPERS) compute/libcompute.a $(SIM_STAGE)

sim_sync_tests = tests/cuda/test_cuda_launches tests/cuda/test_nccl_ranks tests/cuda/test_reduce_cuda tests/cuda/test_reduce_ipc \
	tests/cuda/test_timeline_sim
sim_sync_twins = tests/sync/ranks/test_rank_sums_sim tests/sync/test_averaging_sim tests/sync/test_class_weights_sim \
	tests/sync/test_frozen_towers_sim tests/sync/test_halves_sim tests/sync/test_parts_sim tests/sync/test_reduce_sim tests/sync/test_relaxed_sim \
	tests/sync/test_servers_sim tests/sync/test_shown_sim tests/sync/test_snapshot_pool_sim \
	tests/sync/test_trainer_sim
tests_cuda_test_timeline_sim_SOURCES = tests/cuda/test_timeline.c
$(sim_sync_tests) $(sim_sync_twins): LDADD = $(SIM) $(HELPERS) sync/libsync.a compute/libcompute.a $(SIM_STAGE)

tests/sync/ranks/test_rank_sums_sim: LDADD += $(rank_sums_wraps)

sim_tools_twins = tests/tools/test_resume_sim
$(sim_tools_twins): LDADD = $(SIM) $(HELPERS) tools/libtools.a tools/lib/libsettings.a sync/libsync.a $(LOADER) compute/libcompute.a $(SIM_STAGE)

sim_tests = $(sim_stage_tests) $(sim_compute_tests) $(sim_sync_tests)
sim_twins = $(sim_stage_twins) $(sim_compute_twins) $(sim_sync_twins) $(sim_tools_twins)
$(sim_twins): %_sim: %.$(OBJEXT)
	$(AM_V_CCLD)$(LINK) $< $(LDADD) $(LIBS)

script_programs += tests/e2e/pipetrain_sim
tests_e2e_pipetrain_sim_SOURCES = tools/pipetrain.c tests/e2e/limits/slow.c
tests_e2e_pipetrain_sim_LDFLAGS = $(slow_ldflags)
tests_e2e_pipetrain_sim_LDADD = $(SIM) tools/libtools.a tools/lib/libsettings.a sync/libsync.a $(LOADER) compute/libcompute.a $(SIM_STAGE)

# Plans every convolution of every model in all passes and precisions, for devices that need not be installed. make
# check plans a few of each. test_cudnn_models takes half a minute of a core for each of six batches and devices;
# `tests/cuda/test_cudnn_models vgg16 256 sm_90` plans one model for one. With a driver's libcuda.so.1, or a link of
# that name to CUDA's stub, engines that are compiled at run time are planned, too.
check-plans: tests/cuda/test_cudnn_models$(EXEEXT) tests/cuda/test_cudnn_fused$(EXEEXT)
	tests/cuda/test_cudnn_models$(EXEEXT) all
	tests/cuda/test_cudnn_fused$(EXEEXT) all
endif
