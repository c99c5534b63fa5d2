#!/bin/sh
# Models in files: the example of doc/model-files.md trains, its text stays with the results, and what is wrong with
# such a file is told before anything starts.
. "$(dirname "$0")/e2e.sh"
page=$(cd "$(dirname "$0")/../../doc" && pwd)/model-files.md
cd "$work" || exit 99

# The lines of the page from one that begins so to one that ends so.
example() {
    sed -n "/^    $1/,/^    $2/p" "$page" | sed 's/^    //'
}
example '# A small residual network' 'softmax_loss' >small.net
example '\[model\]$' 'learning_rate' | awk '/^\[model\]/ { text = "" } { text = text $0 "\n" } END { printf "%s", text }' \
    >small.conf

run "$pipetrain" --describe=small.net
expect_code 0 'the description of a file'
expect_out '^small: image 32x32x3, 10 classes$'
run "$pipetrain" -c small.conf --check
expect_code 0 'a check'
sed 's/^file = .*/name = mnist_cnn/' small.conf >named.conf
run "$pipetrain" -c named.conf --set model.file=small.net --check
expect_code 0 'a file in place of a name'
expect_out_joined ' settings seed 1, input.source synthetic, model.file small.net, train.steps 3,'
run "$pipetrain" -c small.conf --set devices.kind=$kind
expect_code 0 'three steps of a file'
expect_out '^model +small, 14,650 parameters'
expect_out 'run\.net'
[ "$("$json_value" runs/small/summary.json steps)" = 3 ] || fail 'three steps are done'
cmp small.net runs/small/run.net || fail 'the text stays with the results'

# What was trained can be repeated when the file is another.
echo 'relu more' >>small.net
run "$pipetrain" -c runs/small/run.conf --set run.dir=again --set devices.kind=$kind
expect_code 0 'the run again'
cmp runs/small/weights.safetensors again/weights.safetensors || fail 'the run again is another'
run "$pipetrain" -c runs/small/run.conf --set run.dir=again --set run.resume=never --set model.name=mnist_cnn \
    --set devices.kind=$kind
expect_code 0 'a name in place of the file'
[ ! -e again/run.net ] || fail 'the text of an earlier run stays'

# A run's configuration is of the directory that it lies in, under any name, and not of what is in the old place.
mv runs/small kept
sed 's/^conv2d stem filters 16 kernel 3/conv2d stem filters 16 kernel 5/' kept/run.net >other.net
cp kept/run.conf kept/edited.conf
for old in gone another; do
    if [ $old = another ]; then
        run "$pipetrain" -c small.conf --set model.file=other.net --set run.dir=runs/small --set devices.kind=$kind
        expect_code 0 'another run in the old place'
    fi
    for conf in "$work/kept/run.conf" kept/run.conf kept/edited.conf; do
        rm -rf repeated
        run "$pipetrain" -c "$conf" --set run.dir=repeated --set devices.kind=$kind
        expect_code 0 "a run that was moved, again: $old, $conf"
        expect_err "^$conf lies beside the files of its run, which are used: model.file ${conf%/*}/run.net \(not runs/small/run.net\)"
        cmp kept/weights.safetensors repeated/weights.safetensors || fail "the moved run again is another: $old, $conf"
        run "$pipetrain" -c "$conf" --set devices.kind=$kind
        expect_code 2 "a run that was moved: $old, $conf"
        expect_err "run directory ${conf%/*} holds the results of an earlier run"
    done
    run "$pipetrain" evaluate -c kept/run.conf --set devices.kind=$kind --set data.validation=nothing
    expect_err 'which are used: run.dir kept \(not runs/small\), model.file kept/run.net'
done
run sh -c "cd kept && exec '$pipetrain' -c run.conf --set devices.kind=$kind"
expect_err 'run directory \. holds the results of an earlier run'

# A configuration elsewhere means what it says, and where it looks.
cp kept/run.conf copied.conf
rm -r runs/small
run "$pipetrain" -c copied.conf --check
expect_code 2 'a network that is gone'
expect_err "^runs/small/run.net: cannot be read: No such file or directory in the current folder, $work, to which paths are relative"

# The second run of a name is repeated by its own configuration.
for rate in 0.1 0.2; do
    run "$pipetrain" -c small.conf --set model.file=kept/run.net --set devices.kind=$kind --set train.learning_rate=$rate
done
run "$pipetrain" -c runs/small-2/run.conf --set devices.kind=$kind
expect_code 2 'the second run of a name'
expect_err 'run directory runs/small-2 holds the results of an earlier run'
rm -r runs/small*
mv kept runs/small

# The lines of the page about branches fit into its example.
example 'max_pool pool' 'concat mix from' >branches
sed -e '/^global_average/{' -e 'r branches' -e 'N' -e '}' small.net | sed '/^relu more$/d' >branched.net
run "$pipetrain" --describe=branched.net
expect_code 0 'branches'
expect_out '^mix +concat +56x'

# The first convolution of every block is depthwise.
sed -e '/^relu more$/d' -e 's/\(conv1 filters 16 kernel 3\) padding same/\1 padding 1 groups 16/' small.net >depthwise.net
run "$pipetrain" --describe=depthwise.net
expect_code 0 'depthwise convolutions'
expect_out '^block1.conv1 +conv2d 3x3/1 pad 1 groups 16 +16x32x32 +144 +0.147$'
run "$pipetrain" --describe=depthwise.net --net
expect_out '^    conv2d block\{i\}.conv1 filters 16 kernel 3 stride 1 padding same groups 16 no_bias$'

# A model that is printed is the same model.
run "$pipetrain" --describe=mnist_cnn --net
expect_code 0 'a model as a file'
cp out printed.net
run "$pipetrain" --describe=printed.net
sed 1d out >described
run "$pipetrain" --describe=mnist_cnn
sed 1d out | cmp - described || fail 'the printed model is another'
# Its recipe is not in the file, but below it as the settings that it consists of.
"$pipetrain" --describe=resnet20_v1 --net >printed.net
printf '[model]\nname = resnet20_v1\n' >named.conf
{ printf '[model]\nfile = printed.net\n' && sed -n 's/^# \(\[.*\]\|[a-z_]* = .*\)$/\1/p' printed.net; } >printed.conf
for conf in named printed; do
    run "$pipetrain" -c $conf.conf --set input.source=synthetic --set devices.kind=$kind --check
    expect_code 0 "the plan of $conf.conf"
    awk '/^[a-z]/ { is_of_file = $1 == "settings" || $1 == "defaults" } ! is_of_file' out >plan.$conf
done
grep -q '^optimizer momentum, momentum 0.9, weight decay' plan.named || fail 'the recipe is not in the plan'
expect_same_file plan.named plan.printed 'the plan by the printed recipe'
grep -q '^crop = pad$' printed.conf || fail 'the augmentation is not printed'

# The list and the descriptions fit a terminal; counts are told as tables of others have them.
run "$pipetrain" --describe
expect_out '^images of 32x32x3, 10 classes:$'
expect_out '^resnet20_v1 +residual network of 20 layers \(also called resnet20\)$'
expect_narrow 'the list'
run "$pipetrain" --describe=resnet20 --set data.classes=11
expect_out '^parameters   P = 269,787, trained'
expect_out '^variables    G = 271,164: P, 1,376 statistics, a step counter$'
expect_out '^    of layer3.0.bn2 \+ layer3.0.shortcut$'
expect_narrow 'the description'
run "$pipetrain" --describe=googlenet
expect_out_joined ' of inception5b.branch1.relu, inception5b.branch2.1.relu, inception5b.branch3.1.relu, inception5b.branch4.1.relu '
"$pipetrain" --describe=densenet40_k12 --net |
    sed '/transition1.conv/s/filters 24/filters 160/; /transition2.conv/s/filters 24/filters 304/' >densenet40_paper.net
run "$pipetrain" --describe=densenet40_paper.net --set data.classes=11
expect_out '^parameters   P = 1,021,083, trained'
run "$pipetrain" --describe=densenet40_k12
expect_out_joined ' features.denseblock3.denselayer12.conv conv2d 3x3/1 pad 1 12x8x8 16,860 1.078 '
expect_narrow 'the description with long names'

# Weights to begin with: those of the same network, on every tower; without a rate they stay as they are.
weights=runs/small/weights.safetensors
on_small="-c small.conf --set model.file=runs/small/run.net --set devices.kind=$kind --set train.steps=1"
run "$pipetrain" $on_small --set model.weights=$weights --set run.dir=on --set train.learning_rate=0 --set devices.towers=2
expect_code 0 'weights to begin with'
for dir in runs/small on; do
    tail -c 600 $dir/weights.safetensors >${dir##*/}.last          # of stem.weight, which comes last
done
cmp small.last on.last || fail 'the weights are others'
run "$pipetrain" $on_small --set run.dir=drawn --set run.seed=7 --set train.learning_rate=0
tail -c 600 drawn/weights.safetensors | cmp -s - on.last && fail 'weights to begin with change nothing'
run "$pipetrain" $on_small --set model.weights=$weights --set data.classes=11 --check
expect_code 2 'weights of other classes'
expect_err_lines 1
expect_err "^$weights: has 10 classes, and the network has 11 .*: set model.skip = fc.\* to start with a new last layer, or"
sed 's/^conv2d stem filters 16 kernel 3/conv2d stem filters 16 kernel 5/' runs/small/run.net >wide.net
run "$pipetrain" $on_small --set model.file=wide.net --set model.weights=$weights --check
expect_code 2 'weights of another network'
expect_err_lines 3
expect_err "^$weights: these are not weights of 'small', which has 37 tensors:$"
expect_err "^$weights: 1 with another shape or type: stem.weight \(F32 16x3x3x3, not F32 16x3x5x5\)$"
run "$pipetrain" -c small.conf --set model.file= --set model.name=resnet20 --set model.weights=$weights
expect_code 2 'weights of quite another network'
expect_err ' 95 missing in the file: conv1.weight, bn1.weight, bn1.bias, bn1.running_mean and 91 more$'
expect_err ' 35 unknown to the network: block1.bn1.bias, .* and 31 more$'
grep -q 'its tensors are those of' err && fail 'a network of a file is taken for a model'
run "$pipetrain" $on_small --set model.weights=again/weights.safetensors
expect_code 2 'weights of a model with a name'
expect_err "^again/weights.safetensors: its tensors are those of 'mnist_cnn'$"
run "$pipetrain" $on_small --set model.weights=small.conf
expect_code 3 'weights that are none'
expect_err '^small.conf: is not a safetensors file$'
head -c -1 $weights >cut.safetensors
run "$pipetrain" $on_small --set model.weights=cut.safetensors
expect_code 3 'weights that were cut'
expect_err "^cut.safetensors: ends before its tensor 'stem.weight' does: it may have been cut$"
run "$pipetrain" $on_small --set model.weights=nothing
expect_code 3 'weights that are not there'

# What is wrong.
sed 's/filters 16 kernel 3 padding same no_bias/filters 16 kernal 3/' runs/small/run.net >bad.net
run "$pipetrain" -c small.conf --set model.file=bad.net --set run.dir=bad
expect_code 2 'a wrong file'
expect_err_lines 3
expect_err "^bad.net:7: conv2d has no 'kernal' \(did you mean 'kernel'\?\)$"
expect_err "^bad.net:12: conv2d has no 'kernal'"
expect_err "^bad.net:15: conv2d has no 'kernal'"
[ ! -e bad ] || fail 'a wrong file starts a run'
sed 's/groups 16/groups 5/' depthwise.net >bad.net
run "$pipetrain" --describe=bad.net
expect_code 2 'groups that do not divide'
expect_err "^bad.net:12: layer 'block1.conv1': groups 5 does not divide 16 input channels and 16 filters \(4 or 8 would\)$"
run "$pipetrain" --describe=bad.net
expect_code 2 'the description of a wrong file'
run "$pipetrain" -c small.conf --set model.file=nothing.net
expect_code 2 'a file that is not there'
expect_err '^nothing.net: cannot be read'
run "$pipetrain" -c small.conf --set model.file=runs/small/run.net --set model.name=mnist_cnn
expect_code 2 'a file and a name'
expect_err 'name is set as well: set only one of them'
run "$pipetrain" -c small.conf --set model.file=runs/small/run.net --set model.auxiliary=yes
expect_code 2 'an auxiliary head for a file'
expect_err 'auxiliary: is for models by name'
run "$pipetrain" --describe=inception3 --set model.auxiliary=yes
expect_code 0 'an auxiliary head'
expect_out 'auxiliary_loss'
run "$pipetrain" --describe=vgg19 --set model.auxiliary=yes
expect_code 2 'an auxiliary head that is not there'
expect_err "auxiliary: 'vgg19' has no auxiliary head"
run "$pipetrain" --describe=vgg
expect_code 2 'part of a name'
expect_err "^--describe: there is no model 'vgg' .did you mean 'vgg11', 'vgg[0-9]+', .* or '.*vgg.*'\\?.$"
run "$pipetrain" --describe=densenet169
expect_err "^--describe: there is no model 'densenet169' .did you mean 'densenet121'\?.$"
run "$pipetrain" --describe=alexnet
expect_err "did you mean 'cifar_alexnet', 'imagenet_alexnet', 'torchvision_alexnet' or 'lenet'\?"
run "$pipetrain" --describe=resnet18
expect_err "did you mean 'torchvision_resnet18'\?"
run "$pipetrain" --describe=vgg19bn
expect_err "did you mean 'vgg19_bn' or 'vgg19'\?"
run "$pipetrain" --describe=vgg19 --set data.classes=600000
expect_code 2 'more classes than fit'
expect_err "^pipetrain: model vgg19: layer 'classifier.6': 600000 outputs of 4096 weights each do not fit \(1 to 524287 would\)$"
expect_err '^--set data.classes: this network cannot have so many$'
run "$pipetrain" --net
expect_code 2 'no model to print'

finish
