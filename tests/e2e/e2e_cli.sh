#!/bin/sh
# The command line: what is asked for is printed, what is not known is refused.
. "$(dirname "$0")/e2e.sh"
make_tiny

for option in --help -h; do
    run "$pipetrain" $option
    expect_code 0 "$option"
    expect_out '^usage: pipetrain'
    expect_out 'prefetch_depth'
    expect_err_lines 0
done
for key in train.batch train; do
    run "$pipetrain" "--help=$key"
    expect_code 0 "help of $key"
    expect_out 'batch'
done
run "$pipetrain" --help=train.bacth
expect_code 2 'help of an unknown key'
expect_err 'bacth'
run "$pipetrain" --version
expect_code 0 version
expect_out '^pipetrain [0-9]+\.[0-9]+'
run "$pipetrain" --describe
expect_code 0 models
expect_out '^mnist_cnn '
expect_out '^mnist_cnn2 '
run "$pipetrain" --describe=mnist_cnn
expect_code 0 'a model'
expect_out '600,810'
expect_out '^conv1 '
run "$pipetrain" --describe mnist_cnn2
expect_code 0 'a model after a space'
expect_out '1,199,882'
run "$pipetrain" --describe=resnet
expect_code 2 'an unknown model'
expect_err resnet

run "$pipetrain"
expect_code 2 'no configuration'
expect_err ' -c '
run "$pipetrain" --no-such-option
expect_code 2 'an unknown option'
expect_err 'no-such-option'
run "$pipetrain" -c
expect_code 2 'an option without its value'
run "$pipetrain" "$work/tiny.conf"
expect_code 2 'a configuration without -c'
expect_err 'tiny.conf'

# --check starts nothing and writes nothing; --dry-run builds everything and runs one step.
try checked --check
expect_code 0 check
expect_out '600,810'
expect_out '600 records in 4 shards'
[ ! -e "$work/runs" ] || fail '--check leaves a directory'
try checked --check --set train.batch=0x10
expect_code 2 'check of a bad value'
try checked --check --set data.train="$work/nothing"
expect_code 3 'check of missing data'
try dry --dry-run --set devices.towers=2
expect_code 0 'dry run'
expect_out '^layers'
expect_out '1 steps?, 64 images'
[ ! -e "$work/runs" ] || fail '--dry-run leaves a directory'

# Results on stdout, the settings first; nothing on stderr but progress, without control characters.
train plain
expect_err_lines 0
expect_out '^settings .*seed 1.*train.batch 64'
expect_out '^ *1 +10 '
expect_out '^result .*of 150'
expect_out '^verdict '
train progress --set report.progress=yes --set report.interval=5
expect_err_lines 2
expect_err 'epoch 1 step 10/10.*loss'
if grep -q "$(printf '[\r\033]')" "$work/err" "$work/out"; then
    fail 'control characters in what is not a terminal'
fi
finish
