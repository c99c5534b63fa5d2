#!/bin/sh
# A rank on a simulated GPU with parts of the dense layers (model.parts) fails, at calls of all exchanges of a step: both
# ranks end, it is named, and no weights are saved. By every reduction.
. "${0%/*}/../e2e/sim.sh"
. "${0%/*}/cluster.sh"
[ "$sanitizer" = no ] || skip 'the libraries of MPI are not made for sanitizers'
find_mpis
make_tiny
mpi=${mpis##* }
SIM_DEVICES=2
export SIM_DEVICES FIRST_1
make_rank_1

parts_train() {
    run timeout 60 $(mpi_command "$mpi" 2) "$work/rank" "$pipetrain" -c "$work/tiny.conf" --set devices.towers=1 \
        --set "run.dir=$work/runs/$1" --set "sync.reduce=$2" --set model.parts=2 --set train.slices=4 \
        --set train.batch=16 --set train.steps=4 --set data.validation=
}

for reduction in host ipc nccl; do
    FIRST_1=NOTHING=
    parts_train "whole-$reduction" $reduction
    expect_code 0 "two ranks, $reduction"
    for number in 45 60 71 82 93 104; do
        FIRST_1=SIM_FAIL=cudaEventRecord:$number:700
        parts_train "failed-$reduction-$number" $reduction
        expect_code 71 "$FIRST_1, $reduction"
        expect_err 'rank 1 .*: .*cudaErrorIllegalAddress'
        ! ls "$work/runs/failed-$reduction-$number"/weights.safetensors 2>/dev/null || fail 'weights are saved'
    done
done
finish
