#!/bin/sh
# Ends that the settings ask for: by an accuracy, by evaluations that are no better, by the clock. They are orderly, say
# why, and come where they would have come had the run not been killed before.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick

. "$(dirname "$0")/../resume/resume.sh"
settings='--set train.epochs=12 --set train.batch=16'      # 38 steps an epoch

# The accuracies of the evaluations of a run.
accuracies() {
    sed -n '/"kind":"validation"/s/.*"accuracy":\([0-9.]*\).*/\1/p' "$work/runs/$1/metrics.jsonl"
}

resumed whole --set checkpoint.every=epoch
expect_code 0 'all epochs'
grep -q 'evaluate the final weights' "$work/out" && fail 'weights that are evaluated are to be evaluated'
expect_summary whole ended finished
expect_equal "$(sed -n 's/.*"correct":\([0-9]*\).*/\1/p' "$work/runs/whole/metrics.jsonl" | sort -n | tail -n 1)" \
    "$(summary whole best.correct)" 'the best accuracy'

# ---- an accuracy ----

# The first accuracy that is above the first two: the run has to end behind that evaluation, whatever is ahead of it.
goal=$(accuracies whole | awk 'NR <= 2 { if ($1 > top) top = $1; next } $1 > top { print; exit }')
epoch=$(accuracies whole | awk -v goal="$goal" '$1 >= goal { print NR; exit }')
for towers in 1 2; do
    resumed "at-$towers" --set "train.stop_at=$goal" --set devices.towers=$towers
    expect_code 0 "an accuracy on $towers towers"
    expect_out_joined 'ended +early, validation accuracy [0-9.]+ % reaches train.stop_at \('
    expect_summary "at-$towers" ended stop_at
    expect_equal "$(($(summary "at-$towers" steps) % 38))" 0 "$towers towers: ended behind an evaluation"
    expect_summary "at-$towers" validation.complete true
done
expect_summary at-1 steps $((epoch * 38))
awk -v a="$(summary at-2 validation.accuracy)" -v goal="$goal" 'BEGIN { exit !(a >= goal) }' || fail 'two towers: not reached'

# Over, and on with a goal that is farther.
resumed again --set "train.stop_at=$goal" --set checkpoint.every=epoch
expect_code 0 'an accuracy, with states'
resumed again --set "train.stop_at=$goal" --set checkpoint.every=epoch
expect_code 0 'nothing is left to do'
expect_err 'is from a run that has ended: nothing is left to do \(to continue, set a larger train.stop_at'
resumed again --set checkpoint.every=epoch
expect_code 0 'no accuracy any more'
expect_out "resume +at step $((epoch * 38)) of 456"
expect_same_file "$work/runs/whole/weights.safetensors" "$work/runs/again/weights.safetensors" 'weights of a run that went on'

# ---- no better ----

# With a rate of 0 the first evaluation stays the best; one run is killed between the evaluations that count.
still='--set train.learning_rate=0 --set train.patience=3 --set checkpoint.every=5'
resumed patient $still
expect_code 0 'no better'
expect_out_joined 'ended +early, 3 evaluations without a better validation accuracy than [0-9.]+ % at step 38 \(train.patience\)'
expect_out_joined 'best +validation accuracy [0-9.]+ % \([0-9]+ of 150\), at step 38'
expect_summary patient ended patience
expect_summary patient steps 152
expect_summary patient best.step 38
! grep -q 'keep_best' "$work/out" || fail 'weights that are as good as the best are doubted'
worse='--set train.patience=1 --set train.schedule=piecewise --set train.boundaries=2 --set train.factors=1000'
for keeps in no yes weights; do
    resumed "worse-$keeps" $worse --set checkpoint.keep_best=$keeps
    expect_code 0 "weights that are worse than the best, kept: $keeps"
    expect_out_joined 'best +validation accuracy [0-9.]+ % \([0-9]+ of 150\), at step [0-9]+'
    expect_equal "$(tr -s '\n ' '  ' <"$work/out" | grep -c 'checkpoint.keep_best = weights keeps the best')" \
        "$([ $keeps = no ] && echo 1 || echo 0)" "lines on weights that are not kept, kept: $keeps"
done
for at in 60 100 150; do
    rm -rf "$work/runs/killed"
    killed_at "update $((at + 2))" "$work/runs/killed/checkpoint-$(printf %08d $at).safetensors" \
        --set "run.dir=$work/runs/killed" $settings $still
    resumed killed $still
    expect_code 0 "no better, killed at step $at"
    expect_summary killed ended patience
    expect_summary killed steps 152
    rows patient >"$work/rows.1"
    rows killed >"$work/rows.2"
    expect_same_file "$work/rows.1" "$work/rows.2" "rows of a run killed at step $at"
done
resumed killed $still
expect_err 'nothing is left to do \(to continue, set more train.patience'

# ---- the clock ----

# In a directory whose name a shell takes apart.
late="it's 5 (late), ended"
slowly resumed "$late" --set train.epochs=100000 --set 'train.max_time=1 seconds' --set checkpoint.every=epoch
expect_code 0 'the clock'
expect_out_joined 'ended +early, out of time \(train.max_time 1 seconds\)'
expect_out_joined 'next +run the same command again to resume after step [0-9]+'
expect_out '^ +to evaluate the final weights:$'
expect_out '^ +[^ ]*/pipetrain evaluate -c .*/run.conf --weights .*/weights.safetensors$'
command=$(sed -n 's#^ *[^ ]*/\(pipetrain evaluate -c .*\)#\1#p' "$work/out")
expect_summary "$late" ended max_time
first=$(summary "$late" steps)
slowly resumed "$late" --set train.epochs=100000 --set 'train.max_time=1 seconds' --set checkpoint.every=epoch
expect_code 0 'the clock, again'
expect_out_joined "resume +at step .* from"
[ "$(summary "$late" steps)" -gt "$first" ] || fail 'each run has its own time'
(PATH=$(dirname "$pipetrain"):$PATH && eval "$command" >"$work/out" 2>"$work/err") || fail "cannot be pasted: $command"
expect_out '^result '

# ---- a longer schedule ----

# A cosine that ended with the run ends later in a longer one: the rate jumps up. One that does not depend on it stays.
cosine='--set train.optimizer=sgd --set train.learning_rate=0.1 --set train.schedule=cosine --set checkpoint.every=epoch'
resumed longer $cosine --set train.epochs=2
expect_code 0 'a cosine of two epochs'
resumed longer $cosine --set train.epochs=4
expect_code 0 'two more epochs'
expect_err 'the learning rate jumps from 0 to 0.05 at step 76: its schedule ended at step 76 when the checkpoint was saved, '
expect_err ' and ends at step 152 now'
resumed constant --set train.epochs=1 --set checkpoint.every=epoch
resumed constant --set train.epochs=2 --set checkpoint.every=epoch
expect_code 0 'a constant rate'
grep -q 'learning rate jumps' "$work/err" && fail 'a jump of a constant rate'

# ---- what makes no sense ----

resumed refused --set 'train.max_time=90x' --set train.stop_at=1.5 --set train.patience=-1
expect_code 2 'wrong values'
expect_err 'max_time: .* is not a duration of whole seconds, at least one'
expect_err_lines 3
resumed refused --set data.validation= --set train.stop_at=0.9 --set train.patience=2
expect_code 2 'no validation set'
expect_err 'stop_at: needs a validation set'
expect_err 'patience: needs a validation set'
# Where evaluations say nothing, so do ends that go by them.
for how in input.source=synthetic devices.kind=null; do
    for last in --check --set=train.steps=2; do
        try "unused-$how" --set train.stop_at=0.5 --set train.patience=2 --set checkpoint.keep_best=yes --set "$how" $last
        expect_code 0 "$how $last"
        expect_err 'train.stop_at, train.patience, checkpoint.keep_best: no effect, because evaluations mean nothing with'
    done
done
finish
