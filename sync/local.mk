# sync/: many towers -> one set of parameters
sync_libsync_a_SOURCES = \
	%D%/bucket.c \
	%D%/gate.c \
	%D%/host_arena.c \
	%D%/modes.c \
	%D%/reduce.c \
	%D%/reduce_host.c \
	%D%/reduce_server.c \
	%D%/rendezvous.c \
	%D%/server.c \
	%D%/snapshot_pool.c \
	%D%/step_clock.c \
	%D%/sync.c \
	%D%/trainer.c
if HAVE_CUDA
sync_libsync_a_SOURCES += %D%/cuda/reduce_clock.c %D%/cuda/reduce_nccl.c %D%/cuda/reduce_peer.c
endif
