#!/bin/sh
# How fast a network evaluates photographs: pipetrain evaluate over shards of JPEG, beside PyTorch's inference_mode fed by
# a DataLoader from the same files, one Markdown row for each model.
#
#     bench/use/evaluate.sh [-b BUILD] -i PHOTOS [-n PAIRS] [-w SECONDS] [MODEL...]
#
# PHOTOS is made by bench/jpeg_set.sh. A MODEL is one of torchvision's ResNets, as resnet50 (default resnet18 and
# resnet50). PyTorch's Python is PEER_TORCH (default python3). bench/README.md says what the columns mean.
set -eu

bench=$(cd "$(dirname "$0")/.." && pwd)
build=.
photos=
pairs=3
wait=0
batch=32
torch=${PEER_TORCH:-python3}
cores=$(nproc)

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
[ $# -gt 0 ] || set -- resnet18 resnet50
[ -n "$photos" ] || { echo "$0: give the folder of the photographs with -i" >&2; exit 2; }

build=$(cd "$build" && pwd)
script=use/evaluate.sh
. "$bench/rows.sh"
describe_peers()
{
    echo "- PyTorch: $(version "$torch" 'import torch, torchvision; print(torch.__version__, torchvision.__version__)')"
}

work=$(mktemp -d)
PYTHONPATH=$bench
export PYTHONPATH
trap 'rm -rf "$work"' EXIT
describe "$@"
python3 "$bench/compare.py" --head
for model; do
    "$build/pipetrain" -c /dev/null --set model.name="torchvision_$model" --set input.source=synthetic \
        --set data.classes="$(find "$photos/folder" -mindepth 1 -maxdepth 1 | wc -l)" --set train.steps=1 \
        --set train.batch=2 --set run.dir="$work/$model" >/dev/null 2>&1
    compare --name "images/s, evaluation of JPEG, $model: ours / PyTorch" --target '>= 1.2' \
        --key-a images_per_second --key-b images_per_second \
        --a "'$build/pipetrain' evaluate -w '$work/$model/weights.safetensors' --json --set devices.kind=cpu
             --set train.batch=$batch --set 'data.validation=$photos/shards/train-*'" \
        --b "'$torch' '$bench/use/peer_torch_evaluate.py' --model $model --batch $batch --threads $cores '$photos/folder'"
done
