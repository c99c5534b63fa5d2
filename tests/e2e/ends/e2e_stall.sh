#!/bin/sh
# A tower on a CPU that computes for ever ends the run with exit code 70 and one message that names the tower, the step and
# what it computed. A long step, a slow one, and a process that was stopped are no stalls.
. "$(dirname "$0")/../e2e.sh"
[ "$kind" = cpu ] || skip 'GPUs: e2e_hang.sh'
[ "$sanitizer" = no ] || skip 'everything takes longer'
make_tiny
make_quick
"$pipetrain" -c "$work/tiny.conf" --check | grep -q '^devices .*onednn' || skip 'only oneDNN computes in teams'
deadline=1
longer='(, and much longer than ever before)?'          # where other programs kept a layer waiting

# slowly_apart NAME WHAT OPTION...: a run with PIPETRAIN_SLOW=WHAT, beside others: they wait more than they compute.
slowly_apart() {
    name=$1 slowed=$2
    shift 2
    apart "$name" env "PIPETRAIN_SLOW=$slowed" timeout 100 "$slow" -c "$work/tiny.conf" \
        --set "run.dir=$work/runs/$name" --set sync.deadline=$deadline --set train.steps=6 --set data.validation= "$@"
}

# evaluate_apart NAME WHAT OPTION...: the same for an evaluation of the weights in runs/trained.
evaluate_apart() {
    name=$1 slowed=$2
    shift 2
    apart "$name" env "PIPETRAIN_SLOW=$slowed" timeout 100 "$slow" evaluate -c "$work/tiny.conf" \
        --set "run.dir=$work/runs/trained" --set sync.deadline=$deadline "$@"
}
train trained --set train.steps=1

# A tower that computes for ever.
evaluate_apart hang-evaluation 'loop 900000000 20' --set train.batch=10 &
slowly_apart hang 'loop 900000000 40' &
slowly_apart hang-towers 'loop 900000000 40' --set devices.towers=2 &
slowly_apart hang-microbatches 'loop 900000000 40' --set train.accumulate=2 &
# The whole step takes three deadlines and more, the first one included, and each part of it less than one.
slowly_apart long 'loop 500000' --set train.steps=1 &
# Waiting is no computing: for input, for the other tower, for main.
slowly_apart input 'decode 2500000 40' --set devices.towers=2 --set input.decode_threads=1 --set train.batch=40 &

# A process that was stopped for longer than the deadline.
env "PIPETRAIN_SLOW=loop 300000 10" "$slow" -c "$work/tiny.conf" --set "run.dir=$work/runs/stopped" --set data.validation= \
    --set sync.deadline=$deadline --set train.steps=6 >"$work/out" 2>"$work/err" &
pid=$!
await test -d "$work/runs/stopped"
kill -STOP $pid
sleep 2.5
kill -CONT $pid
wait $pid
code=$?
expect_code 0 'a process that was stopped'
wait

for name in hang hang-towers hang-microbatches; do
    recall $name
    expect_code 70 'a tower that computes for ever'
    expect_err "^pipetrain: tower [01] \\(cpu\\): no progress for [0-9.]+ s \\(sync\\.deadline$longer\\) in step [1-6]: (computing a layer \\([a-z0-9]+\\)|updating weights|converting its input)"
    expect_equal "$(grep -c 'no progress' "$work/err")" 1 'messages of a hang'
done
recall hang-evaluation
expect_code 70 'an evaluation that computes for ever'
expect_err '^pipetrain: tower 0 \(cpu\): no progress for [0-9.]+ s \(sync\.deadline'"$longer"'\) in evaluation batch [0-9]+: computing a layer \([a-z0-9]+\)'
recall long
expect_code 0 'a long step'
recall input
expect_code 0 'slow input'
finish
