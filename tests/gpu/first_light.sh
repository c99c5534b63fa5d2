#!/bin/sh
# What to run on a machine that has a GPU for some minutes only: the most valuable facts first, every item with a time
# limit of its own, every line and number written the moment it is known. doc/gpu.md says what each stage tells.
#
#     tests/gpu/first_light.sh [-r] [-n SECONDS] FOLDER OUT [STAGE[:ITEM[,ITEM]...][+STAGE...][@SECONDS]]...
#
#   FOLDER  a build folder after make check TESTS=, or what tests/gpu/bundle.sh packed
#   OUT     gets log, results.jsonl (a line for each item), table, logs.tgz (what the items printed), runs/
#   STAGE   run in the given order, or "session": what fits into a quarter of an hour, most wanted first (the default).
#           STAGE:ITEM,ITEM runs only these items: trains:bf16,fp16. Stages joined by + run side by side: only those
#           whose times do not matter. @SECONDS ends these stages so long after they began. Stages: facts trains resnets
#           overlap units e2e memcheck racecheck ranks prepare graphs towers jpeg slices precisions launches ncu
#   -r      in place of STAGEs: what failed, took too long or came too late in OUT so far, and what compares that
#   -n      nothing runs longer than so many seconds after the start
#
# PIPETRAIN_DEVICE     cpu: a rehearsal without a GPU: small batches, fp32, unit tests on the CPU (default cuda).
#                      simulated: one on two simulated GPUs, with every key that a training has on a real one, but
#                      smaller still, and ResNet-20 in place of ResNet-50
# FIRST_LIGHT_STEPS    steps of every training and of the peers, instead of those below; nothing is evaluated then
# FIRST_LIGHT_LIMITS   time limits of items: 'bf16=20 compute/test_layers=300'
# FIRST_LIGHT_JOBS     tests side by side (default 6)
# PEER_TORCH           an interpreter that has PyTorch and torchvision (default python3)
set -u
LC_ALL=C
export LC_ALL

usage() { sed -n '2,25s/^# \{0,1\}//p' "$0" >&2; exit 2; }

budget= again=no
while getopts n:r option; do
    case $option in
        n) budget=$OPTARG ;;
        r) again=yes ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
source_dir=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
folder=$(cd "$1" && pwd) || exit 2
mkdir -p "$2/logs" "$2/runs" "$2/tmp" && out=$(cd "$2" && pwd) || exit 2
shift 2
stages='facts trains resnets overlap units e2e memcheck racecheck ranks prepare graphs towers jpeg slices precisions
    launches ncu '
# A quarter of an hour: what is not timed side by side, then what is timed alone, the most wanted first.
session='facts trains+units+e2e+racecheck+ranks+prepare@200 graphs towers jpeg slices precisions ncu launches'

# unfinished: STAGE:ITEM,ITEM... of all items whose last result in OUT is not good, in the order of their stages; and of
# those that were skipped because they compare such items.
unfinished() {
    sed 's/{"stage": "\([^"]*\)", "item": "\([^"]*\)", "result": "\([^"]*\)".*"why": "\([^"]*\)".*/\1 \2 \3 \4/' \
        "$out/results.jsonl" |
        awk '!($1 in begun) { begun[$1]; stages[++count] = $1 }
            !(($1, $2) in result) { items[$1] = items[$1] " " $2 }
            { result[$1, $2] = $3 == "skipped" && / has no weights$| there is no [a-z_]+ of / ? "late" : $3 }
            END {
                for (s = 1; s <= count; s++) {
                    item_count = split(items[stages[s]], item, " ")
                    word = ""
                    for (i = 1; i <= item_count; i++)
                        if (result[stages[s], item[i]] ~ /failed|limit|late/)
                            word = word (word == "" ? stages[s] ":" : ",") item[i]
                    if (word != "")
                        print word
                }
            }'
}

if [ $again = yes ]; then
    [ $# -eq 0 ] || { echo "$0: -r repeats items of OUT, and takes no STAGE" >&2; usage; }
    [ -f "$out/results.jsonl" ] || { echo "$0: there are no results in $out" >&2; exit 2; }
    set -- $(unfinished)
    [ $# -gt 0 ] || { echo "$0: nothing in $out failed"; exit 0; }
elif [ "${*:-session}" = session ]; then
    set -- $session
fi
for part in $(echo "$*" | sed 's/@[0-9]*//g' | tr + ' '); do
    case " "$(echo $stages)" " in
        *" ${part%%:*} "*) ;;
        *) echo "$0: there is no stage ${part%%:*}" >&2; usage ;;
    esac
done
[ -x "$folder/pipetrain" ] || { echo "$0: there is no program $folder/pipetrain" >&2; exit 2; }

device=${PIPETRAIN_DEVICE:-cuda}
case $device in
    cpu | cuda | simulated) ;;
    *) echo "$0: PIPETRAIN_DEVICE=$device: cuda, cpu and simulated are possible" >&2; exit 2 ;;
esac
jobs=${FIRST_LIGHT_JOBS:-6}
python=${PEER_TORCH:-python3}
FIRST_LIGHT_OUT=$out
FIRST_LIGHT_BEGUN=$(date +%s)
FIRST_LIGHT_END=${budget:+$((FIRST_LIGHT_BEGUN + budget))}
FIRST_LIGHT_ONLY= FIRST_LIGHT_VALUES= FIRST_LIGHT_SHOWN=
FIRST_LIGHT_STRICT=no
TMPDIR=$out/tmp
XDG_CACHE_HOME=$out/cache
TORCHINDUCTOR_CACHE_DIR=$out/cache/inductor
PATH=$PATH:/usr/local/cuda/bin
PYTHONDONTWRITEBYTECODE=1
export FIRST_LIGHT_OUT FIRST_LIGHT_BEGUN FIRST_LIGHT_END FIRST_LIGHT_ONLY
export FIRST_LIGHT_VALUES FIRST_LIGHT_SHOWN FIRST_LIGHT_STRICT
export TMPDIR XDG_CACHE_HOME TORCHINDUCTOR_CACHE_DIR PATH PYTHONDONTWRITEBYTECODE
: >"$out/table"

say() { echo "$*" | tee -a "$out/log"; }

# What trains, on which kind of device, and PyTorch's. The program of the simulation is beside the modules for ranks, too.
program=$folder/pipetrain kind=$device peer_device=$device
if [ "$device" = simulated ]; then
    program=$out/tmp/simulated/pipetrain kind=cuda peer_device=cpu
    mkdir -p "$out/tmp/simulated"
    cp "$folder/tests/e2e/pipetrain_sim" "$program" || exit 2
    cp "$folder"/pipetrain-*.so "$out/tmp/simulated" 2>/dev/null
    PIPETRAIN_PROGRAM=$program
    export PIPETRAIN_PROGRAM
fi

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
    item "$name" "$limit" "$python" "$source_dir/bench/peer_torch_gpu.py" --device $peer_device \
        ${FIRST_LIGHT_STEPS:+--warm 1 --trial 1} "$@" ${FIRST_LIGHT_STEPS:+--steps "$FIRST_LIGHT_STEPS"}
}

# Words before the program that start it as several ranks, while train is to do so.
launcher=
# train ITEM SECONDS KEY=VALUE...: a training, its summary.json being the values.
train() {
    named "$1" || return 0
    name=$1 limit=$2
    shift 2
    rm -rf "$out/runs/$name"
    for setting; do
        shift
        case $device,$setting in
            cpu,devices.precision=* | cpu,devices.graph=* | cpu,devices.time_plans=* | cpu,devices.list=*) ;;
            cpu,sync.reduce=* | cpu,devices.batch_statistics=* | cpu,devices.fuse=*) ;;
            simulated,model.name=resnet50*) set -- "$@" --set model.name=resnet20_v1 ;;
            simulated,train.batch=*) set -- "$@" --set train.batch=$medium ;;
            *) set -- "$@" --set "$setting" ;;
        esac
    done
    FIRST_LIGHT_VALUES=$out/runs/$name/summary.json
    ours "$name" "$limit" $launcher "$program" -c /dev/null --set "run.dir=$out/runs/$name" \
        --set report.progress=none --set devices.kind=$kind "$@" $small
    FIRST_LIGHT_VALUES=
}

# same_weights ITEM RUN RUN
same_weights() {
    named "$1" || return 0
    for run in "$2" "$3"; do
        [ -f "$out/runs/$run/weights.safetensors" ] || { skip "$1" "$run has no weights"; return; }
    done
    item "$1" 10 cmp "$out/runs/$2/weights.safetensors" "$out/runs/$3/weights.safetensors"
}

# value_of ITEM KEY: what an item measured, in this run or an earlier one in OUT; nothing when it has not. The planned
# memory of what is on the devices is called device_bytes.
value_of() {
    values=$out/runs/$1/summary.json
    if [ ! -f "$values" ]; then
        values=$out/tmp/values.$1
        cat "$out"/logs/*."$1".log 2>/dev/null | grep -a '^{.*}$' | tail -n 1 >"$values"
    fi
    paths=$2
    [ "$2" != device_bytes ] || paths=$(for part in slots weights_and_states activations workspace copies_of_weights \
        reduction; do echo plan.memory_bytes.$part; done)
    # A path that is not there is an error, and nothing is printed.
    LD_LIBRARY_PATH=$libraries "$folder/tests/e2e/json_value" "$values" $paths 2>/dev/null |
        awk '/^-?[0-9]/ { sum += $1; found = 1 } END { if (found) printf "%.10g", sum }'
}

# quotient ITEM WANTED A B KEY [KEY-OF-B]: a value of item A over that of item B. WANTED is such as ">= 1", or empty.
quotient() {
    named "$1" || return 0
    of=$(value_of "$3" "$5") by=$(value_of "$4" "${6:-$5}")
    [ -n "$of" ] && [ -n "$by" ] || { skip "$1" "there is no $5 of $3 and ${6:-$5} of $4"; return; }
    item "$1" 10 awk -v of="$of" -v by="$by" -v wanted="$2" 'BEGIN {
        printf "{\"ratio\": %.4f, \"of\": %s, \"by\": %s, \"wanted\": \"%s\"}\n", of / by, of, by, wanted }'
}

# A rehearsal takes small batches.
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

# The same for JPEG images of 20 to 40 pixels, in ten classes.
jpegs=$out/jpeg
need_jpegs() {
    [ ! -d "$jpegs" ] || return 0
    each=2000
    [ "$device" = cuda ] || each=40
    only=$FIRST_LIGHT_ONLY
    FIRST_LIGHT_ONLY=
    ours jpegs 100 sh -c '"$1" "$3" 10 "$5" && "$2" folder "$3" -o "$4.new" --validation=0.1 --quiet &&
        mv "$4.new" "$4"' sh "$folder/tests/e2e/use/jpeg_maker" "$folder/pipetrain-convert" "$out/tmp/photos" \
        "$jpegs" $each
    FIRST_LIGHT_ONLY=$only
}

# Which machine, GPU, driver and libraries. A process then keeps the GPU open to the end: otherwise the driver unloads
# between our programs, and each start takes seconds.
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
    [ "$device" != cuda ] || [ -f "$out/tmp/holder.pid" ] || hold
}

# hold: PyTorch keeps the GPU open, or nvidia-smi where there is none or it takes too long.
hold() {
    "$python" -c 'import time, torch; torch.zeros(1, device="cuda"); print("holding", flush=True); time.sleep(3600)' \
        >"$out/tmp/holder" 2>&1 </dev/null &
    echo $! >"$out/tmp/holder.pid"
    tries=0
    until grep -q holding "$out/tmp/holder" || [ $tries -ge 20 ] || ! kill -0 $! 2>/dev/null; do
        sleep 1
        tries=$((tries + 1))
    done
    grep -q holding "$out/tmp/holder" && return
    release
    command -v nvidia-smi >/dev/null 2>&1 || return
    nvidia-smi --query-gpu=clocks.sm,temperature.gpu,power.draw --format=csv -l 10 >"$out/clocks.csv" 2>&1 </dev/null &
    echo $! >"$out/tmp/holder.pid"
}
release() {
    [ ! -f "$out/tmp/holder.pid" ] || kill "$(cat "$out/tmp/holder.pid")" 2>/dev/null
    rm -f "$out/tmp/holder.pid"
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
    for graph in off on; do
        train bf16-graph-$graph 60 $one devices.precision=bf16 devices.time_plans=no devices.graph=$graph &
        pids="$pids $!"
    done
    (device=cpu kind=cpu && train cpu 120 $one) &
    wait $pids $!
    same_weights same-bits fp32-direct fp32-graph
    same_weights same-bits-bf16 bf16-graph-off bf16-graph-on
}

# Settings of models, for what is timed.
r50="model.name=resnet50_v1.5 train.batch=$large train.steps=60 input.source=synthetic report.interval=10"
r20="model.name=resnet20_v1 train.batch=$medium train.epochs=1000 train.steps=2000"
r20="$r20 devices.precision=bf16 devices.time_plans=yes"
mnist="model.name=mnist_cnn train.batch=$medium train.epochs=1000 devices.precision=bf16 devices.time_plans=yes"

# How fast on the models that matter, beside PyTorch on the same GPU.
resnets() {
    train r50-bf16 90 $r50 devices.precision=bf16
    train r50-bf16-timed 120 $r50 devices.precision=bf16 devices.time_plans=yes
    for mode in eager graph; do
        peer r50-bf16-torch-$mode 60 --model resnet50 --batch $large --precision bf16 --mode $mode --steps 40
    done
    train r20-bf16 60 $r20 input.source=synthetic
    peer r20-bf16-torch-graph 60 --model resnet20 --batch $medium --precision bf16 --mode graph --steps 500
}

# Whether input and copies are hidden behind the computation.
overlap() {
    need_digits
    train mnist-real 60 $mnist train.steps=3000 "data.train=$data/train-*"
    train mnist-synthetic 60 $mnist train.steps=3000 input.source=synthetic
    train mnist-trace 60 $mnist train.steps=200 "data.train=$data/train-*" "report.trace=$out/trace.json"
    peer mnist-torch-graph 60 --batch 128 --precision bf16 --mode graph --steps 3000
    peer mnist-torch-eager 60 --batch 128 --precision bf16 --mode eager
    strict
    ours timeline 60 $tested "$folder/tests/cuda/test_timeline"
}

# On a GPU no test may skip itself. The simulated one is in the program that scripts call, not in test programs.
case $device in
    cuda) tested='PIPETRAIN_TEST_DEVICE=cuda PIPETRAIN_TEST_REQUIRED=1' scripted=$tested ;;
    cpu) tested='PIPETRAIN_TEST_DEVICE=cpu' scripted=$tested ;;
    simulated)
        tested='PIPETRAIN_TEST_DEVICE=cpu'
        scripted='PIPETRAIN_TEST_DEVICE=cuda PIPETRAIN_TEST_SIMULATED=yes' ;;
esac
tested="$tested PIPETRAIN_SANITIZER=no"
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
e2e() { list e2e | side_by_side "$jobs" 240 env $scripted sh "$source_dir/tests/e2e/e2e_{}.sh"; }
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

# Do two ranks on one GPU leave the bits of one process with two towers? Nothing is timed: all run side by side.
tower_modes='host peer relaxed averaging independent served'
rank_modes='host ipc relaxed averaging independent served'
mode_keys() {
    case $1 in
        host | peer | ipc) echo sync.reduce=$1 ;;
        nccl) echo sync.reduce=nccl devices.list= ;;
        relaxed) echo sync.consistency=relaxed ;;
        averaging) echo sync.mode=averaging sync.every=3 ;;
        independent) echo sync.mode=independent ;;
        served) echo sync.mode=parameter_server ;;
    esac
}
two="model.name=mnist_cnn train.epochs=1000 devices.list=0 devices.time_plans=no"
# ranked: train starts two ranks from here on, by the launcher that the bundle has, or the system.
ranked() {
    launcher=$folder/mpi/mpiexec.hydra
    [ -x "$launcher" ] || launcher=$(command -v mpiexec.hydra || echo mpiexec.hydra)
    launcher="$launcher -n 2"
}
# NCCL wants a GPU for each rank.
has_two_gpus() {
    case $device in
        simulated) ;;
        cuda) [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')" -ge 2 ] ;;
        *) false ;;
    esac
}
ranks() {
    need_digits
    pids=
    modes=$rank_modes
    ! has_two_gpus || modes="$modes nccl"
    keys="$two train.batch=$medium train.steps=40 data.train=$data/train-*"
    for mode in $tower_modes; do
        train towers-$mode 100 $keys $(mode_keys $mode) devices.towers=2 &
        pids="$pids $!"
    done
    for mode in $modes; do
        (ranked; train ranks-$mode 100 $keys $(mode_keys $mode)) &
        pids="$pids $!"
    done
    wait $pids
    same_weights same-bits-peer towers-host towers-peer
    same_weights same-bits-served towers-host towers-served
    for mode in $modes; do
        case $mode in
            ipc | nccl) same_weights same-bits-ranks-$mode towers-host ranks-$mode ;;
            *) same_weights same-bits-ranks-$mode towers-$mode ranks-$mode ;;
        esac
    done
}

# What the timed stages need and nobody has to wait for: data, and what torch.compile keeps in its cache.
prepare() {
    need_digits
    need_jpegs
    peer compiled 180 --model resnet50 --batch $large --precision bf16 --mode compile --steps 10
}

# Steps recorded as CUDA graphs beside queued ones, and beside PyTorch's compiled step, which is a graph too.
graphs() {
    train r50-graph 60 $r50 devices.precision=bf16 devices.time_plans=yes devices.graph=on
    train r50-queued 60 $r50 devices.precision=bf16 devices.time_plans=yes devices.graph=off
    peer r50-torch-compile 150 --model resnet50 --batch $large --precision bf16 --mode compile --steps 40
    quotient r50-graph/queued '' r50-graph r50-queued images_per_second
    quotient r50-graph/torch-compile '>= 1' r50-graph r50-torch-compile images_per_second
    fused="$r50 devices.precision=bf16 devices.time_plans=yes devices.graph=on devices.fuse=yes"
    train r50-fused 120 $fused
    quotient r50-fused/graph '' r50-fused r50-graph images_per_second
    quotient r50-fused/torch-compile '>= 1' r50-fused r50-torch-compile images_per_second
    train r50-statistics 120 $fused devices.batch_statistics=fused
    quotient r50-statistics/fused '' r50-statistics r50-fused images_per_second
}

# Two towers and two ranks on one GPU beside one tower: what the exchange costs, as nothing else can be gained.
towers() {
    need_digits
    keys="$two train.batch=$((medium * 8)) train.steps=400 data.train=$data/train-*"
    train tower-1 30 $keys
    train towers-2-host 30 $keys devices.towers=2 sync.reduce=host
    train towers-2-peer 30 $keys devices.towers=2 sync.reduce=peer
    for reduce in host ipc; do
        (ranked; train ranks-2-$reduce 40 $keys sync.reduce=$reduce)
    done
    for run in towers-2-host towers-2-peer ranks-2-host ranks-2-ipc; do
        quotient $run/tower-1 '' $run tower-1 images_per_second
    done
    for reduce in ipc host; do
        (ranked; train r50-ranks-2-$reduce 90 $r50 devices.precision=bf16 devices.time_plans=yes devices.list=0 \
            sync.reduce=$reduce)
        quotient r50-ranks-2-$reduce/graph '' r50-ranks-2-$reduce r50-graph images_per_second
    done
}

# Is input that is decoded from JPEG as fast as input that is on the device?
jpeg() {
    need_jpegs
    train r20-synthetic 40 $r20 input.source=synthetic
    train r20-jpeg 40 $r20 "data.train=$jpegs/train-*"
    quotient r20-jpeg/synthetic '>= 0.99' r20-jpeg r20-synthetic images_per_second
}

# What bits that do not depend on the number of towers cost.
slices() {
    train r20-whole 40 $r20 input.source=synthetic
    train r20-slices 40 $r20 input.source=synthetic train.slices=8
    quotient r20-slices/whole '' r20-slices r20-whole images_per_second
}

# Speed and memory in every precision beside PyTorch.
precisions() {
    for precision in bf16 fp16 tf32 fp32; do
        train r50-$precision-auto 60 $r50 devices.precision=$precision devices.time_plans=yes
        peer r50-$precision-torch 60 --model resnet50 --batch $large --precision $precision --mode eager --steps 40
        quotient r50-$precision/torch '' r50-$precision-auto r50-$precision-torch images_per_second
        quotient r50-$precision-bytes/torch '' r50-$precision-auto r50-$precision-torch device_bytes peak_bytes
    done
}

# The smallest step, where launches count most.
launches() {
    train mnist-graph 30 $mnist train.steps=6000 input.source=synthetic devices.graph=on
    train mnist-queued 30 $mnist train.steps=6000 input.source=synthetic devices.graph=off
    quotient mnist-graph/queued '' mnist-graph mnist-queued images_per_second
}

# Bytes, time and hit rates of the kernels that only move data, in two steps of ResNet-50, by Nsight Compute.
ncu() {
    [ "$device" = cuda ] || { skip r50-kernels 'there is no GPU'; return; }
    moving='chunk_moments|merge_chunks|normalise|sum_grad|spread_grad|add|relu'      # how their names begin
    rm -rf "$out/runs/r50-kernels"
    ours r50-kernels 90 ncu --clock-control none --csv --print-units base --log-file "$out/kernels.csv" \
        --metrics gpu__time_duration.sum,dram__bytes.sum,lts__t_sector_hit_rate.pct -k "regex:^($moving)" \
        "$folder/pipetrain" -c /dev/null --set "run.dir=$out/runs/r50-kernels" --set report.progress=none \
        --set devices.kind=cuda $(for key in $r50; do echo --set $key; done) --set train.steps=2 \
        --set devices.precision=bf16 --set devices.graph=off
    FIRST_LIGHT_SHOWN=60
    item r50-kernels-table 20 "$python" "$source_dir/tests/gpu/kernel_table.py" "$out/kernels.csv"
    FIRST_LIGHT_SHOWN=
}

# What the items printed, as far as they are done.
keep_logs() {
    tar -czf "$out/logs.new" -C "$out" logs 2>/dev/null && mv "$out/logs.new" "$out/logs.tgz"
}

finish() {
    trap - EXIT HUP INT TERM
    release
    keep_logs
    counts=$(cut -f3 "$out/table" | sort | uniq -c | awk '{ printf "%s%d %s", n++ ? ", " : "", $1, $2 }')
    say "== end at $(($(date +%s) - FIRST_LIGHT_BEGUN)) s: $counts"
    awk -F'\t' '{ printf "%-10s  %-36s  %-7s  %8s  %s\n", $1, $2, $3, $4, $5 }' "$out/table" | tee -a "$out/log"
    rm -rf "$out/tmp"
    cut -f3 "$out/table" | grep -Eq 'failed|limit|late' && exit 1
    exit 0
}
trap finish EXIT HUP INT TERM

# run_stage STAGE[:ITEM,ITEM...]
run_stage() {
    stage=${1%%:*}
    FIRST_LIGHT_ONLY= FIRST_LIGHT_STRICT=no
    [ "$stage" = "$1" ] || FIRST_LIGHT_ONLY=$(echo "${1#*:}" | tr , ' ')
    say "== $stage at $(($(date +%s) - FIRST_LIGHT_BEGUN)) s"
    $stage
}

# ends_in SECONDS: no item is to run longer than that, nor than the whole run.
ends_in() {
    FIRST_LIGHT_END=$(($(date +%s) + $1))
    [ -z "$end" ] || [ "$FIRST_LIGHT_END" -le "$end" ] || FIRST_LIGHT_END=$end
}

end=$FIRST_LIGHT_END
for word; do
    case $word in
        *@*) ends_in "${word##*@}" ;;
        *) FIRST_LIGHT_END=$end ;;
    esac
    word=${word%@*}
    case $word in
        *+*)
            # Several of them may need these, and only one can write them.
            stage=prepare FIRST_LIGHT_STRICT=no
            case +$word in *+trains* | *+ranks* | *+prepare*) need_digits ;; esac
            pids=
            for part in $(echo "$word" | tr + ' '); do
                run_stage "$part" &
                pids="$pids $!"
            done
            wait $pids ;;
        *) run_stage "$word" ;;
    esac
    keep_logs
done
