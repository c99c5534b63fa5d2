#!/bin/sh
# The number of classes comes from dataset.json unless it is set or the network comes from a file; a run resumes from a
# checkpoint only with data whose class names are those of the checkpoint.
. "$(dirname "$0")/../e2e.sh"
cd "$work" || exit 99
"$build/tests/e2e/use/jpeg_maker" photos 3 20 && "$convert" folder photos -o set --validation=0.25 >/dev/null 2>&1 ||
    { fail 'no set'; finish; }
cat >three.conf <<END
[data]
train = set/train-*
validation = set/validation-*
[model]
name = mnist_cnn
[train]
batch = 10
epochs = 1
[devices]
kind = $kind
threads_per_tower = 1
[report]
progress = none
END

# outputs FILE: the classes of a file of weights, by the shape of its last layer
outputs() {
    grep -ao '"fc2.weight":{"dtype":"F32","shape":\[[0-9]*' "$1" | sed 's/.*\[//'
}

expect_end 0 'three classes of dataset.json' run "$pipetrain" -c three.conf --set run.dir=taken
expect_out_joined ', 3 classes as dataset.json says'
expect_equal "$(outputs taken/weights.safetensors)" 3 'outputs of the network'
grep -qx 'classes = 3' taken/run.conf || fail 'the run keeps another number'
expect_end 0 'evaluate by the same configuration' run "$pipetrain" evaluate -c three.conf --weights taken/weights.safetensors
run "$pipetrain" evaluate -w taken/weights.safetensors --set 'data.validation=set/validation-*'
expect_code 0 'evaluate by the weights'
"$build/tests/e2e/use/jpeg_maker" others 5 2 && "$convert" folder others -o others.set >/dev/null 2>&1 ||
    fail 'no set of other classes'
mkdir bare.set && cp others.set/train-* bare.set || fail 'no set without a description'
for set in others bare; do
    run "$pipetrain" evaluate -w taken/weights.safetensors --set "data.validation=$set.set/train-*"
    expect_code 3 "evaluate on the classes of $set"
    expect_err 'the weights are of a network with (3|fewer)'
done
for pattern in set set:train "$(echo set/train-00000-of-*)" 'set/train-*,set/none-*'; do
    run "$pipetrain" --describe -c three.conf --set "data.train=$pattern" --net
    expect_out '^classes 3$'
done

# Labels that are counted from elsewhere, and a list that is not of these classes.
expect_end 0 'classes and an offset' run "$pipetrain" -c three.conf --check --set data.label_offset=1
expect_out_joined ', 4 classes: dataset.json says 3, data.label_offset is 1'
expect_err_lines 0
printf 'a\nb\n' >two
run "$pipetrain" -c three.conf --check --set data.class_names=two
expect_err '^train: two names 2 classes, the network has 3$'

# What is said goes before; what a file fixes stays.
expect_end 0 'ten classes' run "$pipetrain" -c three.conf --set run.dir=ten --set data.classes=10
expect_equal "$(outputs ten/weights.safetensors)" 10 'outputs that were asked for'
expect_end 0 'the classes of the model' run "$pipetrain" -c three.conf --set run.dir=own --set data.classes=0
expect_equal "$(outputs own/weights.safetensors)" 10 "the model's own outputs"
expect_err 'dataset.json says 3 classes, the network has 10'
run "$pipetrain" -c three.conf --set run.dir=first --set model.weights=ten/weights.safetensors
expect_code 0 'weights of ten classes'
expect_equal "$(outputs first/weights.safetensors)" 10 'outputs of the weights'
run "$pipetrain" -c three.conf --set run.dir=head --set model.weights=ten/weights.safetensors --set 'model.skip=fc2.*'
expect_code 0 'a head of its own'
expect_equal "$(outputs head/weights.safetensors)" 3 'outputs of a new head'
run "$pipetrain" --describe=mnist_cnn --net
expect_out '^classes 10$'
run "$pipetrain" -c three.conf --set input.source=synthetic --set train.steps=2 --set run.dir=drawn
expect_code 0 'synthetic images'
expect_equal "$(outputs drawn/weights.safetensors)" 3 'outputs of a run beside which real input is compared'

# The same records and numbers, and other names.
expect_end 0 'a run that saves' run "$pipetrain" -c three.conf --set run.dir=named --set checkpoint.every=epoch
cp set/dataset.json kept.json
sed 's/class1/other/' kept.json >set/dataset.json
cmp -s kept.json set/dataset.json && fail 'the names are the same'
run "$pipetrain" -c three.conf --set run.dir=named --set checkpoint.every=epoch --set train.epochs=2
expect_code 3 'a state of other names'
expect_err 'was trained on other classes: class0, class1, class2; those of set/train-\* are class0, other, class2: '
run "$pipetrain" -c three.conf --set run.dir=named --set checkpoint.every=epoch --set train.epochs=2 --check
expect_code 3 'a check of a state of other names'
run "$pipetrain" -c three.conf --set run.dir=begun --set model.weights=taken/weights.safetensors
expect_code 0 'weights of other names'
expect_err 'taken/weights.safetensors was trained on other classes: class0, class1, class2; the data has class0, other, '
run "$pipetrain" -c three.conf --set run.dir=headless --set model.weights=taken/weights.safetensors \
    --set 'model.skip=fc2.*'
expect_err_lines 0
printf 'a\nb\nc\n' >names
run "$pipetrain" -c three.conf --set run.dir=named --set checkpoint.every=epoch --set train.epochs=2 \
    --set data.class_names=names
expect_code 0 'names that are given by hand'
cp kept.json set/dataset.json

# Where labels are stored as names, another order of the names is other labels.
printf 'class0\nclass1\nclass2\n' >in-order
printf 'class2\nclass0\nclass1\n' >permuted
by_name='--set data.label_key=image/class/text --set checkpoint.every=epoch'
run "$pipetrain" -c three.conf --set run.dir=texts $by_name --set data.class_names=in-order
expect_code 0 'labels that are names'
run "$pipetrain" -c three.conf --set run.dir=texts $by_name --set data.class_names=permuted --set train.epochs=2
expect_code 3 'names of labels in another order'
expect_err 'was trained on other classes: class0, class1, class2; those of .* are class2, class0, class1: restore the list'
run "$pipetrain" -c three.conf --set run.dir=texts $by_name --set data.class_names=in-order --set train.epochs=2
expect_code 0 'names of labels in the same order'
finish
