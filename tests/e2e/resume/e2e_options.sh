#!/bin/sh
# Every option is changed between two halves of a run. Then the second half is refused, with both values; or it ends with
# the bits of the whole run; or the change is reported, and what doc/checkpoints.md promises of it holds. The options are
# those of the table: option_rows derives the value, the verdict and the context of most.
. "$(dirname "$0")/../e2e.sh"
make_tiny
cd "$work" || exit 99

# Without ReLU and maximum, where a rounding may turn a gradient aside.
for kernel in 5 3; do
    cat >smooth-$kernel.net <<END
model smooth
image 28x28x1
classes 10
conv2d conv1 filters 6 kernel $kernel stride 2
average_pool pool1 kernel 2 stride 2
dropout dropout1 rate 0.25
dense fc1 units classes
softmax_loss loss
END
done
cat >>tiny.conf <<'END'
[model]
file = smooth-5.net
[checkpoint]
every = 6
keep = 9
END
sed -i "s/^epochs = .*/epochs = 2/; s/^batch = .*/batch = 16\noptimizer = momentum\nlearning_rate = 0.01/
        s/^\[train\]/limit = 96\n&/" tiny.conf
i=0
while [ $i -lt 10 ]; do
    echo "digit $i"
    i=$((i + 1))
done >names.txt
half=checkpoint-00000006.safetensors

# options WORD... - "a.b=c" as --set options
options() {
    for word; do
        printf -- '--set %s ' "$word"
    done
}

# whole DIR WORD... - a run of two epochs; its first checkpoint is the half
whole() {
    dir=$1
    shift
    [ -e "$dir/summary.json" ] || run "$pipetrain" -c tiny.conf --set "run.dir=$dir" $(options "$@")
    [ -e "$dir/$half" ] || fail "no run with $*"
}

# context WORD... - the first run of these words, in $base
context() {
    base=whole-$(echo "$*" | cksum | tr ' ' -)
    whole "$base" "$@"
}

# expect_tensors DIR LIMIT
expect_tensors() {
    "$tensors_near" "$1/weights.safetensors" second/weights.safetensors "$2" >near 2>&1 ||
        fail "$option = $value: weights of $1: $(cat near)"
}

expect_told() {
    grep -Eq "^second/$half was saved with other settings, which may change: (.*; )?$option is [^;]*, there [^;]+" \
        err || fail "$option = $value is not reported"
}

# expect_refused NAME
expect_refused() {
    name=$(echo ${1#inert})
    grep -Eq "^pipetrain: second/$half is from a run with other settings: (.*; )?(the content of )?${name:-$option} is [^;]+, there [^;]+" \
        err || fail "$option = $value: not refused with both values"
}

# Does the option do anything here? Else the row shows nothing.
expect_effect() {
    [ "$long" = yes ] || return 0
    other=other-$(echo "$* $option=$value" | cksum | tr ' ' -)
    whole "$other" "$@" "$option=$value"
    ! cmp -s "$base/weights.safetensors" "$other/weights.safetensors" || fail "$option = $value changes nothing with $*"
}

# ---- rows: OPTION | VALUE | VERDICT | CONTEXT ----
# Of options whose row of the table does not say it: another value is possible or shows in the weights only with these data, or
# several contexts are worth a run.
# same: the bits of the whole run, without a message. refused: exit code 2 with both values; refused NAME: of the line NAME;
# inert, or inert NAME: the same, but the weights of these data do not show it. bits: reported, and the bits of the whole run. near:
# reported, and its weights but for rounding. length: reported, and the bits of the whole run with the new value. error:
# not possible with these networks and devices.
block='data.shuffle=block input.read_block=8KiB data.shuffle_window=32KiB'
cat >rows <<END
run.dir             | second                    | same
run.resume          | WHOLE/$half               | same
run.seed            | 2                         | refused
run.seed            | 12                        | refused   | run.seed=1
run.seed            | 1                         | refused   | run.seed=12
data.train          | data/train-0000[01]*      | refused data.train
data.validation     | data/train-00003*         | inert data.validation | data.train=data/train-0000[012]*
data.validation_split | 0.3                     | refused   | data.validation= data.validation_split=0.2
data.limit          | 90                        | refused
data.classes        | 10                        | inert
data.label_offset   | 1                         | refused   | data.classes=11 model.name=lenet model.file= model.divisor=255
data.image_key      | image_raw                 | inert
data.label_key      | label                     | inert
data.class_names    | names.txt                 | bits
train.class_weights | auto                      | refused
data.image_range    | 0..255                    | inert
data.shuffle        | none                      | refused
data.lanes          | 4                         | refused   | $block
data.lanes          | 4                         | refused   | $block data.lanes=2 input.keep_shards=0
data.shuffle_window | 16KiB                     | refused   | $block
data.balance        | yes                       | refused
data.last_batch     | drop                      | refused   | train.batch=18
input.source        | cached                    | same
input.source        | synthetic                 | refused
input.read_threads  | 3                         | same
input.read_threads  | 3                         | same      | $block input.keep_shards=0
input.read_block    | 16KiB                     | refused   | $block
input.read_block    | 16KiB                     | refused   | $block input.keep_shards=0
input.read_block    | 16KiB                     | same
input.chunk         | 1                         | same
input.chunk         | 1                         | same      | $block
input.keep_shards   | 0                         | same
input.keep_shards   | 0                         | same      | $block
input.ram_budget    | 1GiB                      | same
input.ram_budget    | 200MiB                    | inert data.shuffle_window | data.shuffle=block
input.ram_budget    | 1GiB                      | same      | $block
augment.crop_area   | 0.25,1                    | refused   | augment.crop=resized
augment.crop_aspect | 0.5,2                     | refused   | augment.crop=resized
augment.train_size  | 24                        | error
augment.mixed       | 0.5                       | refused   | augment.mixup=0.2
augment.orientation | exif                      | inert
augment.evaluation_scale | 2                    | inert     | augment.evaluation=central
augment.evaluation_resize | 32                  | inert     | augment.evaluation=central
model.name          | mnist_cnn2                | inert     | model.name=mnist_cnn model.file=
model.file          | smooth-3.net              | refused
model.weights       | WHOLE/weights.safetensors | refused
model.skip          | fc1.*                     | refused   | model.weights=$half
model.freeze        | conv1.*                   | refused
model.auxiliary     | yes                       | error
model.parts         | 2                         | near      | train.slices=2
train.epochs        | 3                         | length
train.steps         | 9                         | length
train.max_time      | 2 hours                   | bits
train.stop_at       | 1                         | bits
train.patience      | 5                         | bits
train.patience      | 50                        | bits      | train.patience=5
train.patience      | 5                         | bits      | train.patience=50
train.batch         | 32                        | refused
train.batch_per_tower | 32                      | refused train.batch
train.decay_scope   | weights                   | refused   | train.weight_decay=0.01
train.schedule      | inverse_time              | refused
train.boundaries    | 1.5                       | refused   | train.schedule=piecewise train.boundaries=1 train.factors=0.1
train.factors       | 0.5                       | refused   | train.schedule=piecewise train.boundaries=1 train.factors=0.1
train.decay_factor  | 0.5                       | refused   | train.schedule=exponential train.decay_epochs=1
train.decay_epochs  | 0.5                       | refused   | train.schedule=exponential train.decay_epochs=1
checkpoint.every    | 4                         | same
devices.kind        | auto                      | same
devices.list        | 0                         | error
devices.towers      | 2                         | near
devices.towers      | 2                         | bits      | train.slices=2
devices.threads_per_tower | 2                   | near
devices.threads_per_tower | 2                   | inert     | train.slices=2
devices.precision   | bf16                      | error
devices.plan_cache  | none                      | bits
devices.workspace   | 0                         | near
devices.layout      | nchw                      | near
devices.convolution | direct                    | near
devices.batch_statistics | fused                | error
devices.backend     | reference                 | near
sync.server         | cpu                       | near      | devices.towers=2 sync.mode=parameter_server
sync.max_staleness  | 0                         | inert     | devices.towers=2 sync.mode=async
sync.staleness_rate | inverse                   | inert     | devices.towers=2 sync.mode=async
sync.reduce         | host                      | near      | devices.towers=2
sync.bucket         | 1KiB                      | near      | devices.towers=2
sync.group          | 1                         | same
report.trace        | trace.json                | same
report.trace_steps  | 3..4                      | same      | report.trace=trace.json
report.prometheus   | run.prom                  | same
report.tensorboard  | yes                       | same
report.price        | 3.06 EUR                  | same
report.histograms   | 2 steps                   | same      | report.tensorboard=yes
END

context
cp "$base/$half" .
whole_run=$base
"$option_rows" >derived || fail 'no rows of the table of options'
[ "$(wc -l <derived)" -gt 100 ] || fail 'the rows of the table of options are not read'
sed 's/ *|.*//' rows | sort -u >written
sed 's/ *|.*//' derived | grep -vxFf - written >strangers && fail "no options: $(cat strangers)"
awk -F ' *[|]' 'NR == FNR { written[$1]; next } !($1 in written)' written derived >>rows
grep '^[^|]*| *|' rows >without && sed -i '/^[^|]*| *|/d' rows &&
    fail "no value follows from the type: add a row OPTION | VALUE | VERDICT | CONTEXT to $0 for: $(sed 's/ *|.*//' without | tr '\n' ' ')"

IFS_WORDS=$IFS
while IFS='|' read -r option value verdict words; do
    IFS=$IFS_WORDS
    option=$(echo $option) verdict=$(echo $verdict)
    value=$(echo "$value" | sed "s#^ *##; s# *\$##; s#WHOLE#$whole_run#")
    context $words
    rm -rf second
    mkdir second
    cp "$base/$half" "$base/metrics.jsonl" "$base/run.conf" second
    run "$pipetrain" -c tiny.conf --set run.dir=second $(options $words) --set "$option=$value"
    case $verdict in
    same | bits | near | length) expect_code 0 "$option = $value" ;;
    *) expect_code 2 "$option = $value" ;;
    esac
    case $verdict in
    same) ! grep -q 'was saved with other settings' err || fail "$option = $value is reported" ;;
    bits | near | length) expect_told ;;
    refused* | inert*) expect_refused "${verdict#refused}" ;;
    esac
    case $verdict in
    same | bits) expect_tensors "$base" 0 ;;
    near) expect_tensors "$base" 1e-5 ;;
    length)
        whole "long-$option" $words "$option=$value"
        expect_tensors "long-$option" 0
        ;;
    refused*) expect_effect $words ;;
    esac
done <rows

# What is no option: another instruction set, as on another machine.
context
rm -rf second
mkdir second
cp "$base/$half" "$base/metrics.jsonl" "$base/run.conf" second
option=backend value='SSE 4.1' n=0
run env ONEDNN_MAX_CPU_ISA=SSE41 "$pipetrain" -c tiny.conf --set run.dir=second
expect_code 0 'another instruction set'
if grep -q 'onednn with SSE4.1' out; then
    expect_told
    expect_tensors "$base" 1e-5
    for isa in AVX SSE41; do
        run env ONEDNN_MAX_CPU_ISA=$isa "$pipetrain" -c tiny.conf --set run.dir=isa --set train.epochs=$((1 + n))
        n=1
    done
    grep -q 'may change: .*backend is onednn with SSE4.1, there onednn with AVX' err || fail 'AVX and SSE4.1 are told as one'
fi

# A list of names that is gone.
cp -r data listed && cp names.txt listed/labels.txt
listed="--set run.dir=listed-run --set data.train=listed/train-* --set data.validation=listed/validation-*"
run "$pipetrain" -c tiny.conf $listed --set train.epochs=1
expect_code 0 'names beside the data'
for gone in 1 9; do
    head -n $((10 - gone)) names.txt >listed/labels.txt
    [ $gone = 1 ] || rm listed/labels.txt
    rm -rf second && cp -r listed-run second
    run "$pipetrain" -c tiny.conf $listed --set run.dir=second
    expect_code 0 'names that are gone'
    expect_err "names $((gone + gone / 9)) class(es)? that listed/train-\* does not: weights will be saved without"
done
run "$pipetrain" -c tiny.conf $listed --set data.class_names=names.txt
expect_code 0 'names from elsewhere'
! grep -q 'will be saved without' err || fail 'names that were given are missed'

# What a checkpoint leaves out is the default; a limit of the environment is named.
context devices.towers=2
rm -rf second && cp -r "$base" second
run "$pipetrain" -c tiny.conf --set run.dir=second --set devices.towers=2 --set sync.consistency=relaxed
expect_err 'sync.consistency is relaxed, there strong'
if [ "$kind" = cpu ]; then
    context train.slices=2 devices.threads_per_tower=2
    rm -rf second && cp -r "$base" second
    run env OMP_THREAD_LIMIT=1 "$pipetrain" -c tiny.conf --set run.dir=second --set train.slices=2 \
        --set devices.threads_per_tower=2
    expect_code 2 'fewer threads by the environment'
    expect_err 'OMP_THREAD_LIMIT=1 in the environment gives a tower 1 of 2 threads: unset it'
fi
finish
