#!/bin/sh
# The slowest tests of a make check, from the .trs files that are named (driver.sh): seconds, of them computed on all
# cores, what was waited or computed side by side shows in the difference.
[ $# -gt 0 ] || exit 0
awk '/^:seconds: / { sub(/[.]trs$/, "", FILENAME); printf "%s %s %s\n", $2, $3, FILENAME }' "$@" 2>/dev/null | sort -rn |
    awk '{ all += $1; computed += $2 }
         NR == 1 { print "seconds  computed  the slowest tests" }
         NR <= 20 { printf "%7.1f  %8.1f  %s\n", $1, $2, $3 }
         END { if (NR > 0) printf "%7.1f  %8.1f  all %d\n", all, computed, NR }'
