#!/bin/sh
# A run that is asked to end ends soon, with its code, and leaves its results; two runs never
# share a directory.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_quick
limit_seconds=60                            # an alarm; on a machine that is not busy it is two
[ "$sanitizer$long" != noyes ] || limit_seconds=2

# Start a run that would take long, and wait until it trains. SIGINT is ignored in background jobs of a shell
# without job control: env puts it back.
start_long() {
    name=$1
    shift
    command_line="long run $name $*"
    env --default-signal=INT "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" \
        --set train.epochs=100000 --set train.batch=16 "$@" >"$work/out" 2>"$work/err" &
    pid=$!
    await it_trains
}

it_trains() {
    [ -s "$work/runs/$name/metrics.jsonl" ] || ! kill -0 $pid 2>/dev/null
}

# Send a signal and check how long the end takes.
end_with() {
    begun=$(date +%s%N)
    kill -s "$1" $pid
    wait $pid
    code=$?
    ended_ms=$((($(date +%s%N) - begun) / 1000000))
    [ $ended_ms -le $((limit_seconds * 1000)) ] || fail "the end took $ended_ms ms"
}

for towers in 1 3; do
    for request in INT:130 TERM:75; do
        signal=${request%:*}
        saves=$([ "$signal" = INT ] && echo no || echo yes)
        start_long "$signal-$towers" --set devices.towers=$towers --set checkpoint.on_stop=$saves
        end_with "$signal"
        expect_code "${request#*:}" "after SIG$signal with $towers towers"
        for file in weights.safetensors summary.json metrics.jsonl run.conf; do
            [ -s "$work/runs/$signal-$towers/$file" ] || fail "no $file after SIG$signal"
        done
        if [ $saves = yes ]; then
            expect_out_joined 'next +run the same command again to resume after step [0-9]+'
        else
            expect_out_joined "next +the same command with --set run.resume=never starts from scratch, because no checkpoint was saved .*model.weights=$work/runs/"
        fi
        steps=$(summary "$signal-$towers" steps)
        expect_equal "$(summary "$signal-$towers" images)" "$(((steps / 38) * 600 + (steps % 38) * 16))" \
            'images of whole steps'
        expect_equal "$(summary "$signal-$towers" ended)" "$([ "$signal" = INT ] && echo interrupted || echo asked to stop)" \
            "how the run ended after SIG$signal"
    done
done

# Slurm sends SIGTERM twice when a job has to end.
SLURM_JOB_ID=1
export SLURM_JOB_ID
slowly start_long job
unset SLURM_JOB_ID
kill -s TERM $pid
sleep 0.01
end_with TERM
expect_code 75 'after two SIGTERM of Slurm'
expect_err '^asked to stop: finishing this step and saving$'
expect_out_joined 'next +run the same command again to resume after step [0-9]+'

# As many steps, not interrupted, have the same weights: the state was a step's. This run takes as
# long as the interrupted one did.
steps=$(summary INT-1 steps)
[ "$steps" -lt $((100000 * 38)) ] || fail 'the run was over before it was interrupted'
train whole --set train.epochs=100000 --set train.steps="$steps" --set train.batch=16 --set data.validation=
expect_same_file "$work/runs/INT-1/weights.safetensors" "$work/runs/whole/weights.safetensors" 'an interrupted run'

# What is advised then works, in the same directory, too.
train INT-1 --set model.weights="$work/runs/INT-1/weights.safetensors" --set train.steps=1
expect_out_joined 'weights +4 of 4 tensors from .*INT-1/weights.safetensors'

# Most of this run is evaluation.
start_long evaluating --set data.train="$work/data/train-00000-*" --set data.validation="$work/data/train-*" \
    --set data.allow_overlap=yes
end_with INT
expect_code 130 'during evaluation'
images=$(summary evaluating validation.images)
if [ "$images" -gt 0 ] && [ "$images" -lt 600 ]; then
    expect_summary evaluating validation.complete false
    expect_out '^result +not evaluated: the run ended during the evaluation$'
fi

# The validation of an epoch before is told with its step, when the next one has begun.
start_long behind
is_behind() {
    [ "$(tail -n +40 "$work/runs/behind/metrics.jsonl" | wc -l)" -gt 0 ]
}
await is_behind
end_with INT
steps=$(summary behind steps)
if [ $((steps % 38)) -ne 0 ]; then
    expect_summary behind validation.complete true
    tr -d , <"$work/out" | tr -s '\n ' '  ' | grep -q " loss [^ ]* at step $((steps / 38 * 38)) of $steps " ||
        fail 'of which step the validation is'
fi

# A second run in the same directory is refused while the first one lasts.
start_long shared --set checkpoint.on_stop=no
first_pid=$pid
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/shared" --set train.steps=1
expect_code 5 'a directory in use'
expect_err 'another run'
pid=$first_pid
end_with TERM
expect_code 75 'the first run goes on'
try shared --set train.steps=1
expect_code 0 'the directory is free again'

# A run that was killed leaves a directory that can be used again.
start_long killed --set checkpoint.keep_best=no
kill -s KILL $pid
{ wait $pid; } 2>/dev/null
"$json_value" --lines "$work/runs/killed/metrics.jsonl" step >/dev/null || fail 'metrics of a killed run'
[ ! -e "$work/runs/killed/summary.json" ] || fail 'a killed run has a summary'
try killed --set train.steps=1
expect_code 0 'the directory of a killed run'

finish
