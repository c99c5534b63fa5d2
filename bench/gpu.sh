#!/bin/sh
# Every GPU comparison in one command: ours and PyTorch on the same GPU in turns, the most valuable rows first. The table
# replaces the one in bench/RESULTS.md between the lines "gpu.sh begin" and "gpu.sh end"; it is written anew behind every
# row, so that whatever was measured is there when the time is up.
#
#     bench/gpu.sh [-b BUILD] [-d SHARDS] [-n PAIRS] [-s SECONDS] [-o FILE] [GROUP]...
#     bench/gpu.sh -l        lists the groups of rows
#
#   -b  folder with pipetrain and its data (default: here)
#   -d  glob of the training shards (default: mnist/train-* of the build, else digits)
#   -n  pairs a row (default 3)     -s  begin no row after so many seconds (default 420)
#   -o  write the table to FILE instead
#
# PyTorch's interpreter comes from PEER_TORCH (default python3). bench/README.md says what the columns mean.
# BENCH_DEVICE=cpu rehearses the table without a GPU: every side takes one or two steps of small batches.
# BENCH_DEVICE=simulated: our side on simulated GPUs, with ResNet-20 in place of ResNet-50.
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
build=.
shards=
pairs=3
budget=420
results=$bench/RESULTS.md
torch=${PEER_TORCH:-python3}
device=${BENCH_DEVICE:-cuda}
begun=$(date +%s)
groups='mnist resnet50 plans graphs fused resnet20 precisions feed memory towers ranks slices'

usage() { sed -n '2,17s/^# \{0,1\}//p' "$0" >&2; exit 2; }

while getopts b:d:n:s:o:l option; do
    case $option in
        b) build=$OPTARG ;;
        d) shards=$OPTARG ;;
        n) pairs=$OPTARG ;;
        s) budget=$OPTARG ;;
        o) results=$OPTARG ;;
        l) printf '%s\n' $groups; exit 0 ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- $groups
for group; do
    case " $groups " in
        *" $group "*) ;;
        *) echo "$0: there is no group $group: $groups" >&2; exit 2 ;;
    esac
done
build=$(cd "$build" && pwd)
test -x "$build/pipetrain" || { echo "$0: no program $build/pipetrain: give its folder with -b" >&2; exit 2; }
if [ "$results" = "$bench/RESULTS.md" ]; then
    grep -q '<!-- gpu.sh begin -->' "$results" || { echo "$0: $results has no line 'gpu.sh begin'" >&2; exit 2; }
fi
export PYTHONDONTWRITEBYTECODE=1
if [ "$device" = cuda ]; then
    nvidia-smi >/dev/null 2>&1 || { echo "$0: nvidia-smi finds no GPU here" >&2; exit 2; }
    "$torch" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
        { echo "$0: $torch has no PyTorch that finds the GPU: name one with PEER_TORCH" >&2; exit 2; }
fi
# A rehearsal does without PyTorch.
has_torch=no
! "$torch" -c 'import torch' 2>/dev/null || has_torch=yes

# CUDA's libraries for our programs; PyTorch has its own way to its libraries and does not get this path.
. "$bench/../tests/gpu/library_path.sh"
libraries=$(library_path "$build" "$torch" "$build/pipetrain")
version=$(LD_LIBRARY_PATH=$libraries "$build/pipetrain" --version | head -n 1)

work=$(mktemp -d "${TMPDIR:-/tmp}/pipetrain-gpu.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
table=$work/table

# What trains, on which kind of device, and PyTorch's. The program of the simulation is beside the modules for ranks, too.
program=$build/pipetrain kind=$device peer_device=$device
case $device in
    cpu | cuda) ;;
    simulated)
        program=$work/simulated/pipetrain kind=cuda peer_device=cpu
        mkdir "$work/simulated"
        cp "$build/tests/e2e/pipetrain_sim" "$program"
        cp "$build"/pipetrain-*.so "$work/simulated" 2>/dev/null || : ;;
    *) echo "$0: BENCH_DEVICE=$device: cuda, cpu and simulated are possible" >&2; exit 2 ;;
esac

# Data: MNIST where the build has it, else digits; JPEG images of 20 to 40 pixels.
convert() { LD_LIBRARY_PATH=$libraries "$build/pipetrain-convert" "$@" --quiet >&2; }
if [ -z "$shards" ]; then
    for folder in "$build/mnist" "$build/data/digits" "$work/digits"; do
        shards=$folder/train-*
        ! ls $shards >/dev/null 2>&1 || break
    done
    [ "$folder" != "$work/digits" ] || convert digits -o "$work/digits"
fi
jpeg_shards="$work/jpeg/train-*"
need_jpeg() {
    ! ls $jpeg_shards >/dev/null 2>&1 || return 0
    each=2000
    [ "$device" = cuda ] || each=8
    LD_LIBRARY_PATH=$libraries "$build/tests/e2e/use/jpeg_maker" "$work/photos" 10 $each &&
        convert folder "$work/photos" -o "$work/jpeg" --validation=0.1
}

launcher=
# ours KEY=VALUE...: our side. A rehearsal leaves out what only a GPU has, and is short.
ours() {
    command="env 'LD_LIBRARY_PATH=$libraries' 'OURS_LAUNCHER=$launcher' python3 '$bench/ours.py' '$program'"
    command="$command devices.kind=$kind train.epochs=1000"
    for setting; do
        case $device,$setting in
            cuda,*) ;;
            cpu,devices.precision=* | cpu,devices.graph=* | cpu,devices.time_plans=* | cpu,devices.list=*) continue ;;
            cpu,devices.fuse=* | cpu,devices.batch_statistics=* | cpu,sync.reduce=*) continue ;;
            simulated,model.name=resnet50*) setting=model.name=resnet20_v1 ;;
            *,train.steps=*) setting=train.steps=2 ;;
            *,train.batch=256) setting=train.batch=2 ;;
            *,train.batch=*) setting=train.batch=8 ;;
        esac
        command="$command '$setting'"
    done
    echo "$command"
}
# peer OPTION...: PyTorch's side. In place of a side that cannot run here stands "none: WHY".
peer() {
    peer_options=
    if [ "$device" != cuda ]; then
        case $has_torch,$* in
            no,*) echo 'none: there is no PyTorch'; return ;;
            *'--mode graph'* | *'--mode compile'*) echo 'none: that needs a GPU'; return ;;
        esac
        peer_options="--device $peer_device --batch 2 --steps 2 --warm 1 --trial 1"
    fi
    echo "'$torch' '$bench/peer_torch_gpu.py' $* $peer_options"
}

# ranked COMMAND...: our side as two ranks, by MPICH's launcher, of the bundle or of the system.
ranked() {
    launcher=$build/mpi/mpiexec.hydra
    [ -x "$launcher" ] || launcher=$(command -v mpiexec.hydra) || { echo 'none: there is no mpiexec.hydra'; return; }
    [ -e "$build/pipetrain-mpich.so" ] || { echo 'none: it is built without MPICH'; return; }
    launcher="$launcher -n 2"
    "$@"
}

# publish: the table as far as it is, into the results, which are whole at any moment.
publish() {
    if [ "$results" != "$bench/RESULTS.md" ]; then
        cp "$table" "$results.new"
    else
        awk -v table="$table" '
            /<!-- gpu.sh end -->/ { print ""; inside = 0 }
            !inside { print }
            /<!-- gpu.sh begin -->/ { inside = 1; while ((getline line < table) > 0) print line }' "$results" >"$results.new"
    fi
    mv "$results.new" "$results"
}

# row NAME TARGET A B [COMPARE OPTIONS]: nothing when the time is up.
row() {
    row_name=$1 target=$2 a=$3 b=$4
    shift 4
    missing=
    for side in "$a" "$b"; do
        case $side in 'none: '*) missing=${side#none: } ;; esac
    done
    # PyTorch counts the memory of GPUs only.
    case $device,$* in cuda,*) ;; *'--key-b peak_bytes') missing=${missing:-that needs a GPU} ;; esac
    [ $(($(date +%s) - begun)) -lt "$budget" ] || missing='the time was up'
    if [ -n "$missing" ]; then
        line="| $row_name | | | not measured: $missing | | | $target | | |"
    else
        line=$(python3 "$bench/compare.py" --pairs "$pairs" --name "$row_name" --target "$target" --a "$a" \
            ${b:+--b "$b"} "$@") || line="| $row_name | | | failed | | | $target | | |"
    fi
    echo "$line" >>"$table"
    publish
    echo "$line"
}

# steps BATCH: about the same time for every batch size.
steps() { if [ "$1" -ge 1024 ]; then echo 800; else echo 3000; fi; }
# mnist BATCH PRECISION [KEY=VALUE]...
mnist() {
    mnist_batch=$1 mnist_precision=$2
    shift 2
    ours model.name=mnist_cnn "data.train=$shards" devices.time_plans=yes devices.precision=$mnist_precision \
        train.batch=$mnist_batch train.steps=$(steps $mnist_batch) "$@"
}
# resnet50 PRECISION [KEY=VALUE]...
resnet50() {
    resnet_precision=$1
    shift
    ours model.name=resnet50_v1.5 input.source=synthetic train.batch=256 train.steps=60 devices.precision=$resnet_precision "$@"
}
resnet20() {
    ours model.name=resnet20_v1 train.batch=128 train.steps=1500 devices.precision=bf16 devices.time_plans=yes "$@"
}
torch_resnet50() { peer --model resnet50 --batch 256 --steps 40 "$@"; }

rows_mnist() {
    for precision in bf16 fp32; do
        for batch in 128 1024; do
            row "images/s, mnist_cnn, $precision, batch $batch: ours / PyTorch eager" '>= 2' "$(mnist $batch $precision)" \
                "$(peer --batch $batch --precision $precision --mode eager)"
            row "images/s, mnist_cnn, $precision, batch $batch: ours / PyTorch, CUDA graph" '>= 1' \
                "$(mnist $batch $precision)" "$(peer --batch $batch --precision $precision --mode graph)"
        done
    done
}

rows_resnet50() {
    for mode_target in 'eager >= 1.2' 'graph ' 'compile >= 1'; do
        mode=${mode_target%% *}
        row "images/s, ResNet-50, bf16, batch 256: ours / PyTorch $mode" "${mode_target#* }" \
            "$(resnet50 bf16 devices.time_plans=yes)" "$(torch_resnet50 --precision bf16 --mode $mode)"
    done
}

rows_plans() {
    row 'images/s, ResNet-50, bf16, batch 256: plans timed / chosen by cuDNN' '' "$(resnet50 bf16 devices.time_plans=yes)" \
        "$(resnet50 bf16 devices.time_plans=no)"
    row 'images/s, mnist_cnn, bf16, batch 128: plans timed / chosen by cuDNN' '' "$(mnist 128 bf16)" \
        "$(mnist 128 bf16 devices.time_plans=no)"
}

rows_graphs() {
    row 'images/s, mnist_cnn, bf16, batch 128: steps as graphs / queued' '' "$(mnist 128 bf16 devices.graph=on)" \
        "$(mnist 128 bf16 devices.graph=off)"
    row 'images/s, ResNet-50, bf16, batch 256: steps as graphs / queued' '' \
        "$(resnet50 bf16 devices.time_plans=yes devices.graph=on)" "$(resnet50 bf16 devices.time_plans=yes devices.graph=off)"
}

rows_fused() {
    row 'images/s, ResNet-50, bf16, batch 256: devices.fuse = yes / no' '' \
        "$(resnet50 bf16 devices.time_plans=yes devices.fuse=yes)" "$(resnet50 bf16 devices.time_plans=yes devices.fuse=no)"
    row 'images/s, ResNet-50, bf16, batch 256, devices.fuse = yes: ours / PyTorch compile' '>= 1' \
        "$(resnet50 bf16 devices.time_plans=yes devices.fuse=yes)" "$(torch_resnet50 --precision bf16 --mode compile)"
    for precision in bf16 fp16; do
        row "images/s, ResNet-50, $precision, batch 256, devices.fuse = yes: batch_statistics = fused / exact" '' \
            "$(resnet50 $precision devices.time_plans=yes devices.fuse=yes devices.batch_statistics=fused)" \
            "$(resnet50 $precision devices.time_plans=yes devices.fuse=yes)"
    done
}

rows_resnet20() {
    for mode in eager graph; do
        row "images/s, ResNet-20, bf16, batch 128: ours / PyTorch $mode" '' "$(resnet20 input.source=synthetic)" \
            "$(peer --model resnet20 --batch 128 --precision bf16 --mode $mode)"
    done
}

rows_precisions() {
    for precision in fp16 tf32; do
        row "images/s, ResNet-50, $precision, batch 256: ours / PyTorch eager" '' \
            "$(resnet50 $precision devices.time_plans=yes)" "$(torch_resnet50 --precision $precision --mode eager)"
    done
}

# fed NAME REAL...: real input beside input on the device, and what of it is not hidden.
fed() {
    fed_name=$1 fed=$2
    row "images/s, $fed_name: real input / on the device" '>= 0.99' "$fed" "$3"
    row "input wait, share of tower time, $fed_name" '<= 0.005' "$fed" '' --key-a fractions.input_wait
    row "share of copy time hidden, $fed_name" '>= 0.99' "$fed" '' --key-a copy.hidden
}

rows_feed() {
    if need_jpeg; then
        fed 'ResNet-20, JPEG, bf16, batch 128' "$(resnet20 "data.train=$jpeg_shards")" "$(resnet20 input.source=synthetic)"
    else
        echo "$0: no JPEG images could be made" >&2
    fi
    for batch in 128 1024; do
        fed "mnist_cnn, records, bf16, batch $batch" "$(mnist $batch bf16)" "$(mnist $batch bf16 input.source=synthetic)"
    done
}

rows_memory() {
    row 'bytes of device memory, ResNet-50, bf16, batch 256: ours / PyTorch eager' '' "$(resnet50 bf16)" \
        "$(torch_resnet50 --precision bf16 --mode eager)" --key-a memory.device_bytes --key-b peak_bytes
    row 'bytes of device memory, mnist_cnn, bf16, batch 1024: ours / PyTorch eager' '' "$(mnist 1024 bf16)" \
        "$(peer --batch 1024 --precision bf16 --mode eager)" --key-a memory.device_bytes --key-b peak_bytes
}

rows_towers() {
    for reduce in peer host; do
        row "images/s, mnist_cnn, fp32, batch 1024: 2 towers on one GPU ($reduce) / 1 tower" '' \
            "$(mnist 1024 fp32 train.steps=400 devices.towers=2 devices.list=0 sync.reduce=$reduce)" \
            "$(mnist 1024 fp32 train.steps=400)"
    done
}

rows_ranks() {
    for reduce in ipc host; do
        row "images/s, ResNet-50, bf16, batch 256: 2 ranks on one GPU ($reduce) / 1 tower" '' \
            "$(ranked resnet50 bf16 devices.time_plans=yes devices.list=0 sync.reduce=$reduce)" \
            "$(resnet50 bf16 devices.time_plans=yes)"
    done
    row 'images/s, mnist_cnn, fp32, batch 1024: 2 ranks on one GPU (host) / 2 towers of one process (host)' '' \
        "$(ranked mnist 1024 fp32 train.steps=400 devices.list=0 sync.reduce=host)" \
        "$(mnist 1024 fp32 train.steps=400 devices.towers=2 devices.list=0 sync.reduce=host)"
}

rows_slices() {
    row 'images/s, ResNet-20, bf16, batch 128: train.slices = 8 / without' '' \
        "$(resnet20 input.source=synthetic train.slices=8)" "$(resnet20 input.source=synthetic)"
}

gpu='no GPU' pytorch='no PyTorch'
[ "$device" != cuda ] || gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
[ $has_torch = no ] || pytorch=$("$torch" -c \
    'import torch; print("PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version())')
{
    echo
    echo "Measured on $(date -u +%Y-%m-%d): $gpu, $(nproc) cores; $version; $pytorch."
    echo "Data: $(basename "$(dirname "$shards")"). $pairs pairs in turns."
    [ "$device" = cuda ] || echo "A rehearsal on the $device: these numbers mean nothing."
    echo
    echo '    bench/gpu.sh'
    echo
    python3 "$bench/compare.py" --head
} >"$table"
publish
for group; do
    rows_$group
done
