#!/bin/sh
# What working together costs two towers: every mode of synchronisation beside one tower and beside towers that never
# meet, and the update and the sum of a whole arena beside a copy of as many bytes. Markdown tables on stdout.
#
#     bench/sync.sh BUILD [MODEL:BATCH_PER_TOWER:STEPS...]
#
# BUILD is a build folder. Wants two idle cores; what the columns mean stands in bench/sync/modes.py and passes.c.
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] && [ -x "$1/pipetrain" ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
make -C "$build" bench/sync/passes >&2
python3 "$bench/sync/modes.py" "$build" "$@"
"$build/bench/sync/passes"
