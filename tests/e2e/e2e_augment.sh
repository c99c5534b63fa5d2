#!/bin/sh
# Automatic augmentation and erasing: the same weights with any number of decoders, of towers (with slices) and after a resume; wrong
# values are refused.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_network

# ---- the same bits ----

# expect_bits RUN OTHER
expect_bits() {
    expect_same_file "$work/runs/$1/weights.safetensors" "$work/runs/$2/weights.safetensors" "weights of $1 and $2"
}

short='--set train.batch=30 --set train.slices=2 --set checkpoint.every=7'
for policy in trivial_augment_wide rand_augment auto_augment; do
    how="$short --set augment.policy=$policy"
    train $policy $how --set input.decode_threads=1
    train $policy-threads $how --set input.decode_threads=3 --set devices.towers=2
    expect_bits $policy $policy-threads
    train $policy-cut $how --set train.steps=11
    train $policy-cut $how
    expect_out 'resume +at step 11 of 20'
    expect_bits $policy $policy-cut
done
for other in rand_augment auto_augment; do
    ! cmp -s "$work/runs/trivial_augment_wide/weights.safetensors" "$work/runs/$other/weights.safetensors" ||
        fail "$other draws nothing of its own"
done

how="$short --set augment.erase=0.5 --set model.mean=0.3 --set augment.vertical_flip=yes --set augment.rotation=20"
train erase $how
train erase-threads $how --set input.decode_threads=3 --set devices.towers=2
expect_bits erase erase-threads
train never $short --set model.mean=0.3
! cmp -s "$work/runs/erase/weights.safetensors" "$work/runs/never/weights.safetensors" || fail 'nothing is erased'

# ---- what is printed and refused ----

try told --check --set augment.policy=rand_augment --set augment.operations=3
expect_out_joined ', RandAugment \(3 operations of magnitude 9\) v'
try told --check --set augment.policy=trivial_augment_wide
expect_out_joined ', TrivialAugmentWide v'
try told --check --set augment.erase=0.25 --set augment.mixup=0.2 --set augment.vertical_flip=yes --set augment.rotation=15
expect_out_joined ', random vertical flip, rotated by up to 15 degrees, random erasing of 25 %, mixed by mixup 0.2 v'
try told --check --set augment.crop=resized --set 'augment.crop_area=0.25, 1' --set 'augment.crop_aspect=0.5 2'
expect_out_joined 'random resized crop \(area 0.25 to 1, aspect 0.5 to 2\)'
for range in 0.5 '1 0.5' '0 1' '0.1 2' '0.1 0.2 0.3'; do
    try refused --check --set "augment.crop_area=$range"
    expect_code 2 "an area of $range"
done
try refused --check --set 'augment.crop_aspect=0.5'
expect_err 'augment.crop_aspect: has to be two numbers'
try refused --set augment.erase=1.5
expect_code 2 'a probability above 1'
try refused --set augment.policy=rand-augment
expect_code 2 'an unknown name'
expect_err "did you mean 'rand_augment'"
try refused --set augment.policy=rand_augment --set augment.magnitude=31
expect_code 2 'a magnitude without a step'
cat >"$work/four.net" <<'END'
model four
image 28x28x4
classes 10
dense fc1 units classes
softmax_loss loss
END
try refused --check --set "model.file=$work/four.net" --set augment.policy=auto_augment
expect_code 2 'images of four channels'
expect_err 'augment.policy: changes images of 1 or 3 channels, and the network.s have 4'
finish
