#!/bin/sh
# --compare: variants side by side as a table, CSV and JSON, and nothing else that stays.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick
mkdir "$work/tmp" "$work/here"
TMPDIR=$work/tmp
export TMPDIR
sed "s|threads_per_tower = 1||" "$work/tiny.conf" >"$work/compared.conf"

# Run from an empty folder: what is written anywhere shows.
compare() {
    command_line="pipetrain -c compared.conf $*"
    (cd "$work/here" && exec "$pipetrain" -c "$work/compared.conf" "$@") >"$work/out" 2>"$work/err"
    code=$?
}

expect_nothing_left() {
    expect_equal "$(ls -A "$work/tmp" "$work/here" | grep -v : | tr -d '\n')" '' "$1 leaves files"
    expect_equal "$(grep -l "run[.]dir=$work/tmp" /proc/[0-9]*/cmdline 2>/dev/null)" '' "$1 leaves a process"
}

# Towers on made-up images: speeds, and no accuracy by time.
compare --compare towers=1,2 --set input.source=synthetic --set train.batch=16 --steps=60 --seconds=60 --rounds=2
expect_code 0 'towers'
expect_out '^compared +2 variants in 2 rounds of 60 steps or 60 s'
expect_out '^towers +images/s +\+/- +speed-up +efficiency +accuracy +loss$'
expect_out '^1 +[0-9.]+ +[0-9.]+ % +1\.000 +- +- +-$'
expect_out '^2 +[0-9.]+ +[0-9.]+ % +[0-9.]+ +[0-9.]+ % +- +-$'
expect_out '^towers +median ms +p90 ms +p99 ms +uncertainty +jitter$'
expect_out '^images/s: all images over wall time, after 6 warm-up steps$'
[ $kind != cpu ] || expect_out '^threads +[0-9]+ per tower in every variant$'
expect_out '^towers +input wait +copy +forward +backward +reduction +update$'
expect_narrow towers
expect_err_lines 4
expect_err '^round 2 of 2, towers=2: [0-9,.]+ images/s, [0-9]+ steps, towers wait [0-9.]+ % for input$'
expect_nothing_left 'a comparison'

# By the clock alone: some hundred steps, of which a fiftieth has to be done on the slowest machine.
seconds=0.5
[ "$long" != yes ] || seconds=1.5
compare --compare towers=1,2 --set input.source=synthetic --set train.batch=16 --seconds=$seconds --rounds=1
expect_code 0 'towers by the clock'
expect_out "^compared +2 variants in 1 round of $seconds s"
expect_nothing_left 'a comparison by the clock'

# After equal samples the same order was learnt, from whatever source, and as a run by itself learns it.
compare --compare source=real,cached --compare decode_threads=1,2 --steps=12 --rounds=1 --format=csv
expect_code 0 'sources as CSV'
expect_equal "$(sed -n 's/,towers,.*//p' "$work/out")" 'input.source,input.decode_threads' 'what differs'
expect_equal "$(tail -n +2 "$work/out" | cut -d, -f 1-3,5-8 | tr '\n' ' ')" \
    'real,1,1,64,1,12,728 real,2,1,64,1,12,728 cached,1,1,64,1,12,728 cached,2,1,64,1,12,728 ' 'the variants'
column() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print at ? $at : "no" }' \
        "$work/out"
}
digits() {
    awk '{ printf "%.12g %.12g\n", $1, $2 }'
}
[ "$(column images_per_second | awk '$1 > 0' | wc -l)" -eq 4 ] || fail 'speeds'
for name in loss validation_accuracy validation_loss; do
    expect_equal "$(column $name | sort -u | wc -l)" 1 "$name of equal samples"
done
found=$(echo "$(column loss | head -n 1) $(column validation_accuracy | head -n 1)" | digits)
run "$pipetrain" -c "$work/compared.conf" --set "run.dir=$work/runs/alone" --set train.epochs=2 --set train.steps=12
expect_equal "$found" "$(echo "$(summary alone loss) $(summary alone validation.accuracy)" | digits)" 'a run by itself'
rm -r "$work/runs"

# Ways of working together, beside one tower that stands for each of them.
compare --compare sync.mode=replicated,averaging --set devices.towers=2 --set devices.threads_per_tower=1 --steps=12 \
    --rounds=1
expect_code 0 'modes'
expect_out '^compared +3 variants in 1 round of 12 steps'
expect_out '^one tower +[0-9.]+ +- +1\.000 +- +[0-9.]+ % +[0-9.]+$'
expect_out '^replicated +[0-9.]+ +- +[0-9.]+ +[0-9.]+ % +[0-9.]+ % +[0-9.]+$'
expect_out '^one tower +[0-9.]+ % +[0-9.]+ % .* 0\.0 % +[0-9.]+ %$'
expect_out '; loss: of validation$'
expect_err '^round 1 of 1, one tower: '
expect_narrow 'modes'
expect_nothing_left 'modes'

# What train.best_by names stands beside the accuracy, as a run by itself has it.
compare --compare learning_rate=0.01,0.1 --set train.best_by=macro_f1 --steps=12 --rounds=1
expect_code 0 'a measure by class'
expect_out '^the last evaluation, by the measure of train.best_by$'
expect_out '^learning_rate +accuracy +macro F1$'
found=$(awk '/ macro F1$/ { getline; print $NF }' "$work/out")
run "$pipetrain" -c "$work/compared.conf" --set "run.dir=$work/runs/alone" --set train.learning_rate=0.01 --set train.steps=12
expect_equal "$found" "$(summary alone validation.macro.f1 | awk '{ printf "%.4f\n", $1 }')" 'the measure of a run by itself'
rm -r "$work/runs"
compare --compare learning_rate=0.01,0.1 --set train.best_by=macro_f1 --seconds=0.05 --rounds=1
expect_code 0 'a measure by class that nothing evaluates'
! grep -q best_by "$work/out" || fail 'a table of what was not measured'

# More towers are more cores: each has as many threads as two leave to one, unless threads are compared as well.
compare --compare towers=1,2 --set input.source=synthetic --steps=2 --rounds=1 --format=csv
expect_code 0 'threads of towers'
expect_equal "$(column threads_per_tower | sort -u)" "$([ "$(nproc)" -gt 2 ] && echo $(($(nproc) / 2)) || echo 1)" \
    'equal threads'
compare --compare towers=1,2 --compare threads_per_tower=1,2 --set input.source=synthetic --steps=2 --rounds=1 \
    --format=json
expect_code 0 'threads that are compared'
expect_equal "$("$json_value" "$work/out" variants.0.threads_per_tower variants.1.threads_per_tower \
    variants.2.threads_per_tower variants.3.threads_per_tower | tr '\n' ' ')" '1 2 1 2 ' 'threads as compared'

# Other batches see other samples: nothing is said of what they learnt.
compare --compare batch=32,64 --steps=12 --rounds=2 --format=json --progress=bar
expect_code 2 '--progress=bar'
expect_err "--progress: 'bar' is not one of: line, none"
compare --compare batch=32,64 --steps=12 --rounds=2 --format=json --progress=none
expect_code 0 'batches as JSON'
expect_err_lines 0
"$json_value" "$work/out" rounds equal_samples variants.1.batch variants.1.images.1 variants.0.speed_up.median \
    variants.1.loss.median variants.1.efficiency | tr '\n' ' ' >"$work/values"
expect_equal "$(cat "$work/values")" '2 false 64 728 1 null null ' 'the object'
"$json_value" "$work/out" variants.0.mean.median variants.0.jitter.most variants.0.step_p99_ms.least \
    variants.1.images_per_second.rounds.1 variants.1.peak_rss_bytes | awk '!($1 > 0) { exit 1 }' || fail 'numbers'
expect_nothing_left 'a comparison by steps'

# Refused before anything trains: a variant that is wrong, or that the data do not allow.
compare --compare towers=1,0 --compare source=synthetic --steps=2
expect_code 2 'a variant that is wrong'
expect_err 'towers=0 source=synthetic: .*towers'
expect_err_lines 1
compare --compare "data.train=$work/data/train-*,$work/none" --steps=2
expect_code 3 'a variant without data'
expect_err "train=$work/none: .*No such file"
for wrong in 'name=a,b' 'twers=1,2' 'towers' 'towers=1' 'train.steps=1,2'; do
    compare --compare "$wrong" --steps=2
    expect_code 2 "$wrong"
    expect_err_lines 1
done
for wrong in --rounds=0 --rounds=21 --seconds=0 --seconds=-1 --steps=x --steps=99999999999999999999 --format=xml \
    --check --describe extra; do
    compare --compare towers=1,2 "$wrong"
    expect_code 2 "$wrong"
    expect_err_lines 1
done
expect_nothing_left 'what was refused'
run "$pipetrain" --compare towers=1,2
expect_code 2 'no configuration'
command_line='a configuration that comes through a pipe'
sed p "$work/compared.conf" | "$pipetrain" -c /dev/stdin --compare towers=1,2 >"$work/out" 2>"$work/err"
code=$?
expect_code 2 "$command_line"
expect_err 'cannot come through a pipe'
"$pipetrain" -c /dev/stdin --compare towers=1,2 --set input.source=synthetic --steps=2 --rounds=1 \
    <"$work/compared.conf" >"$work/out" 2>"$work/err"
code=$?
expect_code 0 'a configuration as standard input'

# What a trial says of its failure is passed on, with its code.
compare --compare learning_rate=0.01,1e30 --set train.optimizer=sgd --steps=30 --rounds=1
expect_code 73 'numbers that are not finite'
expect_err 'learning_rate=1e30: .*(not|no longer a) finite'
expect_nothing_left 'a trial that failed'

trial_begins() {
    [ -n "$(find "$work/tmp" -name metrics.jsonl -size +0)" ] || ! kill -0 $pid 2>/dev/null
}

# Ctrl-C and its like end all of it at once.
for request in INT:130 TERM:75; do
    (cd "$work/here" && exec env --default-signal=INT "$pipetrain" -c "$work/compared.conf" --compare towers=1,2 \
        --set input.source=synthetic --seconds=200) >"$work/out" 2>"$work/err" &
    pid=$!
    await trial_begins
    command_line="--compare, then SIG${request%:*}"
    begun=$(date +%s)
    kill -s "${request%:*}" $pid
    wait $pid
    code=$?
    expect_code "${request#*:}" 'a request to end'
    [ $(($(date +%s) - begun)) -le $([ "$long" = yes ] && echo 5 || echo 60) ] || fail 'the end took long'
    expect_err '^interrupted'
    expect_equal "$(cat "$work/out")" '' 'results of half a comparison'
    expect_nothing_left "$command_line"
done

for how in --compare=help '--compare towers=1,2 --help'; do
    run "$pipetrain" $how
    expect_code 0 "$how"
    expect_out '^ +--rounds=N'
    expect_narrow "$how"
done
if [ -w /dev/full ]; then
    run sh -c "'$pipetrain' -c '$work/compared.conf' --compare towers=1,2 --set input.source=synthetic --steps=2 \
        --rounds=1 >/dev/full"
    expect_code 5 'a full disk'
fi

finish
