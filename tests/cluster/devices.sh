#!/bin/sh
# Ranks on GPUs, which are simulated: one that waits for another rank does not hang, and those on one GPU share its memory.
. "${0%/*}/../e2e/sim.sh"
. "${0%/*}/cluster.sh"
find_mpis
make_tiny
make_quick

make_rank_1

# ranks_train NAME OPTION...: two ranks.
ranks_train() {
    name=$1
    shift
    run timeout 100 $(mpi_command $mpi 2) "$work/rank" "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$mpi-$name" "$@"
}

# ---- a rank whose input is later than the deadline ----
deadline=2
late() {
    FIRST_1="PIPETRAIN_SLOW=read ${deadline}900000 2"
    export FIRST_1
    ranks_train "late-$1-$2" --set sync.deadline=$deadline --set train.steps=6 --set "sync.mode=$1" --set "devices.towers=$2"
    unset FIRST_1
    expect_code 0 "rank 1 reads slowly: sync.mode = $1 with $2 towers each, $mpi"
}

for mpi in $mpis; do
    case $mpi in
        openmpi) late replicated 1 ;;
        mpich) late averaging 2 ;;
    esac
done

# ---- two ranks that see one GPU, which has no memory for both ----
shares_a_gpu() {
    SIM_DEVICES=1 SIM_MEMORY=$1
    export SIM_DEVICES SIM_MEMORY
    ranks_train "shared-$1" --set model.file= --set model.name=mnist_cnn --set train.steps=1 --set data.validation=
    unset SIM_DEVICES SIM_MEMORY
}

for mpi in $mpis; do
    shares_a_gpu 100000000
    expect_code 0 "two ranks on one GPU with $mpi"
    expect_equal "$(grep -c '2 ranks of this host use the same GPU: each plans with 1/2 of its free memory' "$work/err")" 1 'GPUs that are shared'
    shares_a_gpu 30000000
    expect_code 4 "two ranks on a GPU that has memory for one, with $mpi"
    expect_err 'memory: the run needs .* of cuda0 .*, free are 14\.3 MiB'
    ranks_train apart --set train.steps=1 --set data.validation=
    ! grep -q 'use the same GPU' "$work/err" || fail 'ranks on GPUs of their own share one'
done
finish
