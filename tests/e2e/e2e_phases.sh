#!/bin/sh
# Every request in every phase, once and twice: the run ends soon with its code and one message, with whole
# results or without any. What is ignored when the program starts stays ignored.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_quick
limit_ms=60000 steps=6 once='TERM INT HUP USR1 HUP,HUP HUP,USR1,TERM' twice='TERM,TERM INT,INT INT,TERM HUP,TERM,INT'
[ "$sanitizer" = no ] || once='INT HUP,HUP' twice=INT,TERM
[ "$sanitizer$long" != noyes ] || limit_ms=2000             # in every run an alarm only: a busy machine takes its time

settings='--set train.epochs=100000 --set train.batch=16'
evaluating="$settings --set data.train=$work/data/train-00000-* --set data.validation=$work/data/train-*
    --set data.allow_overlap=yes"
short='--set train.steps=3'

# What a run has to train on so that it stays in a phase, or comes to it.
settings_of() {
    case $1 in
        evaluating) echo "$evaluating" ;;
        saving | closing) echo "$short" ;;
        *) echo "$settings" ;;
    esac
}

code_of() {
    case $1 in
        INT*) echo 130 ;;
        *) echo 75 ;;
    esac
}

# All of the results, or none where no step was made.
expect_whole_or_nothing() {
    if [ -e "$work/runs/at/summary.json" ] || [ -e "$work/runs/at/weights.safetensors" ]; then
        [ -s "$work/runs/at/summary.json" ] && [ -s "$work/runs/at/weights.safetensors" ] || fail 'half of the results'
    else
        case $phases in *training*) fail "no results after $phases" ;; esac
    fi
    find "$work/runs" -name '*.tmp*' 2>/dev/null | grep -q . && fail 'temporary files left'
}

for phase in start indexing planning allocating 'first step' training evaluating saving closing; do
    at_options='-w 1'
    for actions in $once; do
        at "$phase" $actions $(settings_of "$phase")
        case $phases in *"$phase"*) ;; *) fail "never $phase" ;; esac
        if [ $code -ne 0 ] || { [ "$phase" != saving ] && [ "$phase" != closing ]; }; then
            expect_code "$(code_of $actions)" "$actions at $phase"
        fi
        [ "$ended_ms" -le $limit_ms ] || fail "the end took $ended_ms ms"
        messages=$(grep -cE 'interrupted|asked to stop' "$work/err")
        # A request may come when nothing is left to be done: saving takes less than a busy machine lets it wait.
        case $phase:$code:$messages in
            *:1 | saving:0:0 | closing:0:0) ;;
            *) fail 'not one message' ;;
        esac
        expect_whole_or_nothing
    done
done

# A second wish does not wait: an end at once, or the end that was under way.
for phase in start training evaluating saving; do
    for actions in $twice; do
        at $phase $actions $(settings_of $phase)
        [ $code -eq 130 ] || [ $code -eq "$(code_of $actions)" ] || [ $phase:$code = saving:0 ] ||
            fail "$actions at $phase"
        [ "$ended_ms" -le $limit_ms ] || fail "the end took $ended_ms ms"
    done
done

# As nohup and a shell's background job start a program.
for signal in HUP INT TERM USR1; do
    at_options="-i $signal"
    slowly at training $signal,$signal --set train.steps=$steps --set train.batch=16 \
        --set data.validation=
    expect_code 0 "SIG$signal is ignored"
    expect_summary at steps $steps
    expect_err_lines 0
done

# A configuration that never comes.
mkfifo "$work/fifo"
for actions in TERM:75 INT:130 HUP:75 USR1:75; do
    at_options=
    at_command start "${actions%:*}" "$pipetrain" -c "$work/fifo"
    expect_code "${actions#*:}" 'waiting for the configuration'
    expect_err 'nothing was begun'
done

# SIGQUIT is not a request.
ulimit -c 0
at training QUIT $settings
expect_code 131 SIGQUIT
finish
