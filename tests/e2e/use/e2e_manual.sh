#!/bin/sh
# The manual pages: each option of a program is in its --help and on its page, none there is unknown to the program,
# and man shows the pages without a warning.
. "$(dirname "$0")/../e2e.sh"

# The long options in a text, one per line.
options_in() {
    grep -oE -- '(^|[^a-z-])--[a-z][a-z-]*' | sed 's/.*--/--/' | sort -u
}

# The page as plain text.
page_text() {
    sed 's/\\-/-/g; s/\\f[BRI]//g; s/\\e/\\/g' "$build/$1.1"
}

# check PAGE PROGRAM [COMMAND]: whatever stands in --help is on the page and known to the program.
check() {
    page=$1
    shift
    [ -s "$build/$page.1" ] || { fail "no page $page.1"; return; }
    run "$@" --help
    expect_code 0 "$* --help"
    options_in <"$work/out" >"$work/options"
    [ -s "$work/options" ] || fail "no options in $* --help"
    page_text "$page" | options_in >"$work/on_page"
    expect_equal "$(comm -23 "$work/options" "$work/on_page" | tr '\n' ' ')" '' "options of $* that are not on $page(1)"
}

# known PAGE PROGRAM...: every option on the page is known to one of these, which may refuse it but by its name.
known() {
    page=$1
    shift
    page_text "$page" | options_in >"$work/on_page"
    while read -r option; do
        found=no
        for program in "$@"; do
            run $program "$option" </dev/null
            grep -q "there is no option '$option'" "$work/err" || found=yes
        done
        [ $found = yes ] || fail "$page(1) tells of $option, which $* do not know"
    done <"$work/on_page"
}

check pipetrain "$pipetrain"
check pipetrain-evaluate "$pipetrain" evaluate
check pipetrain-predict "$pipetrain" predict
check pipetrain-export "$pipetrain" export
check pipetrain-report "$build/pipetrain-report"
check pipetrain-convert "$convert"
check pipetrain-shards "$build/pipetrain-shards"
for command in list check head stats index extract; do
    check pipetrain-shards "$build/pipetrain-shards" $command
done
known pipetrain "$pipetrain" "$pipetrain evaluate" "$pipetrain --compare=seed=1"
known pipetrain-evaluate "$pipetrain evaluate"
known pipetrain-predict "$pipetrain predict"
known pipetrain-export "$pipetrain export"
known pipetrain-report "$build/pipetrain-report"

# Of each page the others can be found.
for page in pipetrain pipetrain-convert pipetrain-evaluate pipetrain-export pipetrain-predict pipetrain-report \
    pipetrain-shards; do
    for other in pipetrain-convert pipetrain-evaluate pipetrain-export pipetrain-predict pipetrain-report pipetrain-shards; do
        [ $page = $other ] || page_text $page | sed -n '/^.SH SEE ALSO/,$p' | grep -q "^.BR $other (1)" ||
            fail "$page(1) does not name $other(1)"
    done
done

# Not every machine has man, or pages that its man may read.
if command -v man >/dev/null && man --warnings -l "$build/pipetrain.1" >"$work/shown" 2>/dev/null && [ -s "$work/shown" ]; then
    for page in "$build"/pipetrain*.1; do
        run env LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page"
        expect_code 0 "man $page"
        expect_err_lines 0
    done
fi
finish
