#!/bin/sh
# sync.reduce = nccl between ranks, with the simulated CUDA and NCCL: ranks leave the bits of one process that sums in host
# memory, in all modes; and however a rank fails, all end.
. "${0%/*}/../e2e/sim.sh"
. "${0%/*}/cluster.sh"
find_mpis
make_tiny
SIM_DEVICES=4
export SIM_DEVICES
cat >"$work/equal.net" <<'END'
model equal
image 28x28x1
classes 10
conv2d conv1 filters 6 kernel 5 stride 2
batch_norm bn1
relu relu1
max_pool pool1 kernel 2 stride 2
dense fc1 units classes
softmax_loss loss
END
cat >>"$work/tiny.conf" <<END
[model]
file = $work/equal.net
END
# 13 batches of 44 records, and one of 28; then an evaluation.
common='--set train.batch=44 --set train.epochs=2 --set train.steps=16'

# ranked NAME RANKS TOWERS OPTION...
ranked() {
    name=$1 ranks=$2 towers=$3
    shift 3
    rm -rf "$work/runs/$name"
    # shellcheck disable=SC2046
    run timeout 60 $(mpi_command "$mpi" "$ranks") "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $common \
        --set "devices.towers=$towers" "$@"
}

# same WHAT "RANKSxTOWERS ..." OPTION...: these are equal to one process.
same() {
    what=$1 sizes=$2
    shift 2
    for size in $sizes; do
        all=$((${size%x*} * ${size#*x}))
        [ -d "$work/runs/$what-$all" ] || train "$what-$all" $common --set "devices.towers=$all" --set sync.reduce=host "$@"
        ranked "$what-$size" "${size%x*}" "${size#*x}" --set sync.reduce=nccl "$@"
        expect_code 0 "$what with $size and $mpi"
        expect_same_file "$work/runs/$what-$all/weights.safetensors" "$work/runs/$what-$size/weights.safetensors" "weights of $what-$size"
        expect_equal "$(numbers_of "$what-$size")" "$(numbers_of "$what-$all")" "metrics of $what-$size"
    done
}

mpi=$(echo $mpis | cut -d ' ' -f 1)
same replicated '2x1 2x2 3x1' --set train.optimizer=momentum
same bf16 '2x2' --set sync.wire=bf16 --set train.optimizer=momentum
same averaging '2x2' --set sync.mode=averaging --set sync.every=3 --set train.optimizer=adam
same relaxed '3x1' --set sync.consistency=relaxed --set train.optimizer=momentum
same served '2x2' --set sync.mode=parameter_server --set sync.bucket=1KiB --set train.optimizer=adam
same slices '2x2' --set train.slices=8 --set train.optimizer=momentum
same late '3x1' --set sync.mode=parameter_server --set sync.bucket=1KiB --set sync.consistency=relaxed --set train.ema=0.9
same lars '3x1' --set sync.mode=parameter_server --set sync.wire=bf16 --set train.optimizer=lars --set train.accumulate=2
# Back to a checkpoint with half the rate, and once more; and evaluations that decide whether the run goes on.
same rollback '2x2' --set train.batch=16 --set train.epochs=3 --set train.steps=114 --set checkpoint.every=epoch \
    --set train.optimizer=sgd --set train.learning_rate=0.05 --set train.weight_decay=20 --set train.on_nan=rollback \
    --set train.schedule=piecewise --set train.boundaries=1 --set train.factors=8
[ "$(summary rollback-4 rollbacks)" -ge 1 ] || fail 'no rollback'
same decided '2x1' --set data.limit=40 --set train.epochs=60 --set train.steps=0 --set train.stop_at=0.25
expect_summary decided-2 ended stop_at

# NCCL's own sums, which are others.
ranked allreduce 2 1 --set sync.reduce=nccl_allreduce --set train.optimizer=momentum
expect_code 0 'sums of ncclAllReduce'
ranked allreduce-slices 2 1 --set sync.reduce=nccl_allreduce --set train.slices=8
expect_code 2 'sums of ncclAllReduce with slices'
expect_err 'train.slices needs sums in pairs: use nccl'

# ---- ranks on one GPU ----
mpi=${mpis##* }
SIM_DEVICES=1
ranked shared 2 1 --set sync.reduce=nccl
expect_code 2 'two ranks on one GPU'
expect_err 'rank 0 and rank 1 both use the GPU 0000:01:00.0 of .*, and NCCL takes one tower a GPU'
expect_equal "$(grep -c 'both use the GPU' "$work/err")" 1 'the reason is printed once'
SIM_DEVICES=4

# ---- failures of one rank ----

make_rank_1
plain=$pipetrain

# fails NAME WORDS CODES OPTION...: rank 1 has the words in its environment.
fails() {
    name=$1 FIRST_1=$2 codes=$3
    shift 3
    export FIRST_1
    pipetrain="$work/rank $plain"
    # shellcheck disable=SC2046,SC2086
    run timeout 60 $(mpi_command "$mpi" 3) $pipetrain -c "$work/tiny.conf" --set "run.dir=$work/runs/$mpi-$name" $common \
        --set devices.towers=1 --set sync.reduce=nccl "$@"
    pipetrain=$plain
    case " $codes " in
        *" $code "*) ;;
        *) fail "$name with $mpi: exit code $code, not $codes"; cat "$work/err" ;;
    esac
}

for mpi in $mpis; do
    fails start 'SIM_FAIL=ncclCommInitRankConfig:1:2' 71
    expect_err 'ncclCommInitRankConfig.*: unhandled system error'
    fails step 'SIM_FAIL=ncclSend:40:3' 71
    expect_err 'rank 1 .*a step failed'
    fails hang 'SIM_BLOCK=ncclGroupEnd:40' 70 --set sync.deadline=3
    expect_err 'no progress for 3 s .sync.deadline. .*: ncclGroupEnd'
    fails late 'PIPETRAIN_SLOW=read 3900000 2' 0 --set sync.deadline=3
done
finish
