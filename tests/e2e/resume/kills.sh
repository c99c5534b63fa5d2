#!/bin/sh
# What make check-kills runs, on the CPU and on the simulated CUDA: a run that is killed fifty times, at moments drawn by
# chance while it starts, trains, evaluates and saves, and every time begun again by the same command, ends with what a
# run that was left alone ends with, bit for bit.
. "$(dirname "$0")/../e2e.sh"
make_tiny
. "$(dirname "$0")/resume.sh"

kills=${PIPETRAIN_KILLS:-50}
cat >"$work/kills.net" <<'END'
model kills
image 28x28x1
classes 10
conv2d conv filters 8 kernel 5 stride 3
batch_norm norm
relu relu
dropout drop rate 0.2
dense fc units classes
softmax_loss loss
END
settings="--set model.file=$work/kills.net --set train.optimizer=adam --set report.interval=7 --set checkpoint.every=5"
if [ "$kind" = cuda ]; then
    settings="$settings --set devices.precision=fp16 --set train.batch=30 --set train.epochs=$((kills + 1))"
else
    settings="$settings --set devices.towers=2 --set train.batch=8 --set train.epochs=$((kills * 8))"
fi

resumed whole
expect_code 0 'a run that is left alone'
[ "$code" -eq 0 ] || finish
name=killed killed=0 began=0 seconds=0.2
while [ $killed -lt "$kills" ] && [ $began -lt $((kills * 4)) ]; do
    began=$((began + 1))
    pause=$(awk "BEGIN { srand($began); printf \"%.3f\", rand() * $seconds }")
    # Every other one by the clock alone, so that some die while they start.
    if [ $((began % 2)) -eq 0 ]; then
        kill_soon "$pause"
    else
        kill_after "$pause"
    fi
    [ "$status" -ne 0 ] || break
    [ "$status" -ne 137 ] || killed=$((killed + 1))
done
echo "$kind: killed $killed times; then $(newest killed | sed 's/.*checkpoint-0*//; s/[.].*//') of $(
    summary whole steps) steps were saved"
expect_equal $killed "$kills" 'kills before the run was over'
resumed killed
expect_code 0 "going on after $killed kills"
expect_out 'resume +at step [0-9,]+ of'
expect_same_run whole killed
[ -z "$(find "$work/runs/killed" -name '.*.tmp.*')" ] || fail 'temporary files are left'
finish
