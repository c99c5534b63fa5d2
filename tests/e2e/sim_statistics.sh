#!/bin/sh
# A residual network trains with devices.batch_statistics = fused as with exact statistics, on the simulated CUDA: alone,
# in microbatches, by two towers and in slices; a run in two parts leaves the bits of a whole one; where convolutions
# cannot sum, the setting is refused before the first step.
. "$(dirname "$0")/sim.sh"
. "$(dirname "$0")/e2e.sh"
make_tiny
cat >"$work/residual.net" <<'END'
model residual
image 28x28x1
classes 10
conv2d stem filters 8 kernel 5 stride 4 no_bias
batch_norm stem.bn
relu stem.relu
repeat 2 as i
    conv2d block{i}.conv1 filters 8 kernel 3 padding same no_bias
    batch_norm block{i}.bn1
    relu block{i}.relu1
    conv2d block{i}.conv2 filters 8 kernel 3 padding same no_bias
    batch_norm block{i}.bn2
    add block{i}.add from before,start
    relu block{i}.relu2
end
global_average mean
dense fc units classes
softmax_loss loss
END
printf '[model]\nfile = %s\n' "$work/residual.net" >>"$work/tiny.conf"
common='--set train.steps=4 --set train.batch=12 --set data.validation='
fused='--set devices.batch_statistics=fused'

for precision in bf16 fp16; do
    train exact $common --set devices.precision=$precision
    train fused $common $fused --set devices.precision=$precision
    expect_near fused loss "$(summary exact loss)" 0.02
    ! cmp -s "$work/runs/exact/weights.safetensors" "$work/runs/fused/weights.safetensors" ||
        fail "$precision: the setting changes no bit"
done

common="$common --set devices.precision=fp16"
run "$pipetrain" -c "$work/tiny.conf" --dry-run $common $fused --set "run.dir=$work/runs/dry"
expect_out 'stem: forward engine [0-9]+ [+] statistics'
expect_out 'block1.bn1: own kernel; applied in block1.conv2$'
expect_out 'block1.conv2: forward scale [+] relu [+] engine [0-9]+ [+] statistics'
expect_out 'weight gradient scale [+] relu [+] engine'
expect_out 'data gradient engine [0-9]+ [+] norm sums'
train parts $common $fused --set train.steps=2 --set checkpoint.every=2
train parts $common $fused
expect_out 'resume +at step 2 of '
expect_same_file "$work/runs/fused/weights.safetensors" "$work/runs/parts/weights.safetensors" 'a run in two parts'

train exact-pieces $common --set train.accumulate=2
train pieces $common $fused --set train.accumulate=2
expect_near pieces loss "$(summary exact-pieces loss)" 0.02
train exact-towers $common --set devices.towers=2 --set devices.list=0
train towers $common $fused --set devices.towers=2 --set devices.list=0
expect_near towers loss "$(summary exact-towers loss)" 0.02
for towers in 1 2; do
    train slices-$towers $common $fused --set train.slices=2 --set devices.towers=$towers --set devices.list=0
done
expect_same_file "$work/runs/slices-1/weights.safetensors" "$work/runs/slices-2/weights.safetensors" \
    'the same slices on one and two towers'

# A network that was trained so is evaluated anywhere.
run "$pipetrain" evaluate -w "$work/runs/fused/weights.safetensors" --set "data.validation=$work/data/validation-*" \
    --set devices.kind=cpu
expect_code 0 'evaluation on the CPU'

run "$pipetrain" -c "$work/tiny.conf" $fused --set "run.dir=$work/runs/refused"
expect_code 2 'fp32'
expect_err '\[devices\] batch_statistics: fused needs bf16 or fp16: set devices.precision, or use exact'
run "$pipetrain" -c "$work/tiny.conf" $fused --set devices.kind=cpu --set "run.dir=$work/runs/refused"
expect_code 2 'the CPU'
expect_err '\[devices\] batch_statistics: only convolutions on a GPU compute statistics: exact, or devices.kind = cuda'
finish
