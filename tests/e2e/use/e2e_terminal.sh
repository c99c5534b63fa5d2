#!/bin/sh
# The live line on a terminal: it is as wide as fits, also when the terminal becomes another width,
# and its erasing is the only escape sequence there is.
. "$(dirname "$0")/../e2e.sh"
python=${PYTHON:-python3}
"$python" -c 'import fcntl, pty, termios' 2>/dev/null || skip "no $python with pty"
make_tiny
make_smooth                     # what is shown does not depend on the network
printf '[model]\nfile = %s\n' "$work/smooth.net" >>"$work/tiny.conf"
PAGE=$work/page
export PAGE

# watch COLUMNS LATER WORD...: paintings in $work/out.
watch() {
    columns=$1 later=$2
    shift 2
    run "$python" "$(dirname "$0")/terminal.py" $columns $later -- "$pipetrain" -c "$work/tiny.conf" \
        --set "run.dir=$work/runs/$later" --set train.epochs=100000 --set report.progress=auto --set data.validation= "$@"
    expect_code 0 "a terminal of $columns and then $later columns"
    awk 'length($0) - length($1) - 1 > $1 - 1' "$work/out" >"$work/wide"
    expect_equal "$(cat "$work/wide")" '' 'paintings that are wider than the terminal'
    for width in $columns $later; do
        grep -q "^$width [^ ]" "$work/out" || fail "a painting at $width columns"
    done
    if grep -q "$(printf '\033')" "$work/out" "$PAGE"; then
        fail 'escape sequences other than the erasing of a line'
    fi
}

# What is painted just when the width changes may have the width from before.
watch 120 50
expect_out '^120 epoch 1/100000 step .*\[=*>? *\]  loss .* left$'
grep -q '^plan  *[0-9]* lines on a terminal of 24: ' "$PAGE" || fail 'a plan that is longer than the terminal'
watch 60 100
NO_COLOR=1
export NO_COLOR
watch 100 40
grep -q '^training ' "$PAGE" || fail 'the reports of a run on a terminal'
finish
