#!/bin/sh
# Ranks on simulated GPUs that use each other's memory (sync.reduce = ipc): what they do where no memory of another process
# can be opened, and how they end when a rank fails. sim_two.sh and sim_equal.sh compare weights.
. "${0%/*}/../e2e/sim.sh"
. "${0%/*}/cluster.sh"
[ "$sanitizer" = no ] || skip 'the libraries of MPI are not made for sanitizers'
find_mpis
make_tiny
make_quick
mpi=${mpis##* }

make_rank_1

# ranks_train NAME OPTION...: two ranks.
ranks_train() {
    name=$1
    shift
    run timeout 60 $(mpi_command $mpi 2) "$work/rank" "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" "$@"
}

# ---- no memory of other processes: one rank decides for both ----
FIRST_1=SIM_IPC=0
export FIRST_1
ranks_train fallback --set train.steps=2
expect_code 0 'no memory of other processes'
expect_err 'sums are computed by .*: ipc does not work between these processes: rank 1: cudaIpcOpenMemHandle'
ranks_train named --set train.steps=2 --set sync.reduce=ipc
expect_code 71 'ipc where it does not work'
expect_err '\[sync\] reduce: ipc does not work between these processes: rank 1: .*: use auto or host'
expect_equal "$(grep -c 'ipc does not work' "$work/err")" 1 'messages'

# ---- a rank that fails: in the first step's begin, and in a step ----
# The trial opens the memory of one GPU; the second call is in the run.
for failure in cudaIpcOpenMemHandle:2:205 cuStreamWaitValue32:20:801; do
    FIRST_1=SIM_FAIL=$failure
    ranks_train "failed-$failure" --set sync.reduce=ipc
    [ "$code" -ne 0 ] && [ "$code" -ne 124 ] || fail "$failure: the ranks end with $code"
    expect_err 'rank 1 .*: .*cudaError'
    ! ls "$work/runs/failed-$failure"/weights.safetensors 2>/dev/null || fail "$failure: weights are saved"
done
unset FIRST_1

# Groups are for sums of the host: with another reduction that auto has chosen, it is said.
ranks_train group --set train.steps=2 --set sync.group=2
expect_code 0 'sync.group where GPUs sum'
expect_err 'sync.group: no group of 2 ranks sums first, because the sums are computed by ipc'
ranks_train group-host --set train.steps=2 --set sync.group=2 --set sync.reduce=host
expect_code 0 'sync.group where the host sums'
! grep -q 'sync.group' "$work/err" || fail 'a group that sums is said not to'
finish
