#!/bin/sh
# Ranks leave what one process with as many towers leaves, to the byte: weights, checkpoints, metrics. 1 to 4 ranks of 1
# and 2 towers, under both MPIs, in all modes and reductions that ranks have, with batch normalization, dropout,
# augmentation, and batches that do not divide; and runs that are resumed by other ranks than those that saved the
# checkpoint. On simulated GPUs (sim_equal.sh) some of these sizes.
. "${0%/*}/cluster.sh"
find_mpis
make_tiny
cat >"$work/equal.net" <<'END'
model equal
image 28x28x1
classes 10
conv2d conv1 filters 6 kernel 5 stride 2
batch_norm bn1
relu relu1
max_pool pool1 kernel 2 stride 2
dropout dropout1 rate 0.25
dense fc1 units classes
softmax_loss loss
END
cat >>"$work/tiny.conf" <<END
[model]
file = $work/equal.net
[augment]
flip = yes
[checkpoint]
every = 7
keep = 100
END
# 13 batches of 44 records, and one of 28; the second epoch ends early.
common='--set train.batch=44 --set train.epochs=2 --set train.steps=20'

# one NAME TOWERS OPTION...: a single process.
one() {
    name=$1 towers=$2
    shift 2
    train "$name" $common --set devices.towers="$towers" "$@"
}

# ranked NAME MPI RANKS TOWERS OPTION...
ranked() {
    name=$1 mpi=$2 ranks=$3 towers=$4
    shift 4
    run mpi_run "$mpi" "$ranks" "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $common \
        --set devices.towers="$towers" "$@"
    expect_code 0 "$name"
    expect_summary "$name" towers $((ranks * towers))
}

# Checksums of a checkpoint, without what depends on times: the sums of the account, what was spent, lengths of files, the hash of the
# header. With "data", only of the data of its tensors.
state_of() {
    header=$(od -An -tu8 -N 8 "$1" | tr -d ' ')
    tail -c +$((9 + header)) "$1" | cksum
    [ "${2-}" = data ] || tail -c +9 "$1" | head -c "$header" |
        sed -E 's/"pipetrain\.(sums|lines|xxh3)":"[^"]*"//g; s/ *$//
            s/("pipetrain\.course":"([^ "]+ ){12}[^ "]+)[^"]*"/\1"/' | cksum
}

# expect_equal_runs ONE OTHER [data]: "data" where another number of towers saves other metadata.
expect_equal_runs() {
    expect_same_file "$work/runs/$1/weights.safetensors" "$work/runs/$2/weights.safetensors" "weights of $2"
    expect_equal "$(numbers_of "$2")" "$(numbers_of "$1")" "metrics of $2"
    for key in steps images sample_order_hash validation.images validation.accuracy; do
        expect_summary "$2" "$key" "$(summary "$1" "$key")"
    done
    expect_equal "$(ls "$work/runs/$2")" "$(ls "$work/runs/$1")" "files of $2"
    for state in "$work/runs/$1"/checkpoint-* "$work/runs/$1"/best.safetensors; do
        [ -e "$state" ] || continue
        other=$work/runs/$2/${state##*/}
        expect_equal "$(state_of "$other" "${3-}")" "$(state_of "$state" "${3-}")" "${state##*/} of $2"
    done
}

# same WHAT "RANKSxTOWERS ..." OPTION...: these are equal to one process. Several ranks have the options in $ranks_only, too,
# which checkpoints mention.
ranks_only=
same() {
    what=$1 sizes=$2
    shift 2
    for size in $sizes; do
        all=$((${size%x*} * ${size#*x}))
        [ -d "$work/runs/$what-$all" ] || one "$what-$all" "$all" "$@"
        more=
        [ "${size%x*}" -eq 1 ] || more=$ranks_only
        for mpi in $mpis; do
            ranked "$what-$mpi-$size" "$mpi" "${size%x*}" "${size#*x}" "$@" $more
            expect_equal_runs "$what-$all" "$what-$mpi-$size" ${more:+data}
        done
    done
}

every_size='1x2 2x1 2x2 3x1 3x2 4x1 4x2'
# How ranks sum on this kind of device.
reductions=auto
if [ "$simulated" = yes ]; then
    every_size='1x2 2x1 2x2 3x1'
    reductions=$gpu_reductions
fi

for reduce in $reductions; do
    set -- --set train.optimizer=momentum --set checkpoint.keep_best=yes
    case $reduce in
        auto | host) same "replicated-$reduce" "$every_size" "$@" --set sync.reduce=$reduce ;;
        *)
            ranks_only="--set sync.reduce=$reduce"      # one process does not have it
            same "replicated-$reduce" "$every_size" "$@"
            ranks_only= ;;
    esac
done
same averaging "$every_size" --set sync.mode=averaging --set sync.every=3 --set train.optimizer=adam
same relaxed '2x2 3x1' --set sync.consistency=relaxed --set train.optimizer=momentum
same independent '2x1 2x2 3x1 4x2' --set sync.mode=independent --set train.ema=0.9

# Each rank reads the records of its own lanes, from the files or from its part of them in memory.
lanes='--set data.shuffle=block --set input.read_block=8KiB --set data.shuffle_window=96KiB --set data.lanes'
same lanes "$every_size" $lanes=12 --set input.keep_shards=0 --set train.optimizer=momentum
same kept-lanes '2x1 4x1' $lanes=4 --set train.optimizer=momentum --set augment.mixup=0.2

# Each of several buckets has an owner; with a norm of all gradients the first tower owns all of them.
served='--set sync.mode=parameter_server --set sync.bucket=1KiB'
same served '2x1 2x2 3x2' $served --set train.optimizer=adam --set train.ema=0.9
same clipped '2x2 3x1' $served --set train.optimizer=momentum --set train.clip_norm=0.1 --set sync.server=cpu
same lars '3x1' $served --set train.optimizer=lars --set sync.wire=bf16 --set train.accumulate=2
same zero '3x1' --set sync.mode=async --set sync.max_staleness=0
same late '2x2 3x1' $served --set train.optimizer=momentum --set sync.consistency=relaxed
# A rate that ruins the weights, back to a checkpoint with half the rate, and once more.
same rollback '2x2 3x1' --set train.batch=16 --set train.epochs=3 --set train.steps=114 --set checkpoint.every=epoch \
    --set train.optimizer=sgd --set train.learning_rate=0.05 --set train.weight_decay=20 --set train.on_nan=rollback \
    --set train.schedule=piecewise --set train.boundaries=1 --set train.factors=8
expect_summary rollback-4 rollbacks 2

# Short steps, after each of which an evaluation decides whether the run goes on.
same decided '2x1 3x2' --set data.limit=40 --set train.epochs=60 --set train.steps=0 --set train.stop_at=0.25
expect_summary decided-2 ended stop_at

# Ranks that report several steps in a message: 4, with checkpoints and the best weights; 64, so that only ends of phases
# end a message, where an evaluation decides, and where a rate ruins the weights.
grouped='--set report.interval=100 --set sync.report_every'
same grouped '2x2 3x1' $grouped=4 --set train.optimizer=momentum --set checkpoint.keep_best=yes
same grouped-decided 2x1 $grouped=64 --set data.limit=40 --set train.epochs=60 --set train.steps=0 --set train.stop_at=0.25
expect_summary grouped-decided-2 ended stop_at
# With several steps before each evaluation, too.
same grouped-between 2x1 $grouped=64 --set train.epochs=4 --set train.steps=0 --set train.stop_at=0.99
expect_summary grouped-between-2 steps 56
same grouped-rollback 3x1 $grouped=64 --set train.batch=16 --set train.epochs=3 --set train.steps=114 \
    --set checkpoint.every=epoch --set train.optimizer=sgd --set train.learning_rate=0.05 --set train.weight_decay=20 \
    --set train.on_nan=rollback --set train.schedule=piecewise --set train.boundaries=1 --set train.factors=8
expect_summary grouped-rollback-3 rollbacks 2

# A run that stops within a message, at a step that depends on the machine, and goes on.
for mpi in $mpis; do
    ranked "cut-$mpi" "$mpi" 2 1 $grouped=64 --set train.epochs=100000 --set train.steps=0 --set train.max_time=1 \
        --set report.tensorboard=yes --set 'report.histograms=5 steps'
    expect_summary "cut-$mpi" ended max_time
    cut=$(summary "cut-$mpi" steps)
    ranked "cut-$mpi" "$mpi" 2 1 $grouped=64 --set train.epochs=100000 --set train.steps=$((cut + 70))
    expect_out "resume    at step $cut of $((cut + 70))"
    one "whole-$mpi" 2 $grouped=64 --set train.epochs=100000 --set train.steps=$((cut + 70))
    expect_same_file "$work/runs/whole-$mpi/weights.safetensors" "$work/runs/cut-$mpi/weights.safetensors" 'stopped within a message'
    expect_equal "$(numbers_of "cut-$mpi")" "$(numbers_of "whole-$mpi")" 'metrics of a run that was stopped within a message'
done

# same_slices WHAT SLICES "RANKSxTOWERS ..." OPTION...: these are equal to one process with one tower.
same_slices() {
    what=$1 slices=$2 sizes=$3
    shift 3
    one "$what" 1 --set train.slices="$slices" "$@"
    for size in $sizes; do
        for mpi in $mpis; do
            ranked "$what-$mpi-$size" "$mpi" "${size%x*}" "${size#*x}" --set train.slices="$slices" "$@"
            expect_equal_runs "$what" "$what-$mpi-$size" data
        done
    done
}

same_slices slices 8 '1x2 2x1 2x2 4x1 4x2' --set train.optimizer=momentum --set train.clip_norm=1
same_slices served-slices 8 '2x2 4x1' $served --set train.optimizer=momentum
same_slices lane-slices 8 '2x1 2x2 4x1' $lanes=8 --set input.keep_shards=0 --set train.optimizer=momentum
same_slices wire-slices 8 '1x2 2x1 2x2 4x1' --set train.optimizer=momentum --set sync.wire=bf16
# Ranks send the parts of the dense layer that they have, after evaluations and at the end, too.
parts='--set model.parts=4 --set data.classes=12 --set train.optimizer=adam --set train.ema=0.9'
same_slices parts 4 '1x4 2x1 2x2 4x1' $parts
same_slices twelve 12 '3x1 3x2' --set train.optimizer=adam --set train.ema=0.9

# resumed RUN MPI RANKS TOWERS OPTION...: the run goes on from its checkpoint of step 14 with these ranks.
resumed() {
    from=$1 mpi=$2 ranks=$3 towers=$4
    shift 4
    rm -rf "$work/runs/resumed"
    mkdir "$work/runs/resumed"
    cp "$work/runs/$from"/* "$work/runs/resumed"
    rm "$work/runs/resumed/checkpoint-00000020.safetensors" "$work/runs/resumed/weights.safetensors"
    ranked resumed "$mpi" "$ranks" "$towers" "$@"
    expect_out 'resume    at step 14 of 20'
}

# With lanes the number of ranks changes from 4 to 2 to 1.
changing="$lanes=8 --set train.slices=8 --set input.keep_shards=0 --set train.optimizer=momentum"
for mpi in $mpis; do
    ranked "changing-$mpi" "$mpi" 4 1 $changing --set train.steps=9
    expect_out_joined 'each reads the records of its own lanes, [0-9.]+ KiB an epoch'
    ranked "changing-$mpi" "$mpi" 2 1 $changing --set train.steps=15
    expect_out 'resume    at step 9 of 15'
    run "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/changing-$mpi" $common $changing
    expect_code 0 'a run of 4 and 2 ranks that one process ends'
    expect_out 'resume    at step 15 of 20'
    expect_same_file "$work/runs/lane-slices/weights.safetensors" "$work/runs/changing-$mpi/weights.safetensors" \
        'ranks that change'
done

# A run that was made longer begins after an evaluation on which rank 0 had decided.
patient='--set train.patience=9 --set train.optimizer=momentum'
one patient 2 $patient --set train.steps=28
for mpi in $mpis; do
    ranked "patient-$mpi" "$mpi" 2 1 $patient --set train.steps=14
    ranked "patient-$mpi" "$mpi" 2 1 $patient --set train.steps=28
    expect_out 'resume    at step 14 of 28'
    expect_same_file "$work/runs/patient/weights.safetensors" "$work/runs/patient-$mpi/weights.safetensors" 'made longer'
    expect_equal "$(numbers_of "patient-$mpi")" "$(numbers_of patient)" 'metrics of a run that was made longer'
done

for mpi in $mpis; do
    resumed "averaging-$mpi-2x2" "$mpi" 4 1 --set sync.mode=averaging --set sync.every=3 --set train.optimizer=adam
    expect_equal_runs averaging-4 resumed
    resumed averaging-4 "$mpi" 2 2 --set sync.mode=averaging --set sync.every=3 --set train.optimizer=adam
    expect_equal_runs averaging-4 resumed
    resumed "late-$mpi-2x2" "$mpi" 4 1 $served --set train.optimizer=momentum --set sync.consistency=relaxed
    expect_equal_runs late-4 resumed
    resumed served-4 "$mpi" 2 2 $served --set train.optimizer=adam --set train.ema=0.9
    expect_equal_runs served-4 resumed
    resumed "slices-$mpi-4x2" "$mpi" 2 1 --set train.slices=8 --set train.optimizer=momentum --set train.clip_norm=1
    expect_equal_runs slices resumed data
    resumed "parts-$mpi-4x1" "$mpi" 2 1 --set train.slices=4 $parts
    expect_equal_runs parts resumed data
done

finish
