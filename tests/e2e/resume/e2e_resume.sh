#!/bin/sh
# A run that is killed or asked to stop goes on by the same command, and ends with what a run that was left alone ends
# with: weights and statistics bit for bit, losses and counts of every row, the order of samples.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick

. "$(dirname "$0")/resume.sh"

# ---- killed ----

# Each with the updates that the process makes before it stands still, or with the files that it brings to the disk: those
# of the run's beginning, then two of a state. Nothing is saved before the fourth.
still='fsync:1 fsync:2 fsync:3 fsync:4 update:10 fsync:5 update:17'
[ "$long" != yes ] || still="$still fsync:6 update:11 update:18 fsync:7 fsync:8"
for towers in 1 2; do
    how="--set devices.towers=$towers --set checkpoint.every=9"
    resumed "whole-$towers" $how
    expect_code 0 'a run that saves states'
    expect_equal "$(states "whole-$towers" | wc -l)" 2 'states that are kept'
    n=0 name=killed-$towers
    for moment in $still; do
        n=$((n + 1)) before=$(newest $name)
        stand_still "${moment%:*} ${moment#*:}" --set "run.dir=$work/runs/$name" $settings $how
        [ "${moment%:*}" = fsync ] || await has_newer
        [ "${moment%:*}" = fsync ] || has_newer || fail "no state is saved before $moment"
        kill_it
    done
    echo "$towers towers: killed $n times; then $(newest $name | sed 's/.*checkpoint-0*//; s/[.].*//') steps were saved"
    resumed $name $how
    expect_code 0 "going on after $n kills"
    expect_out 'resume +at step [0-9]+ of 228'
    expect_summary $name ended finished
    expect_same_run "whole-$towers" "killed-$towers"
    [ -z "$(find "$work/runs/killed-$towers" -name '.*.tmp.*')" ] || fail 'temporary files are left'
    # While it computes as fast as it can: it may be over before.
    n=0 name=soon-$towers kills=2
    [ "$long" != yes ] || kills=8
    while [ $n -lt $kills ]; do
        n=$((n + 1))
        kill_soon "$(awk "BEGIN { srand($n * 7 + $towers); printf \"%.3f\", rand() * 0.02 }")" $how
    done
    resumed $name $how
    expect_code 0 "going on after $n kills while it computes"
    expect_same_run "whole-$towers" "$name"
done

# ---- asked to stop, in every phase ----

for phase in training evaluating saving; do
    at_options=
    rm -rf "$work/runs/at"
    at_command $phase TERM "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/at" $settings --set checkpoint.every=epoch
    [ "$code" -eq 75 ] || [ "$code" -eq 0 ] || fail "exit code 75 expected: a stop while $phase"
    if [ "$code" -eq 75 ]; then
        expect_out_joined 'next +run the same command again to resume after step [0-9]+'
        resumed at --set checkpoint.every=epoch
        expect_code 0 "going on after a stop while $phase"
        grep -Eq '^resume +at step [0-9]+ of 228' "$work/out" || expect_err 'is from a run that has ended: nothing is left'
    fi
    expect_same_run whole-1 at
done

# ---- more epochs, other towers ----

resumed short --set checkpoint.every=epoch --set train.epochs=3
resumed short --set checkpoint.every=epoch
expect_code 0 'more epochs'
expect_same_file "$work/runs/whole-1/weights.safetensors" "$work/runs/short/weights.safetensors" 'more epochs'
resumed towers --set checkpoint.every=epoch --set train.epochs=3 --set devices.towers=2
resumed towers --set checkpoint.every=epoch
expect_code 0 'fewer towers'
expect_out 'resume +at step 114 of 228'
expect_near towers validation.correct "$(summary whole-1 validation.correct)" 0.1

# ---- damage ----

resumed damaged --set checkpoint.every=9 --set train.epochs=3
flip "$(newest damaged)" 5000
resumed damaged --set checkpoint.every=9
expect_code 0 'a damaged state'
expect_err 'checkpoint-00000114.safetensors: its .*: skipped'
expect_out 'resume +at step 108 of 228'
expect_same_file "$work/runs/whole-1/weights.safetensors" "$work/runs/damaged/weights.safetensors" 'a damaged state'
resumed all_damaged --set checkpoint.every=9 --set train.epochs=3
for state in $(states all_damaged); do
    truncate -s -1 "$state"
done
resumed all_damaged --set checkpoint.every=9
expect_code 3 'no state is whole'
expect_err 'all checkpoints there are damaged: start anew with --set run.resume=never'

# ---- its weights alone ----

run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/weights" --set "model.weights=$(newest whole-2)" \
    --set train.steps=1
expect_code 0 'first weights from a state'
run "$pipetrain" evaluate -c "$work/tiny.conf" --weights "$(newest whole-2)"
expect_code 0 'an evaluation of a state'
expect_out "^result +150 samples, .*top-1 [0-9.]+ % \\($(summary whole-2 validation.correct)\\)"

# ---- another run's, and by name ----

resumed short --set checkpoint.every=epoch --set train.epochs=7 --set train.learning_rate=0.5 --check
expect_code 2 'a check of a state of other settings'
expect_err 'is from a run with other settings: train.learning_rate is 0.5, there 1'
resumed short --set checkpoint.every=epoch --set train.epochs=7 --check
expect_code 0 'a check of a run that continues'
expect_out 'resume +at step 228 of 266'
resumed short --set checkpoint.every=epoch --set train.epochs=7 --set train.learning_rate=0.5
expect_code 2 'a state of other settings'
expect_err 'is from a run with other settings: train.learning_rate is 0.5, there 1'
expect_err 'run.dir=OTHER.*run.resume=never'
resumed short --set train.epochs=1 --set train.learning_rate=0.5 --set run.resume=never
expect_code 0 'begun anew'
[ -z "$(sed -n '/^resume/p' "$work/out")" ] || fail 'a new run goes on'
expect_equal "$(states short | wc -l)" 0 'states of the run that was in its place'
resumed by_name --set "run.resume=$(newest whole-2)" --set train.epochs=7
expect_code 0 'a state by its name'
expect_out 'resume +at step 228 of 266'
truncate -s 100 "$work/runs/by_name/metrics.jsonl"
resumed by_name --set "run.resume=$(newest whole-2)" --set train.epochs=8
expect_code 0 'on with its own states, which are newer'
expect_out 'resume +at step 266 of 304'
expect_err 'metrics.jsonl is shorter than when the checkpoint was saved: some of its lines are lost'
[ -z "$(grep -v '^{.*}$' "$work/runs/by_name/metrics.jsonl")" ] || fail 'a line that is not whole'
rm "$work/runs/by_name/metrics.jsonl"
resumed by_name --set train.epochs=9
expect_code 0 'on without the lines of the earlier epochs'
expect_err '^.*/runs/by_name/metrics.jsonl is gone, whose lines the checkpoint continues: it begins anew'
resumed by_name --set devices.kind=null
expect_code 2 'a run that computes nothing in the place of one that does'
expect_err 'holds a run that computes: .*run.dir=OTHER'
resumed not_there --set run.resume=nowhere
expect_code 3 'a state that is not there'
expect_err 'nowhere.*No such file'
# An epoch that was ended early and then whole has two rows, the last of all of it.
resumed longer --set train.steps=30 --set checkpoint.every=10
resumed longer --set train.steps=38 --set checkpoint.every=10
expect_code 0 'an epoch that is done in two runs'
sed -n 's/^{"kind":"epoch","epoch":1,"step":\([0-9]*\),"time":"[^"]*","images":\([0-9]*\),.*/\1 \2/p' \
    "$work/runs/longer/metrics.jsonl" >"$work/rows"
expect_equal "$(wc -l <"$work/rows")" 2 'rows of an epoch in two runs'
expect_equal "$(tail -n 1 "$work/rows")" '38 600' 'the last row of an epoch in two runs'
resumed not_a_state --set "run.resume=$work/runs/whole-2/weights.safetensors"
expect_code 3 'weights in the place of a state'
expect_err 'weights.safetensors.*holds weights only, .*model.weights = FILE starts'
resumed by_name --set checkpoint.every=often
expect_code 2 'no rule'
expect_err "every: 'often' is not one of: never, epoch, a number of steps"

# ---- shards that were written anew ----

"$shard_maker" "$work/anew.tfrecord" 40 28 7 1
resumed anew --set "data.train=$work/anew.tfrecord" --set train.epochs=1 --set checkpoint.every=epoch
expect_code 0 'a run over a shard'
"$shard_maker" "$work/anew.tfrecord" 40 28 7 1
resumed anew --set "data.train=$work/anew.tfrecord" --set train.epochs=2
expect_code 0 'a shard that holds the same again'
"$shard_maker" "$work/anew.tfrecord" 40 28 7 2
resumed anew --set "data.train=$work/anew.tfrecord" --set train.epochs=3
expect_code 2 'a shard with another label'
expect_err 'is from a run with other settings: the content of data.train is [0-9a-f]{16}, there [0-9a-f]{16}'

# ---- by the clock ----

for towers in 1 3; do
    name=clock-$towers
    slowly kill_soon 0 --set train.epochs=100000 --set devices.towers=$towers --set 'checkpoint.every=1 seconds'
    state=$(newest "$name")
    [ -n "$state" ] || fail "no checkpoint was saved with $towers towers"
    steps=$(echo "$state" | sed 's/.*checkpoint-0*//; s/[.].*//')
    resumed $name --set devices.towers=$towers --set "train.epochs=$((steps / 38 + 2))"
    expect_code 0 'going on from a state saved by the clock'
    expect_out "resume +at step "
done
finish
