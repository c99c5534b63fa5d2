#!/bin/sh
# Settings that together cannot mean what they say: each row of the table in doc/training.md is a row here. They are refused,
# or a line says what is doubtful; and what is in order, or comes from the recipe of a model, is passed without a line.
. "$(dirname "$0")/e2e.sh"
make_tiny
cd "$work" || exit 99
cat >norm.net <<'END'
model norm
image 28x28x1
classes 10
average_pool p1 kernel 7 stride 7
dense fc1 units 8 no_bias
batch_norm n1
relu r1
dense fc2 units classes
softmax_loss loss
END
sed 's/^batch_norm n1/& decay 0.1/' norm.net >decay.net
sed 's/^batch_norm n1/& decay 0.5/; s/^relu r1/&\ndropout d1 rate 0.5/' norm.net >half.net
sed 's/^relu r1/&\ndropout d1 rate 0.9/' norm.net >keep.net
# 600 records in batches of 60: 10 steps an epoch, and 10 epochs where nothing is said.
sed -i '/^epochs = /d; s/^batch = .*/batch = 60\noptimizer = momentum\nlearning_rate = 0.05/' tiny.conf
sed 's/^optimizer = .*/&\nwarmup_epochs = 5\nschedule = piecewise\nboundaries = 30 60 80\nfactors = 0.1 0.01 0.001\nepochs = 90\nema = 0.999/' \
    tiny.conf >long.conf
printf '[model]\nname = resnet20_v1\n[input]\nsource = synthetic\n[train]\nepochs = 2\n' >recipe.conf

# ---- rows: CONFIGURATION | WORDS | refused, warned or passed | what is said ----
cat >rows <<'END'
tiny   |                                                              | passed
tiny   | train.steps=150                                              | passed
tiny   | train.steps=150 train.schedule=cosine train.warmup_epochs=12 | passed
tiny   | train.epochs=10 train.steps=150                              | warned | train.epochs = 10 ends the run after step 100, before train.steps = 150: leave out train.epochs
tiny   | train.epochs=10 train.steps=50                               | warned | train.steps = 50 ends the run before its train.epochs = 10 \(100 steps\)
tiny   | train.epochs=10 train.steps=100                              | passed
long   | train.steps=50                                               | warned | the run ends after 50 steps, before what these need: train.boundaries = 30 60 80 \(800 steps\), train.ema = 0.999 \(1,000 steps\)
long   | train.epochs=4                                               | warned | after 40 steps, before what these need: train.warmup_epochs = 5 \(50 steps\), train.boundaries
long   | train.epochs=100                                             | passed
recipe |                                                              | passed
recipe | train.steps=3                                                | passed
tiny   | train.warmup_epochs=10                                       | passed
tiny   | train.warmup_epochs=11                                       | warned | these need: train.warmup_epochs = 11 \(110 steps\)$
tiny   | train.warmup_epochs=11 train.schedule=cosine                 | refused | leaves no epoch for the schedule
tiny   | train.schedule=piecewise train.boundaries=11 train.factors=0.1 | warned | these need: train.boundaries = 11 \(110 steps\)$
tiny   | train.schedule=piecewise train.boundaries=10 train.factors=0.1 | passed
tiny   | train.schedule=exponential train.decay_epochs=10             | warned | these need: train.decay_epochs = 10 \(101 steps\)$
tiny   | train.schedule=exponential train.decay_epochs=10 train.staircase=no | passed
tiny   | train.ema=0.9999                                             | warned | these need: train.ema = 0.9999 \(10,000 steps\)$
tiny   | train.ema=0.99                                               | passed
tiny   | train.patience=10                                            | warned | these need: train.patience = 10 \(110 steps\)$
tiny   | train.patience=9                                             | passed
tiny   | checkpoint.every=101                                         | warned | these need: checkpoint.every = 101 \(101 steps\)$
tiny   | checkpoint.every=100                                         | passed
tiny   | sync.mode=averaging sync.every=101 devices.towers=2          | warned | these need: sync.every = 101 \(101 steps\)$
tiny   | sync.reduce=host                                             | warned | ^sync.reduce = host has no effect with one tower: there is nothing to sum$
tiny   | sync.reduce=host devices.towers=2                            | passed
tiny   | sync.reduce=host devices.towers=2 sync.mode=averaging        | passed
tiny   | sync.reduce=host devices.towers=2 sync.mode=independent      | warned | ^sync.reduce = host has no effect with sync.mode = independent: the towers sum nothing$
tiny   | sync.reduce=host devices.towers=2 sync.mode=async            | warned | ^sync.reduce = host has no effect with sync.mode = async: the server adds each tower's gradients$
tiny   | sync.reduce=host devices.towers=2 sync.mode=parameter_server | passed
tiny   | sync.reduce=host devices.towers=2 sync.mode=parameter_server sync.server=cpu | warned | ^sync.reduce = host has no effect with sync.server = cpu: the server adds the gradients$
tiny   | sync.reduce=auto devices.towers=2 sync.mode=async            | passed
tiny   | report.trace=t.json report.trace_steps=200..300              | warned | the run ends before steps 200..300: the trace will be empty
tiny   | report.tensorboard=yes report.histograms=101                 | warned | these need: report.histograms = 101 \(101 steps\)$
tiny   | report.histograms=epoch                                      | warned | report.histograms = epoch has no effect without report.tensorboard
tiny   | train.schedule=cosine train.schedule_epochs=1                | warned | train.schedule: after step 10 of 100 the learning rate is 0, so nothing more is learnt: set train.schedule_epochs
tiny   | train.schedule=polynomial train.schedule_epochs=5            | warned | after step 50 of 100 the learning rate is 0
tiny   | train.schedule=one_cycle train.schedule_epochs=5             | warned | after step 5[01] of 100 the learning rate is 2e-07
tiny   | train.schedule=piecewise train.boundaries=5 train.factors=0  | warned | after step 51 of 100 the learning rate is 0, .*: set train.factors above 0
tiny   | train.schedule=exponential train.decay_epochs=1 train.decay_factor=0 | warned | after step 10 of 100 the learning rate is 0
tiny   | train.schedule=cosine train.schedule_epochs=11               | warned | these need: train.schedule_epochs = 11 \(110 steps\)$
tiny   | train.schedule=polynomial train.schedule_epochs=11           | warned | these need: train.schedule_epochs = 11 \(110 steps\)$
tiny   | train.schedule=one_cycle train.schedule_epochs=11            | warned | these need: train.schedule_epochs = 11 \(110 steps\)$
tiny   | train.schedule=cosine                                        | passed
tiny   | train.schedule=cosine train.schedule_epochs=10               | passed
tiny   | train.schedule=cosine train.schedule_epochs=90               | warned | these need: train.schedule_epochs = 90 \(900 steps\)$
tiny   | train.schedule=cosine train.schedule_epochs=5 train.final_rate=0.001 | passed
tiny   | train.schedule=one_cycle                                     | passed
tiny   | train.learning_rate=0                                        | warned | train.learning_rate = 0: nothing is learnt
tiny   | train.learning_rate=1e-12                                    | warned | train.learning_rate = 1e-12: all 100 steps together change a weight by at most 1e-09, so nothing is learnt
tiny   | train.learning_rate=1e-06                                    | passed
tiny   | train.optimizer=adam train.learning_rate=1e-12               | warned | train.learning_rate = 1e-12: all 100 steps together change a weight by at most 1e-10, so
tiny   | train.optimizer=lars train.trust=0                           | warned | train.trust = 0: all 100 steps together change a weight by at most 0 of its size, so nothing is learnt
tiny   | train.optimizer=lars train.trust=1e-9                        | warned | train.trust = 1e-09: all 100 steps
tiny   | train.optimizer=lars train.trust=1e-4                        | passed
tiny   | train.clip_norm=1e-20                                        | warned | train.clip_norm = 1e-20: all 100 steps together change a weight by at most 5e-19
tiny   | train.clip_value=1e-30                                       | warned | train.clip_value = 1e-30: all 100 steps
tiny   | train.optimizer=adam train.clip_norm=1e-30                   | warned | train.clip_norm = 1e-30: all 100 steps
tiny   | train.optimizer=adam train.clip_norm=1e-5                    | passed
tiny   | train.clip_norm=0.001                                        | passed
tiny   | train.schedule=inverse_time train.rate_decay=1e6             | warned | train.rate_decay = 1000000: after step 1 of 100 the learning rate is below a thousandth of the first, 0.05
tiny   | train.schedule=inverse_time train.rate_decay=1e6 train.warmup_epochs=6 | warned | train.rate_decay = 1000000: after step 1 of 100
tiny   | train.schedule=inverse_time train.rate_decay=0.1             | passed
tiny   | train.schedule=exponential train.decay_epochs=0.01           | warned | train.decay_epochs = 0.01: after step 1 of 100 the learning rate is below a thousandth
tiny   | train.schedule=exponential train.decay_epochs=1 train.decay_factor=1e-6 | warned | train.decay_factor = 1e-06: after step 10 of 100
tiny   | train.schedule=exponential train.decay_epochs=2              | passed
tiny   | train.schedule=polynomial train.power=100                    | warned | train.power = 100: after step 7 of 100 the learning rate
tiny   | train.schedule=polynomial train.power=2                      | passed
tiny   | train.schedule=piecewise train.boundaries=1 train.factors=1e-6 | warned | train.factors = 1e-06: after step 11 of 100
tiny   | train.schedule=piecewise train.boundaries=3,6,8,9 train.factors=0.1,0.01,0.001,0.0001 | passed
tiny   | train.schedule=cosine train.schedule_epochs=2 train.final_rate=1e-9 | warned | train.schedule_epochs = 2: after step 20 of 100
tiny   | train.schedule=exponential                                   | warned | train.schedule: with train.decay_epochs = 30 the learning rate does not change in the 100 steps
tiny   | train.schedule=exponential train.decay_epochs=1 train.decay_factor=1 | warned | with train.decay_factor = 1 the learning rate does not change
tiny   | train.schedule=inverse_time                                  | warned | with train.rate_decay = 1e-06 the learning rate does not change
tiny   | train.schedule=cosine train.final_rate=0.5                   | warned | train.final_rate = 0.5 is above the first rate, 0.05
tiny   | train.schedule=polynomial train.final_rate=0.5               | warned | train.final_rate = 0.5 is above the first rate, 0.05
tiny   | train.schedule=cosine train.final_rate=0.1 train.rate_batch=20 | passed
tiny   | train.schedule=piecewise train.boundaries=2,4 train.factors=0.1,0.01 train.warmup_epochs=3 | warned | train.boundaries: the first one, after epoch 2, is in the warm-up of 3 epochs
tiny   | train.schedule=one_cycle train.warmup_epochs=1               | refused | one_cycle has a warm-up of its own
tiny   | train.schedule=piecewise                                     | refused | boundaries.* is missing
tiny   | train.schedule=piecewise train.boundaries=2,4 train.factors=0.1 | refused | needs a number for each of the 2 boundaries
tiny   | train.schedule_epochs=5                                      | refused | has no effect without a schedule
tiny   | train.weight_decay=50                                        | warned | train.weight_decay = 50: with the learning rate 0.05 every step subtracts 2.5 times each weight
tiny   | train.weight_decay=0.0005                                    | passed
tiny   | train.optimizer=adam train.betas=0.999,0.9                   | warned | train.betas = 0.999 0.9: the average of squares is shorter
tiny   | train.betas=0.8,0.9                                          | warned | betas = 0.8 0.9 has no effect with train.optimizer = momentum
tiny   | train.stop_at=0.1                                            | warned | train.stop_at = 0.1 is reached by guessing one of 10 classes
tiny   | train.stop_at=0.9                                            | passed
tiny   | train.stop_at=0.9 data.validation=                           | refused | needs a validation set
tiny   | train.on_nan=rollback                                        | refused | rollback needs checkpoints
tiny   | augment.mixed=0.5                                            | warned | augment.mixed = 0.5 has no effect without augment.mixup or augment.cutmix
tiny   | augment.mixup=0.2 augment.mixed=0                            | warned | augment.mixed = 0: no image is mixed
tiny   | augment.mixup=0.2 augment.mixed=0.5                          | passed
tiny   | augment.mixup=0.2 train.batch=1                              | refused | has nothing to mix with in batches of one sample
tiny   | augment.crop=pad augment.pad=28                              | warned | augment.pad = 28 is no less than the 28 pixels of an image
tiny   | augment.crop=pad                                             | passed
tiny   | augment.evaluation=central augment.evaluation_resize=20      | refused | smaller than the network's
tiny   | data.balance=yes                                             | passed
tiny   | data.balance=yes input.source=synthetic                      | warned | data.balance = yes has no effect with input.source = synthetic; only real and cached use it
tiny   | train.batch=128 data.last_batch=drop data.shuffle=none       | warned | the last 88 records are never trained on
tiny   | train.batch=128 data.last_batch=drop                         | passed
tiny   | train.batch=700 data.last_batch=drop                         | refused | a batch of 700 is larger than the training set
tiny   | train.batch=700                                              | warned | a batch of 700 is more than the 600 records
tiny   | train.batch=0                                                | refused | 0 samples are no batch
tiny   | train.batch_per_tower=30 train.slices=2 devices.towers=2     | warned | train.slices: weights depend on the batch
tiny   | model.parts=2                                                | refused | parts: needs slices
tiny   | model.parts=2 train.slices=2 devices.towers=2 train.batch=600 devices.backend=reference | warned | model.parts: a tower sends .* because a batch of 600 is more than
tiny   | model.parts=2 train.slices=2 devices.towers=2 devices.backend=reference | passed
tiny   | model.file=norm.net train.batch=1                            | refused | batch normalisation of one value, whose variance is 0: n1 has one pixel, .*: use a batch of at least 2
tiny   | model.file=norm.net train.batch=2 devices.towers=2           | refused | use a batch of at least 4
tiny   | model.file=norm.net train.batch=4 train.slices=4             | refused | use a batch of at least 8
tiny   | model.file=norm.net train.batch=1 train.accumulate=8         | refused | batch normalisation of one value
tiny   | model.file=norm.net train.batch=3 devices.towers=2           | warned | a sample is computed alone in some steps
tiny   | model.file=norm.net data.limit=121                           | warned | n1, which has one pixel, gives the same for all images: use another batch, or data.last_batch = drop
tiny   | model.file=norm.net data.limit=121 data.last_batch=drop      | passed
tiny   | model.file=norm.net data.limit=122                           | passed
tiny   | model.file=decay.net                                         | warned | batch_norm n1 decay 0.1: .*; PyTorch's momentum 0.1 is decay 0.9$
tiny   | model.file=half.net                                          | passed
tiny   | model.file=keep.net                                          | warned | dropout d1 rate 0.9: this share is set to 0; to keep it the rate is 0.1$
tiny   | train.ema=0.001                                              | warned | train.ema = 0.001: .* of 0.001 elsewhere is ema = 0.999$
tiny   | train.optimizer=rmsprop train.rho=0.1                        | warned | train.rho = 0.1: this share of the running averages stays
tiny   | train.label_smoothing=0.9                                    | warned | train.label_smoothing = 0.9: .* to leave it to the label it is 0.1$
tiny   | train.label_smoothing=0.1                                    | passed
tiny   | model.freeze=*                                               | refused | freezes all parameters
END

set -f
while IFS='|' read -r conf words verdict said; do
    conf=$(echo $conf) verdict=$(echo $verdict) said=$(echo "$said" | sed 's/^ *//')
    options=
    for word in $words; do
        options="$options --set $word"
    done
    run "$pipetrain" -c "$conf.conf" --check $options
    case $verdict in
    passed)
        expect_code 0 "$words"
        [ ! -s err ] || fail "$conf $words: $(cat err)"
        ;;
    warned)
        expect_code 0 "$words"
        expect_err "$said"
        ;;
    refused)
        expect_code 2 "$words"
        expect_err "$said"
        ;;
    esac
    [ "$verdict" = passed ] || expect_err_lines 1
done <rows
set +f

# All steps that are asked for are done, and the run.conf that is left asks for the same.
run "$pipetrain" -c tiny.conf --set train.steps=150 --set run.dir=steps --set model.file=norm.net
expect_code 0 'more steps than ten epochs'
expect_equal "$("$json_value" steps/summary.json steps)" 150 'steps'
run "$pipetrain" -c steps/run.conf --check --set run.resume=never
expect_out '^steps +batch 60, 10 steps an epoch, 150 in all'
expect_err_lines 0
run "$pipetrain" -c steps/run.conf --check --set run.resume=never --set train.steps=200
expect_err '^train.epochs = 15 ends the run after step 150, before train.steps = 200'

# A dry run is one step of any run.
run "$pipetrain" -c long.conf --dry-run --set model.file=norm.net
expect_code 0 'a dry run'
expect_err_lines 0
finish
