# Shared by the tests of runs that go on, which source it behind e2e.sh and make_tiny.

# resumed NAME OPTION...: a run with the directory NAME, as $settings says; the same again goes on where states are saved.
settings='--set train.epochs=6 --set train.batch=16 --set report.interval=7'
resumed() {
    name=$1
    shift
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $(in_place "$work/runs/$name") $settings "$@"
}

# What does not depend on the clock: rows without times, and speeds.
rows() {
    sed -e 's/"time":[^,}]*,//; s/"seconds":[^,}]*,//g; s/"images_per_second":[^,}]*//g; s/"fractions":{[^}]*}//
        s/"queues":{[^}]*}\(,[^}]*}\)*}//; s/"loader_busy":{[^}]*}//' \
        "$work/runs/$1/metrics.jsonl"
}

# expect_same_run A B: both are over, with the same results.
expect_same_run() {
    expect_same_file "$work/runs/$1/weights.safetensors" "$work/runs/$2/weights.safetensors" "weights of $2"
    rows "$1" >"$work/rows.1"
    rows "$2" >"$work/rows.2"
    expect_same_file "$work/rows.1" "$work/rows.2" "rows of $2"
    for key in steps images loss sample_order_hash validation.correct validation.loss; do
        expect_summary "$2" $key "$(summary "$1" $key)"
    done
}

states() {
    find "$work/runs/$1" -name 'checkpoint-*.safetensors' 2>/dev/null | sort
}
newest() {
    states "$1" | tail -n 1
}

# begin OPTION...: start a run of the directory $name, which is process $pid then.
begin() {
    "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $settings "$@" >"$work/out" 2>"$work/err" &
    pid=$!
}

# Kill process $pid, and leave its exit code in $status: 137 unless it had ended.
kill_it() {
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
    status=$?
}

# kill_after SECONDS OPTION...: start a run and kill it so many seconds later.
kill_after() {
    pause=$1
    shift
    begin "$@"
    sleep "$pause"
    kill_it
}

# kill_soon PAUSE OPTION...: start a run, and kill it PAUSE seconds after it saved a state, unless it is over by then.
kill_soon() {
    pause=$1 before=$(newest "$name")
    shift
    begin "$@"
    await has_newer
    sleep "$pause"
    kill_it
}

# A state newer than $before is there, or the process has ended.
has_newer() {
    [ "$(newest "$name")" != "$before" ] || ! kill -0 $pid 2>/dev/null
}
