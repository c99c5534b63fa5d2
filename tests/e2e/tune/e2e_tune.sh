#!/bin/sh
# --tune: it finds what limits a run, its recommendation makes the run faster, and what cannot be tuned is refused.
. "$(dirname "$0")/../e2e.sh"
[ -x "$slow" ] || { echo "not built: $slow"; exit 99; }
[ "$sanitizer" = no ] || skip 'with a sanitizer computing is what is slow'
make_tiny
make_smooth
mkdir "$work/tmp" "$work/here"
TMPDIR=$work/tmp
PIPETRAIN_SLOW=
export TMPDIR PIPETRAIN_SLOW

# A stage that is made slow takes a hundred times as long as all computing, so that the result depends neither on the
# machine nor on its load.

# tune CONFIG [OPTION]...: in an empty folder, to see whether anything is written.
tune() {
    config=$1
    shift
    command_line="pipetrain -c $config $*"
    (cd "$work/here" && exec "$slow" -c "$work/$config" "$@") >"$work/out" 2>"$work/err"
    code=$?
}

expect_nothing_left() {
    expect_equal "$(ls -A "$work/tmp" "$work/here" | grep -v : | tr -d '\n')" '' "$1 leaves files"
    expect_equal "$(grep -l "run[.]dir=$work/tmp" /proc/[0-9]*/cmdline 2>/dev/null)" '' "$1 leaves a process"
}

cat >"$work/fed.conf" <<END
# Steps of less than a millisecond, records from files.
[data]
train = $work/data/train-*
validation = $work/data/validation-*
[model]
file = $work/smooth.net
[train]
batch = 8
epochs = 3
on_nan = rollback
[checkpoint]
every = 100
[devices]
kind = $kind
bind = no
threads_per_tower = 1
[input]
keep_shards = 0
read_threads = 1        # the one disk
decode_threads = 1

# progress
[report]
progress = none
tensorboard = $work/watched
prometheus = $work/watched.prom
trace = $work/watched.json
END
cp "$work/fed.conf" "$work/slow_decoder.conf"

# the best row's columns: tower read decode ring slots
best() {
    awk '$NF == "<" { print $'"$1"' }' "$work/out"
}

# trials_of CONFIG SECONDS [OPTION]...: tuned with enough time for trials; a busy machine needs more.
trials_of() {
    tuned=$1 seconds=$2
    shift 2
    for factor in 1 2 6 18; do
        began=$(date +%s)
        tune "$tuned" --tune=$((seconds * factor)) "$@"
        took=$(($(date +%s) - began))
        grep -q '^reason .*there was no time' "$work/out" || grep -q 'give it more time' "$work/err" || return 0
    done
}

# Reading the samples of a step takes 10 ms of waiting: one reader is too slow, more are not, nor is input from memory.
PIPETRAIN_SLOW='read 10000'
trials_of fed.conf 10 --tune-write
expect_code 0 'a slow reader'
expect_out '^search +[0-9]+ other settings? tried for '
expect_out '^first row: as configured; <: best'
expect_out_joined 'reason +(other numbers of threads( and another depth)?|reading waits .* into memory): [0-9.]+ % more images/s'
expect_out '^\[input\]$'
expect_narrow tune
readers=$(best 2)
cp "$work/out" "$work/tuned"
if [ "$readers" -gt 1 ]; then
    expect_out "^read_threads = $readers\$"
    expect_equal "$(grep -c "^read_threads = $readers        # the one disk\$" "$work/fed.conf")" 1 'the line in the file'
else
    expect_out '^source = cached$'
    expect_equal "$(grep -c '^source = cached$' "$work/fed.conf")" 1 'the line in the file'
fi
expect_same_file "$work/fed.conf.bak" "$work/slow_decoder.conf" 'the backup'
expect_equal "$(grep -Ev 'threads|_depth|^source = cached$' "$work/fed.conf")" \
    "$(grep -Ev 'threads|_depth' "$work/fed.conf.bak")" 'what is not changed'
expect_nothing_left 'tuning'
expect_equal "$(ls -d "$work"/watched* 2>/dev/null)" '' 'what watches runs saw trials'
for name in fed.conf.bak fed.conf; do
    "$slow" -c "$work/$name" --set "run.dir=$work/runs/$name" --set train.steps=100 -q || fail "$name does not run"
done
awk -v before="$(summary fed.conf.bak seconds)" -v after="$(summary fed.conf seconds)" \
    'BEGIN { exit !(after < 0.8 * before) }' || fail 'the recommendation does not help'

# bench/tune reads the table, with all kinds of rows.
reads=$(dirname "$0")/../../../bench/tune/tune.py
if command -v python3 >/dev/null 2>&1 && [ -f "$reads" ]; then
    python3 "$reads" --table "$work/tuned" >"$work/rows" 2>"$work/err" || fail 'the table is read'
    expect_equal "$(sed -n 's/.*read_threads=\([0-9]*\) .* best$/\1/p' "$work/rows")" "$readers" 'the best row, read'
    cat >"$work/table" <<'END'
tower read dec. ring slots  images/s wait %  images/s  +/- % wait %      MiB
    1    1    1    4     2   24683.0   45.0   24683.2    1.0   44.5    120.5
    1    1    2    4     2   41538.0    0.0   41538.9      -   22.5    120.5 <
    2    1    2    4     2   needs too much memory
    2    1    2    4    16   41538.0    0.0
    1    1    1    4     2c1234567.8    3.0   30000.0    2.0    1.0    300.5
first row: as configured; <: best; c: with input.source = cached
END
    python3 "$reads" --table "$work/table" | sed 's/[a-z.]*_[a-z_]*=//g' >"$work/rows"
    printf '%s\n' '1 1 1 4 2 24683.0 0.45 24683.2 0.445 ' '1 1 2 4 2 41538.0 0.0 41538.9 0.225 best' \
        '2 1 2 4 2 None None None None ' '2 1 2 4 16 41538.0 0.0 None None ' \
        '1 1 1 4 2 input.source=cached 1234567.8 0.03 30000.0 0.01 ' >"$work/expected"
    expect_same_file "$work/rows" "$work/expected" 'rows of a table'
    sed -i 's/needs too/takes too/' "$work/table"
    python3 "$reads" --table "$work/table" >"$work/rows" 2>"$work/err" && fail 'an unknown row is read'
fi

if [ "$long" = yes ]; then

# Decoding takes 3 ms a sample, and there is one decoder.
PIPETRAIN_SLOW='decode 3000'
trials_of slow_decoder.conf 20 --progress=none
expect_code 0 'a slow decoder'
expect_err_lines 0
[ "$took" -le $((2 * seconds * factor)) ] || fail "$((seconds * factor)) s took $took s"
[ "$(best 3)" -gt 1 ] || [ "$(nproc)" -eq 1 ] || fail "a slow decoder: $(best 3) decoders"
expect_equal "$(grep -c '^decode_threads = 1$' "$work/slow_decoder.conf")" 1 'a file is changed without --tune-write'

# The command lines of trials, as long as $work/watching is there.
watch() {
    while [ -e "$work/watching" ]; do
        for trial in $(grep -l "run[.]dir=$work/tmp" /proc/[0-9]*/cmdline 2>/dev/null); do
            { tr '\0' ' ' <"$trial"; echo; } 2>/dev/null
        done
        sleep 0.2
    done >"$work/trials"
}

# Computing is slow: nothing has to change. Every trial keeps the memory budget of the configuration.
PIPETRAIN_SLOW='forward 100000'
: >"$work/watching"
watch &
trials_of slow_decoder.conf 40 --set input.ram_budget=1GiB
rm "$work/watching"
wait
expect_code 0 'a slow tower'
expect_equal "$(grep -c 'ram_budget=1GiB' "$work/trials")" "$(grep -c 'ram_budget' "$work/trials")" \
    'trials with the budget'
expect_equal "$(grep -c 'ram_budget=0' "$work/trials")" 0 'trials without the budget'
expect_out '^set +nothing: the configuration stays as it is$'
# On a busy machine it may wait for more than 1 % of the time.
expect_out_joined 'reason +(towers wait [0-9.]+ % of their time for input|the input pipeline is fast enough on )'
expect_equal "$(ls "$work" | grep -c 'slow_decoder.conf.bak')" 0 'a backup of nothing'
fi
PIPETRAIN_SLOW=

# What cannot be tuned.
refused() {
    expect_code "$1" "$2"
    expect_err "$3"
    expect_err_lines 1
    expect_equal "$(cat "$work/out")" '' "$2 prints"
    expect_nothing_left "$2"
}
tune slow_decoder.conf --tune=5
refused 2 'too little time' "^pipetrain: --tune: '5' is not a time \\(seconds, or numbers with units .*: from 10 to 86400 seconds\\)"
tune slow_decoder.conf --tune=soon
refused 2 'no time' "^pipetrain: --tune: 'soon' is not a time \\(seconds, or numbers with units"
tune slow_decoder.conf --tune=10 -q --set input.source=synthetic
refused 2 'no feed' '^--tune: input.source = synthetic: '
PIPETRAIN_SLOW='forward 700000'
tune slow_decoder.conf --tune=10 -q
PIPETRAIN_SLOW=
refused 2 'slow steps' '^pipetrain: --tune: a step takes [0-9.]+ s, so a run has too few .* more time, --tune=[1-9][0-9]*$'
PIPETRAIN_SLOW='forward 70000'
tune slow_decoder.conf --tune=10
PIPETRAIN_SLOW=
if [ $code -eq 0 ]; then            # else this machine is too slow to measure it
    expect_err '--tune=10 is too short to try another setting: --tune=[1-9][0-9]* would do$'
    expect_out_joined 'reason +there was no time to try another setting: --tune=[1-9][0-9]*; of the run as configured: '
fi
tune slow_decoder.conf --tune=10 -q --set devices.kind=null
refused 2 'no towers' '^--tune: devices.kind = null: '
tune slow_decoder.conf --tune --check
refused 2 'two things at once' '^pipetrain: --check does not go with --tune '
tune slow_decoder.conf --tune --progress=json
refused 2 'another progress' "^pipetrain: --progress: 'json' is not one of: line, none "
tune slow_decoder.conf --tune 30
refused 2 'a time apart' "^pipetrain: unexpected argument '30'"
tune slow_decoder.conf --tune --set input.prefetch_depht=2
refused 2 'a slip' "did you mean 'prefetch_depth'"
tune slow_decoder.conf --tune --set "data.train=$work/none-*"
refused 3 'no data' 'no file matches this pattern'
chmod 444 "$work/slow_decoder.conf"
tune slow_decoder.conf --tune --tune-write
refused 5 'a read-only file' 'slow_decoder.conf is read-only, so --tune-write cannot change it: make it writable '
chmod 644 "$work/slow_decoder.conf"
# Values that hold with other settings than the file's are not written; what names or reports a run is no such setting.
for set in devices.towers=2 train.batch=16 input.read_threads=3 "data.train=$work/data/train-*0"; do
    cp "$work/slow_decoder.conf" "$work/before.conf"
    tune slow_decoder.conf --tune=10 --tune-write --set report.interval=5 --set "$set"
    refused 2 "tuned with $set" "^pipetrain: --tune-write: values measured with --set ${set%%=*} = .* may be wrong for .*slow_decoder.conf"
    expect_same_file "$work/before.conf" "$work/slow_decoder.conf" 'a refused file'
done
tune slow_decoder.conf --tune=10 --tune-write --set train.batch=8 --set run.name=x --set report.pace=2s --set "data.train=$work/none-*"
refused 2 'several keys' 'measured with --set data.train = [^ ]* may be wrong'
tune slow_decoder.conf --tune=5s
refused 2 'too short a time' "--tune: '5s' is not a time \\(seconds, or numbers with units such as 90 s, 15 min, 1.5 h or 1h30m: from 10 to 86400 seconds\\)"
run "$slow" --tune
refused 2 'no configuration' '^pipetrain: no configuration given: [^ ]*/pipetrain -c run.conf --tune$'
run "$slow" --tune --help
expect_code 0 '--help'
expect_out '^usage: pipetrain -c FILE --tune'
expect_narrow --tune

# Interrupted while a trial runs: nothing stays.
(cd "$work/here" && exec env --default-signal=INT "$slow" -c "$work/slow_decoder.conf" --tune=60 --tune-write) \
    >"$work/out" 2>"$work/err" &
tuning=$! polls=0
until grep -q "run[.]dir=$work/tmp" /proc/[0-9]*/cmdline 2>/dev/null || [ $polls -eq 600 ]; do
    sleep 0.1
    polls=$((polls + 1))
done
kill -INT $tuning
wait $tuning
code=$?
command_line='pipetrain --tune, interrupted'
expect_code 130 'interrupted'
expect_err 'interrupted: nothing was changed$'
expect_nothing_left 'an interrupted one'
finish
