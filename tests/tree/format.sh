#!/bin/sh
# The sources are formatted as .clang-format says. Where a line ends is its author's choice, so words are compared.
[ "${PIPETRAIN_SANITIZER:-no}" = no ] || { echo 'the sources are the same without a sanitizer'; exit 77; }
cd "$(dirname "$0")/../.." || exit 99
[ -f .clang-format ] && command -v clang-format >/dev/null 2>&1 || { echo 'clang-format is not installed'; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/pipetrain-format.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
# What protoc-c writes while the tests are built is not ours.
sources=$(find formats stage loader compute sync tools tests bench ! -name '*.pb-c.*' \
    \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \))

# Standard input as its words, one on a line.
words() {
    tr '\n\t\\' '   ' | sed -E 's/ +/ /g; s/([(]|\[) /\1/g; s/ ([])])/\1/g; s/" "/ /g' | tr ' ' '\n'
}

# is_formatted FILE...: leaves the words of the files in $work/ours and those of clang-format's output in $work/theirs.
is_formatted() {
    cat "$@" | words >"$work/ours"
    clang-format --style=file "$@" >"$work/formatted" && words <"$work/formatted" >"$work/theirs" &&
        cmp -s "$work/ours" "$work/theirs"
}

# All files in one process first, because starting clang-format for each takes long.
is_formatted $sources && exit 0
for file in $sources; do
    is_formatted "$file" || { echo "$file: clang-format spaces this differently:"; diff "$work/ours" "$work/theirs" | grep '^[<>]' | head -n 12; }
done
exit 1
