#!/bin/sh
# One way to write what can be written in several: no tab, no blank at a line's end, 120 columns,
# sizeof(x), a call's outcome is called rc. Where clang-format is: the spaces inside a line and the
# order of includes are its own (where lines end is not compared).
[ "${PIPETRAIN_SANITIZER:-no}" = no ] || { echo 'the sources are the same without a sanitizer'; exit 77; }
cd "$(dirname "$0")/../.." || exit 99
work=$(mktemp -d "${TMPDIR:-/tmp}/pipetrain-dialect.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
LC_ALL=C
export LC_ALL
failed=0 skipped=
# What protoc-c writes while the tests are built is not ours.
sources=$(find formats stage loader compute sync tools tests bench ! -name '*.pb-c.*' \
    \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \))
product=$(echo "$sources" | grep -Ev '^(tests|bench)/')

refuse() {
    [ -z "$2" ] || { failed=1; echo "$1:"; printf '%s\n' "$2" | sed 's/^/    /'; }
}

refuse 'a tab, a blank at the end of a line, or over 120 columns' \
    "$(grep -nE "$(printf '\t')| \$|.{121}" $sources | cut -c1-160)"
refuse 'sizeof without parentheses' "$(grep -nE '\bsizeof +[a-z*]' $sources)"
refuse "the outcome of a call is called rc" "$(grep -nE '^ +(const )?int (err|error|ret|result|res) = [a-z_]+\(' $product |
    grep -vE '= (posix_[a-z]+|pthread_[a-z]+)\(')"

# A text as its words, one a line, whatever lines it had.
words() {
    tr '\n\t\\' '   ' | sed -E 's/ +/ /g; s/([(]|\[) /\1/g; s/ ([])])/\1/g; s/" "/ /g' | tr ' ' '\n'
}

# same_words FILE...: leaves them as they are in $work/ours and as clang-format has them in $work/theirs.
same_words() {
    cat "$@" | words >"$work/ours"
    clang-format --style=file "$@" >"$work/formatted" && words <"$work/formatted" >"$work/theirs" &&
        cmp -s "$work/ours" "$work/theirs"
}

if [ -f .clang-format ] && command -v clang-format >/dev/null 2>&1; then
    # All at once, which starts it once, and file by file only to say which.
    same_words $sources || for file in $sources; do
        same_words "$file" || refuse "$file: clang-format has other spaces" \
            "$(diff "$work/ours" "$work/theirs" | grep '^[<>]' | head -n 12)"
    done
else
    skipped="$skipped clang-format"
fi
[ $failed -eq 0 ] || exit 1
[ -z "$skipped" ] || { echo "not looked at, because not here:$skipped"; exit 77; }
