#!/bin/sh
# The trace of a run: it reads as JSON, its spans lie in each other, every batch has a flow from its read to its
# update, it opens wherever it is cut off; and whatever becomes of it, the run is the same.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_smooth                     # what is shown does not depend on the network
printf '[model]\nfile = %s\n' "$work/smooth.net" >>"$work/tiny.conf"
check=$build/tests/e2e/trace/trace_check
[ -x "$check" ] || { echo "not built: $check"; exit 99; }
trace=$work/trace.json

# looks FILE [--whole]: leaves what trace_check tells in $spans, $flows, $first, $last and $threads.
looks() {
    spans=0 flows=0 first=0 last=0 threads=0
    "$check" "$@" >"$work/seen" 2>"$work/wrong" || fail "$1: $(cat "$work/wrong")"
    read -r spans flows first last threads <"$work/seen"
}

two_towers='--set devices.towers=2 --set data.validation= --set train.batch=20 --set input.read_threads=1
    --set input.decode_threads=2'

# ---- a window of steps ----

train plain $two_towers
rm -f "$trace"
train window $two_towers --set "report.trace=$trace" --set report.trace_steps=5..12
looks "$trace" --whole
expect_equal "$first $last" '4 11' 'the first and the last batch of steps 5 to 12'
expect_equal "$flows" 16 'flows: one for each batch of each tower'
# main, a reader, two decoders, and of each tower feeder, copies, tower and reduction
expect_equal "$threads" 12 'threads and streams with spans'
expect_same_file "$work/runs/plain/weights.safetensors" "$work/runs/window/weights.safetensors" 'weights with a trace'
grep -q '"ph":"C".*"images/s"' "$trace" || fail 'images/s are counted'
grep -q '"ph":"C".*"full batches 1"' "$trace" || fail 'the fill of rings is counted'
grep -q '"ph":"C".*"filled slots 1"' "$trace" || fail 'the fill of slots is counted'
for name in read decode feed copy step forward backward update reduce 'wait for room' 'wait for towers'; do
    grep -q "\"ph\":\"X\".*\"name\":\"$name\"" "$trace" || fail "a span '$name' is expected"
done
for name in 'main 0' 'reader 0' 'decoder 1' 'feeder 1' 'copies 1' 'tower 1' 'reduction 1'; do
    grep -q "\"thread_name\",\"args\":{\"name\":\"$name\"}" "$trace" || fail "a thread '$name' is expected"
done

# ---- the last steps; evaluations are in it ----

train all --set devices.towers=2 --set train.epochs=2 --set "report.trace=$work/all.json"
looks "$work/all.json" --whole
expect_equal "$first" 0 'the first batch of a run that is not longer than the room'
grep -q '"name":"evaluation"' "$work/all.json" || fail 'evaluations are expected'
train long --set devices.kind=null --set data.validation= --set train.batch=2 --set train.epochs=12 \
    --set "report.trace=$work/long.json"
looks "$work/long.json" --whole
expect_equal "$last" 3599 'the last batch of a run that is longer than the room'
[ "$first" -gt 0 ] || fail 'the first batches are forgotten'

# ---- cut off anywhere ----

bytes=$(wc -c <"$trace")
for part in 0 1 2 3 5 7 11 13 50 91 99; do
    head -c $((bytes * part / 100)) "$trace" >"$work/cut.json"
    looks "$work/cut.json"
done
[ "$spans" -gt 100 ] || fail 'spans of a trace that lacks its end'
head -c $((bytes - 1)) "$trace" >"$work/cut.json"
looks "$work/cut.json"
sed '/"name":"reader 0"/d' "$trace" >"$work/broken.json"
"$check" "$work/broken.json" >"$work/seen" 2>&1 && fail 'a trace without the name of a thread is not right'
sed 's/"name":"read","ts":[0-9]*/"name":"read","ts":1/' "$trace" >"$work/broken.json"
"$check" "$work/broken.json" >"$work/seen" 2>&1 && fail 'a trace whose reads are at other times is not right'

# ---- synthetic input ----

train synthetic --set input.source=synthetic --set data.validation= --set "report.trace=$trace"
looks "$trace"
expect_equal "$first $last $flows" '0 9 10' 'batches and flows of synthetic input'

# ---- runs that end early ----

rm -f "$trace"
at training TERM --set train.epochs=100000 --set "report.trace=$trace"
expect_code 75 'a run that is asked to stop'
looks "$trace"
expect_equal "$(tail -n 1 "$trace")" ']' 'the end of its trace'
[ "$flows" -gt 0 ] || fail 'flows of a run that was asked to stop'
cp -r "$work/data" "$work/damaged"
shard=$(ls "$work/damaged"/train-*0003-of-* | head -n 1)
flip "$shard" 4000
try damaged --set "data.train=$work/damaged/train-*" --set data.shuffle=none --set "report.trace=$work/failed.json" \
    --set input.source=real
[ "$code" -ne 0 ] || fail 'a damaged record ends the run'
looks "$work/failed.json"
[ "$spans" -gt 0 ] || fail 'spans of a run that failed'

# ---- ranges of a profiler, where the program was built with CUDA's headers ----

compiler=${CC:-cc}
tool=$work/nvtx_tool.so
case ${PIPETRAIN_CPPFLAGS:-}:$sanitizer in
*-isystem*:no)
    if ! command -v "${compiler%% *}" >/dev/null; then
        echo "not looked at, without $compiler: ranges of a profiler"
    elif ! $compiler -std=c11 -D_GNU_SOURCE -O2 -shared -fPIC $PIPETRAIN_CPPFLAGS -o "$tool" \
        "$(dirname "$0")/nvtx_tool.c" 2>"$work/err"; then
        fail "$compiler does not compile nvtx_tool.c: $(cat "$work/err")"
    else
        NVTX_INJECTION64_PATH=$tool NVTX_TOOL_OUTPUT=$work/ranges
        export NVTX_INJECTION64_PATH NVTX_TOOL_OUTPUT
        train ranges $two_towers
        unset NVTX_INJECTION64_PATH NVTX_TOOL_OUTPUT
        for name in read decode feed 'wait for room' 'wait for records' 'wait for batch' 'wait for slot' 'input wait' \
            step forward backward update 'wait for towers'; do
            grep -q "^$name [0-9]" "$work/ranges" || fail "a range '$name' is expected"
        done
        expect_equal "$(sed -n 's/^step //p' "$work/ranges")" 60 'steps of two towers as ranges'
        expect_equal "$(tail -n 2 "$work/ranges" | tr '\n' ' ')" 'open 0 ends without begin 0 ' 'ranges that end'
        expect_same_file "$work/runs/plain/weights.safetensors" "$work/runs/ranges/weights.safetensors" \
            'weights with ranges'
    fi ;;
esac

# ---- what is wrong ----

try path --set "report.trace=$work/no/such/folder.json"
expect_code 0 'a trace that cannot be written'
expect_err "$work/no/such/folder.json: cannot write the trace: No such file or directory: the run continues without"
expect_err_lines 1
try checked --set "report.trace=$work/no/such/folder.json" --check
expect_code 0 'a check of a trace that cannot be written'
expect_err "$work/no/such/folder.json: cannot write the trace: No such file or directory"
try checked --set "report.trace=$work/checked.json" --check
expect_err_lines 0
[ ! -e "$work/checked.json" ] || fail 'a check leaves a trace'
echo 'not a trace' >"$work/notes"
cp "$work/notes" "$work/notes.before"
try others --set "report.trace=$work/notes"
expect_code 0 'a file that is no trace'
expect_err "$work/notes: cannot write the trace: the existing file is not a trace: the run continues without"
expect_same_file "$work/notes" "$work/notes.before" 'a file that is no trace'
: >"$work/empty"
try empty --set "report.trace=$work/empty"
looks "$work/empty"
try no_trace --set report.trace_steps=2..3
expect_code 0 'steps of no trace'
expect_err 'report.trace_steps = 2..3 has no effect without report.trace$'
if [ -w /dev/full ]; then
    try full --set report.trace=/dev/full
    expect_code 0 'a trace without room'
    expect_err '/dev/full: cannot write the trace: No space left on device'
fi
try late --set "report.trace=$trace" --set report.trace_steps=100000..100010
expect_code 0 'steps the run does not have'
expect_err 'the run ends before steps 100000..100010'
looks "$trace"
for steps in 5 5.. 0..3 9..8 a..b 1..2..3 1...3; do
    try steps --set "report.trace=$trace" --set "report.trace_steps=$steps"
    expect_code 2 "report.trace_steps=$steps"
    expect_err "trace_steps: '$steps' is not a range of steps, counted from 1, as in 100..299"
done
finish
