#!/bin/sh
# Weights know what they were trained with: pixels, labels and network. What the configuration does not set is as in the
# weights; what it sets otherwise is refused with both values. Weights without metadata are known by their tensors.
. "$(dirname "$0")/../e2e.sh"
make_tiny
cd "$work" || exit 99

cat >small.net <<'END_OF_NET'
model small
image 28x28x1
classes 10
conv2d c1 filters 4 kernel 3 stride 2 padding same
batch_norm b1
relu r1
max_pool p1 kernel 2
conv2d c2 filters 4 kernel 3 padding same
relu r2
dense fc units classes
softmax_loss loss
END_OF_NET
set_model='--set model.name= --set model.file='
small="${set_model}small.net --set train.optimizer=adam --set train.learning_rate=0.01"
validation="--set=data.validation=$work/data/validation-*"

# accuracy ARGUMENT...: right answers of an evaluation
accuracy() {
    run "$pipetrain" evaluate --json --set devices.kind="$kind" "$@"
    [ "$code" -eq 0 ] || { fail "evaluate $*"; return; }
    cp out result.json
    "$json_value" result.json top1.correct
}
evaluate() {
    run "$pipetrain" evaluate --set devices.kind="$kind" "$@"
}

# ---- the transform of pixels ----

pixels='--set model.divisor=127.5 --set model.mean=1'
train base $small $pixels --set train.epochs=3
base=runs/base/weights.safetensors
right=$(accuracy -w $base "$validation")
[ "$right" -gt 50 ] || fail "only $right of 150 are right: the network learned nothing"
expect_equal "$(accuracy -c tiny.conf $small -w $base)" "$right" 'a configuration without a transform'
expect_equal "$(accuracy -c tiny.conf $small $pixels --set model.deviation=1 -w $base)" "$right" 'the same transform'
for other in '--set model.divisor=255' '--set model.mean=0.5' '--set model.deviation=2' "$pixels --set model.deviation=3"; do
    expect_end 2 "$other" evaluate -c tiny.conf $small $other -w $base
    expect_err "^$base: trained with pixels of divisor 127.5, mean 1, deviation 1; the configuration sets divisor "
    expect_err "^$base: model.weights_differ = yes loads them all the same$"
    expect_end 2 "$other, weights alone" evaluate -w $base "$validation" $other
    expect_end 2 "$other, training" run "$pipetrain" -c tiny.conf $small $other --set model.weights=$base \
        --set run.dir=runs/refused
done
[ ! -e runs/refused ] || fail 'what is refused starts a run'
sed 's/^classes/transform divisor 255\nclasses/' small.net >given.net
expect_end 2 'the transform of a model file' evaluate -c tiny.conf ${set_model}given.net -w $base
expect_end 0 'differences that are accepted' evaluate -c tiny.conf $small --set model.divisor=255 -w $base \
    --set model.weights_differ=yes
expect_err 'the configuration sets divisor 255, .*model.weights_differ = yes'

evaluate -c tiny.conf $small -w $base
expect_err "^$base: pixels of divisor 127.5, mean 1, deviation 1, as it was trained$"

# Training takes the transform over, saves it, and resumes with it without the file.
cp $base given.safetensors
go_on="$small --set model.weights=given.safetensors --set checkpoint.every=2"
train whole $go_on --set train.steps=6
expect_out '^input     .*/ 127.5 - mean'
train parts $go_on --set train.steps=4
rm given.safetensors
train parts $go_on --set train.steps=6
expect_out '^resume    at step 4 of '
expect_same_file runs/whole/weights.safetensors runs/parts/weights.safetensors 'weights of a run that went on'
expect_equal "$(accuracy -c runs/whole/run.conf)" "$(accuracy -w runs/whole/weights.safetensors "$validation")" \
    'right, by the configuration that a run keeps and by its weights'

# ---- the scaling of validation images ----

train scaled --set model.name=mnist_cnn --set augment.evaluation=central --set augment.evaluation_resize=40 \
    --set train.steps=2
scaled=runs/scaled/weights.safetensors
expect_equal "$(accuracy -c tiny.conf -w $scaled)" "$(accuracy -w $scaled "$validation")" 'scaling is that of the weights'
for other in '--set augment.evaluation=none' '--set augment.evaluation_resize=36' '--set augment.evaluation_scale=1.2' \
    '--set augment.filter=area'; do
    expect_end 2 "$other" evaluate -c tiny.conf $other -w $scaled
    expect_err "its validation images were central crop.*40|its validation images were .*40 pixels"
done

# Weights of versions without evaluation_resize were scaled without it.
LC_ALL=C sed 's/setting[.]augment[.]evaluation_resize/setting.augment.evaluation_nosize/' $scaled >older.safetensors
expect_end 0 'older weights' evaluate -w older.safetensors "$validation"
expect_end 2 'older weights, resized' evaluate -w older.safetensors "$validation" --set augment.evaluation_resize=40

# ---- the network ----

# expect_network 'SED' CODE WHAT: the network of another text, with the weights of base
expect_network() {
    sed "$1" small.net >other.net
    cmp -s small.net other.net && fail "$1 changes nothing"
    expect_end "$2" "$3" evaluate -c tiny.conf ${set_model}other.net -w $base
    [ "$2" -eq 0 ] || expect_err "^$base: its network 'small' computes otherwise than '[a-z]*': '"
}
expect_network 's/c1 filters 4 kernel 3 stride 2 padding same/c1 filters 4 kernel 3 stride 2 padding 1/' 2 'another padding'
expect_network 's/^batch_norm b1/& epsilon 0.001/' 2 'another epsilon'
expect_network 's/^max_pool/average_pool/' 2 'another pool'
expect_network '/^relu r2/d' 2 'no ReLU'
expect_network 's/^relu r2/&\ndropout d rate 0.3/' 0 'dropout'
expect_network 's/^model small/model renamed/; s/relu r1/relu another/' 0 'other names'

# ---- labels and classes ----

make_jpegs set 3 8 0.25
train named --set data.train=set/train-* --set data.validation= --set train.batch=8
for list in 'class0 class2 class1 2' 'cat dog owl 0' 'class0 other class2 0' 'class1 dog owl 2'; do
    echo "$list" | tr ' ' '\n' | sed 4d >list.txt
    expect_end "${list##* }" "names $list" run "$pipetrain" predict -w runs/named/weights.safetensors photos --top 1 \
        --set data.class_names=list.txt --set devices.kind="$kind"
    [ "$code" -eq 0 ] || expect_err "^list.txt: class [01] is 'class[12]', which is class [12] of runs/named/weights"
done
rm -f set/dataset.json set/labels.txt
three='--set data.train=set/train-* --set data.validation=set/validation-* --set train.batch=8 --set train.epochs=1'
train shifted $three --set data.classes=4 --set data.label_offset=1
shifted=runs/shifted/weights.safetensors
expect_equal "$(accuracy -w $shifted --set 'data.validation=set/validation-*')" \
    "$(accuracy -c runs/shifted/run.conf)" 'the label offset is that of the weights'
expect_end 2 'another label offset' evaluate -w $shifted --set 'data.validation=set/validation-*' --set data.label_offset=0
expect_err 'trained with data.label_offset = 1; the configuration has 0'
train shifted-2 $three --set data.classes=4 --set model.weights=$shifted --set train.steps=1
expect_equal "$(grep '^label_offset' runs/shifted-2/run.conf)" 'label_offset = 1' 'the offset that training takes over'
train unshifted $three --set data.classes=3 --set model.weights=$shifted --set 'model.skip=fc2.*' --set train.steps=1
expect_equal "$(grep '^label_offset' runs/unshifted/run.conf)" 'label_offset = 0' 'the offset of a new last layer'
for how in '--set checkpoint.every=2' '--set run.dir=runs/offset' '--set checkpoint.every=2 --set run.dir=runs/offset'; do
    cp $shifted given.safetensors
    rm -rf runs/offset runs/tiny*
    part="$three --set data.classes=4 --set model.weights=given.safetensors --set train.epochs=4 $how"
    expect_end 0 "a run that takes the offset over, $how" run "$pipetrain" -c tiny.conf $part
    for file in none base; do
        rm -f given.safetensors
        [ $file = none ] || cp $base given.safetensors
        expect_end 0 "the same command without the file, $how" run "$pipetrain" -c tiny.conf $part
        expect_err 'nothing is left to do'
    done
    [ "${how#*every}" != "$how" ] || continue
    expect_end 0 'a longer run without the file' run "$pipetrain" -c tiny.conf $part --set train.epochs=5
    state=$(ls runs/tiny*/checkpoint-* runs/offset/checkpoint-* 2>/dev/null | tail -n 1)
    for from in "$state" "${state%/*}"; do
        rm -rf elsewhere
        expect_end 0 "in another directory from $from, without the file" run "$pipetrain" -c tiny.conf $part \
            --set train.epochs=6 --set run.dir=elsewhere --set "run.resume=$from"
        expect_equal "$(grep '^label_offset' elsewhere/run.conf)" 'label_offset = 1' "the offset of $from"
    done
done
for part in weight bias; do
    train part-$part $three --set data.classes=4 --set model.weights=$shifted --set model.skip=fc2.$part --set train.steps=1
    expect_equal "$(grep '^label_offset' runs/part-$part/run.conf)" 'label_offset = 1' "the offset without fc2.$part"
done
train no-head $three --set data.classes=4 --set model.weights=$shifted --set model.skip=fc2.weight,fc2.bias \
    --set train.steps=1 --set data.label_offset=0
try wrong $three --set data.classes=5 --set model.weights=$shifted
expect_code 2 'another number of classes'
expect_err_lines 1
expect_err "^$shifted: has 4 classes, and the network has 5 .*: set model.skip = fc2.\\* to start with a new last layer, or"
run "$pipetrain" evaluate -c tiny.conf $three --set data.classes=5 -w $shifted
expect_code 2 'an evaluation of another number of classes'
expect_err "^$shifted: has 4 classes, and the network has 5 .*: set data.classes = 4$"
# A description of the data goes before data.classes, which is no way out then.
for how in evaluate-c evaluate-w train; do
    case $how in
    evaluate-c) run "$pipetrain" evaluate -c tiny.conf -w $shifted ;;
    evaluate-w) run "$pipetrain" evaluate -m mnist_cnn -w $shifted --set 'data.validation=data/validation-*' --set data.classes=10 ;;
    train) run "$pipetrain" -c tiny.conf --set run.dir=runs/wrong --set model.weights=$shifted ;;
    esac
    expect_code 2 "weights of 4 classes for a set of 10: $how"
    expect_err_lines 1
    case $how in
    train) expect_err "^$shifted: has 4 classes, and the network has 1[01] .*: set model.skip = fc2.\\* to start with a new last layer$" ;;
    *) expect_err "^$shifted: has 4 classes, and the network has 10 .*: the data set has 10 .*, and cannot be evaluated" ;;
    esac
done

# ---- how records are read ----

# Each of these is not what is found by itself, but for the name of the images.
train read --set model.name=mnist_cnn --set data.classes=29 --set data.label_key=height --set train.steps=3 \
    --set data.image_key=image_raw --set data.image_layout=chw --set data.image_range=0..65535 \
    --set augment.orientation=exif
read=runs/read/weights.safetensors
wanted=$(accuracy -c runs/read/run.conf)
expect_equal "$(accuracy -w $read "$validation")" "$wanted" 'records are read as for training'
for setting in label_key:height image_key:image_raw image_layout:chw image_range:0..65535; do
    expect_err "^$read: data.${setting%:*} = ${setting#*:}, as it was trained$"
done
expect_end 0 'another range that is set' evaluate -w $read "$validation" --set data.image_range=auto
expect_err "^$read: trained with data.image_range = 0..65535; here it is auto$"
expect_end 2 'another label' evaluate -w $read "$validation" --set data.label_key=label
expect_err "^$read: trained with data.label_key = height; the configuration has 'label' "
expect_end 0 'another label that is accepted' evaluate -w $read "$validation" --set data.label_key=label \
    --set model.weights_differ=yes
train read-2 --set model.name=mnist_cnn --set data.classes=29 --set model.weights=$read --set train.steps=1
expect_err "^$read: trained with data.image_range = 0..65535; here it is auto$"
expect_err "^$read: trained with data.label_key = height; here it is not set$"
expect_end 0 'an orientation as it was trained' evaluate -w $read "$validation"
expect_err "^$read: augment.orientation = exif, as it was trained$"
expect_end 0 'another orientation' evaluate -w $read "$validation" --set augment.orientation=none
expect_err "^$read: trained with augment.orientation = exif; here it is none$"
grep -q 'setting.data.label_key' $base && fail 'a key that is not set is saved'

# ---- records that were not trained on ----

shards="data.train=$work/data/train-*"
train split $small --set data.validation= --set data.validation_split=0.2 --set train.epochs=1
split=runs/split/weights.safetensors
wanted=$(accuracy -c runs/split/run.conf)
expect_equal "$(accuracy -w $split --set "$shards")" "$wanted" 'the share that is held out is that of the weights'
expect_err "^$split: data.validation_split = 0.2, as it was trained$"
for share in 0.1 0.2; do
    expect_end 0 "a share of $share" evaluate -w $split --set "$shards" --set data.validation_split=$share
    ! grep -q 'validation_split' err || fail "a share of $share is reported"
done
for how in "-w $split --set $shards" "-c runs/split/run.conf --last" "-c runs/split/run.conf -w runs/split/weights.safetensors"; do
    expect_end 2 'a larger share' evaluate $how --set data.validation_split=0.4
    expect_err "^.*$split: trained with data.validation_split = 0.2; with 0.4 records that it was trained on would be"
done
expect_end 0 'a larger share that is accepted' evaluate -w $split --set "$shards" --set data.validation_split=0.4 \
    --set model.weights_differ=yes
expect_end 2 'a share of records that were all trained on' evaluate -w $base --set "$shards" \
    --set data.validation_split=0.2
expect_end 0 'another set' evaluate -w $split "$validation"
! grep -q 'validation_split' err || fail 'a validation set of its own is reported'
LC_ALL=C sed 's/setting[.]data[.]validation_split/setting.data.validation_spilt/' $split >older.safetensors
expect_end 0 'older weights' evaluate -w older.safetensors --set "$shards" --set data.validation_split=0.4
expect_end 0 'the images of a prediction' run "$pipetrain" predict -w $split --set devices.kind="$kind" "data/validation-*"

# ---- weights without metadata ----

# foreign FILE OUT: weights as another program writes them
foreign() {
    LC_ALL=C sed 's/"pipetrain[.]net"/"elsewhere.net"/; s/"pipetrain[.]learned"/"elsewhere.learned"/' "$1" >"$2"
}
train r18 --set model.name=torchvision_resnet18 --set input.source=synthetic --set data.classes=2 --set train.batch=1 \
    --set train.steps=1 --set data.train= --set data.validation=
foreign runs/r18/weights.safetensors r18.safetensors
"$pipetrain" --describe=torchvision_resnet18 --set data.classes=2 --net |
    sed 's/^model .*/model mine/; s/padding 1$/padding 0,1,0,1/; /^transform/d' >mine.net
expect_end 0 'its own network' run "$pipetrain" predict -w r18.safetensors -m torchvision_resnet18 --set data.classes=2 \
    --set devices.kind="$kind" photos
expect_err_lines 0
expect_end 0 'its own network, as a setting' run "$pipetrain" predict -w r18.safetensors photos --set devices.kind="$kind" \
    --set model.name=torchvision_resnet18 --set data.classes=2
expect_err_lines 0
expect_end 0 'another network' run "$pipetrain" predict -w r18.safetensors -m mine.net --set devices.kind="$kind" photos
expect_err "its tensors are those of 'torchvision_resnet18', too: .* otherwise than 'mine': .*; pixels of divisor 255, mean 0, "
expect_err_lines 1
expect_end 0 'other pixels' run "$pipetrain" predict -w r18.safetensors photos --set devices.kind="$kind" \
    --set model.name=torchvision_resnet18 --set data.classes=2 --set model.divisor=1 --set model.mean=103.939,116.779,123.68
expect_err "torchvision's weights of 'torchvision_resnet18' were trained otherwise: pixels of divisor 1, mean 103.939 .*, there div"
expect_err 'order blue, green, red'
expect_err_lines 2

# What no tensor shows is said where no published network explains the file: with a dense layer on an image, its order, too.
assumed='does not say how it was trained; assumed:'
held_out='--set data.validation=set/validation-* --set data.classes=3'
foreign runs/named/weights.safetensors named.safetensors
for how in "predict -m mnist_cnn -w named.safetensors photos" "evaluate -c runs/named/run.conf -w named.safetensors $held_out" \
    "-c runs/named/run.conf --set run.dir= --set model.weights=named.safetensors"; do
    expect_end 0 "weights without metadata: $how" run "$pipetrain" $how --set data.classes=3 --set devices.kind="$kind"
    expect_equal "$(grep -c "$assumed" err)" 1 "lines on what is assumed: $how"
    expect_err "^named.*: $assumed pixels of divisor 255, mean 0, deviation 1; .* of 'mnist_cnn'; 'fc1' reads 32x12x12 in the order C"
done
expect_end 0 'weights with metadata' evaluate -c runs/named/run.conf $held_out
expect_err_lines 0
expect_end 0 'quiet' evaluate -c runs/named/run.conf -w named.safetensors $held_out -q
expect_err_lines 0
train r20 --set model.name=resnet20_v1 $three --set data.classes=3 --set train.steps=1
foreign runs/r20/weights.safetensors r20.safetensors
expect_end 0 'a network without a published one' run "$pipetrain" predict -m resnet20_v1 -w r20.safetensors photos \
    --set data.classes=3 --set devices.kind="$kind"
expect_err "^r20.*: $assumed RGB pixels of divisor 127.5, mean 1, deviation 1; padding and activations of 'resnet20_v1'$"
expect_end 0 'one with its last layer skipped' run "$pipetrain" -c runs/named/run.conf --set run.dir= --set data.classes=3 \
    --set model.weights=named.safetensors --set 'model.skip=fc1.*,fc2.*' --set devices.kind="$kind"
expect_err "^named.*: $assumed .* of 'mnist_cnn'$"

# A filter of a later version.
LC_ALL=C sed 's/\(augment[.]filter": *"\)bilinear/\1lancz0s3/' $base >later.safetensors
expect_end 0 'a value that is not known' run "$pipetrain" predict -w later.safetensors photos --set devices.kind="$kind"
expect_err 'later.safetensors: trained with augment.filter = lancz0s3, which this version does not know'
finish
