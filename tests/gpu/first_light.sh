#!/bin/sh
# What to run on a machine that has a GPU for some minutes only: the most valuable facts first, every item with a time
# limit of its own, every line and number written the moment it is known. doc/gpu.md says what each stage tells.
#
#     tests/gpu/first_light.sh [-n SECONDS] FOLDER OUT STAGE[:ITEM[,ITEM]...]...
#
#   FOLDER  a build folder after make check TESTS=, or what tests/gpu/bundle.sh packed
#   OUT     gets log, results.jsonl (a line for each item), table, logs.tgz (what the items printed), runs/
#   STAGE   run in the given order: facts trains resnets overlap units e2e memcheck racecheck; without any, all of
#           them; STAGE:ITEM,ITEM runs only these items: trains:bf16,fp16
#   -n      nothing runs longer than so many seconds after the start
#
# PIPETRAIN_DEVICE     cpu: a rehearsal without a GPU: small batches, fp32, unit tests on the CPU (default cuda)
# FIRST_LIGHT_STEPS    steps of every training and of the peers, instead of those below; nothing is evaluated then
# FIRST_LIGHT_LIMITS   time limits of items: 'bf16=20 compute/test_layers=300'
# FIRST_LIGHT_JOBS     tests side by side (default 6)
# PEER_TORCH           an interpreter that has PyTorch and torchvision (default python3)
set -u
LC_ALL=C
export LC_ALL

usage() { sed -n '2,19s/^# \{0,1\}//p' "$0" >&2; exit 2; }

budget=
while getopts n: option; do
    case $option in
        n) budget=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
source_dir=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
folder=$(cd "$1" && pwd) || exit 2
mkdir -p "$2/logs" "$2/runs" "$2/tmp" && out=$(cd "$2" && pwd) || exit 2
shift 2
stages='facts trains resnets overlap units e2e memcheck racecheck'
[ $# -gt 0 ] || set -- $stages
for word; do
    case " $stages " in
        *" ${word%%:*} "*) ;;
        *) echo "$0: there is no stage ${word%%:*}" >&2; usage ;;
    esac
done
[ -x "$folder/pipetrain" ] || { echo "$0: there is no program $folder/pipetrain" >&2; exit 2; }

device=${PIPETRAIN_DEVICE:-cuda}
jobs=${FIRST_LIGHT_JOBS:-6}
python=${PEER_TORCH:-python3}
FIRST_LIGHT_OUT=$out
FIRST_LIGHT_BEGUN=$(date +%s)
FIRST_LIGHT_END=${budget:+$((FIRST_LIGHT_BEGUN + budget))}
FIRST_LIGHT_ONLY= FIRST_LIGHT_VALUES= FIRST_LIGHT_SHOWN=
FIRST_LIGHT_STRICT=no
TMPDIR=$out/tmp
XDG_CACHE_HOME=$out/cache
PATH=$PATH:/usr/local/cuda/bin
PYTHONDONTWRITEBYTECODE=1
export FIRST_LIGHT_OUT FIRST_LIGHT_BEGUN FIRST_LIGHT_END FIRST_LIGHT_ONLY
export FIRST_LIGHT_VALUES FIRST_LIGHT_SHOWN FIRST_LIGHT_STRICT
export TMPDIR XDG_CACHE_HOME PATH PYTHONDONTWRITEBYTECODE
: >"$out/table"

say() { echo "$*" | tee -a "$out/log"; }

. "$source_dir/tests/gpu/library_path.sh"
libraries=$(library_path "$folder" "$python" "$folder/pipetrain" "$folder/tests/cuda/test_timeline" \
    2>"$out/tmp/missing")

stage=
item() { sh "$source_dir/tests/gpu/item.sh" "$stage" "$@"; }
# ours ITEM SECONDS [VARIABLE=VALUE]... COMMAND...: an item of our programs, which get the path to CUDA's libraries.
ours() {
    name=$1 limit=$2
    shift 2
    item "$name" "$limit" "LD_LIBRARY_PATH=$libraries" "$@"
}
# named ITEM: whether the item is to be run.
named() {
    case " ${FIRST_LIGHT_ONLY:-$1} " in
        *" $1 "*) ;;
        *) return 1 ;;
    esac
}
# skip ITEM WHY
skip() { item "$1" 10 sh -c 'echo "$0"; exit 77' "$2"; }

torch_seen=
# peer ITEM SECONDS OPTION...: PyTorch's side (bench/peer_torch_gpu.py); skipped when there is none.
peer() {
    named "$1" || return 0
    if [ -z "$torch_seen" ]; then
        torch_seen=no
        timeout -k 2 60 "$python" -c 'import torch' >/dev/null 2>&1 </dev/null && torch_seen=yes
    fi
    name=$1 limit=$2
    shift 2
    [ $torch_seen = yes ] || { skip "$name" "$python cannot import PyTorch"; return; }
    item "$name" "$limit" "$python" "$source_dir/bench/peer_torch_gpu.py" --device $device \
        ${FIRST_LIGHT_STEPS:+--warm 1 --trial 1} "$@" ${FIRST_LIGHT_STEPS:+--steps "$FIRST_LIGHT_STEPS"}
}

# train ITEM SECONDS KEY=VALUE...: a training, its summary.json being the values.
train() {
    named "$1" || return 0
    name=$1 limit=$2
    shift 2
    rm -rf "$out/runs/$name"
    for setting; do
        shift
        case $device,$setting in
            cpu,devices.precision=* | cpu,devices.graph=* | cpu,devices.time_plans=*) ;;
            *) set -- "$@" --set "$setting" ;;
        esac
    done
    FIRST_LIGHT_VALUES=$out/runs/$name/summary.json
    ours "$name" "$limit" "$folder/pipetrain" -c /dev/null --set "run.dir=$out/runs/$name" --set report.progress=none \
        --set devices.kind=$device "$@" $small
    FIRST_LIGHT_VALUES=
}

# A rehearsal on the CPU takes small batches.
large=256 medium=128 small=
[ "$device" = cuda ] || { large=2 medium=8 small='--set devices.threads_per_tower=1'; }
[ -z "${FIRST_LIGHT_STEPS-}" ] || small="$small --set train.steps=$FIRST_LIGHT_STEPS --set data.validation="

# The digits that pipetrain-convert draws are the same everywhere. They are needed whichever items are named.
data=$folder/data/digits
[ -d "$data" ] || data=$out/digits
need_digits() {
    [ ! -d "$data" ] || return 0
    only=$FIRST_LIGHT_ONLY
    FIRST_LIGHT_ONLY=
    ours digits 60 "$folder/pipetrain-convert" digits -o "$data"
    FIRST_LIGHT_ONLY=$only
}

# Which machine, GPU, driver and libraries. A process then keeps the GPU open to the end: otherwise the driver unloads
# between our programs, and each start takes seconds.
holder=
facts() {
    FIRST_LIGHT_SHOWN=4
    queried=name,driver_version,memory.total,compute_cap,persistence_mode,clocks.sm,clocks.max.sm
    item nvidia-smi 20 nvidia-smi --query-gpu=$queried --format=csv,noheader
    ours version 20 "$folder/pipetrain" --version
    item libraries 10 sh -c 'cat "$0"; ! grep -q . "$0"' "$out/tmp/missing"
    item pytorch 60 "$python" -c 'import importlib.util, sys
if importlib.util.find_spec("torch") is None: sys.exit(print("there is no PyTorch") or 77)
try: import torch
except (ImportError, OSError) as error: sys.exit(print("PyTorch cannot be imported:", *str(error).split()) or 77)
print("PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version(), "CUDA", torch.version.cuda)
if torch.cuda.is_available(): print(torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0))'
    FIRST_LIGHT_SHOWN=
    [ "$device" != cuda ] || [ -n "$holder" ] || hold
}

# hold: PyTorch keeps the GPU open, or nvidia-smi where there is none or it takes too long.
hold() {
    "$python" -c 'import time, torch; torch.zeros(1, device="cuda"); print("holding", flush=True); time.sleep(3600)' \
        >"$out/tmp/holder" 2>&1 </dev/null &
    holder=$!
    tries=0
    until grep -q holding "$out/tmp/holder" || [ $tries -ge 20 ] || ! kill -0 $holder 2>/dev/null; do
        sleep 1
        tries=$((tries + 1))
    done
    grep -q holding "$out/tmp/holder" && return
    kill $holder 2>/dev/null
    holder=
    command -v nvidia-smi >/dev/null 2>&1 || return
    nvidia-smi --query-gpu=clocks.sm,temperature.gpu,power.draw --format=csv -l 10 >"$out/clocks.csv" 2>&1 </dev/null &
    holder=$!
}

# Does it train at all, in every precision? Recorded as a graph or not: the same bits. Side by side, as nothing
# is measured.
trains() {
    need_digits
    one="model.name=mnist_cnn train.batch=64 train.epochs=1 data.train=$data/train-* data.validation=$data/validation-*"
    pids=
    train fp32-direct 60 $one devices.graph=off &
    pids="$pids $!"
    train fp32-graph 60 $one devices.graph=on &
    pids="$pids $!"
    for precision in bf16 fp16 tf32; do
        train $precision 60 $one devices.precision=$precision &
        pids="$pids $!"
    done
    (device=cpu && train cpu 120 $one) &
    wait $pids $!
    for run in fp32-direct fp32-graph; do
        [ -f "$out/runs/$run/weights.safetensors" ] || { skip same-bits "$run has no weights"; return; }
    done
    item same-bits 10 cmp "$out/runs/fp32-direct/weights.safetensors" "$out/runs/fp32-graph/weights.safetensors"
}

# How fast on the models that matter, beside PyTorch on the same GPU.
resnets() {
    r50="model.name=resnet50_v1.5 train.batch=$large train.steps=60 input.source=synthetic report.interval=10"
    r20="model.name=resnet20_v1 train.batch=$medium train.steps=2000 input.source=synthetic"
    train r50-bf16 90 $r50 devices.precision=bf16
    train r50-bf16-timed 120 $r50 devices.precision=bf16 devices.time_plans=yes
    for mode in eager graph; do
        peer r50-bf16-torch-$mode 60 --model resnet50 --batch $large --precision bf16 --mode $mode --steps 40
    done
    train r20-bf16 60 $r20 devices.precision=bf16 devices.time_plans=yes
    peer r20-bf16-torch-graph 60 --model resnet20 --batch $medium --precision bf16 --mode graph --steps 500
    train r50-fp16-timed 120 $r50 devices.precision=fp16 devices.time_plans=yes
    peer r50-fp16-torch-eager 60 --model resnet50 --batch $large --precision fp16 --steps 40
    peer r50-bf16-torch-compile 180 --model resnet50 --batch $large --precision bf16 --mode compile --steps 40
}

# Whether input and copies are hidden behind the computation.
overlap() {
    need_digits
    mnist="model.name=mnist_cnn train.batch=128 train.epochs=1000 devices.precision=bf16 devices.time_plans=yes"
    train mnist-real 60 $mnist train.steps=3000 "data.train=$data/train-*"
    train mnist-synthetic 60 $mnist train.steps=3000 input.source=synthetic
    train mnist-trace 60 $mnist train.steps=200 "data.train=$data/train-*" "report.trace=$out/trace.json"
    peer mnist-torch-graph 60 --batch 128 --precision bf16 --mode graph --steps 3000
    peer mnist-torch-eager 60 --batch 128 --precision bf16 --mode eager
    strict
    ours timeline 60 $tested "$folder/tests/cuda/test_timeline"
}

# On a GPU no test may skip itself.
tested="PIPETRAIN_TEST_DEVICE=$device PIPETRAIN_SANITIZER=no"
[ "$device" != cuda ] || tested="$tested PIPETRAIN_TEST_REQUIRED=1"
strict() { [ "$device" != cuda ] || FIRST_LIGHT_STRICT=yes; }

# side_by_side JOBS SECONDS COMMAND...: an item for each name on stdin, the command with {} for its name.
side_by_side() {
    side=$1 limit=$2
    shift 2
    strict
    xargs -P "$side" -I{} sh -c 'sh "$@" || :' sh "$source_dir/tests/gpu/item.sh" "$stage" {} "$limit" \
        "LD_LIBRARY_PATH=$libraries" "PIPETRAIN_BUILD=$folder" $tested "$@"
}
list() { sh "$source_dir/tests/gpu/check_gpu.sh" -l "$1"; }

units() { list units | side_by_side "$jobs" 150 "$folder/tests/{}"; }
e2e() { list e2e | side_by_side "$jobs" 240 sh "$source_dir/tests/e2e/e2e_{}.sh"; }
# under TOOL: the tests under compute-sanitizer, which makes them many times slower.
under() {
    if ! command -v compute-sanitizer >/dev/null 2>&1; then
        for name in $(list "$1"); do skip "$name" 'there is no compute-sanitizer'; done
        return
    fi
    list "$1" | side_by_side 4 240 compute-sanitizer --tool "$1" --error-exitcode 9 "$folder/tests/{}"
}
memcheck() { under memcheck; }
racecheck() { under racecheck; }

# What the items printed, as far as they are done.
keep_logs() {
    tar -czf "$out/logs.new" -C "$out" logs 2>/dev/null && mv "$out/logs.new" "$out/logs.tgz"
}

finish() {
    trap - EXIT HUP INT TERM
    [ -z "$holder" ] || kill "$holder" 2>/dev/null
    keep_logs
    counts=$(cut -f3 "$out/table" | sort | uniq -c | awk '{ printf "%s%d %s", n++ ? ", " : "", $1, $2 }')
    say "== end at $(($(date +%s) - FIRST_LIGHT_BEGUN)) s: $counts"
    awk -F'\t' '{ printf "%-9s  %-36s  %-7s  %8s  %s\n", $1, $2, $3, $4, $5 }' "$out/table" | tee -a "$out/log"
    rm -rf "$out/tmp"
    cut -f3 "$out/table" | grep -Eq 'failed|limit|late' && exit 1
    exit 0
}
trap finish EXIT HUP INT TERM

for word; do
    stage=${word%%:*}
    FIRST_LIGHT_ONLY= FIRST_LIGHT_STRICT=no
    [ "$stage" = "$word" ] || FIRST_LIGHT_ONLY=$(echo "${word#*:}" | tr , ' ')
    say "== $stage at $(($(date +%s) - FIRST_LIGHT_BEGUN)) s"
    $stage
    keep_logs
done
