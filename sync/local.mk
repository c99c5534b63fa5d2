# sync/: many towers -> one set of parameters
sync_libsync_a_SOURCES = \
	%D%/bucket.c \
	%D%/gate.c \
	%D%/host_arena.c \
	%D%/modes.c \
	%D%/ranks/abort_notice.c \
	%D%/ranks/exchange_layout.c \
	%D%/ranks/exchange_messages.c \
	%D%/ranks/launcher.c \
	%D%/ranks/messages.c \
	%D%/ranks/rank_exchange.c \
	%D%/ranks/rank_gather.c \
	%D%/ranks/rank_heartbeat.c \
	%D%/ranks/rank_hosts.c \
	%D%/ranks/rank_memory.c \
	%D%/ranks/rank_tree.c \
	%D%/ranks/ranks.c \
	%D%/ranks/reduce_ranks.c \
	%D%/ranks/server_link.c \
	%D%/ranks/wakeup.c \
	%D%/reduce.c \
	%D%/reduce_host.c \
	%D%/reduce_server.c \
	%D%/rendezvous.c \
	%D%/server.c \
	%D%/server_progress.c \
	%D%/snapshot_pool.c \
	%D%/step_clock.c \
	%D%/sync.c \
	%D%/term.c \
	%D%/trainer.c
if HAVE_CUDA
sync_libsync_a_SOURCES += %D%/cuda/ipc_trial.c %D%/cuda/nccl_calls.c %D%/cuda/nccl_exchange.c %D%/cuda/nccl_join.c \
	%D%/cuda/reduce_clock.c %D%/cuda/reduce_ipc.c %D%/cuda/reduce_nccl.c %D%/cuda/reduce_peer.c
endif

# Ranks of MPI: a module for each MPI library that configure found. The compiler is ours, the wrapper only adds to its command.
# Sanitizers are not for modules: they would need the program's own symbols.
%D%/ranks/launcher.$(OBJEXT): AM_CPPFLAGS += -DPKGLIBDIR='"$(pkglibdir)"'
modulesdir = $(pkglibdir)
modules_DATA =
if HAVE_OPENMPI
modules_DATA += pipetrain-openmpi.so
endif
if HAVE_MPICH
modules_DATA += pipetrain-mpich.so
endif
MPI_MODULE_FLAGS = -I$(top_srcdir) $(LANGUAGE_CFLAGS) $(WARNING_CFLAGS) $(HARDENING_CFLAGS) $(CPPFLAGS) $(CFLAGS) -fPIC -shared \
	$(filter-out -pie,$(HARDENING_LDFLAGS)) $(LDFLAGS)
mpi_module = $(srcdir)/%D%/ranks/mpi_module.c
pipetrain-openmpi.so: $(mpi_module) %D%/ranks/mpi_module.h
	$(AM_V_CCLD)OMPI_CC='$(CC)' $(OPENMPI_MPICC) $(MPI_MODULE_FLAGS) -o $@ $(mpi_module)
pipetrain-mpich.so: $(mpi_module) %D%/ranks/mpi_module.h
	$(AM_V_CCLD)MPICH_CC='$(CC)' $(MPICH_MPICC) $(MPI_MODULE_FLAGS) -o $@ $(mpi_module)
