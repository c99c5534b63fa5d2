# stage/: what every stage of the pipeline is made of, and how stages hand over
stage_libstage_a_SOURCES = \
	%D%/address_space.c %D%/cpus.c %D%/log.c %D%/random.c %D%/stop.c %D%/thread.c %D%/watchdog.c \
	%D%/file/file.c %D%/file/folders.c %D%/file/whole_file.c \
	%D%/text/accents.c %D%/text/decimal.c %D%/text/names.c %D%/text/program_folder.c %D%/text/shell_word.c %D%/text/output.c %D%/text/utf8.c \
	%D%/trace/trace.c \
	%D%/batch.c %D%/queue.c %D%/ring.c %D%/schedule.c \
	%D%/feeder.c %D%/slots.c \
	%D%/device.c %D%/device_host.c %D%/host_stream.c
if HAVE_CUDA
stage_libstage_a_SOURCES += %D%/cuda/cuda_call.c %D%/cuda/cuda_ipc.c %D%/cuda/device_cuda.c
endif
if HAVE_NVTX
stage_libstage_a_SOURCES += %D%/cuda/range_nvtx.c
else
stage_libstage_a_SOURCES += %D%/trace/range_none.c
endif
