#!/bin/sh
# Readers, decoders and depths change who does the work, never the result: the weights are
# the same bytes. So are those of two runs with the same seed.
. "$(dirname "$0")/e2e.sh"
make_tiny
make_network

options='--set train.epochs=2 --set train.batch=64 --set devices.towers=2'

train first $options
for decoders in 1 2 7; do
    for depth in 1 4; do
        # What computes knows nothing of them: on a simulated device, which is slow, each value once.
        case $simulated:$long:$decoders:$depth in yes:no:1:4 | yes:no:2:1 | yes:no:7:1) continue ;; esac
        name=threads-$decoders-$depth
        train "$name" $options --set input.decode_threads=$decoders --set input.read_threads=$((decoders % 3 + 1)) \
            --set input.prefetch_depth=$depth --set input.staging_depth=$depth --set input.chunk=$((decoders * 5))
        expect_same_file "$work/runs/first/weights.safetensors" "$work/runs/$name/weights.safetensors" \
            "$decoders decoders, depth $depth"
        expect_summary "$name" sample_order_hash "$(summary first sample_order_hash)"
        expect_summary "$name" validation.loss "$(summary first validation.loss)"
    done
done

train again $options
expect_same_file "$work/runs/first/weights.safetensors" "$work/runs/again/weights.safetensors" 'the same run again'
train cached $options --set input.source=cached
expect_same_file "$work/runs/first/weights.safetensors" "$work/runs/cached/weights.safetensors" 'cached input'
train buckets $options --set sync.bucket=1KiB
expect_same_file "$work/runs/first/weights.safetensors" "$work/runs/buckets/weights.safetensors" 'small buckets'

# So do two threads a tower: every thread has its fixed part of the work. (The thread
# sanitizer does not see how OpenMP's threads wait for each other.)
if [ "$sanitizer" != thread ]; then
    for name in pair pair_again; do
        train $name $options --set devices.threads_per_tower=2 --set devices.towers=1 --set train.epochs=1
    done
    expect_same_file "$work/runs/pair/weights.safetensors" "$work/runs/pair_again/weights.safetensors" 'two threads'
fi

# Started through the dynamic loader, which /proc/self/exe is then.
loader=$(readelf -l "$pipetrain" 2>/dev/null | sed -n 's/.*program interpreter: \(.*\)\]/\1/p')
if [ -x "$loader" ] && [ "$sanitizer" = no ]; then
    run "$loader" "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/loaded" $options \
        --set devices.threads_per_tower=2 --set devices.towers=1 --set train.epochs=1
    expect_code 0 'a run through the dynamic loader'
    expect_same_file "$work/runs/pair/weights.safetensors" "$work/runs/loaded/weights.safetensors" 'the same run, loaded'
fi

# What is done to images changes the loss, the same way for any threads, and no order.
augmented="$options --set augment.crop=pad --set augment.flip=yes --set augment.colour=yes"
train augmented $augmented
train augmented_threads $augmented --set input.decode_threads=4 --set input.read_threads=2
expect_same_file "$work/runs/augmented/weights.safetensors" "$work/runs/augmented_threads/weights.safetensors" \
    'augmented images, more threads'
train normalised $options --set model.mean=0.1307 --set model.deviation=0.3081
for name in augmented normalised; do
    expect_summary "$name" sample_order_hash "$(summary first sample_order_hash)"
    [ "$(summary first validation.loss)" != "$(summary "$name" validation.loss)" ] || fail "$name: the same loss"
done

train other $options --set run.seed=2
cmp -s "$work/runs/first/weights.safetensors" "$work/runs/other/weights.safetensors" && fail 'the seed changes nothing'
[ "$(summary first sample_order_hash)" != "$(summary other sample_order_hash)" ] || fail 'the seed changes no order'

# threads_of OPTION...: a run's threads, by name, once it trains and each has named itself: until then it has the name of
# the main one. Those of a GPU's driver keep that, and so does the one that the thread sanitizer adds.
threads_of() {
    rm -rf "$work/runs/named"
    env "$slowed" "$slow" -c "$work/tiny.conf" --set "run.dir=$work/runs/named" --set run.resume=never \
        --set train.epochs=100000 "$@" >"$work/out" 2>"$work/err" &
    pid=$!
    await are_named
    cat /proc/$pid/task/*/comm
    kill -TERM $pid
    wait $pid
}

unnamed=1
[ "$sanitizer" != thread ] || unnamed=2
are_named() {
    kill -0 $pid 2>/dev/null || return 0
    cat /proc/$pid/task/*/comm >"$work/names" 2>/dev/null || return 1
    [ -s "$work/runs/named/metrics.jsonl" ] && { [ "$kind" != cpu ] || [ "$(grep -c '^pipetrain' "$work/names")" -eq $unnamed ]; }
}

# One saves states or the best weights, where any are saved beside the training. (There is no pipetrain_slow on the simulated device.)
if [ -e /proc/self/task ] && [ "$simulated" = no ]; then
    threads_of --set checkpoint.keep_best=no >"$work/threads"
    grep -q '^feeder' "$work/threads" || fail 'no feeder among the threads'
    grep -q '^saver' "$work/threads" && fail 'a thread that saves where only the last state may be saved'
    for option in checkpoint.every=1000 'checkpoint.every=1 hours' checkpoint.every=epoch checkpoint.keep_best=yes \
        checkpoint.keep_best=weights; do
        threads_of --set checkpoint.keep_best=no --set "$option" >"$work/threads"
        grep -q '^saver' "$work/threads" || fail "no thread saves states with $option"
    done
fi
finish
