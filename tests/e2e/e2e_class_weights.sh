#!/bin/sh
# train.class_weights: what a run with uneven classes prints and learns, that it is the same on several towers and with
# slices, what it resumes with, and what is refused.
. "$(dirname "$0")/e2e.sh"
make_tiny
cd "$work" || exit 99
sed -i 's/^epochs = .*/epochs = 2\nsteps = 8\noptimizer = momentum\nlearning_rate = 0.01/' tiny.conf

weigh() {
    dir=$1
    shift
    expect_end 0 "a run of class weights in $dir" run "$pipetrain" -c tiny.conf --set "run.dir=runs/$dir" "$@"
}

# All classes have as many records: auto changes nothing, to the bit.
weigh plain
weigh auto --set train.class_weights=auto
expect_out 'classes +weights in the loss from 1 to 1 \(auto\)'
"$tensors_near" runs/plain/weights.safetensors runs/auto/weights.safetensors 0 || fail 'weights of 1 change the result'

# A file; its numbers may all be multiplied by a power of 2.
printf '0 3\n1 0.5\n9 0\n' >weights.txt
printf '0 6\n1 1\n2 2\n3 2\n4 2\n5 2\n6 2\n7 2\n8 2\n9 0\n' >doubled.txt
weigh file --set train.class_weights=weights.txt
expect_out 'from 0 to 3 \(weights.txt\)'
weigh doubled --set train.class_weights=doubled.txt
"$tensors_near" runs/file/weights.safetensors runs/doubled/weights.safetensors 0 || fail 'only the shares of the weights count'
"$tensors_near" runs/plain/weights.safetensors runs/file/weights.safetensors 1e-6 && fail 'class weights change nothing'
expect_equal "$(summary file loss)" "$(summary doubled loss)" 'the mean loss of twice the weights'
[ "$(summary file loss)" != "$(summary plain loss)" ] || fail 'the loss is not weighted'

# Towers, microbatches, slices.
for how in devices.towers=3 train.accumulate=2; do
    [ $how = devices.towers=3 ] && batch=64 || batch=32     # samples of each of the accumulated batches
    weigh "with-$how" --set "$how" --set train.batch=$batch --set train.class_weights=weights.txt
    "$tensors_near" runs/file/weights.safetensors "runs/with-$how/weights.safetensors" 1e-4 ||
        fail "with $how the weights are others"
done
for towers in 1 2; do
    weigh "slices-$towers" --set train.slices=4 --set devices.towers=$towers --set train.class_weights=weights.txt
done
"$tensors_near" runs/slices-1/weights.safetensors runs/slices-2/weights.safetensors 0 || fail 'slices on two towers differ'

# A resumed run needs the same weights, not the same line.
weigh resumed --set train.class_weights=weights.txt --set checkpoint.every=4
cp weights.txt kept.txt
echo '2 7' >>weights.txt
run "$pipetrain" -c tiny.conf --set run.dir=runs/resumed --set train.class_weights=weights.txt --set train.steps=9 --set checkpoint.every=4
expect_code 2 'a resume with a changed file'
expect_err 'the content of train.class_weights is [0-9a-f]*, there [0-9a-f]*'
cp kept.txt weights.txt
expect_end 0 'a resume with the file as it was' run "$pipetrain" -c tiny.conf --set run.dir=runs/resumed \
    --set train.class_weights=weights.txt --set train.steps=9 --set checkpoint.every=4

# All classes equally often: the same for any threads and towers, and with an exact resume.
weigh even --set data.balance=yes --set train.slices=2
expect_out '^order +balanced: each of 10 classes about 60 times an epoch'
"$tensors_near" runs/plain/weights.safetensors runs/even/weights.safetensors 1e-6 && fail 'data.balance changes nothing'
weigh even-2 --set data.balance=yes --set train.slices=2 --set devices.towers=2 --set input.decode_threads=3
"$tensors_near" runs/even/weights.safetensors runs/even-2/weights.safetensors 0 || fail 'on two towers other records'
weigh even-3 --set data.balance=yes --set train.slices=2 --set train.steps=5 --set checkpoint.every=5
weigh even-3 --set data.balance=yes --set train.slices=2 --set checkpoint.every=5
"$tensors_near" runs/even/weights.safetensors runs/even-3/weights.safetensors 0 || fail 'a resumed run uses other records'
for more in data.shuffle=block train.class_weights=auto; do
    run "$pipetrain" -c tiny.conf --set run.dir=none --set data.balance=yes --set $more --check
    expect_code 2 "data.balance with $more"
    expect_err '^\[data\] balance: '
done

# A damaged record is not left out without a word.
cp -r data damaged
for shard in damaged/train-*; do :; done
flip "$shard" 20000
run "$pipetrain" -c tiny.conf --set run.dir=none --set data.balance=yes --set 'data.train=damaged/train-*'
expect_code 3 'a balanced order of a damaged set'
expect_err '^\[data\] balance: 1 of 600 records would be left out, the first: damaged/train-.*: record [0-9]+ at byte [0-9]+: '
weigh skipping --set data.balance=yes --set 'data.train=damaged/train-*' --set data.on_corrupt=skip --set train.steps=2
expect_err 'data.balance leaves out 1 of 600 records, the first: damaged/train-'

# refused TEXT MESSAGE
refused() {
    printf "$1" >wrong.txt
    run "$pipetrain" -c tiny.conf --set run.dir=none --set train.class_weights=wrong.txt --check
    expect_code 2 "class weights $1"
    expect_err "$2"
    expect_err_lines 1
}
refused '0 1\n10 2\n' "^wrong.txt:2: there is no class '10': the classes are 0 to 9"
refused '3 -1\n' "^wrong.txt:1: '-1' is no weight"
refused '3 nan\n' "^wrong.txt:1: 'nan' is no weight"
run "$pipetrain" -c tiny.conf --set run.dir=none --set train.class_weights=nothing.txt --check
expect_code 2 'a file that does not exist'
expect_err '^nothing.txt: cannot be read'
expect_err '^\[train\] class_weights: takes auto, or a file'

# Classes without records may weigh what they want.
seq 0 9 | sed 's/$/ 0/' >wrong.txt
echo '10 1' >>wrong.txt
run "$pipetrain" -c tiny.conf --set run.dir=none --set data.classes=11 --set train.class_weights=wrong.txt --check
expect_code 2 'no record that trains'
expect_err '^wrong.txt: the weights of all classes that have records are 0'
run "$pipetrain" -c tiny.conf --set run.dir=none --set train.class_weights=auto --set devices.towers=2 --set sync.mode=parameter_server --check
expect_code 2 'a parameter server'
expect_err 'does not divide by the sum of class weights: set sync.mode = replicated'
[ ! -e none ] || fail 'a refused run leaves a directory'
finish
