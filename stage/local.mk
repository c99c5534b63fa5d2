# stage/: what a stage is made of and how stages hand on
stage_libstage_a_SOURCES = \
	%D%/file/cache_folder.c %D%/file/file.c %D%/file/file_read.c %D%/file/folders.c %D%/file/whole_file.c \
	%D%/text/cpu_list.c %D%/text/decimal.c %D%/text/nearest.c %D%/text/patterns.c %D%/text/output.c %D%/text/text_stream.c %D%/text/utf8.c \
	%D%/heartbeat.c %D%/log.c %D%/random.c %D%/unsupported_reason.c %D%/room.c %D%/stop.c %D%/thread.c %D%/watchdog.c \
	%D%/trace/trace.c \
	%D%/batch.c %D%/queue.c %D%/ring.c %D%/schedule.c \
	%D%/feeder.c %D%/slots.c \
	%D%/device.c %D%/device_host.c %D%/device_null.c %D%/host_stream.c
if HAVE_CUDA
stage_libstage_a_SOURCES += %D%/cuda/cuda_call.c %D%/cuda/cuda_count.c %D%/cuda/cuda_queue.c \
	%D%/cuda/device_cuda.c %D%/cuda/near_cpus.c
endif
if HAVE_NVTX
stage_libstage_a_SOURCES += %D%/cuda/range_nvtx.c
else
stage_libstage_a_SOURCES += %D%/trace/range_none.c
endif
