#!/bin/sh
# The pages of pipetrain-report in a real browser: without a message on its console, drawn light and dark, wide and
# narrow, with every text of a chart within it.
. "$(dirname "$0")/../e2e.sh"
report=$build/pipetrain-report
[ -x "$report" ] || { echo "not built: $report"; exit 99; }
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip 'no chromium here'
[ "$sanitizer" = no ] || skip 'the pages are the same without a sanitizer'
make_tiny

# browse PAGE WIDTH DARK WORD...: what it has on its console is left in $work/console.
browse() {
    page=$1 width=$2 scheme=$3
    shift 3
    command_line="$browser $* $page"
    HOME=$work timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr \
        --user-data-dir="$work/profile" --window-size="$width,2000" --blink-settings=preferredColorScheme="$scheme" \
        "$@" "file://$page" >"$work/out" 2>"$work/err"
    code=$?
    grep 'CONSOLE' "$work/err" >"$work/console"
}

# The page again, with a script that tells in its title what sticks out: of the window, or of a chart.
measure() {
    sed 's|</body>|<script>\
const wide = document.documentElement.scrollWidth > innerWidth ? 1 : 0, out = [];\
for (const svg of document.querySelectorAll("svg")) {\
    const frame = svg.viewBox.baseVal;\
    if (svg.clientWidth < 200 \|\| svg.clientHeight < 60) out.push("small");\
    for (const part of svg.querySelectorAll("text, path, rect, circle")) {\
        const box = part.getBBox();\
        if (box.x < -1 \|\| box.y < -1 \|\| box.x + box.width > frame.width + 1 \|\|\
            box.y + box.height > frame.height + 1) out.push(part.textContent);\
    }\
}\
document.title = "wide " + wide + " charts " + document.querySelectorAll("svg").length + " out " + out.join();\
</script></body>|' "$1" >"$work/measured.html"
}

train one --set train.epochs=2
train two --set train.epochs=2 --set devices.towers=2 --set train.learning_rate=0.5
grep -v '"kind":"validation"' "$work/runs/two/metrics.jsonl" | head -n 3 >"$work/rows"
mkdir "$work/runs/begun"
cp "$work/rows" "$work/runs/begun/metrics.jsonl"
cp "$work/runs/two/run.conf" "$work/runs/begun"
run "$report" "$work/runs/one" -o "$work/one.html"
run "$report" "$work/runs/one" "$work/runs/two" "$work/runs/begun" -o "$work/several.html"
expect_code 0 'the pages'
# Curves that are nearly constant have labels of many digits.
mkdir "$work/runs/flat"
for step in 1 2 3 4; do
    printf '{"kind":"train","step":%d,"epoch":1,"learning_rate":0.0099999%d,"loss":0.50000%d,"accuracy":0.9999%d}\n' $step $step $step $step
done >"$work/runs/flat/metrics.jsonl"
cp "$work/runs/two/run.conf" "$work/runs/flat"
run "$report" "$work/runs/flat" -o "$work/flat.html"
expect_code 0 'the page of a flat run'
# Every page is measured at every width. Pictures take long: some in the short test, all in the long one.
for name in one several flat; do
    case $name in one) charts=11 ;; several) charts=12 ;; flat) charts=3 ;; esac
    measure "$work/$name.html"
    for width in 1280 500; do
        browse "$work/measured.html" $width 1 --dump-dom
        expect_code 0 "the page of $name"
        expect_equal "$(sed -n 's/.*<title>\(wide [^<]*\)<.*/\1/p' "$work/out")" "wide 0 charts $charts out " \
            "$name at $width: what sticks out"
        case $long:$name:$width in yes:* | no:one:500 | no:several:1280) ;; *) continue ;; esac
        for scheme in 0 1; do
            browse "$work/$name.html" $width $scheme --screenshot="$work/$name-$width-$scheme.png"
            expect_code 0 "a picture of $name"
            expect_equal "$(cat "$work/console")" '' "$name at $width: the console"
            [ "$(wc -c <"$work/$name-$width-$scheme.png")" -gt 30000 ] || fail "$name at $width: the picture is empty"
        done
        cmp -s "$work/$name-$width-0.png" "$work/$name-$width-1.png" && fail "$name at $width: dark is light"
    done
done
finish
