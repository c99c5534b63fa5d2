# compute/: one network on one device
compute_libcompute_a_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
compute_libcompute_a_CPPFLAGS = $(AM_CPPFLAGS)
compute_libcompute_a_SOURCES = \
	%D%/net.c %D%/net_difference.c \
	%D%/netfile/net_form.c %D%/netfile/net_read.c %D%/netfile/net_text.c %D%/netfile/net_write.c \
	%D%/models/model_table.c %D%/models/builder.c %D%/models/models_small.c \
	%D%/models/model_densenet_cifar.c \
	%D%/models/model_densenet_imagenet.c %D%/models/model_resnet_cifar.c \
	%D%/models/model_vgg_cifar.c \
	%D%/models/model_googlenet.c %D%/models/model_inception3.c \
	%D%/models/model_plain_imagenet.c %D%/models/model_resnet_imagenet.c %D%/models/model_squeezenet.c \
	%D%/models/model_convnext.c %D%/models/model_efficientnet.c %D%/models/model_mobilenet.c \
	%D%/models/model_regnet.c %D%/models/model_resnext_cifar.c \
	%D%/arena.c %D%/plan/fusion.c %D%/plan/plan.c %D%/plan/values.c \
	%D%/dropout.c %D%/floats.c %D%/init.c %D%/share.c %D%/head.c %D%/learning_rate.c %D%/optimizer.c \
	%D%/backend.c %D%/team.c %D%/param_groups.c %D%/tower.c %D%/snapshot.c %D%/health.c \
	%D%/backend_null.c \
	%D%/reference/backend_reference.c %D%/reference/reference_layers.c \
	%D%/reference/reference_residual.c %D%/reference/reference_share.c %D%/reference/reference_windows.c
if HAVE_ONEDNN
compute_libcompute_a_CPPFLAGS += -DHAVE_ONEDNN
compute_libcompute_a_SOURCES += \
	%D%/onednn/backend_onednn.c %D%/onednn/onednn_api.c %D%/onednn/onednn_call.c %D%/onednn/onednn_layout.c \
	%D%/onednn/onednn_plan.c %D%/onednn/onednn_store.c %D%/onednn/onednn_input.c %D%/onednn/onednn_weighted.c \
	%D%/onednn/onednn_depthwise.c %D%/onednn/onednn_first.c %D%/onednn/onednn_norm.c \
	%D%/onednn/onednn_norm_loops.c %D%/onednn/onednn_pool.c %D%/onednn/onednn_residual.c \
	%D%/onednn/onednn_activation.c %D%/onednn/onednn_multiply.c %D%/onednn/onednn_pointwise.c %D%/onednn/onednn_channels.c %D%/onednn/onednn_loss.c \
	%D%/onednn/onednn_share.c
endif
if HAVE_CUDA
compute_libcompute_a_LIBADD = $(kernels:.cu=.$(OBJEXT))
compute_libcompute_a_SOURCES += \
	%D%/cuda/backend_cuda.c %D%/cuda/cuda_side.c %D%/cuda/cuda_plan.c %D%/cuda/cuda_segment.c %D%/cuda/cuda_memory.c \
	%D%/cuda/cuda_store.c %D%/cuda/cuda_counts.c %D%/cuda/cuda_weighted.c %D%/cuda/cuda_norm.c \
	%D%/cuda/cuda_activation.c %D%/cuda/cuda_residual.c \
	%D%/cuda/cuda_layers.c %D%/cuda/cuda_loss.c %D%/cuda/cuda_share.c %D%/cuda/cublaslt_api.c %D%/cuda/cublaslt_dense.c \
	%D%/cuda/plan_cache.c %D%/cuda/plan_timing.c %D%/cuda/cudnn_conv.c %D%/cuda/cudnn_engine.c %D%/cuda/cudnn_graph.c
endif

# nvcc compiles the kernels and nothing else; it writes its dependencies itself.
kernels = \
	%D%/cuda/kernels.cu %D%/cuda/kernels_activation.cu %D%/cuda/kernels_channels.cu %D%/cuda/kernels_loss.cu %D%/cuda/kernels_norm.cu \
	%D%/cuda/kernels_pool.cu %D%/cuda/kernels_residual.cu %D%/cuda/kernels_share.cu \
	%D%/cuda/kernels_step.cu
NVCC_COMMAND = $(NVCC) -std=c++17 -O3 -lineinfo $(NVCC_ARCHS) -I$(top_srcdir) -Xcompiler '-fPIE -Wall -Wextra'
SUFFIXES = .cu
# Updates of weights are rounded as the CPU rounds them: no product is contracted with a sum. They run at the speed of the
# memory all the same.
EXACT =
%D%/cuda/kernels_step.$(OBJEXT): EXACT = -fmad=false
.cu.$(OBJEXT):
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(NVCC_COMMAND) $(EXACT) -MD -MP -c $< -o $@
-include $(kernels:.cu=.d)
