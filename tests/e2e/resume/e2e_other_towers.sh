#!/bin/sh
# A run that continues with another number of towers ends with the weights and optimizer buffers of the unbroken run, but
# for rounding: every tensor is compared. The network has no statistics of batches, whose mean is another thing, and no
# ReLU, which a last bit turns on or off.
. "$(dirname "$0")/../e2e.sh"
make_tiny
. "$(dirname "$0")/resume.sh"

cat >"$work/smooth.net" <<'END'
model smooth
image 28x28x1
classes 10
conv2d conv1 filters 8 kernel 5 stride 2
conv2d conv2 filters 12 kernel 3 stride 2
dropout drop rate 0.2
dense fc units classes
softmax_loss loss
END
settings="--set model.file=$work/smooth.net --set train.batch=40 --set train.learning_rate=0.01 --set checkpoint.every=6 --set train.epochs=2 --set data.validation="
limit=1e-5

# expect_near_tensors A B: the last states of two runs, and their weights.
expect_near_tensors() {
    for file in checkpoint-00000012 weights; do
        "$tensors_near" "$work/runs/$1/$file.safetensors" "$work/runs/$2/$file.safetensors" $limit >"$work/near" 2>&1 ||
            fail "$file of $1 and $2: $(cat "$work/near")"
        echo "$file of $1 and $2: $(cat "$work/near")"
    done
}

for optimizer in momentum adam; do
    how="--set train.optimizer=$optimizer"
    [ $optimizer = momentum ] || how="$how --set train.learning_rate=0.0003"
    for towers in 1 2 3; do
        resumed "$optimizer-$towers" $how --set train.steps=12 --set devices.towers=$towers
        expect_code 0 "an unbroken run with $towers towers"
    done
    for way in 1-2 2-1 1-3 3-2; do
        resumed "$optimizer-from-$way" $how --set train.steps=6 --set devices.towers=${way%-*}
        resumed "$optimizer-from-$way" $how --set train.steps=12 --set devices.towers=${way#*-}
        expect_code 0 "going on with ${way#*-} towers instead of ${way%-*}"
        expect_out 'resume +at step 6 of 12'
        for towers in ${way%-*} ${way#*-}; do
            expect_near_tensors "$optimizer-$towers" "$optimizer-from-$way"
        done
        expect_summary "$optimizer-from-$way" sample_order_hash "$(summary "$optimizer-1" sample_order_hash)"
    done

    # What goes on without the optimizer's buffers is told apart.
    resumed "$optimizer-forgetful" $how --set train.steps=12 --set devices.towers=2 \
        --set "model.weights=$work/runs/$optimizer-from-1-2/checkpoint-00000006.safetensors"
    expect_code 0 'beginning with the weights of a state'
    ! "$tensors_near" "$work/runs/$optimizer-1/weights.safetensors" \
        "$work/runs/$optimizer-forgetful/weights.safetensors" 1e-3 >/dev/null || fail 'weights of another run are near'
done
finish
