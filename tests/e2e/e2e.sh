# Shared by the end-to-end tests, which source it: a work folder with tiny data, and ways to
# run the program, to expect an exit code, and to say what failed with its command.
#
# PIPETRAIN_BUILD: where the programs are (the current directory if not set).
# PIPETRAIN_PROGRAM: another pipetrain than the one there.
# PIPETRAIN_TEST_LONG: yes: all sizes and cases (make check-long), not only the smallest that show each property.
# PIPETRAIN_TEST_DEVICE: cpu (the default) or cuda: what the tiny configuration trains on.
# PIPETRAIN_TEST_SIMULATED: yes: a CUDA device that is simulated (sim.sh) and so slow that little is computed on it.

set -u
LC_ALL=C
export LC_ALL

build=${PIPETRAIN_BUILD:-$PWD}
pipetrain=${PIPETRAIN_PROGRAM:-$build/pipetrain}
slow=${PIPETRAIN_SLOW_PROGRAM:-$build/tests/e2e/limits/pipetrain_slow}
convert=$build/pipetrain-convert
json_value=$build/tests/e2e/json_value
shard_maker=$build/tests/e2e/shard_maker
run_at=$build/tests/e2e/run_at
option_rows=$build/tests/e2e/resume/option_rows
tensors_near=$build/tests/e2e/resume/tensors_near
sanitizer=${PIPETRAIN_SANITIZER:-no}
long=${PIPETRAIN_TEST_LONG:-no}
simulated=${PIPETRAIN_TEST_SIMULATED:-no}
case ${PIPETRAIN_TEST_DEVICE:-cpu} in
    cpu) kind=cpu ;;
    *) kind=$PIPETRAIN_TEST_DEVICE ;;
esac
above=$(cd "$(dirname "$0")/.." && pwd)     # tests/, or tests/e2e/
TSAN_OPTIONS=${TSAN_OPTIONS:-suppressions=${above%/e2e}/thread.supp}
export TSAN_OPTIONS

for program in "$pipetrain" "$convert" "$json_value" "$shard_maker" "$run_at"; do
    [ -x "$program" ] || { echo "not built: $program"; exit 99; }
done

work=$(mktemp -d "${TMPDIR:-/tmp}/pipetrain-e2e.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT PIPE TERM
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME

failures=0
command_line=
told_command=none
code=0

skip() {
    echo "skipped: $1"
    exit 77
}

# A failed expectation, with the last command and, once, what it said.
fail() {
    failures=$((failures + 1))
    echo "FAILED: $1"
    [ "$command_line" != "$told_command" ] || return 0
    told_command=$command_line
    echo "    command: $command_line"
    echo "    exit code: $code"
    sed 's/^/    out: /' "$work/out" | tail -n 12
    sed 's/^/    err: /' "$work/err" | tail -n 12
}

# End of a test: exit code 1 when anything failed.
finish() {
    [ "$failures" -eq 0 ] || { echo "$failures failed"; exit 1; }
    echo "all as expected"
    exit 0
}

# Run a command; its exit code is left in $code, its output in $work/out and $work/err.
run() {
    command_line=$*
    "$@" >"$work/out" 2>"$work/err"
    code=$?
}

# apart NAME COMMAND...: the same beside others, with & behind it. After wait, recall NAME leaves its result as run does.
apart() {
    apart_name=$1
    shift
    echo "$*" >"$work/$apart_name.command"
    "$@" >"$work/$apart_name.out" 2>"$work/$apart_name.err"
    echo $? >"$work/$apart_name.code"
}

recall() {
    command_line=$(cat "$work/$1.command")
    code=$(cat "$work/$1.code")
    cp "$work/$1.out" "$work/out"
    cp "$work/$1.err" "$work/err"
}

expect_code() {
    [ "$code" -eq "$1" ] || fail "exit code $1 expected: $2"
}

# expect_refused CODE WHAT MESSAGE COMMAND...: the command ends so, and nothing appears in the folder.
expect_refused() {
    wanted_code=$1 wanted_what=$2 message=$3
    shift 3
    before=$(ls -AR .)
    "$@"
    expect_code "$wanted_code" "$wanted_what"
    expect_err "$message"
    expect_equal "$(ls -AR .)" "$before" "$wanted_what: files"
}

# expect_end CODE WHAT COMMAND... - COMMAND, which is run or a function that calls it, ends with this exit code.
expect_end() {
    wanted_code=$1 wanted_what=$2
    shift 2
    "$@"
    expect_code "$wanted_code" "$wanted_what"
}

expect_err() {
    grep -Eq -- "$1" "$work/err" || fail "stderr should say: $1"
}

expect_out() {
    grep -Eq -- "$1" "$work/out" || fail "stdout should say: $1"
}

# As expect_out, wherever lines are broken to fit a terminal.
expect_out_joined() {
    tr -s '\n ' '  ' <"$work/out" | grep -Eq -- "$1" || fail "stdout should say, on any lines: $1"
}

# No line is wider than a terminal, but for those with paths; the programs stand where they were built, and count
# as ./ does.
expect_narrow() {
    expect_equal "$(grep -v -F "$work" "$work/out" | sed "s|$build/|./|g" | awk 'length > 80')" '' \
        "$1: lines of more than 80 columns"
}

expect_err_lines() {
    [ "$(wc -l <"$work/err")" -eq "$1" ] || fail "$1 lines expected on stderr"
}

expect_equal() {
    [ "$1" = "$2" ] || fail "$3: '$1' is not '$2'"
}

expect_same_file() {
    cmp -s "$1" "$2" || fail "$3: $1 and $2 differ"
}

# in_place DIRECTORY: what lets a run take the place of an earlier one that left results there and no state.
in_place() {
    [ ! -f "$1/summary.json" ] || ls "$1" | grep -q '^checkpoint-' || echo '--set run.resume=never'
}

# Train with the tiny configuration; results in $work/runs/NAME, in the place of others. Expects success.
train() {
    name=$1
    shift
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $(in_place "$work/runs/$name") "$@"
    expect_code 0 "training $name"
    [ ! -f "$work/runs/$name/summary.json" ] || expect_explained "$name"
}

# What the towers' steps add up to is no more than the time that passed. In the long run it is 99 % of it, or all but some
# milliseconds: threads have to wake, which on a busy machine takes as long as it likes. There and under a sanitizer half
# of a second may be missing.
expect_explained() {
    awk -v explained="$(summary "$1" explained)" -v seconds="$(summary "$1" seconds)" -v most="${2:-0.5}" -v long="$long" \
        'BEGIN { told = explained ~ /^[0-9]/ && explained > 0 && explained <= 1.01
                 exit !(told && (long != "yes" || explained >= 0.99 || (1 - explained) * seconds <= most)) }' ||
        fail "steps explain $(summary "$1" explained) of the time of run $1, $(summary "$1" seconds) s"
}

# As train, but tells only its exit code.
try() {
    name=$1
    shift
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $(in_place "$work/runs/$name") "$@"
}

# at PHASE ACTIONS WORD...: run_at (tests/e2e/run_at.c) with the options in $at_options, and the tiny
# configuration in $work/runs/at. Leaves $code, and in $ended_ms how long the end took after the last action.
at_options=
hang_seconds=120
at() {
    awaited=$1 actions=$2
    shift 2
    rm -rf "$work/runs/at"
    at_command "$awaited" $actions "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/at" "$@"
}

at_command() {
    command_line="run_at $at_options $*"
    ended_ms=0 code=99 phases=
    "$run_at" -t $hang_seconds $at_options "$@" >"$work/out" 2>"$work/err" || fail 'it did not end'
    read -r ended_ms code phases <<END
$(sed -n 's/.*code \([0-9]*\) ms \([0-9]*\) phases/\2 \1/p' "$work/out")
END
}

# A value of a run's summary.
summary() {
    "$json_value" "$work/runs/$1/summary.json" "$2"
}

expect_summary() {
    expect_equal "$(summary "$1" "$2")" "$3" "$2 of run $1"
}

# expect_near RUN KEY NUMBER LIMIT: a number of the run's summary is NUMBER but for LIMIT of its size.
expect_near() {
    awk -v a="$(summary "$1" "$2")" -v b="$3" -v limit="$4" \
        'BEGIN { d = a - b; if (d < 0) d = -d; exit !(b > 0 && d <= limit * b) }' ||
        fail "$2 of run $1 is $(summary "$1" "$2"), not $3 but for $4 of it"
}

# expect_alike RUN OTHER KEY...: samples, losses and these numbers are those of another run, the losses to rounding.
expect_alike() {
    alike=$1 other=$2
    shift 2
    for key in steps images validation.images sample_order_hash "$@"; do
        expect_summary "$alike" "$key" "$(summary "$other" "$key")"
    done
    expect_near "$alike" loss "$(summary "$other" loss)" 1e-5
    expect_near "$alike" validation.loss "$(summary "$other" validation.loss)" 1e-4
}

# The numbers of every report and evaluation of a run, without times.
numbers_of() {
    "$json_value" --lines "$work/runs/$1/metrics.jsonl" kind step loss accuracy
}

# Flip bit 3 of the byte at OFFSET of FILE.
flip() {
    old=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    new=$((old ^ 8))
    printf "$(printf '\\%03o' "$new")" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# $work/data: 600 training digits in 4 shards, 150 for validation; $work/tiny.conf trains on them.
make_tiny() {
    run "$convert" digits --train 600 --validation 150 -o "$work/data"
    [ "$code" -eq 0 ] || { fail "no data"; finish; }
    cat >"$work/tiny.conf" <<END
[data]
train = $work/data/train-*
validation = $work/data/validation-*
[train]
epochs = 1
batch = 64
[devices]
kind = $kind
threads_per_tower = 1
[report]
interval = 1
progress = none
END
}

# make_jpegs SET CLASSES EACH FRACTION: photos/CLASS/*.jpg here, so many of each class, and shards of them in the folder
# SET, of which a fraction is for validation.
make_jpegs() {
    "$build/tests/e2e/use/jpeg_maker" photos "$2" "$3" && "$convert" folder photos -o "$1" --validation="$4" >/dev/null 2>&1 ||
        { fail 'no JPEGs'; finish; }
}

# write_jpeg_conf FILE SET LENGTH: a configuration that trains on such a set, with a line for its length, as 'steps = 3'.
write_jpeg_conf() {
    cat >"$1" <<END
[data]
train = $2/train-*
validation = $2/validation-*
[model]
name = mnist_cnn
[train]
batch = 10
$3
[devices]
kind = $kind
threads_per_tower = 1
[report]
progress = none
END
}

# A network in $work/smooth.net with neither ReLU nor maximum: where both are, one rounding may turn a gradient aside, or
# hide what is no number.
make_smooth() {
    cat >"$work/smooth.net" <<'END'
model smooth
image 28x28x1
classes 10
conv2d c1 filters 6 kernel 3 stride 2
average_pool p1 kernel 2 stride 2
dense fc1 units classes
softmax_loss loss
END
}

# A network of some thousand weights for the tiny configuration, in $work/quick.net: the kinds of layers that mnist_cnn has,
# and a hundredth of its time. For tests of what a run does with its steps, states and files, whatever is computed.
make_quick() {
    cat >"$work/quick.net" <<'END'
model quick
image 28x28x1
classes 10
conv2d conv1 filters 6 kernel 5 stride 2
relu relu1
max_pool pool1 kernel 2 stride 2
dropout dropout1 rate 0.25
dense fc1 units classes
softmax_loss loss
END
    printf '[model]\nfile = %s\n' "$work/quick.net" >>"$work/tiny.conf"
}

# The network of tests that compare what is computed: the quick one, in the long run and on GPUs mnist_cnn.
make_network() {
    case $long,$kind,$simulated in no,cpu,* | *,yes) make_quick ;; esac
}

# await WORD...: until that command succeeds, or for a minute; it is looked for every hundredth of a second at first.
await() {
    polls=0
    until "$@" || [ $polls -ge 1000 ]; do
        sleep "$([ $polls -lt 100 ] && echo 0.01 || echo 0.1)"
        polls=$((polls + 1))
    done
}

# stand_still "STAGE CALL" OPTION...: start a run of the tiny configuration, process $pid, that stands still for minutes in
# that call of the stage (limits/slow.c), wherever the machine's speed takes it meanwhile; and wait until it stands there.
stand_still() {
    stage=${1% *} call=${1#* }
    shift
    rm -f "$work/still"
    command_line="pipetrain_slow $stage $call $*"
    PIPETRAIN_SLOW="$stage 300000000 $call" PIPETRAIN_SLOW_TOLD="$work/still" "$slow" -c "$work/tiny.conf" "$@" \
        >"$work/out" 2>"$work/err" &
    pid=$!
    await has_stopped
    [ -e "$work/still" ] || fail "the run never comes to $stage $call"
}

has_stopped() {
    [ -e "$work/still" ] || ! kill -0 $pid 2>/dev/null
}

# killed_at "STAGE CALL" FILE OPTION...: the same, killed there as soon as the file exists.
killed_at() {
    moment=$1 file=$2
    shift 2
    stand_still "$moment" "$@"
    await test -e "$file"
    [ -e "$file" ] || fail "$file is never written"
    kill -KILL $pid
    { wait $pid; } 2>/dev/null
}

# slowly WORD...: that command of the shell, whose pipetrain waits in every step for a twentieth of a second: its time
# passes, or a signal comes, long before it is over, and little is computed meanwhile. So does "env $slowed $slow".
slowed='PIPETRAIN_SLOW=update 50000'
slowly() {
    fast=$pipetrain
    pipetrain=$slow PIPETRAIN_SLOW=${slowed#*=}
    export PIPETRAIN_SLOW
    "$@"
    pipetrain=$fast
    unset PIPETRAIN_SLOW
}
