#!/bin/sh
# With train.slices the weights do not depend on the number of towers: 1, 2, 4, ... towers leave the same bytes, metrics
# and checkpoints, with batch normalization, groups, activations, squeeze and excitation, dropout, stochastic depth,
# augmentation and batches that do not divide. On the CPU and on the simulated CUDA, or on the device that check_gpu.sh
# names.
. "$(dirname "$0")/e2e.sh"
make_tiny
cat >"$work/slices.net" <<'END'
model slices
image 28x28x1
classes 10
conv2d conv1 filters 6 kernel 5 stride 2
batch_norm bn1
relu relu1
conv2d conv2 filters 6 kernel 3 groups 6 padding 1
batch_norm bn2
silu act2
global_average se.pool
conv2d se.fc1 filters 4 kernel 1
relu se.act limit 1.5
conv2d se.fc2 filters 6 kernel 1
sigmoid se.gate
multiply se from act2,before
conv2d conv3 filters 12 kernel 3 stride 2 groups 3 padding 1
gelu act3
max_pool pool1 kernel 2 stride 2
layer_norm norm1
scale scale1 init gamma constant 0.5
stochastic_depth depth1 rate 0.25
add sum1 from before,pool1
dropout dropout1 rate 0.25
dense fc1 units classes
softmax_loss loss
END
printf '[model]\nfile = %s\n[augment]\nflip = yes\n' "$work/slices.net" >>"$work/tiny.conf"

# The data of all tensors, without the metadata, which tells where the checkpoint was computed.
tensors_of() {
    tail -c +$((9 + $(od -An -tu8 -N 8 "$1"))) "$1" | cksum
}

# same SLICES "TOWERS ..." NAME OPTION...: a run gives the same weights with each of these numbers of towers. Only the first
# and the last number are tried, unless the test is long or it is the plain run on the CPU.
same() {
    slices=$1 towers=$2 first=
    what=$3
    shift 3
    case $simulated:$long:$what:$towers in
        no:no:plain:*) ;;
        *:no:*' '*) towers="${towers%% *} ${towers##* }" ;;
    esac
    for count in $towers; do
        run_name=$what-$count
        train "$run_name" --set train.slices="$slices" --set devices.towers="$count" --set checkpoint.every=7 \
            --set checkpoint.keep=100 --set train.batch=44 --set train.epochs=7 --set train.steps=20 "$@"
        expect_summary "$run_name" slices "$slices"
        expect_summary "$run_name" steps 20
        first=${first:-$run_name}
        [ "$first" != "$run_name" ] || continue
        expect_same_file "$work/runs/$first/weights.safetensors" "$work/runs/$run_name/weights.safetensors" "$what"
        expect_equal "$(numbers_of "$run_name")" "$(numbers_of "$first")" "$what: metrics of $run_name"
        for step in 7 14; do
            state=checkpoint-0000000$step.safetensors
            [ $step -lt 10 ] || state=checkpoint-000000$step.safetensors
            expect_equal "$(tensors_of "$work/runs/$run_name/$state")" "$(tensors_of "$work/runs/$first/$state")" \
                "$what: $state of $run_name"
        done
    done
}

# As same; on a simulated device, which is slow, only where the test is long.
same_but_simulated() {
    [ "$simulated:$long" = yes:no ] || same "$@"
}

# 600 records in batches of 44: 13 of 44, and one of 28. Slices of 6 and 5, and of 4 and 3; of 7, ... and of 2.
same 8 '1 2 4 8' plain --set train.optimizer=momentum
same_but_simulated 12 '1 3 6 12' twelve --set train.optimizer=adam --set train.ema=0.9 --set train.clip_norm=1
same_but_simulated 4 '1 2 4' mixed --set augment.mixup=0.2 --set train.on_nan=skip
same 2 '1 2' relaxed --set sync.consistency=relaxed --set train.optimizer=adam
same 4 '2 4' server --set sync.mode=parameter_server --set train.optimizer=adam
same 4 '2 4' server-cpu --set sync.mode=parameter_server --set sync.server=cpu --set train.clip_norm=1
# Gradients as bf16: every sum is rounded, wherever it is computed.
same 8 '1 2 4 8' wire --set sync.wire=bf16 --set train.optimizer=momentum
same_but_simulated 2 '1 2' wire-relaxed --set sync.wire=bf16 --set sync.consistency=relaxed --set train.optimizer=adam
same_but_simulated 4 '2 4' wire-server-cpu --set sync.wire=bf16 --set sync.mode=parameter_server --set sync.server=cpu
! cmp -s "$work/runs/wire-1/weights.safetensors" "$work/runs/plain-1/weights.safetensors" ||
    fail 'rounding changes nothing'
# Where there is bf16: not on every CPU.
try bf16 --set devices.precision=bf16 --set train.steps=1
if [ "$code" -eq 0 ]; then
    same 8 '1 2 8' bf16 --set devices.precision=bf16 --set train.optimizer=momentum
else
    expect_code 2 'no bf16'
    expect_err 'bf16'
fi
# NCCL only moves the numbers. Where there are several devices: it takes a tower on each.
try nccl --set sync.reduce=nccl --set train.slices=4 --set devices.towers=2 --set train.steps=1
if [ "$code" -eq 0 ]; then
    same 4 '1 2' nccl --set sync.reduce=nccl --set train.optimizer=momentum
else
    expect_err 'nccl'
fi
# More slices than samples in the last batch, so that some are empty.
same_but_simulated 16 '1 4 16' empty --set data.limit=97
same 4 1 replicated --set train.optimizer=adam
expect_same_file "$work/runs/replicated-1/weights.safetensors" "$work/runs/server-2/weights.safetensors" 'a server'

# The slices are what is computed: another number of them is another run.
same 2 1 fewer --set train.optimizer=momentum
! cmp -s "$work/runs/fewer-1/weights.safetensors" "$work/runs/plain-1/weights.safetensors" ||
    fail 'the number of slices changes nothing'

# A checkpoint of 8 towers is resumed with 2, and the other way round, to the same bytes.
resumed() {
    from=$1 to=$2
    rm -rf "$work/runs/resumed"
    mkdir "$work/runs/resumed"
    cp "$work/runs/plain-$from/checkpoint-00000014.safetensors" "$work/runs/resumed"
    cp "$work/runs/plain-$from/run.conf" "$work/runs/plain-$from/metrics.jsonl" "$work/runs/resumed"
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/resumed" --set train.slices=8 \
        --set devices.towers="$to" --set checkpoint.every=7 --set checkpoint.keep=100 --set train.batch=44 \
        --set train.epochs=7 --set train.steps=20 --set train.optimizer=momentum
    expect_code 0 "resumed with $to towers"
    grep -q 'step 14' "$work/out" "$work/err" || fail "$from towers' checkpoint is not resumed"
    expect_same_file "$work/runs/plain-1/weights.safetensors" "$work/runs/resumed/weights.safetensors" \
        "resumed with $to instead of $from towers"
}
resumed 8 2
resumed 1 4
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/resumed" --set train.slices=4 --set train.batch=44 \
    --set train.epochs=7 --set train.steps=30 --set train.optimizer=momentum
expect_code 2 'a checkpoint of another number of slices'
expect_err 'train.slices is 4, there 8'

# What cannot be is refused with what can.
refused() {
    words=$1
    shift
    try refused --set train.slices=12 --set train.batch=44 "$@"
    expect_code 2 "$words"
    expect_err "$words"
}
refused 'can be shared by 1, 3, 6 or 12 towers, .*devices.towers is 2' --set devices.towers=2
refused '12 slices are more than the 8 samples' --set train.batch=8
refused 'set train.batch = 88 instead' --set train.accumulate=2
refused 'which train.slices excludes' --set sync.mode=averaging --set devices.towers=3
refused 'which train.slices excludes' --set sync.mode=async --set devices.towers=3

# The batch must not depend on the towers either; the size that is not used is not shown.
try per_tower --set train.slices=2 --set train.batch_per_tower=16 --set train.steps=1
expect_code 0 'slices of a batch of each tower'
expect_err 'train.slices: weights depend on the batch \(here 16\), and with train.batch_per_tower .*: set train.batch = 16'
! grep -q 'train.batch 0' "$work/out" || fail 'a batch that is not set is shown'

# Fewer records than slices, which --overfit makes: still the same; and slices that are always empty are told.
for count in 1 4; do
    train "overfit-$count" --set train.slices=8 --set train.batch=44 --set devices.towers=$count --overfit=4
    expect_err 'a step has only 4 samples for 8 slices'
done
expect_same_file "$work/runs/overfit-1/weights.safetensors" "$work/runs/overfit-4/weights.safetensors" overfit
# evaluate computes as many samples at once as a slice has.
run "$pipetrain" evaluate -c "$work/tiny.conf" --set "run.dir=$work/runs/plain-1" --set train.slices=8 --set train.batch=44
expect_code 0 evaluate
expect_out 'batches of 6'

# Who lets the number of towers choose the threads of CPUs is told.
[ "$kind" = cpu ] || finish
run "$pipetrain" -c "$work/tiny.conf" --set devices.threads_per_tower=0 --set train.slices=2 --check
expect_code 0 'threads by the number of towers'
expect_err 'set devices.threads_per_tower, to the same'

# All of it once more on the simulated CUDA, where there is one.
if [ -x "$build/tests/e2e/pipetrain_sim" ]; then
    (. "$(dirname "$0")/sim.sh"; exec sh "$0") || fail 'it fails on the simulated CUDA'
fi
finish
