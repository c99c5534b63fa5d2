#!/bin/sh
# Whether a few samples can be learnt: --overfit=N trains on N that are spread over the set, until all are right, and
# leaves the results of the run itself alone.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick
cd "$work" || exit 99

overfit() {
    run "$pipetrain" -c "$work/tiny.conf" "$@"
}

overfit --set train.epochs=1 --set run.dir=meant
expect_code 0 'the run that is meant'
before=$(cksum meant/*)

for towers in 1 2; do
    overfit --overfit=21 --set devices.towers=$towers
    expect_code 0 "21 samples on $towers towers"
    expect_out_joined 'data +train +21 records in'
    expect_out_joined 'data +validation +21 records in'
    expect_out_joined 'overfit +all 21 samples are right after [0-9]+ steps'
done
sed 's/^\[run\]//' tiny.conf >named.conf
printf '[run]\ndir = meant//\n' >>named.conf
run "$pipetrain" -c named.conf --overfit=10
expect_code 0 'a run with a directory'
[ -f meant-overfit/summary.json ] || fail 'no results beside those of the run'
expect_equal "$(cksum meant/*)" "$before" 'results of the run that is meant'

# No states are saved, and none are gone back to.
printf '[checkpoint]\nevery = epoch\n' | cat tiny.conf - | sed 's/^batch = 64/&\non_nan = rollback/' >back.conf
run "$pipetrain" -c back.conf --overfit=10
expect_code 0 'a configuration with rollbacks'

# What makes it harder is left out, but what --set says holds.
overfit --overfit=10 --set augment.flip=yes --set train.epochs=2 --set train.learning_rate=1e-9
expect_code 74 'a rate that learns nothing'
expect_out_joined 'overfit +not learned: the loss went from [0-9.]+ to [0-9.]+, and [0-9.]+ % are right in evaluation. Try rates ten times lower and higher \(now 1e-09\)'
expect_out_joined 'random horizontal flip'
expect_out_joined 'augment.crop evaluated'
overfit --overfit=10 --set train.batch=4 --set train.epochs=1
expect_code 74 'too few steps'
expect_out_joined 'steps +batch 4, 3 steps an epoch, 3 in all'

# What evaluation is late with is named, and nothing that this network has not.
overfit --overfit=10 --set "data.validation=$work/data/validation-*" --set train.batch=5 --set data.allow_overlap=no
expect_code 74 'another validation set'
expect_out_joined 'overfit +all samples are right in training, but only [0-9.]+ % in evaluation: evaluation uses another set'
overfit --overfit=10 --set train.ema=0.9999
expect_code 74 'slow averages'
expect_out_joined 'only [0-9.]+ % in evaluation: evaluation uses averages of the weights \(train.ema\), which follow slowly'

# More than there are is all of them.
overfit --overfit=1000000 --set train.steps=2
expect_code 74 'all records'
expect_out_joined 'data +train +600 records in'
expect_out_joined 'steps +batch 64, 10 steps an epoch, 2 in all'
overfit --overfit=9223372036854775807 --set data.limit=20 --set train.learning_rate=1e-9 --set train.optimizer=sgd
expect_code 74 'more than a set of 20 has'
expect_out_joined 'steps +batch 20, 1 step an epoch, 500 in all'

# What makes no sense.
overfit --overfit=0
expect_code 2 'no samples'
expect_err "^pipetrain: --overfit: '0' is not a whole number of at least 1"
overfit --overfit=12x
expect_code 2 'no number'
overfit --overfit=5 --check
expect_code 2 'with --check'
expect_err 'use it without --check'
overfit --overfit=5 --set input.source=synthetic
expect_code 2 'no labels'
expect_err 'cannot learn with input.source = synthetic'

finish
