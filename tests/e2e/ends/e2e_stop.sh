#!/bin/sh
# A run that is asked to stop leaves a state without being told to save any, and the same command goes on from it, up to
# what a run that was left alone ends with. A run that comes to its end leaves none.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick

. "$(dirname "$0")/../resume/resume.sh"

resumed whole
expect_code 0 'a run that is left alone'
expect_equal "$(states whole)" '' 'states of a run that came to its end'
[ -z "$(grep checkpoint- "$work/out")" ] || fail 'a state is told of'
promise='SIGTERM, SIGUSR1 save a checkpoint; the same command resumes$'
expect_out "^stop +(Ctrl-C, )?$promise"
expect_narrow 'the first lines of a run'
run sh -c 'trap "" INT; exec "$@"' sh "$pipetrain" -c "$work/tiny.conf" --check
expect_out "^stop +$promise"
run "$pipetrain" -c "$work/tiny.conf" --check --set checkpoint.on_stop=no
[ -z "$(sed -n '/^stop/p' "$work/out")" ] || fail 'a state is promised that will not be saved'

# stopped NAME SIGNAL CODE OPTION...: asked to stop while it trains, then the same command.
stopped() {
    name=$1 signal=$2 expected=$3
    shift 3
    at_options=
    at_command training "$signal" env "$slowed" "$slow" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $settings "$@"
    [ "$code" -ne 0 ] || return 0           # the signal came ten seconds late
    stopped_runs=$((stopped_runs + 1))
    expect_code "$expected" "SIG$signal"
    expect_equal "$(states "$name" | wc -l)" 1 "states after SIG$signal"
    expect_out_joined 'next +run the same command again to resume after step [0-9]+'
    steps=$(summary "$name" steps)
    resumed "$name" "$@"
    expect_code 0 "the same command after SIG$signal"
    expect_out "resume +at step $steps of 228"
    expect_summary "$name" ended finished
    expect_same_run whole "$name"
}
stopped_runs=0
for request in TERM:75 USR1:75 HUP:75 INT:130; do
    stopped "by-${request%:*}" "${request%:*}" "${request#*:}"
done
[ "$stopped_runs" -gt 0 ] || fail 'every signal came when the run was over'

# In a directory that the program names, too: not runs/NAME-2.
cd "$work" || exit 99
at_command training TERM env "$slowed" "$slow" -c tiny.conf $settings
if [ "$code" -ne 0 ]; then
    expect_code 75 'SIGTERM without run.dir'
    run "$pipetrain" -c tiny.conf $settings
    expect_code 0 'the same command without run.dir'
    expect_out '^resume '
    [ ! -e runs/tiny-2 ] || fail 'the same command begins anew'
fi

# ---- by the clock ----

many='--set train.epochs=100000'
slowly resumed clock $many --set 'train.max_time=1 seconds'
expect_code 0 'the clock'
expect_out_joined 'next +run the same command again to resume after step [0-9]+'
steps=$(summary clock steps)
slowly resumed clock $many --set 'train.max_time=1 seconds'
expect_code 0 'the clock, again'
expect_out_joined 'resume +at step .* from'
[ "$(summary clock steps)" -gt "$steps" ] || fail 'the run does not go on'
resumed clock --set train.epochs=1 --set train.steps=1
expect_code 2 'fewer steps than were done'
expect_err 'is after step [0-9,]+, but this run ends at step 1: to resume it set more train.steps or train.epochs'
expect_err 'to start anew, --set run.dir=OTHER uses another directory, --set run.resume=never this one'

# An end by what was learnt is an end.
resumed learnt --set train.stop_at=0.05
expect_summary learnt ended stop_at
expect_equal "$(states learnt)" '' 'states of a run that reached its accuracy'

# ---- without ----

slowly resumed unsaved $many --set 'train.max_time=1 seconds' --set checkpoint.on_stop=no
expect_code 0 'no state is wanted'
expect_out_joined 'next +the same command with --set run.resume=never starts from scratch, because no checkpoint was saved'
expect_equal "$(states unsaved)" '' 'states that nobody wanted'
finish
