#!/bin/sh
# The trace of a run on the simulated CUDA: the spans of copies and towers come from a device's events.
. "$(dirname "$0")/../sim.sh"
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_smooth                     # what is shown does not depend on the network
printf '[model]\nfile = %s\n' "$work/smooth.net" >>"$work/tiny.conf"
check=$build/tests/e2e/trace/trace_check
trace=$work/trace.json

train traced --set devices.towers=2 --set train.batch=20 --set train.epochs=2 --set data.limit=60 \
    --set input.read_threads=1 --set input.decode_threads=2 --set sync.bucket=8KiB --set "report.trace=$trace"
"$check" "$trace" --whole >"$work/seen" 2>"$work/wrong" || fail "$trace: $(cat "$work/wrong")"
read -r spans flows first last threads <"$work/seen"
# Two passes of three steps and three batches of evaluation; of both towers.
expect_equal "$first $last $flows" '0 11 24' 'batches and flows'
# main, a reader, two decoders, and of each tower feeder, copies, tower and reduction
expect_equal "$threads" 12 'threads and streams with spans'
for name in read decode feed copy step evaluation forward backward update reduce; do
    grep -q "\"ph\":\"X\".*\"name\":\"$name\"" "$trace" || fail "a span '$name' is expected"
done

# The device's spans of a tower take the time that the run says it took.
sed -n 's/.*"name":"\(forward\|backward\)".*"dur":\([0-9.]*\).*/\1 \2/p' "$trace" |
    awk '{ spent[$1] += $2; count[$1]++ }
        END { print count["forward"], count["backward"], (spent["backward"] > 0) }' >"$work/seen"
expect_equal "$(cat "$work/seen")" '24 12 1' 'forward and backward passes, and that they take time'

# Of every step each tower sums its shares of both buckets, from its beginning to its end; what a busy machine is late by
# when clocks are set is left aside.
sed -n 's/.*"tid":\([0-9]*\),.*"name":"\(step\|reduce\)","ts":\([0-9.]*\),"dur":\([0-9.]*\),"args":{"batch":\([0-9]*\).*/\1 \2 \3 \4 \5/p' \
    "$trace" | awk '{ at = $1 % 1000 " " $5 } $2 == "step" { begin[at] = $3; end[at] = $3 + $4; steps++ }
        $2 == "reduce" { tower[++sums] = at; from[sums] = $3; to[sums] = $3 + $4 }
        END { for (i = 1; i <= sums; i++)
                out += from[i] < begin[tower[i]] - 50000 || to[i] > end[tower[i]] + 50000
            print steps, sums, out + 0 }' >"$work/seen"
expect_equal "$(cat "$work/seen")" '12 24 0' 'steps, sums, and sums that are not in their step'

train plain --set devices.towers=2 --set train.batch=20 --set train.epochs=2 --set data.limit=60 \
    --set input.read_threads=1 --set input.decode_threads=2 --set sync.bucket=8KiB
expect_same_file "$work/runs/plain/weights.safetensors" "$work/runs/traced/weights.safetensors" 'weights with a trace'
finish
