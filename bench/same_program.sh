#!/bin/sh
# Is this build the same program as an older one? The same runs in both leave the same weights,
# bit for bit, and in turns with the older one it is not slower.
#
#     bench/same_program.sh [-b BUILD] [-m MNIST_DIR] [-n PAIRS] [-w SECONDS] [-p weights|speed] OLD_BUILD
#
# Builds are folders that hold pipetrain, pipetrain-convert and, for the runs on the simulated
# CUDA, pipetrain_sim (`make check TESTS=` makes it). MNIST_DIR has the four files of the data
# set; without it the digits that both builds draw take their place. -p runs one part only.
# Exit code 1 when weights differ; speed is printed, not judged.
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
build=.
mnist=
pairs=7
wait=0
part=all

usage()
{
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while getopts b:m:n:w:p:h option; do
    case $option in
        b) build=$OPTARG ;;
        m) mnist=$OPTARG ;;
        n) pairs=$OPTARG ;;
        w) wait=$OPTARG ;;
        p) part=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 1 ] || usage

build=$(cd "$build" && pwd)
old=$(cd "$1" && pwd)
for program in pipetrain pipetrain-convert; do
    for folder in "$build" "$old"; do
        [ -x "$folder/$program" ] || { echo "$0: no program $folder/$program" >&2; exit 2; }
    done
done

work=$(mktemp -d "${TMPDIR:-/tmp}/pipetrain-same.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME
failed=0

# Run a command; what it says is shown when it fails, and ends the comparison.
quietly()
{
    "$@" >"$work/out" 2>&1 || {
        echo "$0: failed: $*" >&2
        tail -n 20 "$work/out" >&2
        exit 2
    }
}

# The data of a side, by its own converter: digits always, MNIST or the digits in its place.
convert()
{
    quietly "$2/pipetrain-convert" digits -o "$work/$1/digits"
    [ -n "$mnist" ] || { ln -s digits "$work/$1/mnist"; return; }
    quietly "$2/pipetrain-convert" mnist "$mnist" -o "$work/$1/mnist"
}

# The program on the simulated CUDA, wherever in its build it is.
simulated()
{
    find "$1" -type f -name pipetrain_sim -perm -u+x | head -n 1
}

# The hash of a weights file's tensors; its header may say other things.
tensors()
{
    header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    tail -c "+$((9 + header))" "$1" | sha256sum | cut -c 1-16
}

same()
{
    if [ "$2" = "$3" ]; then
        printf '%-34s %s  same\n' "$1" "$2"
    else
        printf '%-34s %s  DIFFERS: old %s\n' "$1" "$3" "$2"
        failed=1
    fi
}

# one SIDE PROGRAM CONFIGURATION NAME KEYS...: train in SIDE's folder.
one()
{
    side=$1 program=$2 configuration=$3 name=$4
    shift 4
    for key in "$@"; do
        set -- "$@" --set "$key"
        shift
    done
    quietly "$program" -c "$configuration" --set "run.dir=$work/$side/$name" --set report.progress=none "$@"
}

# both NAME OLD NEW CONFIGURATION KEYS...: the same run in both builds, and what it left.
both()
{
    name=$1 program_old=$2 program_new=$3 configuration=$4
    shift 4
    for data in digits mnist; do
        [ "$configuration" = /dev/null ] || grep -q "$data/train" "$configuration" || continue
        set -- "data.train=$work/old/$data/train-*" "data.validation=$work/old/$data/validation-*" "$@"
        break
    done
    one old "$program_old" "$configuration" "$name" "$@"
    one new "$program_new" "$configuration" "$name" "$@"
    same "$name" "$(tensors "$work/old/$name/weights.safetensors")" "$(tensors "$work/new/$name/weights.safetensors")"
}

compare_data()
{
    for data in digits mnist; do
        same "shards of $data" "$(cd "$work/old/$data" && cat train-* validation-* | sha256sum | cut -c 1-16)" \
            "$(cd "$work/new/$data" && cat train-* validation-* | sha256sum | cut -c 1-16)"
    done
}

compare_cpu()
{
    both run.conf "$old/pipetrain" "$build/pipetrain" "$bench/../run.conf" train.steps=60
    for towers in 1 3; do
        both "mnist.conf, $towers towers" "$old/pipetrain" "$build/pipetrain" "$bench/../examples/mnist.conf" \
            train.steps=60 devices.towers=$towers
    done
}

# The device computes ten thousand times slower than a GPU: short runs without evaluation.
compare_simulated()
{
    sim_old=$(simulated "$old")
    sim_new=$(simulated "$build")
    if [ -z "$sim_old" ] || [ -z "$sim_new" ]; then
        echo "simulated CUDA: not compared, a build has no pipetrain_sim"
        return
    fi
    for setup in fp32:1:auto tf32:1:auto bf16:1:auto fp16:1:auto fp32:3:peer fp32:3:host; do
        precision=${setup%%:*} reduce=${setup##*:} towers=${setup#*:}
        towers=${towers%:*}
        both "simulated, $precision, $towers towers, $reduce" "$sim_old" "$sim_new" /dev/null \
            devices.kind=cuda devices.list=0 model.name=mnist_cnn train.batch=12 train.steps=8 \
            "devices.precision=$precision" "devices.towers=$towers" "sync.reduce=$reduce" data.validation=
    done
}

compare_weights()
{
    mkdir "$work/old" "$work/new"
    convert old "$old"
    convert new "$build"
    compare_data
    compare_cpu
    compare_simulated
}

compare_speed()
{
    "$bench/cpu.sh" -b "$build" -o "$old" -n "$pairs" -w "$wait" old128 old1024 old_towers old_synthetic \
        old_loader old_loader_stored old_startup old_memory
}

[ "$part" = speed ] || compare_weights
[ "$part" = weights ] || compare_speed
exit $failed
