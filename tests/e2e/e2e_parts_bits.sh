#!/bin/sh
# With model.parts the weights are a function of train.slices and of the parts: 1, 2 and 4 towers leave the same bytes,
# metrics and evaluations, whatever is trained (resume/e2e_parts.sh: and resumed). On the CPU and on the simulated CUDA.
. "$(dirname "$0")/e2e.sh"
make_tiny
cat >"$work/parts.net" <<'END'
model parts
image 28x28x1
classes 12
conv2d conv1 filters 6 kernel 5 stride 2
batch_norm bn1
relu relu1
max_pool pool1 kernel 2 stride 2
dense fc1 units 40
relu relu2
dropout drop2 rate 0.25
dense fc2 units 24
relu relu3
dense fc3 units classes
softmax_loss loss
END
printf 'classes = 12\n' >"$work/classes"
sed -i '/^\[data\]/r '"$work/classes" "$work/tiny.conf"
printf '[model]\nfile = %s\n' "$work/parts.net" >>"$work/tiny.conf"

# 600 records in batches of 44: 13 of 44, and one of 28; and one that slices do not divide. An evaluation of 150.
common='--set train.slices=4 --set train.batch=44 --set train.epochs=2 --set train.steps=20'
# On the simulated device 160 records: 3 batches of 44, and one of 28.
[ "$simulated:$long" != yes:no ] || common="$common --set data.limit=160 --set train.steps=6"

# same PARTS "TOWERS ..." NAME OPTION...: a run gives the same weights, reports and evaluations with each of these numbers
# of towers. Of more than two numbers only the first and the last are tried, unless the test is long.
same() {
    parts=$1 towers=$2 what=$3 first=
    shift 3
    case $simulated:$long:$what:$towers in
        no:no:plain:*) ;;
        *:no:*' '*) towers="${towers%% *} ${towers##* }" ;;
    esac
    for count in $towers; do
        run_name=$what-$count
        train "$run_name" $common --set model.parts="$parts" --set devices.towers="$count" "$@"
        first=${first:-$run_name}
        [ "$first" != "$run_name" ] || continue
        expect_same_file "$work/runs/$first/weights.safetensors" "$work/runs/$run_name/weights.safetensors" "$what"
        expect_equal "$(tensors_of "$run_name" best)" "$(tensors_of "$first" best)" "$what: best weights of $run_name"
        expect_equal "$(reports_of "$run_name")" "$(reports_of "$first")" "$what: metrics of $run_name"
    done
}

# The data of all tensors, without the metadata, which tells how long the run has taken.
tensors_of() {
    file=$work/runs/$1/$2.safetensors
    tail -c +$((9 + $(od -An -tu8 -N 8 "$file"))) "$file" | cksum
}

reports_of() {
    "$json_value" --lines "$work/runs/$1/metrics.jsonl" kind step loss accuracy gradient_norm skipped_steps
}

# differ RUN OTHER WHAT
differ() {
    ! cmp -s "$work/runs/$1/weights.safetensors" "$work/runs/$2/weights.safetensors" || fail "$3 changes nothing"
}

same 4 '1 2 4' plain --set train.optimizer=momentum
same 4 '1 2 4' clip --set train.optimizer=momentum --set train.clip_norm=0.1 --set train.on_nan=skip --set train.ema=0.9
differ plain-1 clip-1 clip_norm
# A rate that is far too large: every step but the first is skipped, by all towers, and counted.
for count in 1 4; do
    try "skip-$count" $common --set model.parts=4 --set devices.towers=$count --set train.optimizer=sgd \
        --set train.learning_rate=1e13 --set train.on_nan=skip --set train.epochs=1 --set data.limit=160
    expect_code 73 'weights that are useless'
    expect_summary "skip-$count" skipped_steps 3
done
expect_equal "$(reports_of skip-4)" "$(reports_of skip-1)" 'metrics of steps that are skipped'
# Towers that have no samples of their own, in evaluations either.
"$convert" digits --train 3 --validation 3 -o "$work/few" >/dev/null 2>&1 || fail 'no data'
same 4 '1 4' few --set "data.train=$work/few/train-*" --set "data.validation=$work/few/validation-*" \
    --set train.clip_norm=1 --set train.steps=2

# Not on the simulated device, which is slow, unless the test is long.
if [ "$simulated:$long" != yes:no ]; then
    same 2 '1 2' two --set train.optimizer=momentum
    differ plain-1 two-1 'the number of parts'
    same 4 '1 2 4' lars --set train.optimizer=lars --set train.learning_rate=1
    same 4 '1 2 4' losses --set train.label_smoothing=0.1 --set augment.mixup=0.2 --set train.optimizer=adam
    same 4 '1 2 4' weights --set train.class_weights=auto --set train.clip_norm=0.5 --set augment.flip=yes
    same 4 '1 2 4' trunk --set 'model.freeze=conv1.* bn1.*' --set train.clip_norm=1
    same 4 '1 2 4' layer --set 'model.freeze=fc2.*' --set train.on_nan=skip
    same 4 '1 2 4' head --set 'model.freeze=conv1.* bn1.* fc1.* fc3.bias' --set train.optimizer=adamw
    # A last batch of 3 samples, which leave a slice without any.
    same 4 '1 2 4' empty --set data.limit=47 --set train.steps=4
    # A slice that never has samples, whose tower computes its parts all the same.
    same 4 '1 2 4' never --set data.limit=3 --set train.steps=4
fi
# NCCL only moves the numbers. Where there are several devices: it takes a tower on each.
try nccl $common --set model.parts=2 --set devices.towers=2 --set sync.reduce=nccl --set train.steps=1
if [ "$code" -eq 0 ]; then
    same 2 '1 2' nccl --set sync.reduce=nccl --set train.clip_norm=0.1
else
    expect_err 'nccl'
fi
# Where there is bf16: not on every CPU.
try bf16 $common --set model.parts=4 --set devices.precision=bf16 --set train.steps=1
if [ "$code" -eq 0 ]; then
    same 4 '1 4' bf16 --set devices.precision=bf16 --set train.clip_norm=0.1
else
    expect_code 2 'no bf16'
    expect_err 'bf16'
fi

[ "$simulated:$long" != yes:no ] || finish
# These weights are those of the whole network, which evaluates as the towers did.
run "$pipetrain" evaluate -c "$work/tiny.conf" --set "run.dir=$work/runs/plain-4"
expect_code 0 evaluate
expect_out "$(printf '%.2f' "$(summary plain-4 validation.accuracy | awk '{ print 100 * $1 }')") %"

# All of it once more on the simulated CUDA, where there is one.
[ "$kind" = cpu ] || finish
if [ -x "$build/tests/e2e/pipetrain_sim" ]; then
    (. "$(dirname "$0")/sim.sh"; exec sh "$0") || fail 'it fails on the simulated CUDA'
fi
finish
