# sync/: many towers -> one set of parameters
sync_libsync_a_SOURCES = \
	%D%/bucket.c %D%/cut.c %D%/inflight_steps.c %D%/gate.c %D%/meeting.c %D%/place.c %D%/phases.c %D%/report_pool.c %D%/snapshot_pool.c %D%/step_clock.c %D%/step_parts.c \
	%D%/reduce.c %D%/reduce_host.c %D%/reduce_none.c \
	%D%/mean.c %D%/sync.c \
	%D%/modes/sync_averaging.c %D%/modes/sync_independent.c %D%/modes/sync_relaxed.c \
	%D%/modes/sync_replicated.c %D%/modes/sync_server_device.c \
	%D%/server/reduce_server.c %D%/server/server.c %D%/server/sync_async.c %D%/server/sync_server_host.c \
	%D%/trainer.c
if HAVE_CUDA
sync_libsync_a_SOURCES += %D%/cuda/nccl_call.c %D%/cuda/nccl_rank.c %D%/cuda/peer_check.c %D%/cuda/reduce_clock.c \
	%D%/cuda/reduce_nccl.c %D%/cuda/reduce_peer.c
endif
