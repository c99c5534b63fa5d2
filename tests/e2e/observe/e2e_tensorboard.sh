#!/bin/sh
# Files for TensorBoard: they hold the numbers of metrics.jsonl, also of a run that went on; and whatever becomes of
# them, the run is the same.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick
. "$(dirname "$0")/observe.sh"
. "$(dirname "$0")/../resume/resume.sh"

# expect_board FOLDER RUN: every row of its metrics is there.
expect_board() {
    expect_scalars "$1/train" loss "$2" train loss
    expect_scalars "$1/train" accuracy/top1 "$2" train accuracy
    expect_scalars "$1/train" perf/images_per_sec "$2" train images_per_second
    expect_scalars "$1/train" lr "$2" train learning_rate
    expect_scalars "$1/train" epoch "$2" train epoch
    for part in input_wait exposed_copy forward backward exposed_reduction exposed_exchange update other; do
        expect_scalars "$1/train" time/$part "$2" train fractions.$part
    done
    expect_scalars "$1/train" feed/ring "$2" train queues.ring.mean
    expect_scalars "$1/train" feed/slots_empty "$2" train queues.slots.empty
    expect_scalars "$1/train" feed/readers_busy "$2" train loader_busy.readers
    expect_scalars "$1/train" feed/decoders_busy "$2" train loader_busy.decoders
    expect_scalars "$1/validation" loss "$2" validation loss
    expect_scalars "$1/validation" accuracy/top1 "$2" validation accuracy
    expect_scalars "$1/validation" perf/images_per_sec "$2" validation images_per_second
}

# ---- all of a run ----

train plain --set train.epochs=2 --set report.interval=3
[ ! -e "$work/runs/plain/tensorboard" ] || fail 'events that nobody asked for'
train all --set train.epochs=2 --set report.interval=3 --set report.tensorboard=yes --set devices.towers=2
board=$work/runs/all/tensorboard
expect_board "$board" all
for folder in train validation; do
    expect_equal "$("$dump" "$board/$folder/"* | head -n 2 | tr '\n' ' ')" 'version brain.Event:2 start 0 ' 'first events'
done
events "$board" >"$work/about"
grep -q '^text 0 plan [1-9]' "$work/about" || fail 'the text of the plan'
expect_equal "$(grep -c '^text 0 config' "$work/about")" 1 'texts of the configuration'
for line in 'train.batch 64' 'train.epochs 2' "model.file $work/quick.net" 'augment.flip false' 'devices.towers 2'; do
    grep -q "^hparam $line\$" "$work/about" || fail "a hyperparameter '$line' is expected"
done
grep -q '^session 0 _hparams_/session_end_info' "$work/about" || fail 'the end of a run that is over'
expect_equal "$(grep -c '^text 0 model' "$work/about")" 1 'texts of the network'
"$pipetrain" --describe="$work/quick.net" --net | grep -v '^#' | grep . | head -n 3 >"$work/layers"
while read -r layer; do
    grep -aqF -- "$layer" "$board"/events* || fail "the network, line by line: $layer"
done <"$work/layers"
grep -aq "^train = $work/data/train-\*" "$board"/events* || fail 'the configuration, line by line'
# Seconds of the interval, in milliseconds a step.
rows_of all train seconds | awk '{ print $1, 1000 * $2 / ($1 - last); last = $1 }' >"$work/expected"
events "$board/train" | awk '$3 == "perf/step_ms" { print $2, $4 }' | paste -d ' ' - "$work/expected" |
    awk '{ d = $2 / $4 - 1 } $1 != $3 || d > 1e-5 || d < -1e-5 { bad = 1 } END { exit bad || NR != 8 }' ||
    fail 'perf/step_ms is not the time of a step'
train same --set train.epochs=2 --set report.interval=3 --set "report.tensorboard=$work/logs/same"
! grep -q 'earlier run' "$work/err" || fail 'an earlier run in a new folder'
expect_board "$work/logs/same" same
expect_same_file "$work/runs/plain/weights.safetensors" "$work/runs/same/weights.safetensors" 'weights with events'
train named --set model.name=mnist_cnn --set train.steps=1 --set report.tensorboard=yes
events "$work/runs/named/tensorboard" | grep -q '^hparam model.name mnist_cnn$' || fail 'the name of a model'
train no_validation --set data.validation= --set report.tensorboard=yes
[ ! -e "$work/runs/no_validation/tensorboard/validation" ] || fail 'a run of no validation'
train null --set devices.kind=null --set report.tensorboard=yes
events "$work/runs/null/tensorboard/train" | grep -q ' loss ' && fail 'a loss where nothing is computed'
expect_scalars "$work/runs/null/tensorboard/train" perf/images_per_sec null train images_per_second

# ---- again in the same place ----

train all --set report.tensorboard=yes
expect_equal "$(ls "$board/train" | wc -l)" 1 'files when a new run took the place of an earlier one'
expect_board "$board" all
train again --set "report.tensorboard=$work/logs/same" --set train.epochs=1
expect_err '^report.tensorboard = .*/logs/same: has the events of an earlier run, in whose place TensorBoard will show this run'
expect_equal "$(ls "$work/logs/same/train" | wc -l)" 2 'files when a folder is used again'
expect_board "$work/logs/same" again

# ---- a run that continues ----

how='--set report.tensorboard=yes --set report.histograms=7 --set checkpoint.every=9'
resumed whole $how
expect_code 0 'a run that is left alone'
expect_board "$work/runs/whole/tensorboard" whole
events "$work/runs/whole/tensorboard/train" | grep -q '^histogram 7 weights/' || fail 'histograms'
name=killed
for updates in 10 20 15; do
    before=$(newest $name)
    stand_still "update $updates" --set "run.dir=$work/runs/$name" $settings $how
    await has_newer
    has_newer || fail "no state is saved before update $updates"
    kill_it
done
resumed killed $how
expect_code 0 'going on'
expect_out 'resume +at step [0-9]+ of 228'
expect_board "$work/runs/killed/tensorboard" killed
[ "$(ls "$work/runs/killed/tensorboard/train" | wc -l)" -gt 1 ] || fail 'a file for each process'
expect_equal "$(ls "$work/runs/killed/tensorboard/train" | sort | tail -n 1)" \
    "$(ls -t "$work/runs/killed/tensorboard/train" | head -n 1)" 'the file that sorts last'
for part in train validation; do
    events "$work/runs/whole/tensorboard/$part" | grep -Ev 'perf/|time/|feed/' >"$work/whole.events"
    events "$work/runs/killed/tensorboard/$part" | grep -Ev 'perf/|time/|feed/|^version' >"$work/killed.events"
    sed -i '/^version/d' "$work/whole.events"
    expect_same_file "$work/whole.events" "$work/killed.events" "events of $part"
done

events "$work/runs/killed/tensorboard" >"$work/about"
expect_equal "$(grep -c session_end_info "$work/about")" 1 'ends of a run that was killed and went on'
[ "$(grep -c session_start_info "$work/about")" -gt 1 ] || fail 'a beginning for each process'

# ---- what cannot be written ----

: >"$work/file"
try not_a_folder --set "report.tensorboard=$work/file/logs"
expect_code 0 'events that cannot be written'
expect_err "$work/file/logs: events for TensorBoard are not written: Not a directory: the run continues without"
expect_err_lines 1
try no_folder --set report.tensorboard=/proc/no/such
expect_code 0 'a folder that cannot be made'
expect_err '/proc/no/such: events for TensorBoard are not written: .*: the run continues without'
expect_err_lines 1
finish
