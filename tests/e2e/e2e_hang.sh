#!/bin/sh
# Nothing hangs: on the simulated CUDA each kind of call does not return once, or a kernel does not end, with one tower and
# with two under every reduction. The run ends soon with exit code 70 and one message that names the tower, what it did and
# the call. Slow input is no hang.
. "$(dirname "$0")/sim.sh"
. "$(dirname "$0")/e2e.sh"
make_tiny
make_quick
deadline=1
[ "$sanitizer" = no ] || deadline=5     # where everything takes longer
at_once=6                               # runs; they wait more than they compute
anywhere='(in|while) [a-z0-9 ]+' while='while [a-z ]+' step='in (step|batch) [1-6]'

# train_apart NAME VARIABLE=VALUE OPTION...: a short run beside others, with this variable.
train_apart() {
    name=$1 variable=$2
    shift 2
    apart "$name" env "$variable" timeout 60 "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" \
        --set "sync.deadline=$deadline" --set train.steps=6 --set train.batch=12 --set data.validation= "$@"
}

cases=
# hang BLOCK WHERE CALL OPTION...: start a run with SIM_BLOCK=BLOCK, which makes it hang. Its message must match the patterns
# WHERE (the phase) and CALL (the call that hangs).
hang() {
    number=$((${number:-0} + 1))
    printf '%s\n' "$2" "$3" >"$work/case$number"
    block=$1
    shift 3
    train_apart "hang$number" "SIM_BLOCK=$block" "$@" &
    cases="$cases $number"
    [ $((number % at_once)) -ne 0 ] || wait
}

expect_stall() {
    { read -r where; read -r call; } <"$work/case$1"
    recall "hang$1"
    expect_code 70 'a run that hangs'
    expect_err "^pipetrain: tower [01] \\(cuda[01]\\)[a-z, ]*: no progress for $deadline s \\(sync\\.deadline\\) $where: $call"
    expect_equal "$(grep -c 'no progress' "$work/err")" 1 'messages of a hang'
}

hang cudaMalloc:3 "$while" cudaMalloc
hang cudaHostAlloc:1 "$while" cudaHostAlloc
hang cudnnBackendFinalize:4 "$while" cudnnBackendFinalize
hang cudaMemcpyAsync:12 "$step" cudaMemcpyAsync
hang cudaGraphLaunch:2 "$step" cudaGraphLaunch
hang cudaLaunchKernelEx:30 "$step" 'kernel_[a-z_]+' --set devices.graph=off
hang cudnnBackendExecute:9 "$step" cudnnBackendExecute --set devices.graph=off
hang cudaEventQuery:20 "$anywhere" '([a-z ]+ \()?cudaEventQuery\)?'
hang cudaStreamQuery:1 "$while" 'waiting for the end of its stream'
hang kernel:30 "$step" 'waiting for its results'
hang upload:10 "$step" 'waiting for its copy'

for reduce in peer host; do
    two="--set devices.towers=2 --set sync.reduce=$reduce"
    hang cudaMalloc:20 "$while" cudaMalloc $two
    hang cudaMemcpyAsync:40 "$step" cudaMemcpyAsync $two
    hang cudaGraphLaunch:5 "$step" cudaGraphLaunch $two
    hang cudaLaunchKernelEx:60 "$step" 'kernel_[a-z_]+' $two --set devices.graph=off
    hang cudnnBackendExecute:18 "$step" cudnnBackendExecute $two --set devices.graph=off
    hang cudaStreamQuery:1 "$while" 'waiting for the end of its stream' $two
    hang kernel:60 "$step" 'waiting for its results' $two
done

hang kernel:60 "$step" 'waiting for its updates' --set devices.towers=2 --set sync.mode=async
two='--set devices.towers=2 --set sync.reduce=nccl'
hang upload:20 "$step" '(waiting for its results.*)?waiting for its copy' $two
hang ncclCommInitRankConfig:1 "$while" ncclCommInitRankConfig $two
hang ncclAllReduce:9 "$step" ncclAllReduce $two
hang ncclCommDestroy:1 "$while" ncclCommDestroy $two
hang kernel:60 "$step" 'waiting for its results' $two
wait
for i in $cases; do
    expect_stall "$i"
done

# Towers that wait for input for longer than the deadline, again and again.
for reduce in nccl peer; do
    train_apart slow-$reduce "PIPETRAIN_SLOW=decode ${deadline}900000 15" --set devices.towers=2 \
        --set sync.reduce=$reduce --set input.decode_threads=1 &
done
wait
for reduce in nccl peer; do
    recall slow-$reduce
    expect_code 0 'slow input is no hang'
done
finish
