#!/bin/sh
# pipetrain-report from end to end: pages of real runs, one and several, whole, damaged and going on, and what it
# refuses to write over.
. "$(dirname "$0")/../e2e.sh"
report=$build/pipetrain-report
[ -x "$report" ] || { echo "not built: $report"; exit 99; }
make_tiny
page=$work/report.html

node=$(command -v node || command -v nodejs) || echo 'no node: what the pages draw is not looked at'

# A page has data that a parser reads, loads nothing, and draws this many charts; what it draws is left in $drawn.
drawn=$work/drawn
expect_page() {
    [ -s "$page" ] || { fail "$1: no page"; return; }
    expect_equal "$(head -n 1 "$page")" '<!DOCTYPE html>' "$1: the first line"
    expect_equal "$(grep -c '<script' "$page")" 2 "$1: scripts"
    grep -Eq '<img|<iframe|@import|url\(|src=|href="[^d]|fetch\(|XMLHttpRequest' "$page" && fail "$1: the page loads something"
    sed -n '/id="data">/{n;p}' "$page" >"$work/data.json"
    "$json_value" "$work/data.json" version >/dev/null ||
        fail "$1: the data is not JSON"
    [ -n "$node" ] || return
    run "$node" "$(dirname "$0")/page_text.js" "$page"
    expect_code 0 "$1: its script"
    cp "$work/out" "$drawn"
    expect_equal "$(grep -c '<svg ' "$drawn")" "$2" "$1: charts"
}

expect_has() {
    [ -z "$node" ] || grep -Fq -- "$1" "$drawn" || fail "the page should have: $1"
}

train one --set train.epochs=2
flip "$work/data/train-00000-of-00004" 5000
train two --set train.epochs=2 --set devices.towers=2 --set train.learning_rate=0.5 --set data.on_corrupt=skip \
    --set data.max_corrupt=0.1

# One run: the curves of loss, accuracy, means over the classes, speed, rate, wait, two queues and the loader; shares of time; step times.
curves=9
run "$report" "$work/runs/one" -o "$page"
expect_code 0 'the page of a run'
expect_out "^$page: 1 run, [0-9.]+ KiB$"
expect_err_lines 0
expect_page 'one run' $((curves + 2))
for text in '<h1>one</h1>' '600,810' 'mnist_cnn' "$(summary one host.name)" "$(summary one sample_order_hash)" \
    'p50' 'Plan' 'Environment' 'epochs = 2' "$(summary one libraries.zlib)"; do
    expect_has "$text"
done
grep -q 'Damaged records' "$drawn" && fail 'damage of a whole run'
[ -z "$node" ] || expect_equal "$(awk -v RS='<title>' -F'[: <]+' '/^[0-9.e+]+ to / { sum += $5 } END { print sum }' "$drawn")" \
    "$(sed -n 's/.*"step_ms_histogram".*\[\(.*\)\].*/\1/p' "$work/runs/one/summary.json" | tr , '\n' |
        awk '{ sum += $1 } END { print sum }')" \
    'steps in the bars'

# What evaluate tells beside the run is drawn.
run "$pipetrain" evaluate -c "$work/runs/one/run.conf" --json
expect_code 0 'an evaluation'
cp "$work/out" "$work/runs/one/evaluation.json"
run "$report" "$work/runs/one" -o "$page"
expect_code 0 'the page of an evaluated run'
expect_page 'an evaluated run' $((curves + 2))
[ -z "$node" ] || expect_equal "$(awk -v RS='<td' -F'>' '/rgba/ { split($2, cell, "<"); sum += cell[1] } END { print sum }' "$drawn")" \
    "$(summary one validation.images)" 'samples in the matrix'
cat >"$work/runs/one/evaluation.json" <<'END'
{"weights":"w<1>","samples":1234,"balanced_accuracy":0.5,"macro":{"precision":0.25,"recall":"x"},
"classes":[{"class":0,"name":"a<b","samples":4,"precision":1,"recall":0.75,"f1":null}],
"confusion":[{"class":0,"predicted":0,"samples":3},{"class":0,"predicted":2,"samples":1},
{"class":-1,"predicted":2,"samples":9},{"class":2,"predicted":1,"samples":"9"},7]}
END
run "$report" "$work/runs/one" -o "$page"
expect_page 'an odd evaluation' $((curves + 2))
expect_has ': 1,234 samples, w&lt;1&gt;</h3>'
expect_has '<th>class</th><th>0</th><th>1</th><th>2</th><th>precision</th><th>recall</th><th>F1</th></tr>'
expect_has '<p>balanced accuracy 0.5000; macro precision 0.2500, recall -, F1 -; weighted precision -, recall -, F1 -</p>'
expect_has '<tr><th scope="row">0 a&lt;b</th><td class="right" style="background:rgba(57, 106, 177, 0.45)">3</td><td></td><td style="background:rgba(57, 106, 177, 0.15)">1</td><td>1.0000</td><td>0.7500</td><td>-</td></tr>'
echo '{"confusion":[{"class":0,"predicted":100,"samples":3}]}' >"$work/runs/one/evaluation.json"
run "$report" "$work/runs/one" -o "$page"
expect_page 'many classes' $((curves + 2))
expect_has 'Not drawn for 101 classes'
rm "$work/runs/one/evaluation.json"

# Two: side by side, what differs marked, each with its number.
run "$report" "$work/runs/one/" "$work/runs/two" -o "$page"
expect_code 0 'the page of two runs'
expect_page 'two runs' $((curves + 3))
for text in '<h1>2 runs</h1>' '<th scope="row">train.learning_rate</th><td>1</td><td>0.5</td>' 'Step times of run 2' \
    '<tr class="differs"><th scope="row">towers</th><td>1</td><td>2</td></tr>' 'Damaged records' 'validation accuracy, last' \
    'validation accuracy, best' '>1</text>' '>2</text>' \
    'payload checksum differs'; do
    expect_has "$text"
done

# Without quarantine.jsonl, the damage that the summary lists is shown.
mv "$work/runs/two/quarantine.jsonl" "$work/quarantine"
run "$report" "$work/runs/two" -o "$page"
expect_code 0 'the page of a run without quarantine.jsonl'
expect_page 'a run without quarantine.jsonl' $((curves + 2))
expect_has 'payload checksum differs'
expect_has "<h3>two: $(summary two corrupt_records) record"
mv "$work/quarantine" "$work/runs/two/quarantine.jsonl"

# Names that are alike are told apart by their paths; any name is shown as it is.
odd="$work/odd/one <b>&\"'"
mkdir -p "$work/odd"
cp -r "$work/runs/one" "$odd"
cp -r "$work/runs/one" "$work/odd/one"
run "$report" "$odd" "$work/runs/one" "$work/odd/one" -o "$page"
expect_code 0 'the page of a run with an odd name'
expect_page 'an odd name' $((curves + 4))
expect_has "one &lt;b&gt;&amp;&quot;'"
expect_has "<span class=\"n c1\">2</span> $work/runs/one"

# Its own pages are replaced, other files only when told; a page goes to stdout as well.
cp "$page" "$work/before.html"
run "$report" "$work/runs/one" -o "$page"
expect_code 0 'a page in the place of a page'
cmp -s "$page" "$work/before.html" && fail 'the page was not replaced'
cp "$work/runs/one/summary.json" "$work/kept.json"
run "$report" "$work/runs/one" -o "$work/runs/one/summary.json"
expect_code 5 'a page in the place of another file'
expect_err 'summary.json: exists already: replace it with --force'
expect_same_file "$work/runs/one/summary.json" "$work/kept.json" 'another file'
echo mine >"$work/mine"
ln -s "$work/mine" "$work/link"
run "$report" "$work/runs/one" --force -o "$work/link"
expect_code 5 'a page through a link'
expect_equal "$(cat "$work/mine")" mine 'the file behind a link'
run "$report" "$work/runs/one" --force -o "$work/mine"
expect_code 0 'a page in the place of another file by force'
run "$report" "$work/runs/one" -o "$work/none/page.html"
expect_code 5 'a page in a folder that is not there'
run "$report" "$work/runs/one" -o -
expect_code 0 'a page to stdout'
tail -n 1 "$work/out" | grep -q '</html>$' || fail 'stdout has no page'
if [ -w /dev/full ]; then
    "$report" "$work/runs/one" -o - >/dev/full 2>"$work/err"
    expect_equal $? 5 'a page to a full stdout'
fi
(cd "$work" && rm report.html && "$report" runs/one >/dev/null) && [ -s "$work/report.html" ] || fail 'the default name'

# A run that continues, or was killed: as far as it is, with the row that is being written left out.
rm "$work/runs/one/summary.json"
head -n 5 "$work/runs/two/metrics.jsonl" >"$work/runs/one/metrics.jsonl"
printf '{"kind":"train","st' >>"$work/runs/one/metrics.jsonl"
run "$report" "$work/runs/one" -o "$page"
expect_code 0 'the page of a run that continues'
expect_err_lines 0
expect_page 'a run that continues' $curves
expect_has 'running or killed: no summary yet'
expect_has '>steps</th><td>5</td></tr>'

# The best evaluation of a run that continues; labels of a rate that hardly changes are no longer than their place, whatever
# its size; a setting that decides nothing is not a number.
mkdir "$work/runs/flat"
for rates in '0.01 0.0099999' '0.01 0.00999995' '0.00001 0.0000099999' '0.5 0.5' '1e-7 1.0000001e-7' '123456 123456.1' \
    '12.5 12.500001' '0.0000125 0.0000122'; do
    awk -v rates="$rates" 'BEGIN { split(rates, rate, " "); split("0.5 0.8125 0.8125 0.75", accuracy, " ")
        for (i = 1; i <= 4; i++) {
            printf "{\"kind\":\"train\",\"step\":%d,\"epoch\":%d,\"learning_rate\":%s,\"loss\":0.5,\"accuracy\":0.5}\n", i * 10, i, rate[1 + i % 2]
            printf "{\"kind\":\"validation\",\"step\":%d,\"epoch\":%d,\"loss\":0.5,\"accuracy\":%s}\n", i * 10, i, accuracy[i]
        } }' >"$work/runs/flat/metrics.jsonl"
    sed 's/^classes = .*/classes = 20/' "$work/runs/two/run.conf" >"$work/runs/flat/run.conf"
    run "$report" "$work/runs/flat" -o "$page"
    expect_code 0 "rates of $rates"
    expect_page "rates of $rates" 3
    [ -z "$node" ] || expect_equal "$(sed -n 's/^.*<text class="last"[^>]*>\([^<]*\)<.*/\1/p; s/ %$//' "$drawn" |
        awk '{ sub(/ %$/, "") } length($0) > 7')" '' "labels of the rates $rates"
    expect_has '>validation accuracy, last</th><td>75.00 %</td></tr>'
    expect_has '>validation accuracy, best</th><td>81.25 %</td></tr>'
    expect_has '>best at step</th><td>20</td></tr>'
    expect_has '<b>81.25 %</b><span>validation accuracy, best</span>'
done
cp -r "$work/runs/flat" "$work/runs/unset"
sed -i 's/^classes = .*/classes = 0/; s/^weight_decay = .*/weight_decay = 0.5/' "$work/runs/unset/run.conf"
run "$report" "$work/runs/flat" "$work/runs/unset" -o "$page"
expect_page 'settings that are not set' 3
expect_has "<th scope=\"row\">data.classes</th><td>20</td><td>not set (from dataset.json, or the model's)</td>"
expect_has '<th scope="row">train.weight_decay</th><td>0</td><td>0.5</td>'

# The best evaluation by another measure than accuracy, which is named: by the settings of the run, or of each of several.
cat >"$work/runs/flat/metrics.jsonl" <<'END'
{"kind":"validation","step":10,"loss":0.5,"accuracy":0.9,"balanced_accuracy":0.5,"macro":{"f1":0.25}}
{"kind":"validation","step":20,"loss":0.75,"accuracy":0.8,"balanced_accuracy":0.7,"macro":{"f1":0.625}}
{"kind":"validation","step":30,"loss":0.6,"accuracy":0.7,"balanced_accuracy":0.6,"macro":{"f1":0.5}}
END
cp "$work/runs/flat/metrics.jsonl" "$work/runs/unset"
sed -i 's/^best_by = .*/best_by = macro_f1/' "$work/runs/flat/run.conf"
sed -i 's/^best_by = .*/best_by = loss/' "$work/runs/unset/run.conf"
run "$report" "$work/runs/flat" -o "$page"
expect_page 'evaluations by macro F1' 3
expect_has '>validation macro F1, best</th><td>62.50 %</td></tr>'
expect_has '>validation accuracy, best</th><td>80.00 %</td></tr>'
expect_has '>best at step</th><td>20</td></tr>'
expect_has '<b>62.50 %</b><span>validation macro F1, best</span>'
run "$report" "$work/runs/flat" "$work/runs/unset" -o "$page"
expect_page 'evaluations by two measures' 3
expect_has '>train.best_by, best</th><td>62.50 % (macro F1)</td><td>0.5 (loss)</td></tr>'
expect_has '>best at step</th><td>20</td><td>10</td></tr>'

# Without a summary, what its names would say comes from the rows: sums, shares weighted by time, the last row and the best one.
mkdir "$work/runs/rows"
cp "$work/runs/two/run.conf" "$work/runs/rows"
cat >"$work/runs/rows/metrics.jsonl" <<'END'
{"kind":"train","step":10,"images":640,"loss":2.5,"accuracy":0.25,"seconds":2,"images_per_second":320,"time":"noon","fractions":{"forward":0.5,"backward":0.5},"queues":{"ring":{"depth":4,"least":1,"mean":3}}}
{"kind":"validation","step":10,"images":100,"loss":2,"accuracy":0.5,"seconds":1}
{"kind":"epoch","step":10,"images":640,"loss":2.5,"seconds":2}
{"kind":"train","step":20,"images":640,"loss":null,"accuracy":0.75,"seconds":6,"images_per_second":107,"fractions":{"forward":0.1,"backward":0.9},"queues":{"ring":null}}
END
run "$report" "$work/runs/rows" -o "$page"
expect_page 'a summary from the rows' 5
for row in 'time in forward</th><td>20.00 %' 'time in backward</th><td>80.00 %' 'images</th><td>1,280' 'steps</th><td>20' \
    'training time</th><td>8 s' 'images/s, whole run</th><td>160' 'validation images</th><td>100' 'last row</th><td>noon' \
    'training loss</th><td>-'; do
    case $row in *'<td>-') ! grep -Fq "${row%%<*}</th>" "$drawn" || fail "the page has: $row" ;; *) expect_has "$row" ;; esac
done
# The first of its rows ends after 2 seconds, the other after 9, evaluation included: second 8 is at 6/7 of the axis. Of the
# ring's 4 places 3 were full, 1 at least.
expect_has '<text class="middle" x="335.4285714285714" y="216">8</text>'
expect_has '<circle class="c0" cx="219" cy="35" r="2.5">'
expect_has '<circle class="c0" cx="219" cy="145" r="2.5">'
# Times that are no times.
printf '{"kind":"train","step":%d,"seconds":%s,"images_per_second":5}\n' 1 1e308 2 1e308 3 -7 4 '"x"' 5 2 >"$work/runs/rows/metrics.jsonl"
run "$report" "$work/runs/rows" -o "$page"
expect_code 0 'odd times'
expect_page 'odd times' 1
printf '{"kind":"train","step":%d,"seconds":%s,"images_per_second":5}\n' 1 5 2 -7 3 3 >"$work/runs/rows/metrics.jsonl"
run "$report" "$work/runs/rows" -o "$page"
expect_page 'a time before the one before' 1
expect_has '<text class="middle" x="56" y="216">5.0</text>'
expect_has '<text class="middle" x="382" y="216">8.0</text>'

# Of many rows neighbours are merged: a spike is on the band, sums are those of all rows, the last row is as it was.
awk 'BEGIN { for (i = 1; i <= 2803; i++) {
    printf "{\"kind\":\"train\",\"step\":%d,\"images\":64,\"seconds\":0.5,\"loss\":%g,\"accuracy\":0.5}\n", i, i == 100 ? 50 : 1 + (i == 2803) / 8
    if (i % 701 == 0) printf "{\"kind\":\"validation\",\"step\":%d,\"loss\":1,\"accuracy\":%g}\n", i, i == 1402 ? 0.75 : 0.5
    } }' >"$work/runs/rows/metrics.jsonl"
run "$report" "$work/runs/rows" -o "$page"
expect_page 'many rows' 2
for row in 'images</th><td>179,392' 'steps</th><td>2,803' 'training time</th><td>23 min 21 s' 'training loss</th><td>1.125' \
    'best</th><td>75.00 %' 'best at step</th><td>1,402'; do
    expect_has "$row"
done
expect_has 'L66.3 178.0L67.2 24.0L68.1 178.0'
expect_has 'L66.3 178.0L67.2 43.3L68.1 178.0'
[ "$(wc -c <"$page")" -lt 500000 ] || fail 'the page of many rows is large'
# Of many evaluations the best is among others: how good it was is known, its step is not.
awk 'BEGIN { for (i = 1; i <= 901; i++)
    printf "{\"kind\":\"validation\",\"step\":%d,\"loss\":1,\"accuracy\":%g}\n", i, i == 502 ? 0.75 : 0.5 + (i == 901) / 8
    }' >"$work/runs/rows/metrics.jsonl"
run "$report" "$work/runs/rows" -o "$page"
expect_page 'many evaluations' 2
expect_has 'best</th><td>75.00 %'
expect_has 'last</th><td>62.50 %'
[ -z "$node" ] || ! grep -Fq 'best at step' "$drawn" || fail 'the step of an evaluation among others'

# Damage is said here and there, and the page is written.
printf '\n<script>alert(1)</script>\n[]\n' >>"$work/runs/one/metrics.jsonl"
run "$report" "$work/runs/one" -o "$page"
expect_code 3 'the page of a run with damaged lines'
expect_err 'one/metrics.jsonl: line 6 is damaged and left out: '
expect_err 'one/metrics.jsonl: line 7 is damaged and left out: '
expect_err 'one/metrics.jsonl: line 8 is damaged and left out: it is not a row of a run'
expect_err_lines 3
expect_page 'damaged lines' $curves
expect_has 'Parts of the data could not be read'
expect_has 'line 7 is damaged and left out'
rm "$work/runs/one/metrics.jsonl"
cp "$work/kept.json" "$work/runs/one/summary.json"
run "$report" "$work/runs/one" -o "$page"
expect_code 3 'the page of a run without metrics'
expect_err 'one/metrics.jsonl: No such file or directory: there are no curves'
expect_page 'no metrics' 2

# What is no run, and what is no command: nothing is written.
rm "$page"
for words in "$work" "$work/absent" "$work/mine" "$work/runs/two $work/data"; do
    run "$report" $words -o "$page"
    expect_code 3 "a page of $words"
    expect_err '^pipetrain-report: '
    expect_err_lines 1
done
for words in '' '--ouput=x runs' '-o' "$work/runs/two --output="; do
    run "$report" $words
    expect_code 2 "the command line $words"
done
[ ! -e "$page" ] || fail 'a page was written all the same'
# Traces are drawn by Perfetto.
run "$report" --trace "$work/trace.json" -o "$work/steps.svg"
expect_code 2 'a trace'
expect_err 'ui.perfetto.dev'

run "$report" --help
expect_code 0 'the help'
expect_narrow 'the help'
expect_out 'pipetrain-report runs/run$'
run "$report" --version
expect_out '^pipetrain-report [0-9]'
finish
