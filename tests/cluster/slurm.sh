#!/bin/sh
# Jobs of two ranks under Slurm, on one node and on two. Each is cancelled, signalled, preempted or requeued. It has to
# save, to resume, and to end with the weights of a run by one process with two towers that was not interrupted.
. "${0%/*}/cluster.sh"
find_mpis
need_slurm
make_tiny
make_quick
slurm_start 2
train whole --set devices.towers=2 --set train.epochs=100 --set train.steps=500

# The program whose steps can be slow, beside its modules.
mkdir "$work/slow" "$work/ranks"
cp "$slow" "$work/slow/pipetrain"
cp "$build"/pipetrain-*.so "$work/slow"

# A rank leaves its exit code, whatever is sent to it.
cat >"$work/rank" <<END
#!/bin/sh
trap : TERM USR1
"\$@"
code=\$?
echo \$code >>"$work/ranks/\$SLURM_JOB_NAME.\$SLURM_PROCID"
exit \$code
END

# The script of a job. Its steps are slow until it is requeued, which it does itself if its first word says so.
cat >"$work/job" <<END
#!/bin/sh
requeue=\$1
shift
[ "\${SLURM_RESTART_COUNT:-0}" -eq 0 ] || unset PIPETRAIN_SLOW
"\$@" "$work/rank" "$work/slow/pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/\$SLURM_JOB_NAME" \
    --set train.epochs=100 --set train.steps=500
code=\$?
[ "\$requeue \$code" != 'requeues 75' ] || exec scontrol requeue "\$SLURM_JOB_ID"
exit \$code
END
chmod +x "$work/rank" "$work/job"

# MPI-NODES, for all of them.
places=
for mpi in $mpis; do
    places="$places $mpi-1 $mpi-2"
done
last=${mpis##* }

# step PLACE: the words that start a command as a step of two tasks there.
step() {
    echo "$(srun_command "${1%-*}" 2) -N ${1#*-}"
}

# submit NAME PLACE requeues|ends [OPTION...]: a job of that name.
submit() {
    name=$1 place=$2 requeue=$3
    shift 3
    sbatch --parsable -J "$name" -N "${place#*-}" -n 2 -o "$work/$name.out" --open-mode=append "$@" \
        "$work/job" "$requeue" $(step "$place") >"$work/$name.job" || fail "sbatch $name"
}

# job_ids NAME...
job_ids() {
    for name in "$@"; do
        cat "$work/$name.job"
    done
}

# value_of NAME KEY: of a job.
value_of() {
    scontrol show job -o "$(cat "$work/$1.job")" | tr ' ' '\n' | sed -n "s/^$2=//p"
}

is_over() {
    case $(value_of "$1" JobState) in
        COMPLETED | CANCELLED | FAILED | TIMEOUT | NODE_FAIL | PREEMPTED) return 0 ;;
    esac
    return 1
}

has_steps() {
    [ "$(cat "$work/runs/$1/metrics.jsonl" 2>/dev/null | wc -l)" -ge 5 ]
}

# wait_for CONDITION NAME...
wait_for() {
    condition=$1
    shift
    for name in "$@"; do
        await "$condition" "$name"
        "$condition" "$name" || { about "$name"; fail "$condition $name: it never does"; finish; }
    done
}

# What a failure prints.
about() {
    command_line="job $1" code=$(value_of "$1" ExitCode)
    cp "$work/$1.out" "$work/out"
    scontrol show job "$(cat "$work/$1.job")" >"$work/err"
}

# expect_codes NAME CODES: those with which each of its two ranks has ended, one start after the other.
expect_codes() {
    for rank in 0 1; do
        expect_equal "$(paste -s -d ' ' "$work/ranks/$1.$rank")" "$2" "exit codes of rank $rank of job $1"
    done
}

# expect_resumed NAME...: they were stopped once, and their weights are those of the run that was not.
expect_resumed() {
    for name in "$@"; do
        about "$name"
        expect_equal "$(value_of "$name" JobState)" COMPLETED "state of job $name"
        expect_out 'asked to stop.*: finishing this step and saving'
        expect_out 'resume    at step [0-9]* of 500'
        expect_codes "$name" '75 0'
        expect_same_file "$work/runs/whole/weights.safetensors" "$work/runs/$name/weights.safetensors" "weights of job $name"
    done
}

# expect_ended STATE NAME...: Slurm ended them, and they saved.
expect_ended() {
    state=$1
    shift
    for name in "$@"; do
        about "$name"
        expect_equal "$(value_of "$name" JobState)" "$state" "state of job $name"
        expect_codes "$name" 75
    done
}

# disturbed NAME PLACE requeues|ends [OPTION...]: as submit; its steps are slow at first, so that it is found before its end.
disturbed() {
    PIPETRAIN_SLOW='update 200000'
    export PIPETRAIN_SLOW
    submit "$@"
    unset PIPETRAIN_SLOW
}

# ---- started ----

train one --set devices.towers=2
for place in $places; do
    run timeout 60 $(step $place) "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$place"
    expect_code 0 "a step on $place"
    expect_same_file "$work/runs/one/weights.safetensors" "$work/runs/$place/weights.safetensors" "weights of $place"
done
[ "$failures" -eq 0 ] || finish

# ---- the time is over, with a signal before and without: Slurm looks twice a minute, other jobs run meanwhile ----

disturbed limit "$last-1" ends --time=1
disturbed signal-limit "$last-2" ends --time=1 --signal=USR1@20

# ---- a rank is killed: the step ends by itself ----

for place in $places; do
    name=kill-$place
    PIPETRAIN_SLOW='update 200000' $(step $place) sh -c 'echo $$ >"$0.$SLURM_PROCID"; exec "$@"' "$work/pid" \
        "$work/slow/pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/$name" >"$work/out" 2>"$work/err" </dev/null &
    srun_pid=$! command_line="rank 1 on $place is killed"
    await has_steps "$name"
    kill -KILL "$(cat "$work/pid.1")"
    await has_ended $srun_pid
    has_ended $srun_pid || { fail 'the step goes on'; finish; }
    wait $srun_pid
    code=$?
    [ $code -ne 0 ] || fail 'the step ends with 0'
done

# ---- cancelled: the same command goes on ----

names=
for place in $places; do
    disturbed "cancel-$place" "$place" ends
    names="$names cancel-$place"
done
wait_for has_steps $names
scancel $(job_ids $names)
wait_for is_over $names
expect_ended CANCELLED $names
for place in $places; do
    submit "cancel-$place" "$place" ends
done
wait_for is_over $names
expect_resumed $names

# ---- signalled by hand: Slurm requeues it for its code ----

names=
for mpi in $mpis; do
    disturbed "signal-$mpi" "$mpi-2" ends
    names="$names signal-$mpi"
done
wait_for has_steps $names
scancel --signal=USR1 $(job_ids $names)
wait_for is_over $names limit signal-limit
expect_ended TIMEOUT limit
submit limit "$last-1" ends
wait_for is_over limit
expect_resumed $names limit signal-limit

# ---- preempted: requeued by Slurm for its code, or by its script ----

names=
for place in $places; do
    case $place in
        openmpi-1 | mpich-2) disturbed "preempt-$place" "$place" ends ;;
        *) disturbed "preempt-$place" "$place" requeues ;;
    esac
    names="$names preempt-$place"
done
wait_for has_steps $names
run timeout 60 srun -p high -N 2 --exclusive hostname
expect_code 0 'a job that preempts'
wait_for is_over $names
expect_resumed $names
finish
