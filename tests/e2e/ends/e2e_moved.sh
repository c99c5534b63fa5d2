#!/bin/sh
# The directory of a run is moved, replaced, emptied or removed while the run writes there: that is told, with the place
# where the results are, and the exit code is 5. Without it results would be missed where they were asked for.
. "$(dirname "$0")/../e2e.sh"
make_tiny
cd "$work" || exit 99

# long DIR - train in the background, up to a day, and wait for the first lines of metrics.jsonl
long() {
    command_line="a long run in $1"
    "$pipetrain" -c tiny.conf --set "run.dir=$1" --set train.epochs=1000000 --set train.batch=100 \
        --set report.interval=1 >out 2>err &
    process=$!
    i=0
    until [ -s "$1/metrics.jsonl" ] || [ $i -ge 600 ]; do
        sleep 0.1
        i=$((i + 1))
    done
}

# told WORDS - wait until the run says so
told() {
    i=0
    until grep -Eq -- "$1" err || [ $i -ge 600 ]; do
        sleep 0.1
        i=$((i + 1))
    done
}

# ends CODE WHAT
ends() {
    wait $process
    code=$?
    expect_code "$1" "$2"
}

long moved
mv moved elsewhere
mkdir moved
told 'was moved'
kill -TERM $process
ends 5 'a directory that was moved, and another in its place'
expect_err "^pipetrain: run directory moved: it was moved during the run: results are written to $work/elsewhere\$"
expect_equal "$(grep -c 'was moved' err)" 1 'messages'
expect_equal "$(ls moved)" '' 'what is in the new directory'
for file in summary.json weights.safetensors; do
    [ -s "elsewhere/$file" ] || fail "$file is not where the directory was moved to"
done
expect_equal "$(grep -c '"kind":"epoch"' elsewhere/summary.json)" "$(grep -c '"kind":"epoch"' elsewhere/metrics.jsonl)" \
    'epochs of the summary'
grep -q '^files ' out && fail 'files are named where they are not'

long emptied
rm emptied/*
told 'was removed'
kill -TERM $process
ends 5 'a directory that was emptied'
expect_err '^pipetrain: run directory emptied: metrics.jsonl was removed or replaced during the run: its old and new lines are lost'
[ -s emptied/weights.safetensors ] || fail 'the weights are not saved'

# Nothing can be saved: such a run does not go on.
long removed
rm -r removed
ends 5 'a directory that was removed'
expect_err '^pipetrain: run directory removed: it was removed during the run$'
expect_err '^pipetrain: the run ends, because its directory was removed$'
[ ! -e removed ] || fail 'the directory is there again'
finish
