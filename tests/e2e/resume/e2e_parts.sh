#!/bin/sh
# A run with model.parts goes on with other numbers of towers, to the bits of the run on one tower that was not
# interrupted: weights, the best weights, the optimizer's buffers, averages. Its files are those of a run without parts, so
# such a run and one with other parts go on from them, too.
. "$(dirname "$0")/../e2e.sh"
make_tiny
. "$(dirname "$0")/resume.sh"

cat >"$work/parts.net" <<'END'
model parts
image 28x28x1
classes 12
conv2d conv1 filters 6 kernel 5 stride 2 no_bias
batch_norm bn1
relu relu1
max_pool pool1 kernel 2 stride 2
dense fc1 units 20
relu relu2
dropout drop rate 0.25
dense fc2 units classes
softmax_loss loss
END
settings="--set model.file=$work/parts.net --set data.classes=12 --set data.limit=200 --set train.batch=44
    --set train.slices=4 --set model.parts=4 --set train.epochs=3 --set checkpoint.every=5 --set checkpoint.keep=100"

# The bytes of the tensors of a file, without the metadata, which say where it was computed.
tensors_of() {
    tail -c +$((9 + $(od -An -tu8 -N 8 "$1"))) "$1" | cksum
}

# expect_same_tensors A B FILE...
expect_same_tensors() {
    one=$1 other=$2
    shift 2
    for file; do
        expect_equal "$(tensors_of "$work/runs/$other/$file.safetensors")" \
            "$(tensors_of "$work/runs/$one/$file.safetensors")" "$file of $other"
    done
}

# to_the_end NAME OPTION...: what a run of 15 steps with the directory NAME leaves is what `whole` has left.
to_the_end() {
    name=$1
    shift
    resumed "$name" "$@"
    expect_code 0 "$name, to the end"
    expect_out 'resume +at step [0-9]+ of 15'
    expect_same_file "$work/runs/whole/weights.safetensors" "$work/runs/$name/weights.safetensors" "weights of $name"
    expect_same_tensors whole "$name" best checkpoint-00000015
    expect_summary "$name" validation.loss "$(summary whole validation.loss)"
}

for optimizer in momentum adam; do
    how="--set train.optimizer=$optimizer --set train.learning_rate=0.02"
    [ $optimizer = momentum ] || how="$how --set train.ema=0.9"
    rm -rf "$work/runs"
    resumed whole $how --set devices.towers=1
    expect_code 0 'a run that is not interrupted'
    # From 4 towers to 1 to 2.
    resumed changed $how --set devices.towers=4 --set train.steps=5
    expect_code 0 'a run on 4 towers'
    expect_same_tensors whole changed checkpoint-00000005
    resumed changed $how --set devices.towers=1 --set train.steps=10
    expect_code 0 'going on with 1 tower'
    expect_same_tensors whole changed checkpoint-00000010
    to_the_end changed $how --set devices.towers=2
done

# Without averages a single last checkpoint is put together in the towers' own memory.
rm -rf "$work/runs"
how='--set train.optimizer=momentum --set train.learning_rate=0.02'
resumed whole $how --set devices.towers=1
expect_code 0 'a run on 1 tower'
resumed stayed $how --set devices.towers=2 --set train.steps=5
expect_code 0 'a run on 2 towers'
to_the_end stayed $how --set devices.towers=4 --set checkpoint.every=never

# Other parts, and none, add in another order, and draw other units to drop.
how="$how --set model.dropout=no"
resumed plain $how --set devices.towers=1
expect_code 0 'a run without dropout'
resumed other $how --set devices.towers=4 --set train.steps=5
expect_code 0 'a run on 4 towers without dropout'
resumed other $how --set devices.towers=2 --set model.parts=2 --set train.steps=10
expect_code 0 'going on with other parts'
resumed other $how --set model.parts=0
expect_code 0 'going on without parts'
expect_out 'resume +at step 10 of 15'
"$tensors_near" "$work/runs/plain/checkpoint-00000015.safetensors" "$work/runs/other/checkpoint-00000015.safetensors" \
    1e-3 >"$work/near" 2>&1 || fail "other parts: $(cat "$work/near")"
cat "$work/near"
finish
