#!/bin/sh
# Variables and limits of the environment change no result: weights, evaluation and predictions are those of the threads
# that the plan prints, bit for bit, and nothing hangs. A variable that limits a run is named.
. "$(dirname "$0")/e2e.sh"
[ "$sanitizer" != thread ] || skip 'the thread sanitizer is built without OpenMP'
make_tiny
make_network
asked=3
options="--set devices.threads_per_tower=$asked --set run.resume=never"

# limited COMMAND...: run in a shell that first executes $limits, with the variables $variables.
limited() {
    run timeout -s KILL 120 sh -c "$limits"'; exec "$@"' sh env $variables "$@"
}

# results NAME OPTION...: train, evaluate and predict in that environment; everything that may not differ.
results() {
    name=$1
    shift
    limited "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $options "$@"
    expect_code 0 "training with $variables$limits"
    cp "$work/out" "$work/$name.plan"
    cp "$work/err" "$work/$name.said"
    summary "$name" validation.loss >"$work/$name.results"
    cksum <"$work/runs/$name/weights.safetensors" >>"$work/$name.results"
    [ "$long" = yes ] || [ "$checks_all" = yes ] || return 0
    limited "$pipetrain" evaluate -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" $options "$@"
    expect_code 0 "evaluate with $variables$limits"
    grep '^result' "$work/out" >>"$work/$name.results"
    cat "$work/err" >>"$work/$name.evaluated"
    limited "$pipetrain" predict -w "$work/runs/$name/weights.safetensors" $options "$@" "$work/data/validation-00000-of-00001"
    expect_code 0 "predict with $variables$limits"
    cksum <"$work/out" >>"$work/$name.results"
}

# row THREADS VARIABLES [LIMITS [SAID]]: the results are those of so many threads, and the message matches SAID.
row() {
    threads=$1 variables=$2 limits=${3:-:} said=${4:-}
    checks_all=no
    rm -f "$work/row.evaluated"
    [ -z "$said" ] || checks_all=yes
    results row
    grep -Eq "^towers +1 x $threads threads? on" "$work/row.plan" || fail "$variables $limits: the plan has not $threads threads"
    [ "$checks_all" = yes ] || [ "$long" = yes ] || sed -i 3,\$d "$work/row.results"
    head -n "$(wc -l <"$work/row.results")" "$work/threads$threads.results" | cmp -s - "$work/row.results" ||
        fail "$variables $limits: other results than those of $threads threads"
    for said_by in said evaluated; do
        [ -z "$said" ] || grep -Eq "$said" "$work/row.$said_by" || fail "$variables is not named: $(cat "$work/row.said")"
    done
}

variables= limits=: checks_all=yes
for threads in 1 2 3; do
    results threads$threads --set devices.threads_per_tower=$threads
done

# Of OpenMP, GNU's and LLVM's.
limit='in the environment gives a tower [12] of 3 threads'
row 1 OMP_THREAD_LIMIT=1 : "OMP_THREAD_LIMIT=1 $limit"
row 2 OMP_THREAD_LIMIT=2 : "OMP_THREAD_LIMIT=2 $limit"
row 3 OMP_THREAD_LIMIT=3
row 3 'OMP_MAX_ACTIVE_LEVELS=0 OMP_NESTED=true'
row 3 'OMP_DYNAMIC=true OMP_NUM_THREADS=1'
row 3 'OMP_NUM_THREADS=2,1 OMP_SCHEDULE=dynamic,1 OMP_CANCELLATION=true'
row 3 OMP_PROC_BIND=true
row 3 'OMP_PROC_BIND=spread,close OMP_PLACES=threads'
row 3 'OMP_PLACES=cores OMP_WAIT_POLICY=active'
row 3 'OMP_PLACES={0} OMP_WAIT_POLICY=passive'
row 3 'GOMP_CPU_AFFINITY=0 GOMP_SPINCOUNT=100'
row 3 'KMP_AFFINITY=granularity=fine,compact KMP_BLOCKTIME=0'
row 3 'OMP_STACKSIZE=16k OMP_DISPLAY_ENV=true'
row 3 'GOMP_STACKSIZE=100G KMP_STACKSIZE=16k KMP_DEVICE_THREAD_LIMIT=1'
row 3 'KMP_LIBRARY=throughput OMP_TARGET_OFFLOAD=mandatory'

# Of oneDNN: the newer names and the older ones.
ignored='in the environment has no effect: devices.precision decides'
if [ "$kind" = cpu ] && grep -q 'onednn' "$work/threads1.plan"; then
    row 3 ONEDNN_DEFAULT_FPMATH_MODE=bf16 : "ONEDNN_DEFAULT_FPMATH_MODE=bf16 $ignored"
    row 3 DNNL_DEFAULT_FPMATH_MODE=any : "DNNL_DEFAULT_FPMATH_MODE=any $ignored"
    hinted='in the environment has no effect: only ONEDNN_MAX_CPU_ISA changes the instructions'
    row 3 ONEDNN_CPU_ISA_HINTS=prefer_ymm : "ONEDNN_CPU_ISA_HINTS=prefer_ymm $hinted"
    row 3 DNNL_CPU_ISA_HINTS=prefer_ymm : "DNNL_CPU_ISA_HINTS=prefer_ymm $hinted"
    row 3 'ONEDNN_PRIMITIVE_CACHE_CAPACITY=0 ONEDNN_JIT_PROFILE=0 ONEDNN_VERBOSE=0'
    limits=: checks_all=no
    for variables in ONEDNN_MAX_CPU_ISA=SSE41 DNNL_MAX_CPU_ISA=SSE41; do
        results older
        grep -q "^devices .*onednn with SSE4.1 ($variables)" "$work/older.plan" || fail "$variables: not in the plan"
        sed 3,\$d "$work/older.results" >"$work/older.$variables"
    done
    expect_same_file "$work/older.ONEDNN_MAX_CPU_ISA=SSE41" "$work/older.DNNL_MAX_CPU_ISA=SSE41" 'both names'
fi

# Of the C library, the loader, and limits.
row 3 'MALLOC_PERTURB_=165 MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=4096'
row 3 'MALLOC_CHECK_=3 MALLOC_TOP_PAD_=0 LD_BIND_NOW=1 TZ=Asia/Kathmandu'
row 3 'LC_ALL=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8 LANG=tr_TR.UTF-8 LANGUAGE=de'
row 3 '' 'umask 0'
row 3 '' 'umask 077'
[ "$sanitizer" != no ] || row 3 '' 'ulimit -s 256'
row 3 '' 'ulimit -s unlimited 2>/dev/null || :'
row 3 '' 'ulimit -n 64'
row 3 '' 'ulimit -c 0'
if [ "$long" = yes ]; then
    row 3 OMP_PROC_BIND=close
    row 3 OMP_PROC_BIND=master
    row 3 OMP_PROC_BIND=false
    row 3 OMP_PLACES=sockets
    row 3 'OMP_PLACES={0}:2 OMP_PROC_BIND=close'
    row 3 OMP_MAX_ACTIVE_LEVELS=1
    row 3 OMP_NUM_THREADS=0
    row 3 OMP_THREAD_LIMIT=x
    row 3 OMP_STACKSIZE=1
    row 3 GOMP_CPU_AFFINITY=0-1
    row 3 GLIBC_TUNABLES=glibc.malloc.perturb=165
    row 3 GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA
    [ "$sanitizer" != no ] || row 3 '' 'ulimit -v 8388608'
    row 3 '' 'ulimit -u 4096'
fi

# Two towers have a team each, and a limit is that of a team.
for limit in 2 1; do
    variables=OMP_THREAD_LIMIT=$limit limits=: checks_all=no
    results two --set devices.towers=2 --set devices.threads_per_tower=2
    grep -q "^towers *2 x $limit thread" "$work/two.plan" || fail "two towers: not $limit threads each"
    sed 3,\$d "$work/two.results" >"$work/two.limited"
    variables=
    results two --set devices.towers=2 --set devices.threads_per_tower=$limit
    expect_same_file "$work/two.results" "$work/two.limited" "two towers of $limit threads"
done

# A process that OpenMP binds to a core uses all that it was given, and not those that it was not.
run "$pipetrain" -c "$work/tiny.conf" --check --set devices.threads_per_tower=0
cores=$(sed -n 's/^towers .* on \([0-9]*\) cores.*/\1/p' "$work/out")
allowed=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
[ "$kind" = cpu ] && [ "$allowed" = "0-$((${cores:-1} - 1))" ] || cores=1
if [ "$cores" -gt 1 ]; then
    for variables in OMP_PROC_BIND=true OMP_PLACES=cores GOMP_CPU_AFFINITY=0-$((cores - 1)); do
        run env "$variables" "$pipetrain" -c "$work/tiny.conf" --check --set devices.threads_per_tower=0
        expect_out "^towers +1 x $cores threads on $cores cores"
        run env "$variables" taskset -c 1 "$pipetrain" -c "$work/tiny.conf" --check --set devices.threads_per_tower=0
        expect_out '^towers +1 x 1 thread on 1 core,'
    done
    run env 'OMP_PLACES={0}' "$pipetrain" -c "$work/tiny.conf" --check --set devices.threads_per_tower=0
    expect_out '^towers +1 x 1 thread on 1 core,'
    expect_err 'cores: OMP_PLACES=\{0\} in the environment lets this run use 1 CPU'
    run env 'OMP_PLACES={0}' "$pipetrain" --doctor
    expect_out_joined 'usable: 1 of [0-9]+ CPUs \(0\) -> OMP_PLACES=\{0\} in the environment'
fi

# The CPU quota of a control group: threads for as many CPUs, a part of one counted as one.
at_mount=/sys/fs/cgroup/cpu group=pipetrain-test-$$
[ -e $at_mount/cpu.cfs_quota_us ] || at_mount=/sys/fs/cgroup
limit_cpu() {
    mkdir "$at_mount/$group" 2>/dev/null || return 1
    { echo 100000 >"$at_mount/$group/cpu.cfs_quota_us" || echo '100000 100000' >"$at_mount/$group/cpu.max"; } 2>/dev/null
}
if [ "$cores" -gt 1 ] && limit_cpu; then
    in_group='echo $$ >'$at_mount/$group'/cgroup.procs; exec "$@"'
    run sh -c "$in_group" sh "$pipetrain" -c "$work/tiny.conf" --check --set devices.threads_per_tower=0
    expect_code 0 'a CPU quota'
    expect_out '^towers +1 x 1 thread on 1 core,'
    expect_err "cores: the control group .*$group permits the time of 1 CPU: 1 of $cores cores are used"
    run sh -c "$in_group" sh "$pipetrain" -c "$work/tiny.conf" --check --set devices.threads_per_tower=2
    expect_out '^towers +1 x 2 threads on 1 core,'
    expect_err 'devices.threads_per_tower: 2 threads of a tower share 1 core'
    run sh -c "$in_group" sh "$pipetrain" --doctor
    expect_out_joined "note +quota: the time of 1 CPU, by the control group .*$group.* -> a run starts threads for 1 of"
fi
rmdir "$at_mount/$group" 2>/dev/null

run env OMP_THREAD_LIMIT=1 "$pipetrain" --doctor -c "$work/tiny.conf" --set devices.threads_per_tower=2
[ "$kind" != cpu ] || expect_out_joined 'warn +run: 1 thread computes, .* -> OMP_THREAD_LIMIT=1 in the environment'
finish
