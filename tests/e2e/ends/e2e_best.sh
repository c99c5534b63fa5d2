#!/bin/sh
# checkpoint.keep_best: the state of the best evaluation stays beside the newest ones, whatever becomes of the run, and
# is a state as any other: it is evaluated, predicted with, and gone on from.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick

# Six epochs, 38 steps each, of which the last is not the best: the rate grows too large.
recipe='--set train.epochs=6 --set train.batch=16 --set train.optimizer=sgd --set train.learning_rate=0.05
    --set train.schedule=piecewise --set train.boundaries=3 --set train.factors=60'
best() {
    name=$1
    shift
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $recipe --set checkpoint.keep_best=yes "$@"
}

# The file holds what the run's best evaluation saw.
expect_best() {
    run "$pipetrain" evaluate -c "$work/tiny.conf" --weights "$work/runs/$1/best.safetensors"
    expect_code 0 "$2: an evaluation of the best state"
    expect_out "^result +150 samples, .*top-1 [0-9.]+ % \\($(summary "$1" best.correct)\\)"
}

# expect_kept HOW TOWERS: of the run whole, which was made so.
expect_kept() {
    expect_code 0 "$1, $2 towers"
    expect_out_joined 'files .*best.safetensors, checkpoint-'
    expect_best whole "$1, $2 towers"
    expect_equal "$(find "$work/runs/whole" -name 'checkpoint-*' | wc -l)" 1 "$1: states beside the best"
}

for towers in 1 2; do
    for how in 'checkpoint.every=never' 'checkpoint.every=epoch' 'checkpoint.every=7'; do
        rm -rf "$work/runs/whole"
        best whole --set "$how" --set devices.towers=$towers --set checkpoint.keep=1
        expect_out_joined 'best +validation accuracy [0-9.]+ % \([0-9]+ of 150\), at step'
        expect_kept "$how" $towers
    done
    [ "$(summary whole best.step)" -lt 228 ] || fail 'the best epoch is the last one: the test is none'
done
# By the clock, once or twice in an epoch.
rm -rf "$work/runs/whole"
slowly best whole --set 'checkpoint.every=1 second' --set devices.towers=2 --set checkpoint.keep=1 --set train.epochs=1
expect_kept 'by the clock' 2

# ---- killed ----

best left --set checkpoint.every=9
for at in 18 63 126 207; do
    rm -rf "$work/runs/killed"
    killed_at "update $((at + 3))" "$work/runs/killed/checkpoint-$(printf %08d $at).safetensors" \
        --set "run.dir=$work/runs/killed" $recipe --set checkpoint.keep_best=yes --set checkpoint.every=9
    best killed --set checkpoint.every=9
    expect_code 0 "killed at step $at"
    expect_out "resume +at step $at of 228"
    expect_summary killed best.step "$(summary left best.step)"
    expect_best killed "killed at step $at"
done

# ---- used ----

run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/on" $recipe --set "run.resume=$work/runs/left/best.safetensors"
expect_code 0 'going on from the best state'
expect_out "resume +at step $(summary left best.step) of 228"
expect_same_file "$work/runs/left/weights.safetensors" "$work/runs/on/weights.safetensors" 'weights of a run from the best state'
run "$pipetrain" predict -c "$work/tiny.conf" -w "$work/runs/left/best.safetensors" "$work"/data/validation-*
expect_code 0 'predicting with the best state'

# In another directory there is no best state yet: the best is that of the evaluations there.
best other --set checkpoint.every=9 --set "run.resume=$work/runs/left/checkpoint-00000225.safetensors"
expect_code 0 'going on elsewhere'
expect_err "the checkpoint of the best evaluation so far, at step $(summary left best.step), is not in the run's directory"
expect_summary other best.step 228
expect_best other 'going on elsewhere'

# Not kept for a part of the run: the file is told of, and later it is the best that was kept again.
best parts --set checkpoint.every=epoch --set train.epochs=1
best parts --set checkpoint.every=epoch --set train.epochs=3 --set checkpoint.keep_best=no
expect_err 'best.safetensors, of step 38, is not updated any more: checkpoint.keep_best is no'
later=$(summary parts best.step)
[ "$later" -gt 38 ] || fail 'no epoch is better than the first: the test is none'
best parts --set checkpoint.every=epoch --set train.epochs=4
expect_code 0 'keeping the best again'
expect_err "the checkpoint of the best evaluation so far, at step $later, is not in the run's directory"
[ "$(summary parts best.step)" -ne "$later" ] || fail 'a best state that was not kept'
expect_best parts 'keeping the best again'

# A new run in the place of that one takes it away; without a validation set there is no best.
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/left" --set run.resume=never --set train.steps=2
expect_code 0 'a new run'
[ ! -e "$work/runs/left/best.safetensors" ] || fail 'the best state of an earlier run is left'
best refused --set data.validation=
expect_code 2 'no validation set'
expect_err 'keep_best: needs a validation set'
finish
