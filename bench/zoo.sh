#!/bin/sh
# A table of the models, one row each, or of those named: what they are, how fast they train and evaluate here, in
# turns with PyTorch, and how a step compares with the bare primitives.
#
#     bench/zoo.sh [-b BUILD] [-n PAIRS] [-s SECONDS] [-w SECONDS] [-p PRECISION] [-c] [-t] [MODEL[:BATCH]]...
#     bench/zoo.sh -l         lists the models
#
# -n  pairs a number (3); -s  seconds a measurement (6); -w  wait so long at most for idle cores; -p  fp32 (default) or
# bf16, beside PyTorch's autocast; -c  torch.compile is tried, too; -t  evaluation is left out. PyTorch's Python
# is PEER_TORCH (default python3). bench/README.md says what the columns mean.
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
build=.
options=

usage()
{
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while getopts b:n:s:w:p:ctlh option; do
    case $option in
        b) build=$OPTARG ;;
        n) options="$options --pairs $OPTARG" ;;
        s) options="$options --seconds $OPTARG" ;;
        w) options="$options --wait $OPTARG" ;;
        p) options="$options --precision $OPTARG" ;;
        c) options="$options --compile" ;;
        t) options="$options --training-only" ;;
        l) options="$options --list" ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))

build=$(cd "$build" && pwd)
test -x "$build/pipetrain" || { echo "$0: no program $build/pipetrain: give its folder with -b" >&2; exit 2; }
make -s -C "$build" bench/primitives bench/inference >&2

script=zoo.sh
cores=$(nproc)
. "$bench/rows.sh"
describe_peers() { echo "- PyTorch: $(version "${PEER_TORCH:-python3}" 'import torch; print(torch.__version__)')"; }

case $options in *--list*) ;; *) describe "$options" "$@" ;; esac
exec python3 "$bench/zoo.py" --build "$build" --torch "${PEER_TORCH:-python3}" --threads "$cores" $options "$@"
