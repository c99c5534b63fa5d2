#!/bin/sh
# Training on the CUDA device from the command line: every precision, reduction and graph
# setting learns the same data, towers see the same samples, and what cannot work is refused
# before the first step with one clear message.
. "$(dirname "$0")/e2e.sh"
[ "$kind" = cuda ] || skip 'this test is for the CUDA device'
make_tiny
options='--set train.epochs=2 --set train.learning_rate=0.5' bucket=64KiB
if [ "$simulated" = yes ]; then        # a device that computes ten thousand times slower,
    options='--set train.learning_rate=0.5 --set data.validation='
    case $sanitizer in                                      # and slower still under a sanitizer
        no) options="$options --set train.steps=3 --set train.batch=12" ;;
        *) options="$options --set train.steps=2 --set train.batch=3" ;;
    esac
    if [ "$long" != yes ]; then
        make_quick
        bucket=1KiB
    fi
fi

train reference $options --set devices.kind=cpu
hash=$(summary reference sample_order_hash)
loss=$(summary reference loss)

# near NAME LIMIT: the run's loss is within a share LIMIT of the CPU's.
near() {
    expect_summary "$1" sample_order_hash "$hash"
    expect_summary "$1" device cuda
    expect_near "$1" loss "$loss" "$2"
}

for precision in fp32 tf32 bf16 fp16; do
    train $precision $options --set devices.precision=$precision
    expect_summary $precision precision $precision
    case $precision in
        fp32) near $precision 0.02 ;;
        *) near $precision 0.1 ;;
    esac
done

# A run in two parts: the scale of the loss goes on, too.
first="--set train.steps=1 --set checkpoint.every=1 --set devices.precision=fp16"
train parts $options $first
train parts $options --set devices.precision=fp16
expect_out 'resume +at step 1 of '
expect_same_file "$work/runs/fp16/weights.safetensors" "$work/runs/parts/weights.safetensors" 'a run in two parts'

# A run in two parts, one on either device, ends where the unbroken ones do, but for rounding.
for way in cuda-cpu cpu-cuda; do
    part="--set train.steps=3 $options --set train.optimizer=momentum --set train.learning_rate=0.01"
    train "whole-${way#*-}" $part --set devices.kind="${way#*-}"
    train "$way" $part --set devices.kind="${way%-*}" --set train.steps=1 --set checkpoint.every=1
    train "$way" $part --set devices.kind="${way#*-}"
    expect_out 'resume +at step 1 of '
    expect_summary "$way" device "${way#*-}"
done
for way in cuda-cpu cpu-cuda; do
    for whole in cpu cuda; do
        "$tensors_near" "$work/runs/whole-$whole/weights.safetensors" "$work/runs/$way/weights.safetensors" 1e-4 \
            >"$work/near" 2>&1 || fail "weights of $way and of the unbroken run on $whole: $(cat "$work/near")"
        echo "$way and all on $whole: $(cat "$work/near")"
    done
done

# Samples mixed in pairs are those of the CPU, on any number of towers.
mixed='--set augment.mixup=0.4 --set augment.cutmix=1'
train mixed-cpu $options $mixed --set devices.kind=cpu
for towers in 1 2; do
    train mixed-$towers $options $mixed --set devices.towers=$towers --set devices.list=0
    expect_near mixed-$towers loss "$(summary mixed-cpu loss)" 0.02
done

# What the run stands on is told.
train told $options --set devices.towers=2 --set devices.list=0
for library in CUDA cuDNN cuBLASLt; do
    summary told "libraries.$library" | grep -Eqx '[0-9.]+' || fail "the version of $library"
    grep -Eq "^(libraries| ).*$library [0-9]" "$work/out" || fail "$library is not printed"
done
expect_out "^device    $(summary told devices.0.name | tr '[]()' '....'), compute capability [0-9.]+,\$|^device    $(
    summary told devices.0.name | tr '[]()' '....'), compute capability [0-9.]+, [0-9.,]+ GiB memory\$"

# Recorded or not, the same bits; and again the same bits.
for run_name in recorded direct again; do
    graph=on
    [ $run_name != direct ] || graph=off
    train $run_name $options --set devices.graph=$graph
done
for run_name in direct again; do
    expect_same_file "$work/runs/recorded/weights.safetensors" "$work/runs/$run_name/weights.safetensors" \
        "weights of run $run_name"
done

# Several towers on one device, by every reduction that can.
for reduce in auto peer host; do
    train towers-$reduce $options --set devices.towers=3 --set devices.list=0 --set sync.reduce=$reduce \
        --set sync.bucket=$bucket
    near towers-$reduce 0.02
done
expect_same_file "$work/runs/towers-peer/weights.safetensors" "$work/runs/towers-host/weights.safetensors" \
    'weights by peer and host reduction'

# Parameters averaged instead of gradients summed; 16-bit towers compute with the mean, too.
for reduce in peer host; do
    train averaging-$reduce $options --set devices.towers=3 --set devices.list=0 --set sync.reduce=$reduce \
        --set sync.mode=averaging --set sync.every=3
    expect_out_joined "averaging every 3 steps, weights summed by $reduce"
    near averaging-$reduce 0.1
done
expect_same_file "$work/runs/averaging-peer/weights.safetensors" "$work/runs/averaging-host/weights.safetensors" \
    'weights by peer and host mean'
train averaging-bf16 $options --set devices.towers=3 --set devices.list=0 --set sync.mode=averaging \
    --set sync.every=3 --set devices.precision=bf16
near averaging-bf16 0.2

# Towers without a sample take part, whatever sums. In few steps, in which differences of rounding do not grow.
few="$options --set train.batch=3"
[ "$simulated" = yes ] || few="$few --set train.steps=8"
reductions='auto peer host'
train idle-1 $few --set devices.towers=1
for reduce in $reductions; do
    train idle-$reduce $few --set devices.towers=5 --set devices.list=0 --set sync.reduce=$reduce
done
if [ "$simulated" = yes ]; then        # as many devices as are asked for
    reductions="$reductions nccl"
    SIM_DEVICES=5
    export SIM_DEVICES
    train idle-nccl $few --set devices.towers=5 --set sync.reduce=nccl
    unset SIM_DEVICES
fi
for reduce in $reductions; do
    expect_near idle-$reduce loss "$(summary idle-1 loss)" 1e-3
done
expect_same_file "$work/runs/idle-peer/weights.safetensors" "$work/runs/idle-host/weights.safetensors" \
    'weights by peer and host reduction, towers without a sample'

# Kept plans are used again; what cannot be one is not waited for.
train kept $options --set "devices.plan_cache=$work/plans"
ls "$work/plans" | grep -q plan || fail 'no convolution plan was kept'
for plan in "$work"/plans/*.plan; do
    rm "$plan" && mkfifo "$plan"
done
run timeout 120 "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/pipes" $options \
    --set "devices.plan_cache=$work/plans"
expect_code 0 'a run whose kept plans are pipes'
expect_same_file "$work/runs/kept/weights.safetensors" "$work/runs/pipes/weights.safetensors" 'weights after planning again'

# refused CODE OPTION...
refused() {
    refused_code=$1
    shift
    try refused $options "$@"
    expect_code "$refused_code" "$*"
    expect_err_lines 1
    [ ! -e "$work/runs/refused/metrics.jsonl" ] || fail "a refused run left metrics: $*"
}

refused 2 --set devices.towers=2 --set devices.list=0 --set sync.reduce=nccl
expect_err 'one tower a device'
try layout $options --set devices.layout=nchw
expect_code 2 'a layout the device does not have'
refused 71 --set devices.list=99
expect_err 'there is no device 99'
if [ "$simulated" = yes ]; then
    SIM_CAPABILITY=75
    export SIM_CAPABILITY
    refused 71
    expect_err 'compute capability 7\.5'
    unset SIM_CAPABILITY
fi
refused 71 --set devices.precision=bf16 --set devices.kind=auto --set devices.backend=reference
expect_err 'fp32 only'
CUDA_LAUNCH_BLOCKING=1
export CUDA_LAUNCH_BLOCKING
if [ "$simulated" = yes ]; then
    refused 71 --set devices.towers=2 --set devices.list=0,1
    expect_err 'CUDA_LAUNCH_BLOCKING: is set, and with 2 devices'
fi
unset CUDA_LAUNCH_BLOCKING
finish
