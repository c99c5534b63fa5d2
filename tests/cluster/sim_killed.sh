#!/bin/sh
# Ranks on simulated GPUs that use each other's memory (sync.reduce = ipc) or NCCL: one is killed, or stands still, in the
# middle of a step. All end soon, nobody is left behind, and the same command goes on from the last checkpoint to the weights
# of a run that nobody disturbed. ends.sh has the same for sums in host memory, and every other phase.
. "${0%/*}/../e2e/sim.sh"
. "${0%/*}/cluster.sh"
[ "$sanitizer" = no ] || skip 'the libraries of MPI are not made for sanitizers'
find_mpis
make_tiny
make_quick
SIM_DEVICES=3
export SIM_DEVICES
deadline=4
common="--set train.batch=16 --set train.epochs=100 --set train.steps=60 --set checkpoint.every=20"

# Each rank leaves its process in a file.
cat >"$work/rank" <<'END_RANK'
#!/bin/sh
echo $$ >"$RANK_FILES.${OMPI_COMM_WORLD_RANK-$PMI_RANK}"
exec "$@"
END_RANK
chmod +x "$work/rank"
RANK_FILES=$work/pid
export RANK_FILES

# begin MPI: three ranks in the background, in $work/runs/at.
begin() {
    # shellcheck disable=SC2046,SC2086
    set -- $(mpi_command "$1" 3) "$work/rank" "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/at" \
        --set "sync.reduce=$reduce" --set sync.deadline=$deadline $common
    command_line=$*
    "$@" >"$work/out" 2>"$work/err" </dev/null &
    launcher_pid=$!
}

# The launcher ends within a minute, with all ranks; its code is in $code.
end_all() {
    await has_ended $launcher_pid
    has_ended $launcher_pid || { fail 'it does not end'; kill -KILL $launcher_pid; }
    wait $launcher_pid 2>/dev/null
    code=$?
    for file in "$RANK_FILES".*; do
        await has_ended "$(cat "$file")"
        has_ended "$(cat "$file")" || { fail "$file is left behind"; kill -KILL "$(cat "$file")"; }
    done
}

# ended_by SIGNAL RANK CODES: in a step after the first checkpoint, which takes a while.
ended_by() {
    signal=$1 rank=$2 codes=$3
    rm -rf "$work/runs/at" "$RANK_FILES".*
    PIPETRAIN_SLOW='update 30000'
    export PIPETRAIN_SLOW
    begin "$mpi"
    await test -e "$work/runs/at/checkpoint-00000020.safetensors"
    kill -s "$signal" "$(cat "$RANK_FILES.$rank")"
    unset PIPETRAIN_SLOW
    end_all
    command_line="$command_line, SIG$signal to rank $rank"
    case " $codes " in
        *" $code "*) ;;
        *) fail "exit code $code, not $codes" ;;
    esac
    [ ! -e "$work/runs/at/weights.safetensors" ] || fail 'weights are saved'
    [ "$signal" = KILL ] || expect_err "rank $rank \([^ ]+\) has been silent for $deadline s \(sync\.deadline\); last heartbeat: training"
}

# The same command ends the run.
goes_on() {
    begin "$mpi"
    end_all
    expect_code 0 'the same command'
    expect_out 'resume    at step [24]0 of 60'
    expect_same_file "$work/runs/whole/weights.safetensors" "$work/runs/at/weights.safetensors" 'weights of the run that went on'
}

# shellcheck disable=SC2086
train whole $common --set devices.towers=3 --set sync.reduce=host
for reduce in ipc nccl; do
    for mpi in $mpis; do
        case $mpi in
            openmpi) killed=137 stopped=70 ;;
            mpich) killed=9 stopped='70 9 1' ;;     # it may count the rank that stood still and was ended then, by SIGKILL or SIGHUP
        esac
        ended_by KILL 1 "$killed"
        goes_on
        ended_by STOP 0 "$stopped"
        goes_on
        ended_by STOP 2 "$stopped"
        goes_on
    done
done
finish
