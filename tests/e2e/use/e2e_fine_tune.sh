#!/bin/sh
# Weights to begin with, with tensors left out and others frozen: what is taken is told, what is frozen keeps its bits on
# every number of towers and over a run that continues, which does not need the file any more; what is wrong is told at once.
. "$(dirname "$0")/../e2e.sh"
make_tiny
cd "$work" || exit 99

# The hash of a tensor in a run's weights.
hash_of() {
    grep -ao "\"pipetrain.xxh3.$2\":\"[0-9a-f]*\"" "runs/$1/weights.safetensors"
}

# expect_kept A B NAME...: tensors are the same in both; expect_other: they are not.
expect_kept() {
    a=$1 b=$2
    shift 2
    for tensor; do
        [ -n "$(hash_of "$a" "$tensor")" ] || fail "$a has no $tensor"
        expect_equal "$(hash_of "$b" "$tensor")" "$(hash_of "$a" "$tensor")" "$tensor of $b"
    done
}
expect_other() {
    a=$1 b=$2
    shift 2
    for tensor; do
        [ "$(hash_of "$b" "$tensor")" != "$(hash_of "$a" "$tensor")" ] || fail "$tensor is the same in $a and $b"
    done
}

train base
base=runs/base/weights.safetensors
tuned="--set model.weights=$base --set train.steps=7"

# ---- what is left out, what is frozen ----

train drawn --set train.learning_rate=0 --set train.steps=1
train skipped $tuned --set train.learning_rate=0 --set 'model.skip=fc2.*'
expect_out "^weights   6 of 8 tensors from $base, by their names$"
expect_out '^          2 skipped by model.skip: fc2.weight, fc2.bias$'
expect_kept base skipped conv1.weight conv1.bias conv2.weight conv2.bias fc1.weight fc1.bias
expect_kept drawn skipped fc2.weight fc2.bias
for towers in 1 2 3; do
    for mode in replicated averaging; do
        train "frozen-$towers" $tuned --set 'model.freeze=conv*, fc1.weight' --set devices.towers=$towers \
            --set sync.mode=$mode --set train.weight_decay=0.01 --set train.clip_norm=0.1 --set train.optimizer=adamw
        expect_out_joined ' of which 599,392 are frozen, '
        expect_kept base "frozen-$towers" conv1.weight conv1.bias conv2.weight conv2.bias fc1.weight
        expect_other base "frozen-$towers" fc1.bias fc2.weight fc2.bias
    done
done

# ---- a run that continues does not need the file ----

cp $base given.safetensors
part="--set model.weights=given.safetensors --set model.skip=fc2.bias --set model.freeze=conv1.* --set devices.towers=2
    --set train.optimizer=adadelta"
train whole $part --set train.steps=9
train parts $part --set train.steps=4 --set checkpoint.every=4
cp -r runs/parts runs/others
cp runs/frozen-1/weights.safetensors given.safetensors
for which in 'a run that goes on' 'a run that is over'; do
    try others $part --set train.steps=9 --set checkpoint.every=4
    expect_code 0 "$which, with other weights under the same name"
    expect_err 'is of a run that began with other weights than model.weights names now: it goes on with its own'
    expect_same_file runs/whole/weights.safetensors runs/others/weights.safetensors "$which"
done
rm given.safetensors
train parts $part --set train.steps=9 --set checkpoint.every=4
expect_out '^resume    at step 4 of '
grep -q '^weights ' out && fail 'weights to begin with are told where none are taken'
expect_same_file runs/whole/weights.safetensors runs/parts/weights.safetensors 'weights of a run that went on'
try parts $part --set train.steps=10 --set checkpoint.every=4 --set model.freeze=
expect_code 2 'a state of a run that froze other parameters'
expect_err 'model.freeze is none, there conv1.\*'
try anew $part --set train.steps=1
expect_code 3 'a run that begins without the file'
expect_err '^given.safetensors: cannot be read: '

# ---- what is wrong ----

try wrong --set model.init=$base
expect_code 2 'the name it had before'
expect_err "unknown key 'init' in \[model\] \(pipetrain calls it 'weights'\)$"
try wrong --set model.skip='fc2.*' --set model.freeze='conv3.* c?nv1.weight ,nothing'
expect_code 2 'patterns that match nothing'
expect_err_lines 2
expect_err "freeze: 'conv3.\*' is no tensor's name \(did you mean 'conv1.\*'\?\), 'nothing' is no tensor's name \(they "
expect_err 'skip: has no effect without model.weights$'
try wrong --set model.freeze='nothing'
expect_err "freeze: 'nothing' is no tensor's name \(they begin with conv1, conv2, fc1, fc2\)$"
try wrong --set model.freeze='*'
expect_code 2 'all is frozen'
expect_err 'freeze: freezes all parameters: nothing would learn$'
try wrong --set model.name=resnet20 --set model.freeze='*.running_*' --check
expect_code 2 'statistics cannot be frozen'
expect_err "freeze: '\*.running_\*' are statistics, which always continue$"
try wrong $tuned --set model.skip='*'
expect_code 2 'nothing is taken'
expect_err "^model.skip: skips all tensors: nothing is loaded from $base$"
try wrong $tuned --set model.skip='fc3.*,conv1.weight'
expect_code 2 'tensors that are not there'
expect_err "^model.skip: no tensor of 'mnist_cnn' or of $base is 'fc3.\*' \(did you mean 'fc1.\*'\?\)$"
try wrong $tuned --set model.name=lenet
expect_code 2 'weights of another network'
expect_err '^runs/base/weights.safetensors: model.skip=PATTERN skips tensors: those of the network keep random weights$'
[ ! -e runs/wrong ] || fail 'what is wrong starts a run'

# Weights of torch.save are refused as such; NaN is reported with its tensor.
printf 'PK\003\004and more of archive/data.pkl' >pickle.pth
try wrong --set model.weights=pickle.pth
expect_code 3 'a file of torch.save'
expect_err '^pickle.pth: is not a safetensors file, but one of torch.save: '
cp $base broken.safetensors
printf '\377\377\377\377' | dd of=broken.safetensors bs=1 seek=$(($(wc -c <broken.safetensors) - 4)) conv=notrunc 2>/dev/null
try wrong --set model.weights=broken.safetensors
expect_code 3 'a weight that is no number'
expect_err 'broken.safetensors: fc2.weight: holds a number that is not finite or above 1e18$'
try wrong --set model.weights=broken.safetensors --check
expect_code 3 'a check of a weight that is no number'
cp $base flipped.safetensors
flip flipped.safetensors $(($(wc -c <flipped.safetensors) - 6))
try wrong --set model.weights=flipped.safetensors
expect_code 3 'a weight with another bit'
expect_err 'flipped.safetensors: fc2.weight: the file is damaged$'
run "$pipetrain" evaluate -w flipped.safetensors --set "data.validation=$work/data/validation-*"
expect_code 3 'an evaluation of damaged weights'
finish
