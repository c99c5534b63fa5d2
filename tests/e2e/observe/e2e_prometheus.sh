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
grep -q pipetrain_checkpoint_seconds "$metrics" && fail 'no checkpoint was saved'
train states --set checkpoint.every=epoch --set train.epochs=3 --set "report.prometheus=$metrics"
expect_text "$metrics"
expect_metric checkpoint_failures_total 0
awk '$1 == "pipetrain_checkpoint_seconds" { found = $2 > 0 && $2 < 100 } END { exit !found }' "$metrics" ||
    fail 'what saving a state took'
mkdir -p "$work/runs/refused/checkpoint-00000010.safetensors/full"
train refused --set run.resume=never --set checkpoint.every=epoch --set train.epochs=3 --set "report.prometheus=$metrics"
expect_err 'checkpoint-00000010.safetensors: .*: the run continues, and earlier checkpoints stay'
expect_metric checkpoint_failures_total 1
awk '$1 == "pipetrain_checkpoint_seconds" { found = 1 } END { exit !found }' "$metrics" || fail 'others were saved'
# The last one, which gets its name behind all other results.
mkdir -p "$work/runs/nameless/checkpoint-00000030.safetensors/full"
try nameless --set run.resume=never --set checkpoint.every=1000 --set train.epochs=3 --set "report.prometheus=$metrics"
expect_code 5 'a last state that cannot be saved'
expect_err 'the checkpoint of the last step could not be saved: .*: earlier checkpoints stay'
expect_metric checkpoint_failures_total 1
grep -q pipetrain_checkpoint_seconds "$metrics" && fail 'no checkpoint was saved, but one was counted'

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

# ---- what is wrong ----

try no_folder --set "report.prometheus=$work/no/such.prom"
expect_code 0 'metrics that cannot be written'
expect_err "$work/no/such.prom: metrics are not written: No such file or directory: the run continues without"
expect_err_lines 1
for value in yes run.txt .prom folder/.prom run.prom/ 9464; do
    try value --set "report.prometheus=$value"
    expect_code 2 "report.prometheus=$value"
    expect_err 'prometheus: is not the name of a file that ends in .prom, such as metrics/run.prom'
done
for value in 127.0.0.1:9464 localhost:9464 '[::1]:9464'; do
    try value --check --set "report.prometheus=$value"
    expect_code 2 "report.prometheus=$value"
    expect_err 'prometheus: is not a file: a run does not listen on a port; name a file, such as metrics/run.prom'
done
finish
