#!/bin/sh
# model.parts before anything starts: what is refused, with --check too, what a plan and --describe say, and what ignores it.
. "$(dirname "$0")/e2e.sh"
make_tiny
cat >"$work/parts.net" <<'END'
model parts
image 28x28x1
classes 10
conv2d conv1 filters 4 kernel 5 stride 2
relu relu1
dense fc1 units 24
relu relu2
dense fc2 units classes
softmax_loss loss
END
printf '[model]\nfile = %s\nparts = 2\n' "$work/parts.net" >>"$work/tiny.conf"
sed -i "s/^\[train\]/&\nslices = 4/" "$work/tiny.conf"

# refused WORDS OPTION... - by a run and by --check, before a run directory is made
refused() {
    words=$1
    shift
    for check in '' --check; do
        run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/refused" "$@" $check
        expect_code 2 "$words $check"
        expect_err "$words"
    done
    [ ! -e "$work/runs/refused" ] || fail "$words: a run directory was made"
}
refused "fc2. has 10 units, which 4 parts do not divide: model.parts may be 1, 2; or use data.classes = 12" \
    --set model.parts=4
refused 'fc2. has 10 units, which 3 parts do not divide.*or use data.classes = 12' --set model.parts=3
refused '2 parts can be shared by 1 or 2 towers, .* devices.towers is 4' --set devices.towers=4
refused 'parts: needs slices, .* set train.slices = 2' --set train.slices=0
refused 'sync.mode: with model.parts .*: use replicated' --set sync.mode=parameter_server
refused 'sync.consistency: with model.parts .*: use strong' --set sync.consistency=relaxed
refused 'sync.wire: .* use fp32' --set sync.wire=bf16
refused 'devices.precision: model.parts does not support .*: use bf16' --set devices.precision=fp16
refused 'accumulate: not needed with train.slices' --set train.accumulate=2

# No dense layer at the end.
sed '/^dense/d; s/^softmax_loss.*/conv2d conv2 filters classes kernel 3\nglobal_average mean\n&/; /^relu relu2/d' "$work/parts.net" \
    >"$work/none.net"
refused 'does not end in a dense layer, .*: leave model.parts out' --set "model.file=$work/none.net"

# What the plan says, and where parts send more.
run "$pipetrain" -c "$work/tiny.conf" --set devices.backend=reference --set devices.towers=2 --set train.batch=8 --check
expect_code 0 'a check of parts'
expect_out '^parts +fc1 and fc2 in 2 parts,'
expect_out ' 1 on a tower: a tower sends [0-9.]+ kB in a step instead of [0-9.]+ kB'
! grep -q 'a tower sends .* because a batch' "$work/err" || fail 'parts that pay are doubted'
run "$pipetrain" -c "$work/tiny.conf" --set devices.backend=reference --set devices.towers=2 --set train.batch=64 --check
expect_err 'model.parts: a tower sends .* because a batch of 64 is more than [0-9]+: leave it out'
run "$pipetrain" -c "$work/tiny.conf" --set devices.backend=reference --check
expect_out '^parts +fc1 and fc2 in 2 parts, all on one tower'

# How each layer is computed.
run "$pipetrain" -c "$work/tiny.conf" --set devices.towers=2 --set "run.dir=$work/runs/dry" --dry-run
expect_code 0 'a dry run with parts'
expect_out '^ +dense layers in 2 parts, 1 of them on this tower; each:$'
if grep -q '^devices .*onednn' "$work/out"; then
    expect_out '^ +receive fc2: nchw -> nhwc, own loop$'
    expect_out '^ +part_loss fc2: '
fi

# As the refusal advises.
run "$pipetrain" -c "$work/tiny.conf" --set data.classes=12 --set model.parts=4 --check
expect_code 0 'classes without images'
! grep -q 'set data.classes' "$work/err" || fail 'the classes that were advised are doubted'

# What computes nothing, and what computes the whole network.
run "$pipetrain" -c "$work/tiny.conf" --set devices.kind=null --set "run.dir=$work/runs/null" --set devices.towers=2
expect_code 0 'parts that nothing computes'
expect_summary null parts 0

trained=$work/runs/trained
run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$trained" --set devices.towers=2 --set train.epochs=1
expect_code 0 'a run with parts'
expect_summary trained parts 2
run "$pipetrain" evaluate -c "$work/tiny.conf" --set "run.dir=$trained" --set devices.towers=4 --set model.parts=3 --json
expect_code 0 'an evaluation, which has no parts'
expect_err 'evaluate does not use model.parts'
cp "$work/out" "$work/whole.json"
expect_equal "$("$json_value" "$work/whole.json" top1.correct)" "$("$json_value" "$trained/summary.json" validation.correct)" \
    'what the whole network gets right'

run "$pipetrain" --describe="$work/parts.net"
expect_out '^parts +model.parts would divide fc1 and fc2: towers send less than all$'
run "$pipetrain" --describe=imagenet_alexnet --set devices.towers=8
expect_out '^parts +model.parts = 8 would divide'
expect_out 'sends 84.9 MB in a step instead of 432.9 MB'
expect_out 'less below a batch of 3,363'
sed 's/^dense fc2.*/& from relu2/; s/^dense fc2/dense aux units classes\nauxiliary_loss aux.loss weight 0.3\n&/' "$work/parts.net" \
    >"$work/inside.net"
run "$pipetrain" --describe="$work/inside.net"
expect_out '^parts +model.parts would divide fc2: '
run "$pipetrain" --describe=squeezenet1_1
! grep -q '^parts' "$work/out" || fail 'a network without dense layers has parts'
finish
