#!/bin/sh
# Numbers that are not finite: a run ends at the first one, or leaves the step out and is as if it had never been.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick
make_smooth
# Layers of which a product overflows, and nothing that is left to chance in a step.
cat >"$work/layers.net" <<'END'
model layers
image 28x28x1
classes 10
conv2d conv1 filters 6 kernel 5 stride 2
relu relu1
conv2d conv2 filters 8 kernel 3
relu relu2
max_pool pool1 kernel 2 stride 2
dense fc1 units 32
relu relu3
dense fc2 units classes
softmax_loss loss
END
layers="--set model.file=$work/layers.net --set train.batch=16 --set train.optimizer=sgd"

# One image of 96 is not black, and divided by almost nothing: infinite. It is met once an epoch.
mkdir "$work/dark"
"$shard_maker" "$work/dark/train-00000-of-00001" 96 28 bright 50 || fail 'no data'
"$shard_maker" "$work/dark/validation-00000-of-00001" 20 28 bright 99 || fail 'no data'
dark="--set data.train=$work/dark/train-* --set data.validation=$work/dark/validation-* --set model.divisor=1e-37
    --set train.batch=8 --set train.epochs=4 --set train.optimizer=adam --set report.interval=5"
dark() {
    name=$1
    shift
    try "$name" $dark "$@"
}

dark stop
expect_code 73 'a loss that is not finite'
expect_err '(the loss is not finite|has a number that is not finite or above 1e18): epoch 1, step [0-9]+'

expect_err ', rate 0\.001.*: try a smaller learning rate than 0\.001'
# A loss that is not finite names the rate and a layer, also between two looks at the weights.
for towers in 1 2; do
    try layer --set model.file="$work/smooth.net" --set train.batch=16 --set train.optimizer=sgd --set train.learning_rate=1e30 --set devices.towers=$towers \
        --set report.interval=1000 --set run.resume=never
    expect_code 73 'a rate that ruins the weights'
    expect_err 'tower [01], rate 1e\+30, first non-finite weights: [a-z]+[0-9]\.(weight|bias): try'
done

# A step whose weights become as large as a wrong gradient makes them is no result, although no number is an infinity.
for lr in 1e22 1e24; do
    try huge --set model.file="$work/smooth.net" --set train.optimizer=sgd --set train.learning_rate=$lr --set train.steps=1 \
        --set data.validation= --set run.resume=never
    expect_code 73 "weights beyond what a network has, rate $lr"
    expect_err 'has a number that is not finite or above 1e18'
    [ ! -e "$work/runs/huge/weights.safetensors" ] || fail 'weights beyond what a network has were saved'
done

for how in replicated:1:auto replicated:2:auto replicated:2:reference averaging:2:auto independent:2:auto; do
    [ "$kind$how" != cudareplicated:2:reference ] || continue
    backend=${how##*:} mode=${how%%:*} towers=${how#*:}
    dark skip --set train.on_nan=skip --set "devices.towers=${towers%:*}" --set "sync.mode=$mode" \
        --set "devices.backend=$backend" --set report.interval=1
    expect_code 0 "left out: $how"
    expect_summary skip skipped_steps 4
    expect_out '^skipped +4 steps, because gradients were not finite'
    expect_err 'epoch 1, step [0-9]+: gradients are not finite: skipped'
    expect_summary skip steps 48
    [ "$(summary skip loss)" != null ] || fail 'a step that was left out has spoilt the loss'
done
"$json_value" --lines "$work/runs/skip/metrics.jsonl" kind skipped_steps >"$work/lines"
expect_equal "$(sed -n 's/^train //p' "$work/lines" | sort -n | tail -n 1)" 4 'steps that metrics count'

# An evaluation that overflows changes nothing.
mkdir "$work/late"
"$shard_maker" "$work/late/train-00000-of-00001" 96 28 bright 99 || fail 'no data'
"$shard_maker" "$work/late/validation-00000-of-00001" 20 28 bright 5 || fail 'no data'
printf '%s\n' 'model line' 'image 28x28x1' 'classes 10' 'dense fc units classes' 'softmax_loss loss' >"$work/line.net"
for on_nan in skip stop; do
    dark "late_$on_nan" --set "model.file=$work/line.net" --set "train.on_nan=$on_nan" --set "data.train=$work/late/train-*" \
        --set "data.validation=$work/late/validation-*"
    [ $on_nan = skip ] || expect_code 73 'an evaluation that overflows'
    [ $on_nan = stop ] || expect_code 0 'an evaluation that overflows, with skip'
    [ $on_nan = stop ] || expect_err 'the loss of batches with 8 of the 20 samples of this evaluation is not finite'
done
expect_summary late_skip skipped_steps 0
expect_summary late_skip validation.images 20
[ "$(summary late_skip validation.loss)" != null ] || fail 'one batch has spoilt the loss of an evaluation'

# Killed and gone on: counted as if it had not been.
dark whole --set train.on_nan=skip --set checkpoint.every=7
dark part --set train.on_nan=skip --set checkpoint.every=7 --set train.steps=23
dark part --set train.on_nan=skip --set checkpoint.every=7
expect_code 0 'going on'
expect_summary part skipped_steps 4
expect_same_file "$work/runs/whole/weights.safetensors" "$work/runs/part/weights.safetensors" 'weights'

# Where nothing is wrong nothing changes.
train plain --set train.epochs=3
train same --set train.epochs=3 --set train.on_nan=skip
expect_same_file "$work/runs/plain/weights.safetensors" "$work/runs/same/weights.safetensors" 'weights without such a step'
expect_summary same skipped_steps 0

# ---- back to a checkpoint ----

# Decay takes 8 times every weight in a step behind the first epoch, which leaves -7 times it: that overflows. An eighth of
# the rate takes just all of it.
steep='--set train.batch=16 --set train.optimizer=sgd --set train.learning_rate=0.05 --set train.weight_decay=20
    --set train.schedule=piecewise --set train.boundaries=1 --set train.factors=8 --set train.on_nan=rollback
    --set checkpoint.every=epoch'
try back $steep --set train.epochs=3
expect_code 0 'back to a checkpoint'
expect_err 'rollback 1 of 5: back to .*checkpoint-[0-9]+.safetensors, with half the learning rate'
times=$(summary back rollbacks)
[ "$times" -ge 1 ] || fail 'it did not go back'
expect_out "^rollback +$times times? to a checkpoint: the learning rate is 1 / $((1 << times)) of what was set"
expect_summary back steps 114
expect_equal "$("$json_value" --lines "$work/runs/back/metrics.jsonl" kind step | grep -c '^validation ')" 3 'evaluations'
# It keeps the lower rate when it goes on in another process, and when it was told to begin anew at first.
try again $steep --set train.epochs=2 --set run.resume=never
try again $steep --set train.epochs=3
expect_code 0 'going on behind a rollback'
expect_summary again rollbacks "$times"
expect_same_file "$work/runs/back/weights.safetensors" "$work/runs/again/weights.safetensors" 'weights behind a rollback'

# A few steps at 350 times the rate leave weights that a product of layers overflows with whatever the rate, and a state of
# them: the one before it works.
try ruined $layers --set train.learning_rate=0.005 --set train.weight_decay=20 \
    --set train.schedule=piecewise --set 'train.boundaries=1 1.14' --set 'train.factors=350 1' --set train.epochs=2 \
    --set train.on_nan=rollback --set checkpoint.every=5 --set checkpoint.keep=6
expect_code 0 'a newest state that is ruined'
sed -n 's/^rollback [12] of 5: back to .*checkpoint-0*\([0-9]*\).safetensors,.*/\1/p' "$work/err" >"$work/lines"
expect_equal "$(tr '\n' ' ' <"$work/lines")" '40 35 ' 'states that it goes back to'

# What no rate helps against ends all the same.
dark bounded --set train.on_nan=rollback --set checkpoint.every=1
expect_code 73 'rollbacks that do not help'
expect_equal "$(grep -c '^rollback [1-5] of 5' "$work/err")" 5 'rollbacks'
expect_err '5 rollbacks did not help'
try early --set train.on_nan=rollback --set 'checkpoint.every=1 hours' --set model.divisor=1e-37
expect_code 73 'nothing is saved'
expect_err 'there is no checkpoint yet to roll back to'
try refused --set train.on_nan=rollback
expect_code 2 'a rollback without states'
expect_err 'on_nan: rollback needs checkpoints: set checkpoint.every as well'

# ---- diverging ----

# Too large a rate that does not overflow: told once, also of a run that continues, and never of one that learns.
lost="$layers --set train.learning_rate=4 --set checkpoint.every=epoch"
try lost $lost --set train.epochs=3
expect_code 0 'a run that diverges'
expect_equal "$(grep -c 'the run diverges: for a whole epoch the accuracy' "$work/err")" 1 'warnings'
try lost $lost --set train.epochs=4
expect_equal "$(grep -c 'the run diverges' "$work/err")" 0 'warnings of the run that continues'
for rate in 0.001 0.01 0.1; do
    try learns $layers --set train.learning_rate=$rate --set train.epochs=3 --set run.resume=never
    expect_equal "$(grep -c 'diverges' "$work/err")" 0 "warnings at a rate of $rate"
done

# It ends where leaving out does not help: every step, thirty in a row, a whole evaluation.
try few --set train.on_nan=skip --set train.steps=9 --set model.divisor=1e-37 --set data.validation=
expect_code 73 'no good step in a short run'
expect_err 'no step had finite gradients, so nothing was learned'
[ ! -e "$work/runs/few/weights.safetensors" ] || fail 'weights of a run that learnt nothing'
dark all_late --set "model.file=$work/line.net" --set train.on_nan=skip --set "data.train=$work/late/train-*" \
    --set "data.validation=$work/late/validation-*" --set train.batch=64
expect_code 73 'an evaluation without a finite loss'
expect_err 'no loss in the evaluation after epoch 1 is finite'
grep -q 'the loss is the mean of the others' "$work/err" && fail 'others of which there are none'
try never --set train.on_nan=skip --set train.epochs=9 --set train.batch=16 --set model.divisor=1e-37
expect_code 73 'never a good step'
expect_err 'gradients of 30 steps in a row are not finite'
finish
