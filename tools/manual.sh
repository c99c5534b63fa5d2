#!/bin/sh
# A manual page from what a program says of itself: manual.sh PROGRAM VERSION SUMMARY [COMMAND...] writes the page
# that `PROGRAM --help`, and `PROGRAM COMMAND --help` for each command, would be in the macros of man(7).
# PROGRAM:WORD is `PROGRAM WORD --help` alone, as the page PROGRAM-WORD.
program=${1%%:*} version=$2 summary=$3 word=
case $1 in
    *:*) word=${1#*:} ;;
esac
shift 3
name=$(basename "$program")${word:+-$word}

# Lines as they are: no filling, and nothing in them means anything to troff.
as_they_are() {
    printf '.nf\n'
    sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'
    printf '.fi\n'
}

# A help text without the indentation of pages, since it has up to 80 columns.
as_wide_as_it_is() {
    printf '.in 0\n'
    as_they_are
    printf '.in\n'
}

general=$("$program" ${word:+"$word"} --help) || exit
printf '.TH %s 1 "" "pipetrain %s"\n' "$(echo "$name" | tr '[:lower:]' '[:upper:]' | sed 's/-/\\-/g')" "$version"
printf '.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n' "$(echo "$name" | sed 's/-/\\-/g')" "$summary"
echo "$general" | sed -n '1s/^Usage: //p; 2,3s/^  or   //p' | as_they_are
printf '.SH DESCRIPTION\n'
echo "$general" | sed '1d; 2,3{/^  or   /d;}' | as_wide_as_it_is
for command in "$@"; do
    text=$("$program" "$command" --help) || exit
    printf '.SH %s\n' "$(echo "$command" | tr '[:lower:]' '[:upper:]')"
    echo "$text" | as_wide_as_it_is
done
printf '.SH SEE ALSO\n'
comma=
for other in pipetrain pipetrain-convert pipetrain-evaluate pipetrain-export pipetrain-predict pipetrain-report \
    pipetrain-shards; do
    [ "$other" != "$name" ] || continue
    printf '%s.BR %s (1)' "$comma" "$(echo "$other" | sed 's/-/\\-/g')"
    comma=',
'
done
printf '\n'
