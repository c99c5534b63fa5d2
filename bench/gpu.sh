#!/bin/sh
# Every GPU comparison in one command of less than 8 minutes: ours and PyTorch on the same GPU in
# turns. The table replaces the one in bench/RESULTS.md between the lines "gpu.sh begin" and "gpu.sh end".
#
#     bench/gpu.sh [-b BUILD] [-d SHARDS] [-n PAIRS] [-s SECONDS] [-o FILE]
#
#   -b  folder with pipetrain and its data (default: here)
#   -d  glob of the training shards (default: mnist/train-* of the build, else its digits)
#   -n  pairs a row (default 3)     -s  begin no row after so many seconds (default 420)
#   -o  write the table to FILE instead
#
# PyTorch's interpreter comes from PEER_TORCH (default python3). bench/README.md says what the columns mean.
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
build=.
shards=
pairs=3
budget=420
results=$bench/RESULTS.md
torch=${PEER_TORCH:-python3}
begun=$(date +%s)

while getopts b:d:n:s:o: option; do
    case $option in
        b) build=$OPTARG ;;
        d) shards=$OPTARG ;;
        n) pairs=$OPTARG ;;
        s) budget=$OPTARG ;;
        o) results=$OPTARG ;;
        *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
build=$(cd "$build" && pwd)
test -x "$build/pipetrain" || { echo "$0: no program $build/pipetrain: give its folder with -b" >&2; exit 2; }
if test -z "$shards"; then
    shards="$build/mnist/train-*"
    ls $shards >/dev/null 2>&1 || shards="$build/data/digits/train-*"
fi
export PYTHONDONTWRITEBYTECODE=1
nvidia-smi >/dev/null 2>&1 || { echo "$0: nvidia-smi finds no GPU here" >&2; exit 2; }
"$torch" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
    { echo "$0: $torch has no PyTorch that finds the GPU: name one with PEER_TORCH" >&2; exit 2; }

table=$(mktemp) || exit 1
trap 'rm -f "$table" "$table.new"' EXIT

# The two sides. Arguments are section.key=value for ours, options for the peer.
ours() { echo "python3 '$bench/ours.py' '$build/pipetrain' model.name=mnist_cnn 'data.train=$shards' devices.kind=cuda devices.time_plans=yes $*"; }
peer() { echo "'$torch' '$bench/peer_torch_gpu.py' $*"; }

# row NAME TARGET A B [COMPARE OPTIONS]: nothing when the time is up.
row() {
    row_name=$1 target=$2 a=$3 b=$4
    shift 4
    if [ $(($(date +%s) - begun)) -ge "$budget" ]; then
        echo "| $row_name | | | not measured: the time was up | | | $target | | |" >>"$table"
        return 0
    fi
    python3 "$bench/compare.py" --pairs "$pairs" --name "$row_name" --target "$target" --a "$a" \
        ${b:+--b "$b"} "$@" >>"$table" || echo "| $row_name | | | failed | | | $target | | |" >>"$table"
}

# steps BATCH: about the same time for every batch size.
steps() { [ "$1" -ge 1024 ] && echo 800 || echo 3000; }

training_rows() {
    for precision in fp32 bf16; do
        for batch in 128 1024; do
            mine="$(ours devices.precision=$precision train.batch=$batch train.epochs=1000 train.steps=$(steps $batch))"
            row "images/s, $precision, batch $batch: ours / PyTorch eager" '>= 2' "$mine" \
                "$(peer --batch $batch --precision $precision --mode eager)"
            row "images/s, $precision, batch $batch: ours / PyTorch, CUDA graph" '>= 1' "$mine" \
                "$(peer --batch $batch --precision $precision --mode graph)"
        done
    done
}

feed_rows() {
    for batch in 128 1024; do
        real="$(ours devices.precision=bf16 train.batch=$batch train.epochs=1000 train.steps=$(steps $batch))"
        row "images/s, bf16, batch $batch: real input / on the device" '>= 0.99' "$real" "$real input.source=synthetic"
        row "input wait, share of tower time, bf16, batch $batch" '<= 0.005' "$real" '' --key-a fractions.input_wait
        row "share of copy time hidden, bf16, batch $batch" '>= 0.99' "$real" '' --key-a copy.hidden
    done
}

tower_rows() {
    for reduce in peer host; do
        row "images/s, fp32, batch 1024: 2 towers on one GPU ($reduce) / 1 tower" '' \
            "$(ours train.batch=1024 train.epochs=1000 train.steps=400 devices.towers=2 devices.list=0 sync.reduce=$reduce)" \
            "$(ours train.batch=1024 train.epochs=1000 train.steps=400)"
    done
}

{
    echo
    echo "Measured on $(date -u +%Y-%m-%d): $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)," \
        "$(nproc) cores; $("$build/pipetrain" --version | head -n 1); $("$torch" -c \
        'import torch; print("PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version())')."
    echo "Data: $(basename "$(dirname "$shards")"). $pairs pairs in turns."
    echo
    echo '    bench/gpu.sh'
    echo
    python3 "$bench/compare.py" --head
} >"$table"
training_rows
feed_rows
tower_rows
echo >>"$table"
cat "$table"

if [ "$results" != "$bench/RESULTS.md" ]; then
    cp "$table" "$results"
    exit 0
fi
grep -q '<!-- gpu.sh begin -->' "$results" || { echo "$0: $results has no line 'gpu.sh begin'" >&2; exit 1; }
awk -v table="$table" '
    /<!-- gpu.sh end -->/ { inside = 0 }
    !inside { print }
    /<!-- gpu.sh begin -->/ { inside = 1; while ((getline line < table) > 0) print line }' "$results" >"$table.new"
cat "$table.new" >"$results"
