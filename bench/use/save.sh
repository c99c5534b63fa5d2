#!/bin/sh
# What a checkpoint costs the training around it: steps after one beside all others, one Markdown row.
#
#     bench/use/save.sh [-b BUILD] [-m MODEL] [-t BATCH] [-e EVERY] [-s STEPS] [-r RUNS]
#
# MODEL (default resnet50_v1) trains with synthetic images and momentum in batches of BATCH (16) on all cores for STEPS
# (42) and saves a checkpoint after every EVERY-th (5). Steps are measured by `seconds` in the rows of metrics.jsonl.
# The run is made RUNS (3) times.
set -eu

build=. model=resnet50_v1 batch=16 every=5 steps=42 runs=3

usage()
{
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while getopts b:m:t:e:s:r:h option; do
    case $option in
        b) build=$OPTARG ;;
        m) model=$OPTARG ;;
        t) batch=$OPTARG ;;
        e) every=$OPTARG ;;
        s) steps=$OPTARG ;;
        r) runs=$OPTARG ;;
        *) usage ;;
    esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for run in $(seq "$runs"); do
    "$build/pipetrain" -c /dev/null --set input.source=synthetic --set model.name="$model" --set train.batch="$batch" \
        --set train.optimizer=momentum --set train.learning_rate=0.001 --set train.steps="$steps" \
        --set devices.kind=cpu --set checkpoint.every="$every" --set checkpoint.keep=1 --set report.interval=1 \
        --set run.dir="$work/run$run" >/dev/null
done
python3 "$(dirname "$0")/steps_behind.py" "$every" "$work"/run*/metrics.jsonl
