#!/bin/sh
# Training in bf16 on a CPU that has it: ours against our fp32 and against PyTorch's autocast in turns, one Markdown
# row each.
#
#     bench/bf16.sh [-b BUILD] [-n PAIRS] [-w SECONDS] [COMPARISON]...
#     bench/bf16.sh -l        lists the comparisons
#
# PyTorch's interpreter comes from PEER_TORCH (default python3). All inputs are drawn, not read. bench/README.md says
# what the columns mean.
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
build=.
pairs=7
wait=0
torch=${PEER_TORCH:-python3}
cores=$(nproc)

comparisons='mnist_cnn resnet20_v1 resnet50_v1 torch_mnist_cnn torch_resnet20_v1 torch_resnet50_v1'

usage()
{
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while getopts b:n:w:lh option; do
    case $option in
        b) build=$OPTARG ;;
        n) pairs=$OPTARG ;;
        w) wait=$OPTARG ;;
        l) echo $comparisons | tr ' ' '\n'; exit 0 ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))

build=$(cd "$build" && pwd)
test -x "$build/pipetrain" || { echo "$0: no program $build/pipetrain: give its folder with -b" >&2; exit 2; }
script=bf16.sh
known="$comparisons"
. "$bench/rows.sh"

momentum='train.optimizer=momentum train.learning_rate=0.01'
mnist_cnn="model.name=mnist_cnn train.batch=128 train.steps=100 $momentum"
resnet20_v1="model.name=resnet20_v1 train.batch=128 train.steps=60 $momentum"
resnet50_v1="model.name=resnet50_v1 train.batch=16 train.steps=8 $momentum"

ours() { echo "python3 '$bench/ours.py' '$build/pipetrain' devices.kind=cpu input.source=synthetic $*"; }
torch() { echo "'$torch' '$bench/peer_zoo.py' $1 --bf16 --threads $cores --batch $2"; }
# faster NAME SETTINGS, than in fp32
faster()
{
    compare --name "images/s, $1: bf16 / fp32" --target '>= 1.6' \
        --a "$(ours "$2" devices.precision=bf16)" --b "$(ours "$2" devices.precision=fp32)"
}
# peer MODEL BATCH SETTINGS
peer()
{
    compare --name "images/s, $1, batch $2, bf16: ours / PyTorch, autocast" --target '>= 1.2' \
        --a "$(ours "$3" devices.precision=bf16)" --b "$(torch "$1" "$2")"
}

run_mnist_cnn() { faster 'mnist_cnn, batch 128' "$mnist_cnn"; }
run_resnet20_v1() { faster 'resnet20_v1, batch 128' "$resnet20_v1"; }
run_resnet50_v1() { faster 'resnet50_v1, batch 16' "$resnet50_v1"; }
run_torch_mnist_cnn() { peer mnist_cnn 128 "$mnist_cnn"; }
run_torch_resnet20_v1() { peer resnet20_v1 128 "$resnet20_v1"; }
run_torch_resnet50_v1() { peer resnet50_v1 16 "$resnet50_v1"; }

describe_peers()
{
    echo "- PyTorch: $(version "$torch" 'import torch; print(torch.__version__)')"
}

check_rows "$@"
describe "$@"
measure_rows ${*:-$comparisons}
