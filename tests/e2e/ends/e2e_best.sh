#!/bin/sh
# checkpoint.keep_best: the weights, or with `checkpoint` the whole state, of the best evaluation stay beside the newest
# ones, whatever becomes of the run. A state is as any other: it is evaluated, predicted with, and gone on from.
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

# A new run in the place of that one gives it another name; without a validation set there is no best.
cp "$work/runs/left/best.safetensors" "$work/before"
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/left" --set run.resume=never --set train.steps=2 \
    --set checkpoint.keep_best=no
expect_code 0 'a new run'
[ ! -e "$work/runs/left/best.safetensors" ] || fail 'the best state of an earlier run is left'
expect_same_file "$work/runs/left/best.previous.safetensors" "$work/before" 'the best state of the run before'
best refused --set data.validation=
expect_code 2 'no validation set'
expect_err 'keep_best: needs a validation set'

# ---- only weights ----

# kept NAME OPTION...: as best, by default.
kept() {
    name=$1
    shift
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $recipe "$@"
}

# The number of bytes of the tensors of a file.
data_bytes() {
    header=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    echo $(($(wc -c <"$1") - 8 - header))
}

# expect_weights RUN WHAT: of the best evaluation, as weights.safetensors has them.
expect_weights() {
    expect_best "$1" "$2"
    expect_equal "$(data_bytes "$work/runs/$1/best.safetensors")" "$(data_bytes "$work/runs/$1/weights.safetensors")" \
        "$2: bytes of the tensors"
    expect_summary "$1" best_weights.step "$(summary "$1" best.step)"
}

# They are those that a run which ends there leaves, in every mode.
for mode in 'devices.towers=1' 'devices.towers=3' 'train.ema=0.9' 'train.slices=2 devices.towers=2' 'train.accumulate=2' \
    'devices.towers=2 sync.mode=averaging' 'devices.towers=2 sync.mode=independent' \
    'devices.towers=2 sync.mode=parameter_server' 'devices.towers=2 sync.mode=parameter_server sync.server=cpu' \
    'devices.towers=2 sync.consistency=relaxed'; do
    how=
    for option in $mode; do how="$how --set $option"; done
    rm -rf "$work"/runs/mode-*
    kept mode-weights $how
    expect_code 0 "$mode"
    at=$(summary mode-weights best.step)
    kept mode-there $how --set train.steps="$at"
    run "$tensors_near" "$work/runs/mode-there/weights.safetensors" "$work/runs/mode-weights/best.safetensors" 0
    expect_code 0 "$mode: weights are not those of a run that ends there"
    run "$tensors_near" "$work/runs/mode-there/weights.safetensors" "$work/runs/mode-there/best.safetensors" 0
    expect_code 0 "$mode: the last ones are the best"
done

kept plain
expect_code 0 'weights by default'
expect_out_joined 'at step 114 its weights, after epoch 3, are in best.safetensors: evaluate, predict and export take them'
expect_out_joined 'files .*weights.safetensors, best.safetensors}'
expect_weights plain 'weights by default'
expect_summary plain best_weights.epoch 3
expect_summary plain best_weights.by accuracy
expect_summary plain best_weights.value "$(summary plain best.accuracy)"
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/on-2" $recipe --set "run.resume=$work/runs/plain/best.safetensors"
expect_code 3 'resuming from weights'
expect_err 'best.safetensors: holds weights only, which is not enough to resume a run: model.weights = FILE'

run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/on-3" --set "model.weights=$work/runs/plain"
expect_code 2 'a directory as first weights'
expect_err 'model.weights: .*/plain is a directory: name the file there, such as .*/plain/best.safetensors or '
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/on-3" --set "model.weights=$work/runs/plain/best.safetensors"
expect_code 0 'the best ones as first weights'

# They are what the commands take, unless the last ones are asked for.
run "$pipetrain" evaluate -c "$work/runs/plain/run.conf"
expect_out_joined 'weights .*/plain/best.safetensors, after 114 steps: epoch 3, the best of 6 by validation accuracy \([0-9.]+ %\); --last'
expect_out "top-1 [0-9.]+ % \($(summary plain best.correct)\)"
run "$pipetrain" evaluate -c "$work/runs/plain/run.conf" --last
expect_out_joined 'weights .*/plain/weights.safetensors, after 228 steps data '
run "$pipetrain" evaluate -w "$work/runs/plain" --set data.validation="$work/data/validation-*"
expect_out_joined 'weights .*/plain/best.safetensors, after 114 steps: epoch 3, the best of 6'
run "$pipetrain" predict -w "$work/runs/plain" "$work"/data/validation-*
expect_code 0 'predicting with a run'
expect_err 'using .*/plain/best.safetensors: epoch 3, the best of 6 by validation accuracy \([0-9.]+ %\); --last uses the last weights'
run "$pipetrain" predict -w "$work/runs/plain" --last "$work"/data/validation-*
expect_code 0 'predicting with the last weights'
expect_err_lines 0
run "$pipetrain" predict -w "$work/runs/plain/weights.safetensors" --last "$work"/data/validation-*
expect_code 2 'the last ones of a file'
expect_err 'chooses among the weights of a run directory, but .*/weights.safetensors is none'
run "$pipetrain" predict -w "$work/runs" "$work"/data/validation-*
expect_code 3 'a directory without weights'
expect_err 'the directory has no weights'

# None without evaluations, silently, nor where they mean nothing.
for how in data.validation= input.source=synthetic checkpoint.keep_best=no; do
    rm -rf "$work/runs/none"
    kept none --set $how --set train.epochs=1
    expect_code 0 "$how"
    [ ! -e "$work/runs/none/best.safetensors" ] || fail "$how: weights of no evaluation"
    grep -q 'keep_best' "$work/err" && fail "$how: a message"
done
kept none-saved --set checkpoint.on_stop=no
expect_code 0 'no checkpoints'
expect_weights none-saved 'no checkpoints'

# Killed, also before a first checkpoint: the run starts anew then, and nothing is lost.
kept course --set checkpoint.every=9
for at in 18 63 126 207; do
    rm -rf "$work/runs/killed"
    killed_at "update $((at + 3))" "$work/runs/killed/checkpoint-$(printf %08d $at).safetensors" \
        --set "run.dir=$work/runs/killed" $recipe --set checkpoint.every=9
    kept killed --set checkpoint.every=9
    expect_code 0 "weights, killed at step $at"
    expect_same_file "$work/runs/killed/best.safetensors" "$work/runs/course/best.safetensors" "weights, killed at step $at"
done
rm -rf "$work/runs/killed"
killed_at "update 160" "$work/runs/killed/best.safetensors" --set "run.dir=$work/runs/killed" $recipe
cp "$work/runs/killed/best.safetensors" "$work/before"
run "$pipetrain" evaluate -w "$work/runs/killed" --set data.validation="$work/data/validation-*"
expect_out_joined 'weights .*/killed/best.safetensors, after [0-9]+ steps: epoch [0-9], the best by validation accuracy'
kept killed --set train.batch=32
expect_code 2 'another run beside the best weights'
expect_err 'holds the results of an earlier run, and no checkpoint to resume \(there is best.safetensors\)'
kept killed
expect_code 0 'killed before a checkpoint'
expect_err 'has only the best weights of this run, which was killed before a checkpoint: it starts anew'
expect_same_file "$work/runs/killed/best.previous.safetensors" "$work/before" 'the best weights before'
expect_weights killed 'killed before a checkpoint'

# Failed before a first checkpoint: the directory has a summary, too. With other settings it is refused.
failing="--set train.factors=1e6 --set train.weight_decay=1"
kept failed $failing
expect_code 73 'a loss that is not finite'
expect_summary failed ended failed
cp "$work/runs/failed/best.safetensors" "$work/before"
kept failed $failing --set train.batch=32
expect_code 2 'another run beside a failed one'
kept failed $failing
expect_code 73 'the same command after a failure'
expect_err '/failed is of this run, which failed before a checkpoint: it starts anew, and its best weights become best.previous'
expect_same_file "$work/runs/failed/best.previous.safetensors" "$work/before" 'the best weights of the run that failed'

# What is kept may change: a file of the other kind stays until there is a better evaluation.
kept change --set checkpoint.every=epoch --set train.epochs=2
kept change --set checkpoint.every=epoch --set train.epochs=3 --set checkpoint.keep_best=yes
expect_code 0 'from weights to states'
expect_best change 'from weights to states'
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/change-2" $recipe --set "run.resume=$work/runs/change/best.safetensors"
expect_code 0 'a state in place of weights'
kept change --set checkpoint.every=epoch
expect_code 0 'from states to weights'
expect_best change 'from states to weights'

# A course whose best weights are elsewhere goes on as without: only the file is the best of later ones.
kept away --set checkpoint.every=9 --set "run.resume=$work/runs/course/checkpoint-00000225.safetensors"
expect_code 0 'going on elsewhere'
expect_err "the weights of the best evaluation so far, at step 114, are not in the run's directory"
expect_summary away best.step 114
expect_summary away best_weights.step 228
expect_out_joined 'its weights were not kept; best.safetensors has those after epoch 6'
run "$pipetrain" evaluate -c "$work/runs/away/run.conf"
expect_out_joined 'away/best.safetensors, after 228 steps: epoch 6, the best kept by [^,]*, but step 114 was better, whose weights are not here'

# Not kept any more: the file is not taken for the best.
kept outdated --set checkpoint.every=epoch --set train.epochs=1
kept outdated --set checkpoint.every=epoch --set train.epochs=3 --set checkpoint.keep_best=no
expect_err 'best.safetensors, of step 38, is not updated any more: checkpoint.keep_best is no'
run "$pipetrain" evaluate -c "$work/runs/outdated/run.conf"
expect_err 'best.safetensors is of step 38, but the best evaluation was at step 114, whose weights were not kept'
expect_out_joined 'weights .*/outdated/weights.safetensors'
finish
