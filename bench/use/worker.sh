#!/bin/sh
# How fast pipetrain predict answers as a worker: one image at a time beside the bare evaluation step of one image, and
# photographs from a list beside PyTorch and ONNX Runtime, one Markdown row each.
#
#     bench/use/worker.sh [-b BUILD] -i PHOTOS [-n PAIRS] [-w SECONDS] [step] [torch] [onnx]
#
# PHOTOS is made by bench/jpeg_set.sh. The network is torchvision's resnet50 with initial weights. `step`: the median answer to
# one photograph of 224 x 224, its decoding included, beside bench/inference's step, both on one thread; `torch` and `onnx`: images/s of photographs, of
# a batch of 64. Python with PyTorch and ONNX Runtime is PEER_TORCH (default python3). bench/README.md says what the columns mean.
set -eu

bench=$(cd "$(dirname "$0")/.." && pwd)
build=.
photos=
pairs=3
wait=0
batch=64
torch=${PEER_TORCH:-python3}
cores=$(nproc)
known='step torch onnx'

usage()
{
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while getopts b:i:n:w:h option; do
    case $option in
        b) build=$OPTARG ;;
        i) photos=$OPTARG ;;
        n) pairs=$OPTARG ;;
        w) wait=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- $known
[ -n "$photos" ] || { echo "$0: give the folder of the photographs with -i" >&2; exit 2; }

build=$(cd "$build" && pwd)
photos=$(cd "$photos" && pwd)
script=use/worker.sh
. "$bench/rows.sh"
check_rows "$@"
describe_peers()
{
    echo "- peers: $(version "$torch" 'import torch, onnxruntime; print("PyTorch", torch.__version__, "ONNX Runtime", onnxruntime.__version__)')"
}

work=$(mktemp -d)
PYTHONPATH=$bench:$bench/use
export PYTHONPATH
trap 'rm -rf "$work"' EXIT
weights=$work/run/weights.safetensors
"$build/pipetrain" -c /dev/null --set model.name=torchvision_resnet50 --set input.source=synthetic --set data.classes=1000 \
    --set train.steps=1 --set train.batch=2 --set run.dir="$work/run" >/dev/null 2>&1
worker="python3 '$bench/use/worker.py' --build '$build' --weights '$weights'"

run_step()
{
    "$torch" -c "import sys, PIL.Image as i; i.open(sys.argv[1]).convert('RGB').resize((224, 224)).save(sys.argv[2])" \
        "$(find "$photos/folder" -type f | sort | head -1)" "$work/224.jpg"
    compare --name 'ms, one image at a time, one thread, resnet50: bare step / predict -' --target '>= 0.91' --key-a step_ms --key-b median_ms \
        --a "'$build/bench/inference' torchvision_resnet50 1 1 3" --b "$worker --threads 1 --count 60 '$work/224.jpg'"
}

run_torch()
{
    compare --name 'images/s, photographs, resnet50: predict - / PyTorch' --target '>= 1.2' \
        --key-a images_per_second --key-b images_per_second --a "$worker --list '$photos/folder'" \
        --b "'$torch' '$bench/use/peer_torch_evaluate.py' --model resnet50 --batch $batch --threads $cores '$photos/folder'"
}

run_onnx()
{
    "$build/pipetrain" export -w "$weights" -o "$work/resnet50.onnx" >/dev/null
    compare --name 'images/s, photographs, resnet50: predict - / ONNX Runtime' --target '>= 1.1' \
        --key-a images_per_second --key-b images_per_second --a "$worker --list '$photos/folder'" \
        --b "'$torch' '$bench/use/peer_onnx_predict.py' --onnx '$work/resnet50.onnx' --batch $batch --threads $cores '$photos/folder'"
}

describe "$@"
measure_rows "$@"
