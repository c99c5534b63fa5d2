#!/bin/sh
# Metrics for Prometheus: the text is well formed and holds the last row's numbers; and whatever becomes of it, the run
# is the same.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick
. "$(dirname "$0")/observe.sh"
metrics=$work/metrics.prom

# expect_text FILE: text format 0.0.4, as far as it is used here; every sample names its run first.
expect_text() {
    if command -v promtool >/dev/null; then
        promtool check metrics <"$1" >"$work/bad" 2>&1 || [ $? -eq 3 ] || fail "promtool: $(cat "$work/bad")"
    fi
    awk '
        function bad(why) { print FILENAME ": line " NR ": " why ": " $0; failed = 1 }
        /^# HELP / { if ($3 in helped) bad("a metric in two places"); helped[$3] = 1; if (NF < 4) bad("no help"); next }
        /^# TYPE / { if (!($3 in helped) || $3 in type) bad("TYPE"); type[$3] = $4; name = $3
            if ($4 != "gauge" && $4 != "counter") bad("no such type")
            if (($4 == "counter") != ($3 ~ /_total$/)) bad("counters end in _total"); next }
        !/^[a-z_][a-z_0-9]*({[a-z]+="([^"\\]|\\["\\n])*"(,[a-z]+="([^"\\]|\\["\\n])*")*})? [^ ]+$/ { bad("no sample"); next }
        { sample = $0; sub(/ [^ ]*$/, "", sample); bare = sample; sub(/{.*/, "", bare)
            if (sample !~ /{run="/) bad("no run")
            if (bare != name || bare !~ /^pipetrain_/) bad("not with its metric")
            if (sample in seen) bad("twice"); seen[sample] = 1
            if ($NF !~ /^(NaN|[+-]Inf|-?[0-9.]+(e[+-]?[0-9]+)?)$/) bad("no number") }
        END { if (NR == 0) bad("empty"); exit failed }' "$1" >"$work/bad" || fail "$(cat "$work/bad")"
    [ -z "$(tail -c 1 "$1" | tr -d '\n')" ] || fail 'the last line has an end'
}

# expect_metric SAMPLE NUMBER: but for what a text of 17 digits leaves out, and the run.
expect_metric() {
    awk -v sample="pipetrain_$1" -v number="$2" '{ name = $0; sub(/ [^ ]*$/, "", name)
            sub(/{run="([^"\\]|\\.)*",?/, "{", name); sub(/{}$/, "", name) }
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
    for part in input_wait exposed_copy forward backward exposed_reduction exposed_exchange update other; do
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
grep -qF 'with \"quotes\" and \\",name=' "$metrics" || fail 'a label is escaped'
train null --set devices.kind=null --set "report.prometheus=$metrics"
expect_text "$metrics"
grep -q '^pipetrain_loss{run=".*",split="train"} NaN$' "$metrics" || fail 'no loss where nothing is computed'

# States: what saving the latest took, and a folder in the place of one that then cannot be saved.
grep -q pipetrain_checkpoint_seconds "$metrics" && fail 'no checkpoint was saved'
train states --set checkpoint.every=epoch --set train.epochs=3 --set "report.prometheus=$metrics"
expect_text "$metrics"
expect_metric checkpoint_failures_total 0
awk '/^pipetrain_checkpoint_seconds/ { found = $2 > 0 && $2 < 100 } END { exit !found }' "$metrics" ||
    fail 'what saving a state took'
mkdir -p "$work/runs/refused/checkpoint-00000010.safetensors/full"
train refused --set run.resume=never --set checkpoint.every=epoch --set train.epochs=3 --set "report.prometheus=$metrics"
expect_err 'checkpoint-00000010.safetensors: .*: the run continues, and earlier checkpoints stay'
expect_metric checkpoint_failures_total 1
awk '/^pipetrain_checkpoint_seconds/ { found = 1 } END { exit !found }' "$metrics" || fail 'others were saved'
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
    # Before the first row the costs come last.
    tail -n 1 "$work/seen.prom" |
        grep -q 'stage="decode"} \|^pipetrain_cost_[a-z]*_total{\|^pipetrain_images_per_second{' ||
        cp "$work/seen.prom" "$work/torn.prom"
done &
reader=$!
train busy --set devices.kind=null --set train.batch=4 --set train.epochs=5 --set "report.prometheus=$metrics"
rm "$work/reading"
wait $reader
[ ! -e "$work/torn.prom" ] || fail 'a text that is not whole was seen'

# ---- two runs in one folder, and one run in two processes ----

# A collector merges the files of a folder: no two samples are the same, though the directories' last names are.
mkdir "$work/prom" "$work/a" "$work/b"
for one in a b; do
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/$one/x" --set train.steps=3 --set devices.kind=null \
        --set "report.prometheus=$work/prom/$one.prom"
    expect_code 0 "the run in $one"
    expect_text "$work/prom/$one.prom"
    expect_equal "$(grep -c "{run=\"$(cd "$work" && pwd -P)/$one/x\"" "$work/prom/$one.prom")" \
        "$(grep -vc '^#' "$work/prom/$one.prom")" 'samples that name their run'
done
sed -s '/^#/d; s/ [^ ]*$//' "$work/prom/"*.prom | sort | uniq -d >"$work/twice"
[ ! -s "$work/twice" ] || fail "two runs have the samples $(head -n 3 "$work/twice")"

# A path longer than most, and with a byte that is not UTF-8: no sample is cut off, and none is refused.
deep=$work/$(printf 'd%0200d' 1)/$(printf 'e%0200d' 2)/$(printf 'f%0200d' 3)/"$(printf '\303\244\344"')"
mkdir -p "$deep"
cd "$deep" || exit 99
run "$pipetrain" -c "$work/tiny.conf" --set run.dir=x --set train.steps=3 --set devices.kind=null \
    --set "report.prometheus=$metrics"
cd "$OLDPWD" || exit 99
expect_code 0 'a long path'
expect_text "$metrics"
expect_equal "$(grep -vc '^#' "$metrics")" "$(grep -vc '^#' "$work/prom/a.prom")" 'samples of a run with a long path'

# expect_forward OLD NEW: no counter of the new file is lower than in the old one, and none is missing.
expect_forward() {
    awk '/^[^#]*_total{/ { if (NR == FNR) old[$1] = $2; else { if ($2 + 0 < old[$1] + 0) exit 1; delete old[$1] } }
        END { for (name in old) exit 1 }' "$1" "$2"
}

# killed_behind "STAGE CALL" STEP OPTION...: a run that is killed there when the file has the step and the checkpoint of
# step 14 is saved.
killed_behind() {
    moment=$1 step=$2
    shift 2
    stand_still "$moment" "$@"
    await grep -q "^pipetrain_step{.*} $step\$" "$metrics"
    expect_metric step "$step"
    await test -e "$work/runs/counted/checkpoint-00000014.safetensors"
    kill -KILL $pid
    { wait $pid; } 2>/dev/null
}

# Killed two steps after a checkpoint, resumed and killed again, resumed to the end; another spelling of the path.
counted="--set report.interval=1 --set checkpoint.every=7 --set train.epochs=3 --set report.prometheus=$metrics"
killed_behind 'update 18' 17 --set "run.dir=$work/runs/counted" $counted
[ -e "$work/runs/counted/checkpoint-00000014.safetensors" ] || fail 'a checkpoint of step 14'
expect_text "$metrics"
cp "$metrics" "$work/before.prom"
killed_behind 'update 3' 16 --set "run.dir=$work/runs/../runs/counted" $counted
expect_text "$metrics"
expect_forward "$work/before.prom" "$metrics" || fail 'a counter goes back after a resume'
expect_metric images_total $((600 + 7 * 64 + 2 * 64))
cp "$metrics" "$work/before.prom"
train counted $counted
expect_forward "$work/before.prom" "$metrics" || fail 'a counter goes back at the end'
expect_metric step 30
# A new run in the directory begins at 0, and so does one whose file is another run's.
train counted --set run.resume=never --set train.steps=2 --set train.epochs=1 --set report.interval=1 \
    --set "report.prometheus=$metrics"
expect_metric images_total 128

# The file of a run that goes back to a checkpoint is looked at all the time.
rm -f "$metrics" "$work/last.prom"
: >"$work/reading"
while [ -e "$work/reading" ]; do
    cp "$metrics" "$work/now.prom" 2>/dev/null || continue
    [ ! -e "$work/last.prom" ] || expect_forward "$work/last.prom" "$work/now.prom" || cp "$work/now.prom" "$work/back.prom"
    mv "$work/now.prom" "$work/last.prom"
done &
reader=$!
train rollback --set train.batch=16 --set train.optimizer=sgd --set train.learning_rate=0.05 --set train.weight_decay=20 \
    --set train.schedule=piecewise --set train.boundaries=1 --set train.factors=8 --set train.on_nan=rollback \
    --set checkpoint.every=epoch --set train.epochs=2 --set report.interval=1 --set "report.prometheus=$metrics"
rm "$work/reading"
wait $reader
expect_err 'rollback 1 of 5'
[ ! -e "$work/back.prom" ] || fail "a counter goes back in a rollback: $(cat "$work/back.prom")"
expect_text "$metrics"

# ---- two runs at a time ----

# refused KEY VALUE: a second run is refused with the first one's process, however its path is spelt; --check says so, too.
refused() {
    for how in '' --check --dry-run; do
        case $1,$how in report.trace,* | *,--check | *,) ;; *) continue ;; esac
        try second --set "$1=$2" --set train.steps=1 $how
        expect_code 5 "$1=$2 of two runs at a time $how"
        expect_err "$1 = $2: another run is writing here: process $pid on .*: give each run its own"
        [ ! -e "$work/runs/second" ] || fail "$1: the refused run leaves a directory"
    done
}
mkdir "$work/shared"
ln -s "$work/shared" "$work/other name"
ln -s "$work/shared/trace.json" "$work/link.json"
stand_still 'update 2' --set "run.dir=$work/runs/first" --set "report.prometheus=$work/shared/run.prom" \
    --set "report.trace=$work/shared/trace.json" --set "report.tensorboard=$work/shared/board" --set report.interval=1
refused report.prometheus "$work/shared/run.prom"
refused report.prometheus "$work/other name/../shared/run.prom"
refused report.trace "$work/shared/trace.json"
refused report.trace "$work/link.json"
refused report.tensorboard "$work/other name/board/"
train beside --set "report.prometheus=$work/shared/other.prom" --set report.trace=/dev/null --set train.steps=1 \
    --set "report.tensorboard=$work/shared/other"
expect_err_lines 0
kill -KILL $pid
{ wait $pid; } 2>/dev/null
# The lock of a run that is dead holds nobody up, and no lock file stays.
train third --set "report.prometheus=$work/shared/run.prom" --set "report.trace=$work/shared/trace.json" \
    --set "report.tensorboard=$work/shared/board" --set train.steps=1 --set train.epochs=1
expect_equal "$(find "$work/shared" -name '.*' -type f)" '' 'lock files that are left'
# A lock file with a second name is somebody's.
echo precious >"$work/victim"
ln "$work/victim" "$work/shared/.run.prom.lock"
try linked --set "report.prometheus=$work/shared/run.prom" --set train.steps=1
expect_code 5 'a lock file with a hard link'
expect_err 'report.prometheus = .*: .run.prom.lock has 2 hard links, as after cp -al: remove it'
expect_equal "$(cat "$work/victim")" precious 'a file that the lock file is a link to'

# ---- outputs of one run in one place ----

# clash WORDS KEY=VALUE...: refused before anything is written, with both keys, in a new run and in one that resumes.
clash() {
    wanted=$1
    shift
    set -- $(for word; do echo "--set report.$word"; done)
    for how in '' --check; do
        run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$dir" --set train.steps=2 --set checkpoint.every=1 $how "$@"
        expect_code 2 "$* $how"
        expect_err "$wanted"
    done
}
cd "$work" || exit 99
ln -s . here
for dir in clash clash/new resumed; do
    [ $dir != resumed ] || run "$pipetrain" -c tiny.conf --set run.dir=resumed --set train.steps=1 --set checkpoint.every=1
    [ $dir != clash/new ] || mkdir clash
    for file in metrics.jsonl run.conf run.net summary.json weights.safetensors best.safetensors quarantine.jsonl .lock \
        weights.previous.safetensors checkpoint-00000002.safetensors; do
        for path in $dir/$file here/./$dir//$file "$work/$dir/$file"; do
            [ "$long" = yes ] || [ "$file" = metrics.jsonl ] || [ "$path" = "$dir/$file" ] || continue
            clash "report.trace = $path: the run writes its $file there \\(run.dir = $dir\\): name another file" "trace=$path"
        done
    done
    clash "report.trace = .*x.prom and report.prometheus = .*x.prom are one place" trace=here/x.prom "prometheus=$work/x.prom"
    clash "report.prometheus = x.prom and report.tensorboard = x.prom/ are one place" tensorboard=x.prom/ prometheus=x.prom
    clash "report.trace = .* and report.tensorboard = $dir/tensorboard are one place" "trace=$dir/tensorboard" tensorboard=yes
    clash "report.tensorboard = .*: the run writes its summary.json there" "tensorboard=$dir/summary.json"
done
[ ! -e clash/new ] && [ ! -e x.prom ] || fail 'a refused run leaves something'
try apart --set report.trace=runs/t.json --set report.prometheus=runs/t.prom --set report.tensorboard=runs/t --set train.steps=1
expect_code 0 'three places'
expect_err_lines 0

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
