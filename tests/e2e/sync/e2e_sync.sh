#!/bin/sh
# Modes of synchronisation as a user meets them: a parameter server learns what replicated towers learn, bit for bit;
# every mode goes on where it was stopped; what a mode cannot do is said.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_network
. "$(dirname "$0")/../resume/resume.sh"
[ "$long" = yes ] || settings="$settings --set sync.bucket=1KiB"      # several buckets, as mnist_cnn has

device='--set sync.mode=parameter_server'
cpu="$device --set sync.server=cpu"

# ---- servers: as replicated ----

for towers in 2 3; do
    all="--set devices.towers=$towers --set train.optimizer=adam --set train.learning_rate=0.01"
    resumed "replicated-$towers" $all
    expect_code 0 "replicated, $towers towers"
    for server in device cpu; do
        resumed "$server-$towers" $all $device --set sync.server=$server
        expect_code 0 "a server on the $server, $towers towers"
        expect_summary "$server-$towers" plan.mode parameter_server
        expect_same_run "replicated-$towers" "$server-$towers"
    done
done
resumed plan --set devices.towers=2 $cpu
expect_out_joined ' towers +2 x [^,]*, parameter_server in host memory '
resumed plan --set devices.towers=2 $device
expect_out_joined ' towers +2 x [^,]*, parameter_server on the devices, gradients summed by host '
run "$pipetrain" -c "$work/tiny.conf" --dry-run --set devices.towers=2
expect_out '^buckets +[1-9][0-9]* of gradients: [0-9.]+ [KM]iB'
run "$pipetrain" -c "$work/tiny.conf" --dry-run --set devices.towers=2 --set sync.bucket=1KiB
expect_out '^buckets +[2-9][0-9]* of gradients: [0-9.]+ KiB, '
resumed alone $cpu
expect_out 'no reduction needed'

# ---- async ----

resumed async --set devices.towers=3 --set sync.mode=async --set sync.max_staleness=2 --set train.optimizer=adam \
    --set train.learning_rate=0.01
expect_code 0 'asynchronous towers'
expect_out '^staleness mean [0-9.]+ steps, at most [012]; '
awk '/^staleness mean/ { gsub(/ steps/, ""); gsub(/[;:,]/, ""); for (i = 7; i < NF; i += 3) mean += $i * $(i + 1) / 100
    seen = mean - $3 < 0.02 && $3 - mean < 0.02 }
    END { exit !seen }' "$work/out" || fail 'the mean staleness is not that of the shares behind it'
[ "$(summary async staleness.max)" -le 2 ] || fail 'more stale than allowed'
expect_near async validation.correct "$(summary replicated-3 validation.correct)" 0.3
resumed zero --set devices.towers=3 --set sync.mode=async --set sync.max_staleness=0
resumed server --set devices.towers=3 $cpu
expect_same_run server zero

# ---- relaxed: the same steps, a step later ----

relaxed='--set sync.consistency=relaxed --set train.optimizer=momentum --set train.learning_rate=0.01'
resumed relaxed-2 --set devices.towers=2 $relaxed
expect_code 0 'relaxed towers'
expect_out_joined ' towers +2 x [^,]*, replicated, relaxed, gradients summed by host '
expect_summary relaxed-2 plan.mode 'replicated, relaxed'
resumed relaxed-1 $relaxed
expect_near relaxed-2 validation.correct "$(summary relaxed-1 validation.correct)" 0.05
resumed relaxed-parts --set devices.towers=2 $relaxed --set checkpoint.every=epoch --set train.epochs=3
resumed relaxed-parts --set devices.towers=2 $relaxed --set checkpoint.every=epoch
expect_code 0 'relaxed towers that go on'
expect_out 'resume +at step 114 of 228'
expect_same_run relaxed-2 relaxed-parts
resumed relaxed-grown $relaxed --set checkpoint.every=epoch --set train.epochs=3
resumed relaxed-grown $relaxed --set checkpoint.every=epoch --set devices.towers=3
expect_code 0 'relaxed towers, more of them'
expect_near relaxed-grown validation.correct "$(summary relaxed-1 validation.correct)" 0.05

for server in device cpu; do
    how="--set devices.towers=2 $relaxed $device --set sync.server=$server"
    resumed "relaxed-$server" $how
    expect_code 0 "relaxed, a server on the $server"
    expect_out_joined ' towers +2 x [^,]*, parameter_server, relaxed, (on the devices, gradients summed by host|in host memory) '
    expect_same_run relaxed-2 "relaxed-$server"
    resumed "relaxed-parts-$server" $how --set checkpoint.every=epoch --set train.epochs=3
    resumed "relaxed-parts-$server" $how --set checkpoint.every=epoch
    expect_code 0 "relaxed, a server on the $server that goes on"
    expect_same_run relaxed-2 "relaxed-parts-$server"
done

# ---- gradients that travel as bf16 ----

wire='--set sync.wire=bf16 --set train.optimizer=momentum --set train.learning_rate=0.01'
resumed wire --set devices.towers=2 $wire
expect_code 0 'gradients as bf16'
expect_out_joined ' towers +2 x [^,]*, replicated, gradients as bf16 summed by host '
expect_summary wire plan.wire bf16
for server in device cpu; do
    resumed "wire-$server" --set devices.towers=2 $wire $device --set sync.server=$server
    expect_out_joined ' towers +2 x [^,]*, parameter_server (on the devices|in host memory), gradients as bf16 (summed by host)? ?'
    expect_same_run wire "wire-$server"
done
resumed wire-parts --set devices.towers=2 $wire --set checkpoint.every=epoch --set train.epochs=3
resumed wire-parts --set devices.towers=2 $wire --set checkpoint.every=epoch
expect_code 0 'gradients as bf16 that go on'
expect_same_run wire wire-parts
resumed wire-parts --set devices.towers=2 $wire --set checkpoint.every=epoch --set sync.wire=fp32
expect_code 2 'gradients as fp32 after bf16'
expect_err 'sync.wire is fp32, there bf16'
resumed wire-alone $wire
resumed alone-plain --set train.optimizer=momentum --set train.learning_rate=0.01
expect_same_run alone-plain wire-alone
expect_near wire validation.correct "$(summary alone-plain validation.correct)" 0.05

# ---- averaging with buffers of their own ----

resumed each-step --set devices.towers=2 --set train.optimizer=momentum --set train.learning_rate=0.05
averaged='--set devices.towers=2 --set sync.mode=averaging --set sync.average=parameters --set sync.every=7'
resumed averaged $averaged --set train.optimizer=momentum --set train.learning_rate=0.05
expect_code 0 'a mean of parameters'
expect_near averaged validation.correct "$(summary each-step validation.correct)" 0.1
averaged="$averaged --set train.optimizer=momentum --set train.learning_rate=0.05 --set checkpoint.every=epoch"
resumed averaged-parts $averaged --set train.epochs=3
resumed averaged-parts $averaged
expect_code 0 'a mean of parameters that goes on'
expect_same_run averaged averaged-parts

# ---- checkpoints ----

for server in device cpu; do
    how="--set devices.towers=2 $device --set sync.server=$server --set train.optimizer=momentum"
    resumed "whole-$server" $how --set checkpoint.every=epoch
    resumed "parts-$server" $how --set checkpoint.every=epoch --set train.epochs=3
    resumed "parts-$server" $how --set checkpoint.every=epoch
    expect_code 0 "a server on the $server that goes on"
    expect_out 'resume +at step 114 of 228'
    expect_same_run "whole-$server" "parts-$server"
done
resumed parts-async --set devices.towers=2 --set sync.mode=async --set checkpoint.every=epoch --set train.epochs=3
resumed parts-async --set devices.towers=2 --set sync.mode=async --set checkpoint.every=epoch
expect_code 0 'asynchronous towers that go on'
expect_out 'resume +at step 114 of 228'
expect_summary parts-async steps 228

# ---- what is not possible ----

refused() {
    run "$pipetrain" -c "$work/tiny.conf" --check --set devices.towers=2 "$@"
    expect_code 2 "$*"
    expect_narrow "$*"
}
refused --set sync.mode=async --set sync.consistency=relaxed
expect_err 'use a larger max_staleness'
for mode in averaging independent; do
    refused --set sync.mode=$mode --set sync.consistency=relaxed
    expect_err 'which this mode does not have: use mode = replicated or'
    refused --set sync.mode=$mode --set sync.wire=bf16
    expect_err 'which this mode does not send: use fp32'
done
refused --set sync.wire=fp16
expect_err 'is not one of: fp32, bf16'
refused --set sync.consistency=relaxed --set train.on_nan=skip
expect_err 'use rollback'
refused --set sync.consistency=relaxed --set devices.precision=fp16
expect_err 'use devices.precision = bf16'
refused --set sync.mode=async --set train.ema=0.9
expect_err 'use another mode than async'
refused $device --set train.on_nan=skip
expect_err 'use replicated, or on_nan = rollback'
refused $cpu --set devices.precision=fp16
expect_err 'use replicated, or devices.precision = bf16'
refused --set sync.mode=async --set sync.max_staleness=-1
expect_err 'max_staleness'
refused --set sync.mode=parameter_sever
expect_err 'is not one of: replicated, independent, averaging, parameter_server, async'
refused --set sync.bucket=1GiB
expect_err 'bucket: 1.0 GiB is more than all gradients of the network, [0-9.]+ [KM]iB: use auto'
refused --set sync.average=momentum
expect_err 'not one of: parameters.optimizer, parameters'
refused --set sync.server=gpu
expect_err 'sync.server'
finish
