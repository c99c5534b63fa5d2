#!/bin/sh
# Moving averages of weights: what is evaluated and what is left are the averages, training does not see them, and a
# run that was stopped anywhere goes on to the bit.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_network
make_smooth
# Batch normalisation has statistics, which are averaged, too.
settings='--set train.epochs=4 --set train.batch=24 --set train.optimizer=momentum --set train.learning_rate=0.005'
cat >"$work/tiny.net" <<'END'
model tiny
image 28x28x1
classes 10
conv2d c1 filters 6 kernel 3 stride 2 no_bias
batch_norm n1
relu r1
max_pool p1 kernel 2 stride 2
dense fc units classes
softmax_loss loss
END

# losses RUN: of the steps, and of evaluations.
losses() {
    "$json_value" --lines "$work/runs/$1/metrics.jsonl" kind step loss | grep "$2"
}

train plain $settings
train averaged $settings --set train.ema=0.9
expect_out_joined 'optimizer momentum, momentum 0.9; evaluated and saved: averages of weights, decay 0.9 '
losses plain train >"$work/losses.1"
losses averaged train >"$work/losses.2"
expect_same_file "$work/losses.1" "$work/losses.2" 'losses of training'
[ -s "$work/losses.1" ] || fail 'no losses'
cmp -s "$work/runs/plain/weights.safetensors" "$work/runs/averaged/weights.safetensors" && fail 'weights are no averages'
[ "$(summary plain validation.loss)" != "$(summary averaged validation.loss)" ] || fail 'weights were evaluated'

# expect_evaluated FILE RUN: another evaluation of the file gives what the run found last.
expect_evaluated() {
    run "$pipetrain" evaluate -c "$work/runs/$2/run.conf" --weights "$1" --json
    expect_code 0 "an evaluation of $1"
    expect_equal "$("$json_value" "$work/out" top1.correct)" "$(summary "$2" validation.correct)" "of $1: correct"
}
expect_evaluated "$work/runs/averaged/weights.safetensors" averaged

# ---- towers ----

short="$settings --set train.epochs=1 --set train.ema=0.9 --set model.file=$work/smooth.net"
train short $short
train averaged-3 $short --set devices.towers=3
expect_near averaged-3 validation.loss "$(summary short validation.loss)" 1e-7
train microbatches $short --set train.batch=8 --set train.accumulate=3
expect_near microbatches validation.loss "$(summary short validation.loss)" 1e-7
for mode in independent averaging; do
    train $mode $settings --set train.ema=0.9 --set devices.towers=2 --set sync.mode=$mode
done
train null $settings --set train.ema=0.9 --set devices.kind=null

# ---- checkpoints ----

batch_norm="--set model.file=$work/tiny.net --set train.ema=0.9 --set checkpoint.every=7"
for towers in 1 2; do
    how="$settings $batch_norm --set devices.towers=$towers --set checkpoint.keep_best=yes"
    train saved-$towers $how
    train cut-$towers $how --set train.epochs=2
    train cut-$towers $how
    expect_out 'resume +at step 50 of 100'
    expect_same_file "$work/runs/saved-$towers/weights.safetensors" "$work/runs/cut-$towers/weights.safetensors" weights
    expect_summary cut-$towers validation.loss "$(summary saved-$towers validation.loss)"
    for phase in training evaluating saving; do
        at_options=
        rm -rf "$work/runs/at"
        at_command $phase TERM "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/at" $how
        [ "$code" -eq 75 ] || [ "$code" -eq 0 ] || fail "exit code 75 expected: a stop while $phase"
        [ "$code" -eq 0 ] || train at $how
        expect_same_file "$work/runs/saved-$towers/weights.safetensors" "$work/runs/at/weights.safetensors" \
            "weights of a run that was stopped while $phase"
    done
done
# A frozen weight is its average.
how="$settings $batch_norm --set train.accumulate=2 --set model.freeze=c1.* --set devices.towers=2"
train frozen $how
train frozen-cut $how --set train.epochs=2
train frozen-cut $how
expect_same_file "$work/runs/frozen/weights.safetensors" "$work/runs/frozen-cut/weights.safetensors" 'frozen weights'
expect_evaluated "$(ls "$work"/runs/frozen/checkpoint-*.safetensors | tail -n 1)" frozen
state=$(ls "$work"/runs/saved-1/checkpoint-*.safetensors | tail -n 1)
expect_evaluated "$state" saved-1
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/other" $settings $batch_norm --set model.weights="$state" \
    --set train.steps=1
expect_code 0 'first weights from a state'
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/saved-1" $settings $batch_norm --set train.ema=0.99
expect_code 2 'a state of other averages'
expect_err 'train.ema is 0.99, there 0.9'
try refused --set train.ema=1
expect_code 2 'a decay of 1'
finish
