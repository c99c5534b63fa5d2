#!/bin/sh
# augment.train_size: images of another size in training than in evaluation. A run trains as one whose network has that size,
# to the bit, and evaluates, saves and predicts at the network's own; so on several towers, with slices, microbatches,
# averages, after a resume, and on simulated CUDA. Networks that have weights for one size only are refused.
. "$(dirname "$0")/e2e.sh"
here=$(cd "$(dirname "$0")" && pwd)
make_tiny
cd "$work" || exit 99

cat >sized.net <<'END'
model sized
image 28x28x1
classes 10
conv2d conv1 filters 8 kernel 3 stride 2 padding same no_bias
batch_norm bn1
relu relu1
conv2d conv2 filters 8 kernel 3 groups 8 padding same no_bias
batch_norm bn2
silu act2
global_average se_pool
conv2d se1 filters 4 kernel 1
silu se2
conv2d se3 filters 8 kernel 1
sigmoid gate
multiply scaled from act2,gate
conv2d conv3 filters 8 kernel 1 no_bias
batch_norm bn3
add sum from bn3,relu1
max_pool pool kernel 3 stride 2
global_average mean
dropout drop rate 0.2
dense fc units classes
softmax_loss loss
END
sed 's/^image .*/image 20x20x1/' sized.net >small.net
sed 's/^image .*/image 36x36x1/' sized.net >large.net
sed -i 's/^epochs = .*/epochs = 2\nsteps = 8\noptimizer = momentum\nlearning_rate = 0.05/' tiny.conf
printf '[model]\nfile = sized.net\n[augment]\ntrain_size = 20\n' >>tiny.conf

# sized DIR WORD... - a run of tiny.conf with these options
sized() {
    dir=$1
    shift
    expect_end 0 "the run $dir" run "$pipetrain" -c tiny.conf --set "run.dir=runs/$dir" "$@"
}
same_weights() {
    "$tensors_near" "runs/$1/weights.safetensors" "runs/$2/weights.safetensors" "$3" >near 2>&1 ||
        fail "$4: $(cat near)"
}

# Training is that of a network with images of that size, smaller or larger; validation is at the network's own size.
sized own
expect_out_joined 'multiply-accumulates an image \(0.02 M in training, at 20x20\)'
expect_out_joined 'train 20 x 20 pixels \(validation: 28 x 28\), '
sized small --set model.file=small.net --set augment.train_size=0
same_weights own small 0 'training at 20 pixels is not that of a network for 20 pixels'
expect_equal "$(summary own loss)" "$(summary small loss)" 'the loss of training at 20 pixels'
expect_equal "$(summary own input.height) $(summary own input.width)" '28 28' "the network's own size in summary.json"
[ "$(summary own validation.loss)" != "$(summary small validation.loss)" ] || fail 'both evaluate at one size'
sized without --set data.validation=
same_weights own without 0 'evaluation at another size changes training'
if [ "$simulated" = no ]; then
    sized enlarged --set augment.train_size=36
    sized large --set model.file=large.net --set augment.train_size=0
    same_weights enlarged large 0 'training at 36 pixels is not that of a network for 36 pixels'
fi

# The weights say at which size to evaluate, and evaluate and predict find what the run found.
run "$pipetrain" evaluate -w runs/own/weights.safetensors --set 'data.validation=data/validation-*' \
    --set devices.threads_per_tower=1 --json
expect_code 0 'evaluate'
cp out evaluated.json
own_loss=$("$json_value" evaluated.json loss)
expect_near own validation.loss "$own_loss" 1e-6
run "$pipetrain" evaluate -c tiny.conf --set model.weights= -w runs/small/weights.safetensors --json
expect_code 0 'evaluate with weights of a network for another size'
expect_near own validation.loss "$("$json_value" out loss)" 1e-6
run "$pipetrain" predict -w runs/own/weights.safetensors --tsv 'data/validation-*'
expect_code 0 'predict'
cp out own.tsv
run "$pipetrain" predict -w runs/small/weights.safetensors -m sized.net --tsv 'data/validation-*'
expect_same_file out own.tsv 'the same weights in a network of the evaluation size'

# Towers, slices, microbatches, averages, mixing, a resume in the middle and before an evaluation.
for towers in 1 2; do
    sized "slices-$towers" --set train.slices=4 --set "devices.towers=$towers" --set augment.mixup=0.2 --set train.ema=0.9
done
same_weights slices-1 slices-2 0 'slices on two towers differ'
expect_equal "$(summary slices-1 validation.loss)" "$(summary slices-2 validation.loss)" 'the evaluation of slices'
sized slices-small --set train.slices=4 --set augment.mixup=0.2 --set train.ema=0.9 --set model.file=small.net \
    --set augment.train_size=0
same_weights slices-1 slices-small 0 'slices at 20 pixels'
if [ "$simulated" = no ]; then
    for how in devices.towers=3 train.accumulate=2; do
        sized "with-$how" --set "$how"
        sized "small-$how" --set "$how" --set model.file=small.net --set augment.train_size=0
        same_weights "with-$how" "small-$how" 0 "$how"
    done
    sized whole --set train.steps=20
    sized parts --set train.steps=10 --set checkpoint.every=5
    sized parts --set train.steps=20 --set checkpoint.every=5
    same_weights whole parts 0 'a resumed run'
    run "$pipetrain" -c tiny.conf --set run.dir=runs/parts --set train.steps=24 --set augment.train_size=24
    expect_code 2 'a resume at another size'
    expect_err 'augment.train_size is 24, there 20'
    sized null --set devices.kind=null
    sized bicubic --set augment.filter=bicubic --set augment.crop=evaluated --set augment.evaluation=central \
        --set augment.evaluation_resize=30
    expect_end 0 'a check' run "$pipetrain" -c tiny.conf --set run.dir=none --check
    expect_end 0 'a dry run' run "$pipetrain" -c tiny.conf --set run.dir=none --dry-run
    expect_end 0 'overfitting' run "$pipetrain" -c tiny.conf --set run.dir=none --overfit=20
    ! tr -s '\n ' '  ' <out | grep -q 'in training, at 20x20' || fail '--overfit trains at another size'
fi

# refused MESSAGE WORD...
refused() {
    message=$1
    shift
    run "$pipetrain" -c tiny.conf --set run.dir=none --check "$@"
    expect_code 2 "refused: $*"
    expect_err "$message"
    expect_err_lines 1
}
refused 'train_size: the network cannot compute images of 4x4: line 19: layer .pool.: a 3x3 window with stride 2x2 does not fit' \
    --set augment.train_size=4
refused 'train_size: layer .fc1. reads all pixels \(4608 numbers of images of 28x28\).* has a global_average before' \
    --set model.file= --set model.name=mnist_cnn
refused 'evaluation_resize: resized to 30 pixels an image is smaller than the network.s 36 x 36: at least 36' \
    --set augment.train_size=36 --set augment.crop=evaluated --set augment.evaluation_resize=30
sed 's/^image .*/image 28x24x1/' sized.net >wide.net
refused 'train_size: makes square images, and those of .sized. are 28x24' --set model.file=wide.net

if [ "$simulated" = no ] && [ -x "$build/tests/e2e/pipetrain_sim" ]; then
    (. "$here/sim.sh"; exec sh "$here/e2e_train_size.sh") || fail 'it fails on the simulated CUDA'
fi
finish
