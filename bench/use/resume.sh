#!/bin/sh
# What going on costs beside beginning, and how soon one image is told: Markdown rows.
#
#     bench/use/resume.sh [-b BUILD] [-d SHARDS] [-n PAIRS] [-w SECONDS] [NAME...]
#
# SHARDS is a glob of training shards (default: the digits of the build folder). NAMEs (default: all):
#     resume   seconds to the end of the first step, from step 5 beside from the beginning: mnist_cnn, batch 128
#     late     the same from a step at 99 % of an epoch beside one from step 5
#     predict  wall clock of `predict` of one JPEG by resnet50_v1
# PIPETRAIN_PHOTO is the JPEG of the last row (default: one that is made with PIL).
set -eu

bench=$(cd "$(dirname "$0")/.." && pwd)
build=. shards= pairs=7 wait=0 cores=$(nproc) script=use/resume.sh
known='resume late predict'

usage()
{
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while getopts b:d:n:w:h option; do
    case $option in
        b) build=$OPTARG ;;
        d) shards=$OPTARG ;;
        n) pairs=$OPTARG ;;
        w) wait=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
build=$(cd "$build" && pwd)
shards=${shards:-$build/data/digits/train-*}
. "$bench/rows.sh"
[ $# -gt 0 ] || set -- $known
check_rows "$@"
describe_peers() { :; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A run for `steps` steps more, which prints its summary. Without a state to go on from: from the beginning.
run="--set model.name=mnist_cnn --set train.batch=128 --set devices.kind=cpu --set report.progress=none"
cat >"$work/start" <<END
#!/bin/sh
# start STATE STEPS: from a saved file, or "never".
rm -rf "$work/run"
"$build/pipetrain" -c /dev/null --set "data.train=$shards" $run --set checkpoint.every=100000 --set run.dir="$work/run" \\
    --set run.resume="\$1" --set train.steps="\$2" >/dev/null || exit
tr -d '\\n' <"$work/run/summary.json"
END
chmod +x "$work/start"

# state_at STEP: its path.
state_at()
{
    [ -d "$work/at$1" ] || "$build/pipetrain" -c /dev/null --set "data.train=$shards" $run --set checkpoint.every="$1" \
        --set checkpoint.keep=1 --set run.dir="$work/at$1" --set train.steps="$1" >/dev/null
    echo "$work/at$1/checkpoint-$(printf %08d "$1").safetensors"
}

seconds()
{
    compare --key-a start_to_first_step_seconds --key-b start_to_first_step_seconds "$@"
}
run_resume()
{
    seconds --name 'seconds to the first step: from step 5 / from the beginning' \
        --a "'$work/start' $(state_at 5) 7" --b "'$work/start' never 2"
}
run_late()
{
    state_at 5 >/dev/null
    epoch=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["plan"]["steps_per_epoch"])' "$work/at5/summary.json")
    late=$((epoch * 99 / 100))
    seconds --name "seconds to the first step: from step $late of $epoch / from step 5" \
        --a "'$work/start' $(state_at $late) $((late + 2))" --b "'$work/start' $(state_at 5) 7"
}
run_predict()
{
    photo=${PIPETRAIN_PHOTO:-$work/photo.jpg}
    [ -f "$photo" ] || python3 -c 'import sys; from PIL import Image
Image.effect_noise((500, 375), 64).convert("RGB").save(sys.argv[1])' "$photo"
    "$build/pipetrain" -c /dev/null --set model.name=resnet50_v1 --set input.source=synthetic --set train.steps=1 \
        --set train.batch=2 --set devices.kind=cpu --set run.dir="$work/resnet50" >/dev/null
    compare --name 'seconds: predict, one JPEG, resnet50_v1' --target '<= 0.5' --key-a wall \
        --a "'$build/pipetrain' predict -w '$work/resnet50/weights.safetensors' '$photo'"
}

describe "$@"
measure_rows "$@"
