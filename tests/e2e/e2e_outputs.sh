#!/bin/sh
# What a run leaves: summary.json with its promised names, metrics, weights, the resolved
# configuration; and what happens where these cannot be written.
. "$(dirname "$0")/e2e.sh"
make_tiny

# A FIFO that nobody writes to is given up as a configuration after 10 s: they pass beside all the rest.
mkfifo "$work/fifo"
timeout 300 "$pipetrain" -c "$work/fifo" --check >"$work/fifo.out" 2>"$work/fifo.err" &
fifo=$!

train first --set train.epochs=2 --set devices.towers=2
dir=$work/runs/first
cat >"$work/promised" <<END
accumulate
batch
began
best.accuracy
best.correct
best.step
best.value
best_weights.by
best_weights.epoch
best_weights.file
best_weights.step
best_weights.value
copy.hidden
copy.seconds
cores.others
cores.own
cores.stolen
cores.throttled
corrupt_records
cost.best.seconds
cost.machine_seconds
cost.seconds
damage.records
damage.unlisted
data.train.fingerprint
data.train.named
data.train.records
data.train.shards
data.validation.fingerprint
data.validation.named
data.validation.records
data.validation.shards
decoder_warnings
decoding_computed
device
devices
end
ended
epoch_rows
epochs
explained
fractions.backward
fractions.exposed_copy
fractions.exposed_exchange
fractions.exposed_reduction
fractions.forward
fractions.input_wait
fractions.other
fractions.update
host.cpu
host.machine
host.name
host.release
host.system
identity
images
images_per_second
input.height
input.width
limit.gain
limit.key
limit.share
limit.stage
loader_busy.decoders
loader_busy.readers
loss
mean_images_per_second
memory.peak_rss_bytes
memory.planned_bytes
model
optimizer
parameters
parts
plan.backend
plan.cores
plan.decode_threads
plan.memory_bytes.activations
plan.memory_bytes.batches
plan.memory_bytes.copies_of_weights
plan.memory_bytes.large_images
plan.memory_bytes.loader
plan.memory_bytes.reduction
plan.memory_bytes.results
plan.memory_bytes.slots
plan.memory_bytes.snapshots
plan.memory_bytes.trace
plan.memory_bytes.weights_and_states
plan.memory_bytes.workspace
plan.mode
plan.prefetch_depth
plan.read_threads
plan.staging_depth
plan.steps
plan.steps_per_epoch
plan.threads_per_tower
plan.wire
precision
queues.ring.depth
queues.ring.empty
queues.ring.least
queues.ring.mean
queues.ring.median
queues.slots.depth
queues.slots.empty
queues.slots.least
queues.slots.mean
queues.slots.median
rate
reading_computed
sample_order_hash
seconds
seed
slices
speed.jitter
speed.mean
speed.uncertainty
start_to_first_step_seconds
step_ms.p50
step_ms.p90
step_ms.p99
step_ms_histogram.counts
step_ms_histogram.first
step_ms_histogram.per_decade
steps
synthetic
towers
validation.accuracy
validation.balanced_accuracy
validation.complete
validation.correct
validation.images
validation.loss
validation.macro.f1
validation.macro.precision
validation.macro.recall
validation.weighted.f1
validation.weighted.precision
validation.weighted.recall
verdict
version
warmup_steps
END
"$json_value" --paths "$dir/summary.json" >"$work/found" || fail 'summary.json is not JSON'
grep '^libraries\.' "$work/found" >"$work/libraries"
# Energy depends on the machine and on who may read it.
grep -Ev '^libraries\.|^cost\..*(joule|energy)' "$work/found" | diff "$work/promised" - || fail 'summary.json has other names'
expect_summary first model mnist_cnn
expect_summary first parameters 600810
expect_summary first device cpu
expect_summary first precision fp32
expect_summary first epochs 2
expect_summary first steps 20
expect_summary first corrupt_records 0
expect_summary first ended finished
expect_summary first validation.complete true
"$json_value" "$dir/summary.json" fractions.input_wait fractions.exposed_copy fractions.forward fractions.backward \
    fractions.exposed_reduction fractions.exposed_exchange fractions.update fractions.other |
    awk '{ if ($1 < 0) bad = 1; sum += $1 } END { exit bad || sum < 1 - 1e-9 || sum > 1 + 1e-9 }' ||
    fail 'the shares of tower time do not sum to 1'
"$json_value" "$dir/summary.json" queues.ring.depth queues.ring.median queues.ring.least queues.ring.empty \
    queues.slots.depth queues.slots.median queues.slots.least queues.slots.empty |
    awk 'NR % 4 == 1 { depth = $1 } NR % 4 == 2 { median = $1; bad += median > depth } NR % 4 == 3 { bad += $1 > median }
        NR % 4 == 0 { bad += $1 < 0 || $1 > 1 } END { exit NR != 8 || bad }' || fail 'how full the queues were'
"$json_value" "$dir/summary.json" loader_busy.readers loader_busy.decoders |
    awk '$1 < 0 || $1 > 1 { exit 1 }' || fail 'how busy the loader was'
"$json_value" --paths "$dir/summary.json" | grep '^plan.memory_bytes' | xargs "$json_value" "$dir/summary.json" |
    awk -v all="$(summary first memory.planned_bytes)" '{ sum += $1 } END { exit sum != all }' ||
    fail 'the purposes of memory do not sum to all of it'
expect_summary first plan.steps 20
"$json_value" "$dir/summary.json" images_per_second speed.mean seconds start_to_first_step_seconds step_ms.p50 loss \
    memory.planned_bytes memory.peak_rss_bytes | awk '$1 <= 0 { exit 1 }' || fail 'a measure is not positive'

# The device and the libraries: the same at the start of the run, on lines of 80 columns.
sed -n '/^device /p; /^libraries/,/^model/p' "$work/out" | grep -v '^model' >"$work/start"
expect_equal "$(awk 'length > 80' "$work/start")" '' 'lines of more than 80 columns'
grep -qF "$(summary first devices.0.name), " "$work/start" || fail 'the device is not named'
summary first devices.0.memory_bytes | awk '$1 < 1e6 { exit 1 }' || fail 'the memory of the device'
[ "$(grep -c . "$work/libraries")" -ge 3 ] || fail 'libraries are missing'
while read -r path; do
    tr '\n' ' ' <"$work/start" | grep -qF "${path#libraries.} $(summary first "$path")" || fail "$path is not printed"
done <"$work/libraries"
summary first sample_order_hash | grep -Eqx '[0-9a-f]{16}' || fail 'the order hash has another form'

# With devices.kind = null most steps take no time and a few wait for input. The speed printed must be all images over the
# time they took, not one from the median step.
began=$(date +%s)
train nothing --set devices.kind=null --set data.validation= --set train.epochs=300
took=$(($(date +%s) - began + 1))
"$json_value" "$work/runs/nothing/summary.json" images_per_second images seconds warmup_steps |
    awk -v took=$took 'NR == 1 { speed = $1 } NR == 2 { images = $1 } NR == 3 { seconds = $1 } NR == 4 { warmup = $1 }
        END { off = speed * seconds / images; exit !(off > 0.9 && off < 1.1 && seconds <= took && warmup == 10) }' ||
    fail 'the speed of a run that computes nothing'
printed=$(tr -d ',' <"$work/out" | sed -n 's/^speed *\([0-9.]*\) images.*/\1/p')
awk -v printed="$printed" -v speed="$(summary nothing images_per_second)" \
    'BEGIN { exit !(printed > 0 && printed / speed > 0.99 && printed / speed < 1.01) }' || fail 'the speed that is printed'

"$json_value" --lines "$dir/metrics.jsonl" kind epoch step loss accuracy >"$work/lines" || fail 'metrics.jsonl'
expect_equal "$(grep -c '^train ' "$work/lines")" 20 'training reports'
expect_equal "$(grep -c '^validation ' "$work/lines")" 2 'validation reports'
grep -q -- ' -' "$work/lines" && fail 'a report lacks a value'
expect_equal "$(sed -n '11,12p;23,24p' "$work/lines" | cut -d ' ' -f 1-3 | tr '\n' ' ')" \
    'validation 1 10 epoch 1 10 validation 2 20 epoch 2 20 ' 'where validations and epochs are reported'
train rates --set data.limit=128 --set train.epochs=3 --set train.optimizer=momentum --set train.learning_rate=0.04 \
    --set train.schedule=piecewise --set train.boundaries='1 2' --set train.factors='0.5 0.25'
"$json_value" --lines "$work/runs/rates/metrics.jsonl" kind learning_rate | awk '$1 == "epoch" { print $2 + 0 }' >"$work/rates"
printf '%s\n' 0.04 0.02 0.01 | diff "$work/rates" - || fail 'the rates of the epochs'
"$json_value" --lines "$dir/metrics.jsonl" time >"$work/times" || fail 'times of metrics.jsonl'
grep -Evq '^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9][.][0-9]{3}Z$' "$work/times" &&
    fail 'a time of metrics.jsonl'
for key in seed optimizer rate synthetic data.train.records data.validation.records; do
    summary first $key
done >"$work/found"
printf '%s\n' 1 'adadelta, rho 0.95, epsilon 1e-08' 1 false 600 150 | diff "$work/found" - || fail 'what the run was'
expect_equal "$(grep '"kind":"epoch"' "$dir/summary.json" | sed 's/^ *//; s/,$//')" \
    "$(grep '"kind":"epoch"' "$dir/metrics.jsonl")" 'the epochs in the summary'

# What there was nothing to tell from is no number: no validation set, an end before the first evaluation,
# nothing computed.
expect_unevaluated() {
    expect_summary "$1" validation.images 0
    expect_summary "$1" validation.accuracy null
    expect_summary "$1" validation.loss null
    expect_summary "$1" validation.complete false
    expect_out "^result +not evaluated: $2\$"
}
train unvalidated --set train.steps=2 --set data.validation=
expect_unevaluated unvalidated 'there is no validation set'
at_options='-w 1'
at training INT --set train.batch=1
expect_code 130 'an end before the first evaluation'
expect_unevaluated at 'the run ended before the evaluation'
train uncomputed --set train.steps=2 --set devices.kind=null
expect_summary uncomputed loss null
expect_summary uncomputed validation.images 150
expect_summary uncomputed validation.accuracy null
expect_out '^ +1 +2 +- +- .* \| +- +- +[0-9.]+$'
expect_narrow 'a run that computes nothing'
expect_equal "$("$json_value" --lines "$work/runs/uncomputed/metrics.jsonl" loss accuracy | sort -u)" 'null null' \
    'loss and accuracy of what computes nothing'

# The weights file: an 8-byte length, the header, 600,810 floats.
header=$(od -An -tu8 -N 8 "$dir/weights.safetensors" | tr -d ' ')
expect_equal "$(wc -c <"$dir/weights.safetensors")" $((8 + header + 600810 * 4)) 'size of the weights'
tail -c +9 "$dir/weights.safetensors" | head -c "$header" >"$work/header.json"
"$json_value" --paths "$work/header.json" >"$work/found" || fail 'the header is not JSON'
for name in conv1 conv2 fc1 fc2; do
    grep -q "^$name.weight.data_offsets$" "$work/found" || fail "no weights of $name"
    grep -q "^$name.bias.dtype$" "$work/found" || fail "no bias of $name"
done

# A configuration may come through a pipe, and late.
for threads in 1 2; do
    command_line="cat tiny.conf | pipetrain -c /dev/stdin, $threads threads"
    { sleep 0.3; cat "$work/tiny.conf"; } | "$pipetrain" -c /dev/stdin --set "run.dir=$work/runs/piped" \
        --set run.resume=never --set train.steps=1 --set devices.threads_per_tower=$threads >"$work/out" 2>"$work/err"
    code=$?
    expect_code 0 'a configuration from a pipe'
done

# The stored configuration repeats the run.
run "$pipetrain" -c "$dir/run.conf" --set "run.dir=$work/runs/repeated"
expect_code 0 'training with the stored configuration'
expect_same_file "$dir/weights.safetensors" "$work/runs/repeated/weights.safetensors" 'the repeated run'

# A run that fails before its first step leaves earlier results as they are, and no directory of its own.
mkdir "$work/bad"
cp "$work"/data/* "$work/bad"
for shard in "$work"/bad/train-*; do
    flip "$shard" 20000
done
cp -R "$dir" "$work/before"
for times in once twice; do
    try first --set "data.train=$work/bad/train-*" --set data.shuffle=none
    expect_code 3 "damage in the first batch, $times"
    for file in summary.json metrics.jsonl run.conf weights.safetensors; do
        expect_same_file "$dir/$file" "$work/before/$file" 'results of a run before one that did no step'
    done
    expect_equal "$(ls -A "$dir" | wc -l)" "$(ls -A "$work/before" | wc -l)" 'files beside them'
done
try deep/nothing --set "data.train=$work/bad/train-*" --set data.shuffle=none
expect_code 3 'damage in the first batch of a new directory'
[ ! -e "$work/runs/deep" ] || fail 'a run that did no step left a directory'

# Results in a directory named by hand are not replaced without a word: both ways out are told, and work.
mkdir "$dir-2"
for last in --set=train.steps=2 --check; do
    for named in "$dir" "$dir//"; do
        run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$named" --set run.seed=2 $last
        expect_code 2 "results in the directory, $last"
        expect_err "run directory $named holds the results of an earlier run, .*--set run.dir=$dir-3, .*--set run.resume=never"
    done
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$dir" --set devices.kind=null $last
    expect_code 2 "of a run that computes nothing, $last"
done
expect_same_file "$dir/summary.json" "$work/before/summary.json" 'results of the run before'
for kept in best weights; do
    mkdir "$dir-kept" && cp "$dir/weights.safetensors" "$dir-kept/$kept.safetensors"
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$dir-kept" --set train.steps=2
    expect_code 2 "$kept.safetensors alone in the directory"
    expect_err "holds the results of an earlier run, and no checkpoint to resume .there is $kept.safetensors.:"
    expect_same_file "$dir/weights.safetensors" "$dir-kept/$kept.safetensors" 'weights that somebody kept'
    rm -r "$dir-kept"
done
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$dir-3" --set train.steps=1
expect_code 0 'beside it'
rm -r "$dir-2" "$dir-3"

# A directory named by hand is used again where it is said; the default one never is.
train first --set train.steps=2
expect_summary first steps 2
expect_equal "$(grep -c . "$dir/metrics.jsonl")" 4 'metrics begin again'
expect_same_file "$dir/weights.previous.safetensors" "$work/before/weights.safetensors" 'the weights of the run before'
cd "$work" || exit 99
seed=0
for expected in tiny tiny-2 tiny-3; do
    seed=$((seed + 1))
    run "$pipetrain" -c tiny.conf --set train.steps=1 --set run.seed=$seed
    expect_code 0 'a run in a directory of its own'
    expect_out "runs/$expected\$|runs/$expected[ ,]"
    [ -s "runs/$expected/summary.json" ] || fail "no runs/$expected"
done

# Where nothing can be written the run does not start, and says where.
: >"$work/file"
try unused --set "run.dir=$work/file"
expect_code 5 'a file in place of the run directory'
expect_err "$work/file"
try unused --set "run.dir=$work/file/below"
expect_code 5 'a run directory below a file'
mkdir "$work/linked"
ln -s "$work/elsewhere" "$work/linked/metrics.jsonl"
try unused --set "run.dir=$work/linked" --set train.steps=1
expect_code 5 'a link in place of an output'
[ ! -e "$work/elsewhere" ] || fail 'an output followed a link'

# What is no file in the place of one: refused at once, though nobody reads or writes the FIFO.
for file in metrics.jsonl run.conf .lock; do
    mkdir "$work/special"
    mkfifo "$work/special/$file"
    run timeout 120 "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/special" --set train.steps=1
    expect_code 5 "a FIFO in place of $file"
    expect_err "special: $file is a FIFO"
    rm -r "$work/special"
done

# A small file system: refused with the arithmetic before training; files of a run that was killed go.
if unshare -rm sh -c "mkdir '$work/small' && mount -t tmpfs -o size=3m tmpfs '$work/small'" 2>/dev/null; then
    run unshare -rm sh -c "mount -t tmpfs -o size=3m tmpfs '$work/small' && exec '$pipetrain' -c '$work/tiny.conf' \
        --set 'run.dir=$work/small/run' --set checkpoint.on_stop=no"
    expect_code 5 'a file system that has no room for the results'
    expect_err 'run: the results need 4\.[0-9] MiB, and twice that .* [23]\.[0-9] MiB are free'
    expect_err_lines 1
    [ ! -s "$work/out" ] || fail 'it was planned and trained all the same'
fi
mkdir "$work/killed"
: >"$work/killed/.weights.safetensors.tmp.1"
: >"$work/killed/.metrics.jsonl.tmp.999999"
try unused --set "run.dir=$work/killed" --set train.steps=1
expect_code 0 'a directory with temporary files'
expect_equal "$(ls -A "$work/killed" | grep -c tmp)" 0 'temporary files of killed runs'

# A file-size limit is met when the weights are saved: told, exit 5, the rest is there.
command_line='training with ulimit -f 1000'
(ulimit -f 1000 && exec "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/limited" --set train.steps=2) \
    >"$work/out" 2>"$work/err"
code=$?
expect_code 5 'weights over the file-size limit'
expect_err 'weights.safetensors: File too large'
[ ! -e "$work/runs/limited/weights.safetensors" ] || fail 'half a weights file'
expect_equal "$(ls -A "$work/runs/limited" | grep -c tmp)" 0 'temporary files left'
expect_summary limited steps 2

# The loss that is no number ends the run with a code of its own.
try lost --set train.optimizer=sgd --set train.learning_rate=1e30 --set report.interval=1000
expect_code 73 'a loss that is not finite'
expect_err 'finite.*step [0-9]+.*learning rate'
expect_err_lines 1
expect_summary lost ended failed
summary lost reason | grep -q 'finite.*learning rate' || fail 'the summary does not tell the cause'
[ ! -e "$work/runs/lost/weights.safetensors" ] || fail 'a lost run saved weights'

# Made-up labels have no accuracy.
train made_up --set input.source=synthetic --set data.train= --set data.validation= --set train.steps=3
expect_summary made_up synthetic true
grep -q '"accuracy":[0-9]' "$work/runs/made_up/metrics.jsonl" && fail 'an accuracy of made-up labels'
expect_out '^ +1 +3 +[0-9.]+ +- +[0-9,]+ +[0-9.]+ %$'

# Nor have those of a validation set that is counted only.
train made_up_sets --set input.source=synthetic --set train.steps=3
expect_out '^result +not evaluated: images and labels are synthetic$'
expect_summary made_up_sets validation.images 150
for key in correct accuracy; do
    expect_summary made_up_sets validation.$key null
    grep -q "\"$key\":[0-9]" "$work/runs/made_up_sets/metrics.jsonl" && fail "$key of made-up labels"
done

# A ReLU hides weights that are not finite from the loss: looked for at reports and before an evaluation. Winograd's
# algorithm, which adds and subtracts, would show them in the loss at once.
direct=
[ $kind = cuda ] || direct='--set devices.convolution=direct'
for interval in 1 4 1000; do
    train before --set train.steps=3
    cp "$work/runs/before/weights.safetensors" "$work/good"
    try before --set train.optimizer=sgd --set train.learning_rate=1e10 --set report.interval=$interval \
        --set train.epochs=3 $direct
    expect_code 73 "weights that are not finite, reports every $interval steps"
    expect_err '^pipetrain: [a-z]+[0-9]\.[a-z]+ has a number that is not finite or above 1e18: .*step [0-9]+.*learning rate than 1e\+10'
    expect_err_lines 1
    grep -q validation "$work/runs/before/metrics.jsonl" && fail 'it was evaluated'
    [ ! -e "$work/runs/before/weights.safetensors" ] || fail 'weights that are not finite were saved'
    expect_same_file "$work/runs/before/weights.previous.safetensors" "$work/good" 'the weights before'
    step=$(sed -n 's/.*step \([0-9]*\),.*/\1/p' "$work/err")
    [ "${step:-99}" -le 10 ] && [ $((step % interval)) -eq 0 ] || [ "$step" -eq 10 ] || fail "noticed at step $step"
done

# Not enough memory: refused with the arithmetic, before and after the towers are planned.
try unused --set "run.dir=$work/runs/memory" --set input.ram_budget=4KiB
expect_code 4 'a budget smaller than the batches'
expect_err 'ram_budget.*batches.*slots'
try unused --set "run.dir=$work/runs/memory" --set input.ram_budget=12MiB --set devices.towers=2
expect_code 4 'a budget smaller than the towers'
expect_err 'ram_budget.*activations'
# A configuration of the user's own is not replaced.
mkdir "$work/own"
cp "$work/tiny.conf" "$work/own/run.conf"
for resume in auto never; do
    run "$pipetrain" -c "$work/own/run.conf" --set "run.dir=$work/own" --set train.steps=2 --set run.resume=$resume
    expect_code 2 "results over a configuration, resume $resume"
    expect_err 'was not written by a run, .*: set run.dir to another directory'
    cmp "$work/tiny.conf" "$work/own/run.conf" || fail 'the configuration was replaced'
done
# Nor are files of other programs that have the names of results; a network that the run itself copies is no loss.
rm "$work/own/run.conf"
for file in metrics.jsonl quarantine.jsonl run.net; do
    echo mine >"$work/own/$file"
    try unused --set "run.dir=$work/own" --set train.steps=1 --set train.epochs=1
    expect_code 2 "results over another $file"
    expect_err "own/$file was not written by a run"
    expect_equal "$(cat "$work/own/$file")" mine "$file that was replaced"
    rm "$work/own/$file"
done
"$pipetrain" --describe=mnist_cnn --net >"$work/own/run.net"
: >"$work/own/metrics.jsonl"
try unused --set "run.dir=$work/own" --set "model.file=$work/own/run.net" --set train.steps=1 --set train.epochs=1
expect_code 0 'a run in the folder of its network'

wait $fifo
code=$?
command_line="pipetrain -c $work/fifo --check"
cp "$work/fifo.out" "$work/out"
cp "$work/fifo.err" "$work/err"
expect_code 2 'a FIFO that nobody writes to'
expect_err "^$work/fifo: no data for 10 s"
expect_err_lines 1
finish
