dnl CUDA with cuDNN, cuBLASLt and NCCL: all or nothing. nvcc compiles the kernels, the C compiler the rest.

dnl The compute capabilities of the GPUs of this machine, as in "80 90", lowest first; nothing where there are none.
AC_DEFUN([PT_CUDA_GPUS],
  [$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | grep '^@<:@0-9@:>@*$' |
    sort -nu | awk '$[]1 >= 80' | tr '\n' ' ')])

dnl PT_CUDA_ARCHITECTURES: machine code for each, and PTX of the lowest, which the driver compiles on newer GPUs.
AC_DEFUN([PT_CUDA_ARCHITECTURES], [
  AC_ARG_VAR([CUDA_ARCHS], [architectures to compile the kernels for, lowest first, or "all" (80 90 100 120);
    default: those of the GPUs of this machine, or 80 where there are none])
  AS_IF([test -z "$CUDA_ARCHS"], [CUDA_ARCHS=PT_CUDA_GPUS])
  AS_CASE([$CUDA_ARCHS], [all], [CUDA_ARCHS="80 90 100 120"], [''], [CUDA_ARCHS=80])
  NVCC_ARCHS= CUDA_ARCH_LEAST= cuda_kernels=
  for pt_arch in $CUDA_ARCHS; do
    AS_CASE([$pt_arch], [*@<:@!0-9@:>@*], [AC_MSG_ERROR([CUDA_ARCHS: '$pt_arch' is no architecture such as 90])])
    AS_IF([test -z "$CUDA_ARCH_LEAST"], [CUDA_ARCH_LEAST=$pt_arch])
    AS_IF([test -z "$NVCC_ARCHS"], [NVCC_ARCHS="-gencode arch=compute_$pt_arch,code=compute_$pt_arch"])
    NVCC_ARCHS="$NVCC_ARCHS -gencode arch=compute_$pt_arch,code=sm_$pt_arch"
  done
  AS_IF([test $cuda_found = yes], [cuda_kernels=", kernels for $CUDA_ARCHS (CUDA_ARCHS=all: for all GPUs)"])
  AC_SUBST([NVCC_ARCHS])
  AC_SUBST([CUDA_ARCH_LEAST])
])

dnl PT_CUDA_HAS(WHAT, HEADER, FUNCTION CALL): does a program with it link? Else $pt_cuda_lacks names it.
AC_DEFUN([PT_CUDA_HAS], [
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$2>]], [[$3;]])], [], [pt_cuda_lacks="$pt_cuda_lacks $1"])
])

AC_DEFUN([PT_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=DIR], [CUDA 13 in DIR/include and DIR/lib64, with cuDNN 9 and NCCL 2.28 or newer])
AS_HELP_STRING([--with-cuda=auto], [the default: used when /usr/local/cuda or the folder of nvcc has all of it])
AS_HELP_STRING([--without-cuda], [only the CPU])],
    [], [with_cuda=auto])
  AC_ARG_VAR([NVCC], [CUDA compiler])
  cuda_found=no cupti_found=no nvtx_found=no pt_cuda_lacks= pt_cuda_dir=
  CUDA_CPPFLAGS= CUDART_LIBS= CUDNN_LIBS= NCCL_LIBS= CUPTI_LIBS=
  AS_CASE([$with_cuda],
    [no], [],
    [auto | yes], [
      AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])
      AS_IF([test -n "$NVCC"], [pt_cuda_dir=$(cd "$(dirname "$NVCC")/.." && pwd)])],
    [pt_cuda_dir=$(cd "$with_cuda" 2>/dev/null && pwd)
     AS_IF([test -z "$pt_cuda_dir"], [AC_MSG_ERROR([--with-cuda: there is no folder $with_cuda])])
     : ${NVCC=$pt_cuda_dir/bin/nvcc}])
  AS_IF([test "$with_cuda" != no], [
    AC_MSG_CHECKING([for CUDA with cuDNN, cuBLASLt and NCCL])
    AS_IF([test -z "$NVCC" || test ! -x "$NVCC"], [pt_cuda_lacks=" nvcc"], [
      pt_cuda_lib=$pt_cuda_dir/lib64
      AS_IF([test ! -d "$pt_cuda_lib"], [pt_cuda_lib=$pt_cuda_dir/lib])
      pt_cuda_link="-L$pt_cuda_lib -Wl,-rpath,$pt_cuda_lib -Wl,--as-needed"
      CUDA_CPPFLAGS="-isystem $pt_cuda_dir/include"
      CUDART_LIBS="$pt_cuda_link -lcudart -ldl" CUDNN_LIBS="$pt_cuda_link -lcudnn -lstdc++" NCCL_LIBS="$pt_cuda_link -lnccl"
      pt_saved_cppflags=$CPPFLAGS pt_saved_libs=$LIBS
      CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS" LIBS="$NCCL_LIBS $CUDNN_LIBS $CUDART_LIBS $LIBS"
      PT_CUDA_HAS([CUDA-13], [cuda_runtime_api.h], [
#if CUDART_VERSION < 13000
#error too old
#endif
return cudaDeviceSynchronize()])
      PT_CUDA_HAS([cuDNN-9], [cudnn.h], [
#if CUDNN_MAJOR < 9
#error too old
#endif
return (int)cudnnGetVersion()])
      PT_CUDA_HAS([cuBLASLt-header], [cublasLt.h], [return CUBLAS_VER_MAJOR])
      PT_CUDA_HAS([NCCL-2.28], [nccl.h], [
#if NCCL_VERSION_CODE < 22800
#error too old
#endif
int version; return ncclGetVersion(&version)])
      dnl Only a test uses it, which counts the runtime's calls on a GPU.
      LIBS="-lcupti $LIBS"
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cupti.h>]], [[uint32_t version; return cuptiGetVersion(&version)]])],
        [cupti_found=yes CUPTI_LIBS="$pt_cuda_link -lcupti"])
      dnl Ranges for profilers: headers alone.
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <nvtx3/nvToolsExt.h>]], [[nvtxRangePop()]])], [nvtx_found=yes])
      CPPFLAGS=$pt_saved_cppflags LIBS=$pt_saved_libs
    ])
    AS_IF([test -z "$pt_cuda_lacks"], [cuda_found=yes], [cupti_found=no nvtx_found=no CUDA_CPPFLAGS= CUDART_LIBS= CUDNN_LIBS= NCCL_LIBS= CUPTI_LIBS=])
    AS_IF([test $cuda_found = yes], [AC_MSG_RESULT([$pt_cuda_dir])], [AC_MSG_RESULT([no, missing:$pt_cuda_lacks])])
    AS_IF([test $cuda_found = no && test "$with_cuda" != auto],
      [AC_MSG_ERROR([--with-cuda=$with_cuda: missing:$pt_cuda_lacks])])
  ])
  PT_CUDA_ARCHITECTURES
  AC_SUBST([with_cuda])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDART_LIBS])
  AC_SUBST([CUDNN_LIBS])
  AC_SUBST([NCCL_LIBS])
  AC_SUBST([CUPTI_LIBS])
  AM_CONDITIONAL([HAVE_CUDA], [test $cuda_found = yes])
  AM_CONDITIONAL([HAVE_CUPTI], [test $cupti_found = yes])
  AM_CONDITIONAL([HAVE_NVTX], [test $nvtx_found = yes])
])
