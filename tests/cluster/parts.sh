#!/bin/sh
# Ranks that have parts of the dense layers (model.parts) wait for each other several times in a step: when one is killed
# or stands still, at whatever time, all end, with a code and a message that say why.
. "${0%/*}/cluster.sh"
find_mpis
make_tiny
deadline=4

# Rank 1 sends itself the signal in END_1 ("SIGNAL SECONDS") so long after its first step. Steps take a millisecond: it may
# come in any exchange.
cat >"$work/rank" <<'END_OF_RANK'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = 1 ] || exec "$@"
# MPICH's launcher may have given the rank this file already.
case ${PMI_FD-} in
    9) PIPETRAIN_PHASES=8; exec 8>"$PHASES_1" ;;
    *) PIPETRAIN_PHASES=9; exec 9>"$PHASES_1" ;;
esac
export PIPETRAIN_PHASES
(until grep -qx training "$PHASES_1"; do sleep 0.05; done; sleep "${END_1#* }"; kill -s "${END_1% *}" $$) 8>&- 9>&- &
exec "$@"
END_OF_RANK
chmod +x "$work/rank"
PHASES_1=$work/phases
export END_1 PHASES_1

# ends MPI SIGNAL SECONDS: an endless run.
ends() {
    END_1="$2 $3"
    rm -rf "$work/runs/at"
    run timeout 60 $(mpi_command "$1" 2) "$work/rank" "$pipetrain" -c "$work/tiny.conf" --set "run.dir=$work/runs/at" \
        --set model.parts=2 --set train.slices=4 --set train.batch=16 --set train.epochs=1000000 \
        --set data.validation= --set sync.deadline=$deadline
    command_line="$command_line, $2 of rank 1 after $3 s"
    [ "$code" -ne 124 ] || fail 'it hangs'
    ! ls "$work"/runs/at/weights.safetensors 2>/dev/null || fail 'weights are saved'
}

for mpi in $mpis; do
    for seconds in 0.3 0.412; do
        ends "$mpi" STOP $seconds
        case $mpi,$code in
            mpich,9 | mpich,137 | *,70) ;;
            *) fail "exit code 70 expected of $mpi" ;;
        esac
        expect_err "rank 1 \([^ ]+\) has been silent for $deadline s \(sync\.deadline\); last heartbeat: "
        ends "$mpi" KILL $seconds
        [ "$code" -ne 0 ] || fail 'code 0 although a rank was killed'
    done
done
finish
