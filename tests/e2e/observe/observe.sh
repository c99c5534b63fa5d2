# Shared by the tests of what observes a run, which source it behind e2e.sh.
dump=$build/tests/e2e/observe/event_dump
[ -x "$dump" ] || { echo "not built: $dump"; exit 99; }

# events FOLDER: what stands in its files as readers see it: those of later processes come last, and a start takes the
# steps from there on away from what is before.
events() {
    "$dump" "$1"/events.out.tfevents.* >"$work/dumped" 2>"$work/err" || fail "$1: $(cat "$work/err")"
    awk '$1 == "start" { for (i = 0; i < n; i++) if (step[i] >= $2) line[i] = ""; next }
        { step[n] = $1 == "version" || $1 == "hparam" ? -1 : $2; line[n++] = $0 }
        END { for (i = 0; i < n; i++) if (line[i] != "") print line[i] }' "$work/dumped"
}

# rows RUN KIND PATH...: of metrics.jsonl the step and the numbers of these rows.
rows_of() {
    rows=$work/runs/$1/metrics.jsonl kind_of_rows=$2
    shift 2
    grep "^{\"kind\":\"$kind_of_rows\"" "$rows" >"$work/rows_of"
    "$json_value" --lines "$work/rows_of" step "$@"
}

# expect_scalars FOLDER TAG RUN KIND PATH: a value for every row, with its number as a float.
expect_scalars() {
    events "$1" | awk -v tag="$2" '$1 == "scalar" && $3 == tag { print $2, $4 }' >"$work/scalars"
    rows_of "$3" "$4" "$5" >"$work/expected"
    [ -s "$work/expected" ] || fail "$3 has rows of $4"
    paste -d ' ' "$work/scalars" "$work/expected" | awk '{ d = $2 - $4; limit = ($4 < 0 ? -$4 : $4) * 1e-6
        if (NF != 4 || $1 != $3 || d > limit || -d > limit) exit 1 }' || fail "$2 of $4 is not $5 of metrics.jsonl"
}
