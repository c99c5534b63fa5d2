#!/bin/sh
# Shards of raw pixels: 256 x 256 as a loader keeps them in memory, or of another side, such as CIFAR's.
#
#     bench/raw_set.sh BUILD OUT [RECORDS [SIDE]]
#
# The pixels are random, of RECORDS images (default 2000) of SIDE x SIDE x 3 (default 256). python3 (or PEER_TORCH)
# has to have NumPy.
set -eu

[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
arrays=$(mktemp -d "${TMPDIR:-/tmp}/pipetrain-raw.XXXXXX")
trap 'rm -rf "$arrays"' EXIT
trap 'exit 2' HUP INT TERM

"${PEER_TORCH:-python3}" -c '
import numpy, sys
random, count, side = numpy.random.default_rng(1), int(sys.argv[2]), int(sys.argv[3])
numpy.save(sys.argv[1] + "/images.npy", random.integers(0, 256, (count, side, side, 3), dtype=numpy.uint8))
numpy.save(sys.argv[1] + "/labels.npy", random.integers(0, 10, count, dtype=numpy.int64))
' "$arrays" "${3:-2000}" "${4:-256}"
"$1/pipetrain-convert" npy "$arrays/images.npy" "$arrays/labels.npy" -o "$2"
