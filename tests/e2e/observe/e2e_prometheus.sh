#!/bin/sh
# Metrics for Prometheus: the text is well formed and holds the last row's numbers; and whatever becomes of it, the run
# is the same.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick
. "$(dirname "$0")/observe.sh"
metrics=$work/metrics.prom

# expect_text FILE: text format 0.0.4, as far as it is used here.
expect_text() {
    awk '
        function bad(why) { print FILENAME ": line " NR ": " why ": " $0; failed = 1 }
        /^# HELP / { if ($3 in helped) bad("a metric in two places"); helped[$3] = 1; if (NF < 4) bad("no help"); next }
        /^# TYPE / { if (!($3 in helped) || $3 in type) bad("TYPE"); type[$3] = $4; name = $3
            if ($4 != "gauge" && $4 != "counter") bad("no such type")
            if (($4 == "counter") != ($3 ~ /_total$/)) bad("counters end in _total"); next }
        !/^[a-z_]+({[a-z]+="([^"\\]|\\["\\n])*"(,[a-z]+="([^"\\]|\\["\\n])*")*})? [^ ]+$/ { bad("no sample"); next }
        { sample = $0; sub(/ [^ ]*$/, "", sample); bare = sample; sub(/{.*/, "", bare)
            if (bare != name || bare !~ /^pipetrain_/) bad("not with its metric")
            if (sample in seen) bad("twice"); seen[sample] = 1
            if ($NF !~ /^(NaN|[+-]Inf|-?[0-9.]+(e[+-]?[0-9]+)?)$/) bad("no number") }
        END { if (NR == 0) bad("empty"); exit failed }' "$1" >"$work/bad" || fail "$(cat "$work/bad")"
    [ -z "$(tail -c 1 "$1" | tr -d '\n')" ] || fail 'the last line has an end'
}

# expect_metric SAMPLE NUMBER: but for what a text of 17 digits leaves out.
expect_metric() {
    awk -v sample="pipetrain_$1" -v number="$2" '{ name = $0; sub(/ [^ ]*$/, "", name) }
        name == sample { d = $NF - number; limit = (number < 0 ? -number : number) * 1e-12
            found = number != "" && d <= limit && -d <= limit } END { exit !found }' \
        "$metrics" || fail "$1 is not $2: $(grep -F "pipetrain_$1" "$metrics")"
}

last_row() {
    rows_of "$1" "$2" "$3" | tail -n 1 | cut -d ' ' -f 2
}

# expect_metrics RUN: what the run's last rows say.
expect_metrics() {
    expect_text "$metrics"
    for split in train validation; do
        expect_metric "loss{split=\"$split\"}" "$(last_row "$1" $split loss)"
        expect_metric "accuracy{split=\"$split\",k=\"1\"}" "$(last_row "$1" $split accuracy)"
        expect_metric "images_per_second{split=\"$split\"}" "$(last_row "$1" $split images_per_second)"
    done
    expect_metric learning_rate "$(last_row "$1" train learning_rate)"
    expect_metric 'queue_depth{queue="slots"}' "$(last_row "$1" train queues.slots.mean)"
    expect_metric 'queue_empty_ratio{queue="ring"}' "$(last_row "$1" train queues.ring.empty)"
    expect_metric 'queue_depth_least{queue="slots"}' "$(last_row "$1" train queues.slots.least)"
    expect_metric 'loader_busy_ratio{stage="decode"}' "$(last_row "$1" train loader_busy.decoders)"
    for part in input_wait exposed_copy forward backward exposed_reduction update other; do
        expect_metric "tower_time_ratio{part=\"$part\"}" "$(last_row "$1" train fractions.$part)"
    done
}

# ---- a file ----

train plain --set train.epochs=2
train file --set train.epochs=2 --set "report.prometheus=$metrics"
expect_metrics file
expect_metric step 20
expect_metric planned_steps 20
expect_metric epoch 2
expect_metric running 0
expect_metric images_total 1200
expect_metric 'records_skipped_total{reason="corrupt"}' 0
expect_same_file "$work/runs/plain/weights.safetensors" "$work/runs/file/weights.safetensors" 'weights with metrics'
[ -z "$(find "$work" -name '.metrics.prom*')" ] || fail 'a temporary file is left'

# A name that has to be escaped; a damaged record is counted; nothing that is computed.
cp -r "$work/data" "$work/damaged"
flip "$(ls "$work/damaged"/train-*0003-of-* | head -n 1)" 4000
train 'with "quotes" and \' --set "data.train=$work/damaged/train-*" --set data.on_corrupt=skip \
    --set data.max_corrupt=0.1 --set "report.prometheus=$metrics"
expect_text "$metrics"
expect_metric 'records_skipped_total{reason="corrupt"}' 1
grep -qF 'with \"quotes\" and \\"}' "$metrics" || fail 'a label is escaped'
train null --set devices.kind=null --set "report.prometheus=$metrics"
expect_text "$metrics"
grep -q '^pipetrain_loss{split="train"} NaN$' "$metrics" || fail 'no loss where nothing is computed'

# States: what saving the latest took, and a folder in the place of one that then cannot be saved.
grep -q pipetrain_checkpoint_seconds "$metrics" && fail 'no state was saved'
train states --set checkpoint.every=epoch --set train.epochs=3 --set "report.prometheus=$metrics"
expect_text "$metrics"
expect_metric checkpoint_failures_total 0
awk '$1 == "pipetrain_checkpoint_seconds" { found = $2 > 0 && $2 < 100 } END { exit !found }' "$metrics" ||
    fail 'what saving a state took'
mkdir -p "$work/runs/refused/checkpoint-00000010.safetensors/full"
train refused --set run.resume=never --set checkpoint.every=epoch --set train.epochs=3 --set "report.prometheus=$metrics"
expect_err 'checkpoint-00000010.safetensors: .*: the run goes on, and what was saved before stays'
expect_metric checkpoint_failures_total 1
awk '$1 == "pipetrain_checkpoint_seconds" { found = 1 } END { exit !found }' "$metrics" || fail 'others were saved'
# The last one, which gets its name behind all other results.
mkdir -p "$work/runs/nameless/checkpoint-00000030.safetensors/full"
try nameless --set run.resume=never --set checkpoint.every=1000 --set train.epochs=3 --set "report.prometheus=$metrics"
expect_code 5 'a last state that cannot be saved'
expect_err 'the state behind the last step could not be saved: .*: what was saved before stays'
expect_metric checkpoint_failures_total 1
grep -q pipetrain_checkpoint_seconds "$metrics" && fail 'no state was saved, but one was counted'

# Whoever reads it sees a whole text, at any time.
: >"$work/reading"
while [ -e "$work/reading" ]; do
    cat "$metrics" >"$work/seen.prom"
    tail -n 1 "$work/seen.prom" | grep -q 'queue_depth{queue="slots"}\|^pipetrain_images_per_second\|TYPE' ||
        cp "$work/seen.prom" "$work/torn.prom"
done &
reader=$!
train busy --set devices.kind=null --set train.batch=4 --set train.epochs=5 --set "report.prometheus=$metrics"
rm "$work/reading"
wait $reader
[ ! -e "$work/torn.prom" ] || fail 'a text that is not whole was seen'

# ---- a port ----

# started NAME OPTION...: a run that goes on until it is asked to stop, with a port that was free in $port, and its
# process in $pid.
started() {
    name=$1 port=$((20000 + $$ % 20000)) tries=0
    shift
    while [ $tries -lt 20 ]; do
        rm -rf "$work/runs/$name"
        env "$slowed" "$slow" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" \
            --set train.epochs=1000000 --set "report.prometheus=127.0.0.1:$port" "$@" >"$work/port.out" 2>"$work/port.err" &
        pid=$!
        await it_trains
        grep -q 'another program listens there' "$work/port.err" || return 0
        kill -TERM $pid
        wait $pid
        tries=$((tries + 1)) port=$((port + 1))
    done
    fail 'no port is free'
    finish
}

it_trains() {
    [ -s "$work/runs/$name/metrics.jsonl" ] || ! kill -0 $pid 2>/dev/null
}

if command -v bash >/dev/null 2>&1; then
    # scrape PATH: what the port answers, without the lines' ends of its head.
    scrape() {
        bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" && printf "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" "$2" >&3 &&
            cat <&3' bash "$port" "$1" | tr -d '\r'
    }
    has_row() {
        rows_of port train images_per_second | awk -v step="$step" -v speed="$speed" \
            '$1 == step { d = $2 / speed - 1; found = d < 1e-9 && d > -1e-9 } END { exit !found }'
    }
    sees_later() {
        [ "$(scrape /metrics | sed -n 's/^pipetrain_step //p')" -gt "$step" ]
    }
    command_line='a run with a port'
    started port
    scrape /metrics >"$work/scraped"
    expect_equal "$(head -n 1 "$work/scraped")" 'HTTP/1.1 200 OK' 'the answer'
    grep -q '^Content-Type: text/plain; version=0.0.4; charset=utf-8$' "$work/scraped" || fail 'the type of the answer'
    sed '1,/^$/d' "$work/scraped" >"$metrics"
    expect_text "$metrics"
    expect_metric running 1
    step=$(sed -n 's/^pipetrain_step //p' "$metrics")
    speed=$(sed -n 's/^pipetrain_images_per_second{split="train"} //p' "$metrics")
    await has_row
    has_row || fail "step $step is not what its row says"
    await sees_later
    sees_later || fail 'a later scrape sees later steps'
    expect_equal "$(scrape /other | head -n 1)" 'HTTP/1.1 404 Not Found' 'another path'
    kill -0 $pid || fail 'the run goes on'
    # A second run at the same port, and a client that says nothing while the first one ends.
    try second --set "report.prometheus=127.0.0.1:$port"
    expect_code 0 'a port that is in use'
    expect_err "127.0.0.1:$port: there are no metrics: another program listens there: the run goes on without"
    expect_err_lines 1
    bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" && : >"$2" && exec sleep 60' bash "$port" "$work/connected" &
    client=$!
    await test -e "$work/connected"
    kill -TERM $pid
    wait $pid
    code=$?
    kill $client
    expect_code 75 'a run that is asked to stop while a client says nothing'
    [ -z "$(scrape /metrics 2>/dev/null)" ] || fail 'the port is still open'
else
    echo 'no bash: nothing is read from the port'
fi

# ---- what is wrong ----

try no_folder --set "report.prometheus=$work/no/such.prom"
expect_code 0 'metrics that cannot be written'
expect_err "$work/no/such.prom: metrics are not written: No such file or directory: the run goes on without"
expect_err_lines 1
for value in yes run.txt 127.0.0.1 9464; do
    try value --set "report.prometheus=$value"
    expect_code 2 "report.prometheus=$value"
    expect_err "prometheus: is neither a file, as in metrics/run.prom, nor a port of this machine, as in 127.0.0.1:9464"
done
for value in 0.0.0.0:9464 192.168.1.1:9464 '[::]:9464'; do
    try value --set "report.prometheus=$value"
    expect_code 2 "report.prometheus=$value"
    expect_err 'prometheus: is no address of this machine alone: take 127.0.0.1 or \[::1\]'
done
finish
