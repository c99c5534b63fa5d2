#!/bin/sh
# The command line: what is asked for is printed, what is not known is refused.
. "$(dirname "$0")/e2e.sh"
make_tiny

for option in --help -h; do
    run "$pipetrain" $option
    expect_code 0 "$option"
    expect_out '^usage: pipetrain'
    expect_out 'prefetch_depth'
    expect_err_lines 0
done
for key in train.batch train; do
    run "$pipetrain" "--help=$key"
    expect_code 0 "help of $key"
    expect_out 'batch'
done
# On a terminal no line is longer than 80 columns; elsewhere each key has one line.
if command -v script >/dev/null; then
    script -qc "'$pipetrain' --help" /dev/null </dev/null | tr -d '\r' >"$work/help"
    grep -q '^  prefetch_depth' "$work/help" || fail 'no help on a terminal'
    expect_equal "$(awk 'length > 80' "$work/help")" '' 'lines of --help over 80 columns'
fi
run "$pipetrain" --help=train.bacth
expect_code 2 'help of an unknown key'
expect_err 'bacth'
run "$pipetrain" --help=man
expect_code 0 'the manual page'
expect_out '^\\fBSIGTERM\\fR, \\fBSIGINT\\fR'
if LC_ALL=C grep -q '[[:cntrl:]]' "$work/out"; then
    fail 'control characters in the manual page'
fi
run "$pipetrain" --version
expect_code 0 version
expect_out '^pipetrain [0-9]+\.[0-9]+'

# A check fails where the run would.
for last in --set=train.steps=1 --check; do
    run "$pipetrain" -c "$work/tiny.conf" --set devices.kind=cuda --set "run.dir=$work/runs/none" $last
    if ! grep -Eq 'there is no cuda device to use|without' "$work/err"; then
        expect_code 0 'a device that is here'
    elif ! grep -q without "$work/err"; then
        expect_code 71 "a device that is not here: $last"
    fi
done

: >"$work/file"
mkdir "$work/taken"
for last in --set=train.steps=1 --check; do
    for dir in "$work/file" "$work/file/in" /proc/none; do
        run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$dir" $last
        expect_code 5 "a run directory that cannot be: $dir, $last"
        expect_err "run directory $dir: "
    done
    if command -v flock >/dev/null; then
        run flock "$work/taken/.lock" "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/taken" $last
        expect_code 5 "a run directory that is taken: $last"
        expect_err 'another run is writing here'
    fi
done
rm "$work/taken/.lock"
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/taken" --check
expect_code 0 'a check of a directory that is there'
expect_equal "$(ls -A "$work/taken")" '' 'what a check leaves'

# A directory that is left empty is the run's own, and a batch that is left out is the model's; 0 is none.
sed '/^batch = /d' "$work/tiny.conf" >"$work/no_batch.conf"
run "$pipetrain" -c "$work/no_batch.conf" --check --set run.dir= --set model.name=cifar10_cnn \
    --set input.source=synthetic --set data.train= --set data.validation=
expect_code 0 'keys that are left empty'
expect_out '^steps +batch 32,'
run "$pipetrain" -c "$work/tiny.conf" --check --set train.batch=0
expect_code 2 'a batch of nothing'
expect_err '^--set train.batch: 0 samples are no batch: use at least 1, or leave the key out'
run "$pipetrain" -c "$work/tiny.conf" --check --set train.batch=0 --set train.batch_per_tower=8
expect_code 0 'the batch of a tower instead'
expect_out '^steps +batch 8,'
! grep -q 'train.batch 0' "$work/out" || fail 'a batch of nothing is shown'
mkdir "$work/own"
(cd "$work/own" && "$pipetrain" -c ../tiny.conf --set run.dir= --set train.steps=1 &&
    "$pipetrain" -c ../tiny.conf --set run.dir= --set train.steps=2) >"$work/out" 2>"$work/err" || fail 'run.dir ='
expect_out 'run directory runs/tiny-2$'

# Keys that change nothing are told of, not those of the copy that a run leaves.
unused="--set train.optimizer=momentum --set train.trust=0.5"
run "$pipetrain" -c "$work/tiny.conf" $unused --set "run.dir=$work/unused" --set sync.max_staleness=3 --set train.steps=1
expect_code 0 'keys that change nothing'
expect_err '^--set train.trust = 0.5 has no effect with train.optimizer = momentum; only lars uses it$'
expect_err '^--set sync.max_staleness = 3 has no effect with sync.mode = replicated; only async uses it$'
expect_err_lines 2
run "$pipetrain" -c "$work/unused/run.conf" --check --set "run.dir=$work/unused-2"
expect_code 0 'the copy of a configuration'
expect_err_lines 0
run "$pipetrain" -c "$work/tiny.conf" --check --set devices.threads_per_tower=500 --set devices.kind=cpu
expect_code 0 'more threads than cores'
expect_err 'devices.threads_per_tower: 500 threads of a tower share [0-9]+ cores? and wait for each other'
run "$pipetrain" -c "$work/tiny.conf" --check --set devices.towers=256 --set devices.kind=cpu --set train.batch=200
expect_code 0 'more towers than samples and cores'
expect_err 'devices.towers: a step has only 200 samples for 256 towers, so some never get any: use at most 200'
[ "$(nproc)" -ge 256 ] ||
    expect_err 'devices.towers: 256 towers share [0-9]+ cores? and take turns: use at most [0-9]+'
run "$pipetrain" -c "$work/tiny.conf" --check --set devices.towers=1 --set train.batch=1
expect_err_lines 0

# A model that --set names is described.
run "$pipetrain" --describe --set model.name=resnet20_v1
expect_code 0 'a model of --set'
expect_out 'layer1'

# Who only prints ends when nobody reads, as others do; without a word.
for words in '--help' '--describe' '--describe=resnet20_v1'; do
    at_options='-o broken'
    at_command never none "$pipetrain" $words
    expect_code 141 "nobody reads $words"
    expect_err_lines 0
done

# Synthetic input needs no shards, which is said where those of the configuration are missing.
run "$pipetrain" -c "$work/tiny.conf" --check --set input.source=synthetic --set "data.train=$work/absent-*"
expect_code 3 'synthetic input in the place of shards that are missing'
expect_err 'absent-[*]: no file matches this pattern'
expect_err '^pipetrain: input.source = synthetic needs no shards: data.train and data.validation may be empty'

# What is handed out as an example is a configuration without a mistake, whatever data are there.
for example in "$(dirname "$0")"/../../examples/*.conf; do
    case $example in
    */imagenet_resnet50.conf) less='--set train.batch=2' ;;
    */many_classes.conf) less='--set train.batch=8' ;;
    */finetune_*.conf) less='--set train.batch=2 --set model.weights= --set model.skip= --set train.class_weights=
        --set train.best_by=accuracy --set checkpoint.keep_best=no' ;;
    *) less= ;;
    esac
    run "$pipetrain" -c "$example" --check --set input.source=synthetic --set data.train= --set data.validation= $less
    expect_code 0 "a check of $example"
    expect_out '^model '
    expect_err_lines 0
done

make_quick

# The program starts itself again only where teams of threads compute, and keeps its name. The
# dynamic linker tells of every start.
starts() {
    LD_DEBUG=statistics "$pipetrain" "$@" 2>&1 >/dev/null | grep -c 'total startup time'
}
unset GOMP_SPINCOUNT OMP_WAIT_POLICY
if [ "$(starts --version)" -gt 0 ]; then
    short="-c $work/tiny.conf --set run.dir=$work/short --set run.resume=never --set train.steps=1 --set data.validation="
    expect_equal "$(starts --version)" 1 'starts of --version'
    expect_equal "$(starts $short)" 1 'starts with one thread a tower'
    expect_equal "$(starts $short --set devices.threads_per_tower=2 --check)" 1 'starts of --check'
    expect_equal "$(starts $short --set devices.threads_per_tower=2 --set devices.kind=null)" 1 'starts to feed'
    expect_equal "$(starts $short --set devices.threads_per_tower=2 --set devices.backend=reference)" 1 \
        'starts with a backend without teams'
    teams=$(starts $short --set devices.threads_per_tower=2)
fi
"$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/named" --set train.epochs=1000 \
    --set devices.threads_per_tower=2 >"$work/out" 2>"$work/err" &
pid=$!
it_trains() {
    [ -s "$work/named/metrics.jsonl" ] || ! kill -0 $pid 2>/dev/null
}
await it_trains
expect_equal "$(cat /proc/$pid/comm)" "$(basename "$pipetrain" | cut -c 1-15)" 'name of the process'
if grep -q '^libraries oneDNN' "$work/out"; then
    tr '\0' '\n' <"/proc/$pid/environ" | grep -q '^GOMP_SPINCOUNT=' || fail 'teams wait long'
    expect_equal "${teams:-2}" 2 'starts with teams'
fi
kill -s TERM $pid
{ wait $pid; } 2>/dev/null

# Where others compute on the cores, threads that wait for each other do not spin.
if grep -q '^libraries oneDNN' "$work/out"; then
    others=
    for core in $(seq "$(getconf _NPROCESSORS_ONLN)"); do
        timeout 60 sh -c 'while :; do :; done' &
        others="$others $!"
    done
    rm -rf "$work/named"
    "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/named" --set train.epochs=1000 \
        --set devices.threads_per_tower=2 >"$work/out" 2>"$work/err" &
    pid=$!
    await it_trains
    tr '\0' '\n' <"/proc/$pid/environ" | grep -qx 'GOMP_SPINCOUNT=0' || fail 'teams spin on cores that others use'
    kill -s TERM $pid $others
    { wait $pid $others; } 2>/dev/null
fi

run "$pipetrain" --describe
expect_code 0 models
expect_out '^mnist_cnn '
expect_out '^mnist_cnn2 '
run "$pipetrain" --describe=mnist_cnn
expect_code 0 'a model'
expect_out '600,810'
expect_out '^conv1 '
run "$pipetrain" --describe resnet20 vgg11
expect_code 2 'two models'
expect_err "unexpected argument 'vgg11'"
run "$pipetrain" exprt -w weights.safetensors -o model.onnx
expect_code 2 'a command that is misspelt'
expect_err "^pipetrain: 'exprt' is no command .did you mean 'export'"
run "$pipetrain" --describe=resnet20 --describe=vgg11
expect_code 2 'two models'
expect_err "^pipetrain: --describe is given twice: 'resnet20' and 'vgg11'; describe one model at a time "
run "$pipetrain" --describe mnist_cnn2
expect_code 0 'a model after a space'
expect_out '1,199,882'
expect_out '^input     pixel / 255$'
expect_out_joined " images train unchanged if it has the input's size, else random resized crop \\(area 0.08 to 1"
run "$pipetrain" --describe -c "$work/tiny.conf" --set model.mean=0.5 --set augment.crop=pad --set augment.flip=yes
expect_code 0 'the model of a file, as the settings make it'
expect_out '^input     \(pixel / 255 - mean\) / deviation, mean 0.5, deviation 1$'
expect_out_joined ' images train random crop with 4 pixels of zero padding, bilinear, random horizontal flip '
expect_narrow 'the model of a file'

# What a step asks of a GPU is counted without one.
run "$pipetrain" --describe=mnist_cnn --set devices.kind=cuda --set devices.precision=bf16
if [ -x "$build/tests/e2e/pipetrain_sim" ]; then
    expect_code 0 'a model on a GPU'
    expect_out '^activations  [0-9.]+ MiB with gradients, training at batch 128 on a GPU in bf16$'
    expect_out_joined 'a step is 17 own kernels, 5 convolutions by cuDNN, 6 products by cuBLASLt, 1 copy, and the update'
    expect_out_joined 'bytes moved +[0-9.]+ MB read and written in device memory: convolutions [0-9.]+, normalisation 0.0, sums '
    expect_narrow 'a model on a GPU'
else
    expect_code 71 'a model on a GPU, without CUDA'
    expect_err 'devices.kind = cuda: this program was built without CUDA'
fi

# What a run does is said on lines that fit a terminal.
for how in --check --dry-run; do
    for settings in '--set train.batch=100' '--set data.shuffle=block --set input.read_block=64KiB --set devices.towers=3' \
        '--set data.validation= --set data.validation_split=0.25 --set augment.crop=resized --set augment.flip=yes' \
        '--set model.name=resnet20_v1 --set model.mean=0.4914,0.4822,0.4465 --set model.deviation=0.2471,0.2435,0.2616'; do
        run "$pipetrain" -c "$work/tiny.conf" $settings $how
        expect_code 0 "$how with $settings"
        expect_narrow "$how with $settings"
    done
done
run "$pipetrain" --describe -c "$work/tiny.conf" --set model.mean=0.5,0.6
expect_code 2 'more means than channels'
expect_err "mean: has 2 numbers, and images of 'quick' have 1 channel$"
run "$pipetrain" --describe=resnet
expect_code 2 'an unknown model'
expect_err resnet

run "$pipetrain"
expect_code 2 'no configuration'
expect_err ' -c '
# A printed command begins with the program as the shell was given it, unless that has to be quoted.
mkdir "$work/linked" "$work/a folder"
ln -s "$pipetrain" "$work/linked/pipetrain"
ln -s "$pipetrain" "$work/a folder/pipetrain"
run sh -c "cd '$work' && ./linked/pipetrain"
expect_err 'use \./linked/pipetrain -c run\.conf \('
run "$work/linked/pipetrain"
expect_err "use $work/linked/pipetrain -c run"
run env PATH="$work/linked:$PATH" pipetrain
expect_err 'use pipetrain -c run\.conf \('
run "$work/a folder/pipetrain"
expect_err 'use pipetrain -c run\.conf \('
run "$pipetrain" --no-such-option
expect_code 2 'an unknown option'
expect_err 'no-such-option'
expect_err '^pipetrain: .*--help'
run "$pipetrain" --chek
expect_code 2 'a misspelt option'
expect_err "did you mean '--check'"
run "$convert" foldr photos -o "$work/none"
expect_code 2 'a misspelt converter'
expect_err "did you mean 'folder'"
run "$convert" folder photos -o "$work/none" --resize=256
expect_code 2 'an abbreviated option'
expect_err "no option '--resize' .did you mean '--resize-short'"
run "$build/pipetrain-shards" chek "$work"
expect_code 2 'a misspelt command'
expect_err "did you mean 'check'"
run "$build/pipetrain-shards" extract "$work/none" -1
expect_code 2 'a negative number'
expect_err "'-1' is not an option, and numbers are not negative"
for two in '--tune --doctor' '--doctor --tune=20' '--doctor=json --tune-write'; do
    run "$pipetrain" -c "$work/tiny.conf" $two
    expect_code 2 "$two"
    expect_err '^pipetrain: --doctor does not go with --tune '
done
run "$pipetrain" -c "$work/tiny.conf" --compare seed=1,2 --doctor
expect_code 2 '--compare with --doctor'
expect_err '^pipetrain: --doctor does not go with --compare '
run "$pipetrain" -c
expect_code 2 'an option without its value'
run "$pipetrain" "$work/tiny.conf"
expect_code 2 'a configuration without -c'
expect_err 'tiny.conf'

# A message is one line, whatever a name holds, and letters stay letters.
run "$pipetrain" -c "$work/$(printf 'no\nsuch\302\233\377 f\303\274r')"
expect_code 2 'a name that is no line'
expect_err_lines 1
expect_err "$(printf '/no\\\\x0asuch\\\\xc2\\\\x9b\\\\xff f\303\274r')"

# What is asked for and cannot be printed is an error.
if [ -w /dev/full ]; then
    for wanted in --help --help=train --version --describe --describe=mnist_cnn "-c $work/tiny.conf --check"; do
        run sh -c "'$pipetrain' $wanted >/dev/full"
        expect_code 5 "$wanted on a full disk"
        expect_err_lines 1
        expect_err 'standard output: .*No space left'
    done
fi

# --check starts nothing and writes nothing; --dry-run builds everything and runs one step.
try checked --check
expect_code 0 check
expect_out '2,326'
expect_out '600 records in 4 shards'
[ ! -e "$work/runs" ] || fail '--check leaves a directory'
try checked --check --set train.batch=0x10
expect_code 2 'check of a bad value'
try checked --check --set data.train="$work/nothing"
expect_code 3 'check of missing data'
try dry --dry-run --set devices.towers=2
expect_code 0 'dry run'
expect_out '^layers'
expect_out '1 steps?, 64 images'
[ ! -e "$work/runs" ] || fail '--dry-run leaves a directory'

# Results on stdout, the settings first; nothing on stderr but progress, without control characters.
train plain
expect_err_lines 0
expect_out '^settings .*seed 1'
expect_out 'train.batch 64'
expect_out '^ *1 +10 '
expect_out '^result .*of 150'
expect_out '^verdict '
# So slow that its speed has few digits, and the line room for all.
slowly train progress --progress=line --set report.pace=0
expect_err_lines 13
expect_err '^epoch 1/1 step 10/10  loss [0-9.]+  acc [0-9.]+%  [0-9,]+ img/s  wait [0-9.]+%  0:00 left$'
expect_err '^epoch 1/1 evaluation 3/3  [0-9,]+ img/s  0:00 left$'
train progress --progress=line --set report.pace=3600
expect_err_lines 1              # none is due before an hour is over
train progress --progress=json --set report.pace=0
"$json_value" --lines "$work/err" kind epoch epochs step steps >"$work/lines" || fail 'progress is not JSON'
head -n 10 "$work/err" | while read -r line; do
    echo "$line" >"$work/line"
    "$json_value" "$work/line" queues.ring.depth queues.ring.median loader_busy.decoders
done >"$work/feed"
awk 'NR % 3 == 1 && $1 != 4 || $1 < 0 || $1 > 4 { exit 1 } END { exit NR != 30 }' "$work/feed" ||
    fail 'the feed is part of the progress as JSON'
expect_equal "$(sed -n '10p; 13p' "$work/lines")" "$(printf 'training 1 1 10 10\nevaluating 1 1 3 3')" 'progress as JSON'
train progress --progress=none
expect_err_lines 0
train progress --quiet --set report.progress=line --set report.pace=0
expect_err_lines 0
expect_out '^result +validation accuracy '
expect_equal "$(wc -l <"$work/out")" 1 'lines on stdout with --quiet'
expect_summary progress steps 10
try wrong -q --set train.batch=none
expect_code 2 'an error with --quiet'
expect_err_lines 1
try wrong -q --set data.train=nothere
expect_code 3 'a set that is not there, with --quiet'
expect_err_lines 1
expect_err 'nothere: No such file'
try wrong --progress=loud
expect_err "progress: 'loud' is not one of: auto, bar, line, json, none"
train progress --progress=line --set report.pace=0
if grep -q "$(printf '[\r\033]')" "$work/err" "$work/out"; then
    fail 'control characters in what is not a terminal'
fi
# The second of two files would replace the first.
run "$pipetrain" -c "$work/tiny.conf" -c "$work/other.conf" --check
expect_code 2 'two configurations'
expect_err "--config is given twice: '$work/tiny.conf' and '$work/other.conf'"
run "$pipetrain" -c "$work/tiny.conf" -c "$work/tiny.conf" --check
expect_code 0 'one configuration, twice'
run "$pipetrain" evaluate -c "$work/tiny.conf" -w a.safetensors --weights=b.safetensors
expect_code 2 'two files of weights'
expect_err "--weights is given twice: 'a.safetensors' and 'b.safetensors'"

# bf16 is for CPUs that have it; others say what they lack. oneDNN may be told that the CPU has less.
bf16="-c $work/tiny.conf --set devices.kind=cpu --set devices.precision=bf16 --set run.dir=$work/runs/bf16"
run env ONEDNN_MAX_CPU_ISA=AVX2 "$pipetrain" $bf16 --check
expect_code 2 'bf16 without the instructions'
expect_err 'precision: .*computes in fp32 only'
run "$pipetrain" $bf16 --set train.steps=2
case $code in
    0) expect_summary bf16 precision bf16 ;;
    *) expect_err 'precision: .*computes in fp32 only' ;;
esac

finish
