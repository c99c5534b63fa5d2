#!/bin/sh
# What make check runs each test with: automake's own driver, which judges, with the seconds that the test took, and
# those that it computed on all its threads, put into its .trs file. tests/slowest.sh lists them.
automake=$1 previous=
shift
for argument; do
    case $previous in --trs-file) results=$argument ;; esac
    previous=$argument
done
begun=$(date +%s%N)
"${SHELL:-/bin/sh}" "$automake" "$@" || exit
ended=$(date +%s%N)
times >"$results.times"
computed=$(tr 'ms' '  ' <"$results.times" | awk 'END { printf "%.2f", 60 * ($1 + $3) + $2 + $4 }')
rm -f "$results.times"
awk -v took=$((ended - begun)) -v computed="$computed" \
    'BEGIN { printf ":seconds: %.2f %s\n", took / 1e9, computed }' >>"$results"
