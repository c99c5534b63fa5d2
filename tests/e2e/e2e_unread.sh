#!/bin/sh
# Whatever becomes of stdout and stderr, the training goes to its end or ends when it is asked to: pipes
# that nobody reads or whose reader is gone, full disks, terminals that are stopped or closed.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_smooth                     # what is shown does not depend on the network
printf '[model]\nfile = %s\n' "$work/smooth.net" >>"$work/tiny.conf"
# An alarm; in the long run how soon it is meant to end, 2 s of it for what nobody reads, in case somebody does.
limit_ms=60000
[ "$long" = no ] || [ "$sanitizer" != no ] || limit_ms=4500
told='--set report.progress=line --set report.pace=0 --set data.validation= --set train.epochs=10 --set train.batch=16'
endless="--set report.progress=line --set report.pace=0 --set data.validation= --set train.epochs=100000 --set train.batch=16"

expect_soon() {
    [ "$ended_ms" -le $limit_ms ] || fail "the end took $ended_ms ms"
}

expect_results() {
    for file in weights.safetensors summary.json metrics.jsonl; do
        [ -s "$work/runs/at/$file" ] || fail "no $file"
    done
}

# The training goes to its end. Results that nobody got are an error, messages are not.
for case in '-e unread:0' '-e broken:0' '-o unread -e unread:5' '-o terminal -e terminal:0'; do
    at_options=${case%:*}
    at never none $told --set train.steps=30
    expect_code "${case##*:}" "at the end with $at_options"
    expect_results
    expect_summary at steps 30
done
for case in 'broken:Broken pipe' 'unread:nobody reads'; do
    at_options="-o ${case%:*}"
    at never none --set train.steps=3
    expect_code 5 "results that are $at_options"
    expect_summary at steps 3
    expect_err_lines 1
    expect_err "standard output: .*${case#*:}"
done

# A check whose reader has seen enough ends by the signal, without a message.
{ "$pipetrain" -c "$work/tiny.conf" $told --check 2>"$work/check.err"; echo $? >"$work/check.code"; } | true
case $(cat "$work/check.code") in 0 | 141) ;; *) fail "--check | true: $(cat "$work/check.code")" ;; esac
! grep -q 'standard output' "$work/check.err" || fail "--check | true: $(cat "$work/check.err")"

at_options='-o unread'
at_command never none "$pipetrain" --describe
expect_code 5 'models that nobody reads'

# It ends when it is asked to; asked twice it does not save.
for at_options in '-e unread' '-o unread -e unread' '-o broken -e broken' '-o terminal -e terminal'; do
    at training TERM $endless
    expect_code 75 "SIGTERM with $at_options"
    expect_soon
    expect_results
    at training INT,TERM $endless
    [ $code -eq 130 ] || fail 'two requests'
    [ "$ended_ms" -le $((limit_ms - 2000)) ] || fail "the end took $ended_ms ms after two requests"
done
at_options='-o terminal -e terminal'
at training stop,wait,TERM $endless
expect_code 75 'SIGTERM in a stopped terminal'
expect_soon
expect_results
# A network that computes for a while, and no pause: the terminal is stopped long before the end.
at_options="$at_options -w 0"
at training stop $told --set train.steps=100 --set model.file= --set model.name=mnist_cnn
expect_code 5 'results that stay in a stopped terminal'
expect_summary at steps 100

# A terminal that is closed sends SIGHUP twice, and what is said goes nowhere.
at_options='-o terminal -e terminal'
for try in $([ "$long" = yes ] && seq 5 || echo 1); do
    at training close $endless
    expect_code 75 "closed terminal, try $try"
    expect_results
done

# As a shell redirects.
for words in '>&-' '2>&-' '>&- 2>&-' '2>/dev/full'; do
    at_options=
    rm -rf "$work/runs/at"
    at_command training TERM sh -c "exec \"\$0\" \"\$@\" $words" "$pipetrain" -c "$work/tiny.conf" \
        --set "run.dir=$work/runs/at" $endless
    expect_code 75 "SIGTERM with $words"
    expect_results
done
# Nobody reads stdout: the training goes on.
command_line='pipetrain | head -n 1'
"$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/piped" --set train.epochs=2 2>"$work/err" |
    head -n 1 >"$work/out"
[ -s "$work/runs/piped/summary.json" ] || fail 'a closed pipe ends the training'
expect_summary piped steps 20
command_line='pipetrain >&-'
"$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/closed" >&- 2>"$work/err"
[ -s "$work/runs/closed/summary.json" ] || fail 'a closed stdout ends the training'
if [ -w /dev/full ]; then
    run sh -c "'$pipetrain' -c '$work/tiny.conf' --set 'run.dir=$work/runs/full' >/dev/full"
    expect_code 5 'stdout on a full disk'
    [ -s "$work/runs/full/summary.json" ] || fail 'a full disk behind stdout ends the training'
    expect_err_lines 1
fi
finish
