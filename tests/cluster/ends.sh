#!/bin/sh
# However one rank ends, all of them end soon, with codes and messages that say why, and the same command then resumes and
# ends with the same weights. Every wait has a limit, and no process is left behind. CLUSTER_SOAK=yes: every event in every phase
# with every launcher, more random instants, and limits for a machine that does nothing else.
. "${0%/*}/cluster.sh"
find_mpis
need setpriv util-linux
make_tiny
make_quick
soak=${CLUSTER_SOAK:-no}
deadline=60
# How long the end may take, after the deadline where that decides: two seconds, and what launchers need to end a process
# that stands still. On a busy machine it is an alarm.
end_ms=$([ "$soak" = yes ] && echo 5000 || echo 30000)
hang_ms=90000       # it does not end
short=$([ "$simulated" = yes ] && echo 8 || echo 4)   # a deadline in which MPI_Init returns, and GPUs that are simulated plan
# Of address space: too little for a run. The libraries of CUDA alone take more than that of a run without them.
little_kb=$([ "$simulated" = no ] && ldd "$slow" | grep -q libcudart && echo 350000 || echo 120000)

# Each rank leaves its process and its phases in files. ENDS_FIRST="RANK COMMANDS": what one rank does first.
# ENDS_CODES=yes: its exit code is in a file, too, even if the launcher sends this script SIGTERM first.
cat >"$work/rank" <<'END'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK:-0}}}
# MPICH's launcher may have given the rank this file already.
case ${PMI_FD-} in
    9) PIPETRAIN_PHASES=8; exec 8>>"$ENDS_FILES/phases.$rank" ;;
    *) PIPETRAIN_PHASES=9; exec 9>>"$ENDS_FILES/phases.$rank" ;;
esac
export PIPETRAIN_PHASES
echo $$ >"$ENDS_FILES/pid.$rank"
case ${ENDS_FIRST-} in
    "$rank "*) eval "${ENDS_FIRST#* }" ;;
esac
[ "${ENDS_CODES-no}" = yes ] || exec "$@"
trap : TERM
setpriv --pdeathsig KILL "$@" &
while kill -0 $! 2>/dev/null; do
    wait $!
    code=$?
done
echo $code >"$ENDS_FILES/code.$rank"
END
await_codes 3 '$ENDS_FILES' >>"$work/rank"
echo 'exit $code' >>"$work/rank"
chmod +x "$work/rank"
ENDS_FILES=$work/ranks
export ENDS_FILES

# The program whose stages can be slow, beside its modules.
mkdir "$work/slow"
cp "$slow" "$work/slow/pipetrain"
cp "$build"/pipetrain-*.so "$work/slow"
program=$work/slow/pipetrain

# ---- a run in the background ----

# begin LAUNCHER OPTION...: three ranks, in $work/runs/at.
begin() {
    launcher=$1
    case $launcher in
        srun-*) launcher_words=$(srun_command "${launcher#srun-}" 3) ;;
        *) launcher_words=$(mpi_command "$launcher" 3) ;;
    esac
    shift
    rm -rf "$ENDS_FILES"
    mkdir "$ENDS_FILES"
    command_line="$launcher: $*"
    env --default-signal=INT $launcher_words "$work/rank" "$program" -c "$work/tiny.conf" --set run.dir="$work/runs/at" \
        --set train.batch=16 --set sync.deadline=$deadline ${served-} "$@" >"$work/out" 2>"$work/err" </dev/null &
    launcher_pid=$!
    acted_ms=$(now_ms)
}

now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

# Or hangs: its ranks have not ended in time, or it is still there half a minute after them.
launcher_has_ended() {
    { [ "$(ls "$ENDS_FILES" | grep -c '^pid')" -eq 3 ] && have_all_ended 2>/dev/null; } || ranks_ms=$(now_ms)
    has_ended $launcher_pid || [ $(($(now_ms) - acted_ms)) -gt $hang_ms ] || [ $(($(now_ms) - ranks_ms)) -gt 30000 ]
}

# Not before it is in that phase, unless the run ends.
has_entered() {
    grep -qx "$2" "$ENDS_FILES/phases.$1" 2>/dev/null || has_ended $launcher_pid
}

# send SIGNAL RANK: to one rank, or to the launcher.
send() {
    acted_ms=$(now_ms)
    case $2 in
        launcher) kill -s "$1" $launcher_pid ;;
        *) kill -s "$1" "$(cat "$ENDS_FILES/pid.$2")" ;;
    esac 2>/dev/null
}

have_all_ended() {
    for file in "$ENDS_FILES"/pid.*; do
        has_ended "$(cat "$file")" || return 1
    done
}

# The run ends at most that many milliseconds after the last signal; its launcher's code is left in $code.
end_within() {
    ranks_ms=$(now_ms)
    await launcher_has_ended
    if ! has_ended $launcher_pid; then
        if have_all_ended; then launcher_hangs=yes; fi
        fail "it did not end in $(($(now_ms) - acted_ms)) ms"
        kill -KILL $launcher_pid
    fi
    ended_ms=$(($(now_ms) - acted_ms))
    wait $launcher_pid 2>/dev/null
    code=$?
    [ $ended_ms -le "$1" ] || fail "the end took $ended_ms ms, more than $1"
    await have_all_ended
    have_all_ended || fail 'processes are left behind'
    for file in "$ENDS_FILES"/pid.*; do
        kill -KILL "$(cat "$file")" 2>/dev/null
    done
}

# once_more COMMAND...: that test. mpirun of Open MPI sometimes waits for a thread of its own after all its ranks have ended
# (PMIx_server_finalize): the test begins anew then, once, and failures before are not counted.
once_more() {
    launcher_hangs=no failures_before=$failures
    "$@"
    [ $launcher_hangs = yes ] || return 0
    echo "note: the launcher did not end after all ranks had; once more: $*"
    failures=$failures_before
    "$@"
}

# in_phase LAUNCHER RANK PHASE OPTION...: a run that the rank has come to that phase of, where it stays for a while.
in_phase() {
    launcher=$1 rank=$2 phase=$3
    shift 3
    rm -rf "$work/runs/at"
    unset PIPETRAIN_SLOW
    case $phase in
        evaluating) set -- --set "data.train=$work/data/train-00000-*" --set "data.validation=$work/data/train-*" \
            --set data.allow_overlap=yes "$@" ;;
        'first step' | training) export PIPETRAIN_SLOW='update 3000' ;;
        saving) export PIPETRAIN_SLOW='fsync 300000' ;;
    esac
    begin "$launcher" "$@"
    await has_entered "$rank" "$phase"
    command_line="$command_line, $phase, rank $rank"
}

# Whether a run comes to its end, or never.
length_of() {
    case $1 in
        saving | closing) echo '--set train.steps=3' ;;
        *) echo '--set train.epochs=100000' ;;
    esac
}

# ---- a rank dies, or stands still ----

# dies LAUNCHER RANK PHASE: srun asks the others to end, and then waits for them.
dies() {
    deadline=$short
    in_phase "$1" "$2" "$3" $(length_of "$3")
    send KILL "$2"
    end_within $((end_ms + deadline * 1000))
    [ $code -ne 0 ] || [ "$3" = closing ] || fail 'code 0 although a rank was killed'
    deadline=60
}

# stands_still LAUNCHER RANK PHASE: before MPI_Init has returned, nobody knows who it is.
stands_still() {
    deadline=$short
    in_phase "$1" "$2" "$3" $(length_of "$3")
    send STOP "$2"
    end_within $((end_ms + deadline * 1000))
    # Launchers count the rank that they have to kill.
    case $1,$code in
        *mpich,9 | *mpich,137 | srun-*,137 | *,70) ;;
        *) fail "exit code 70 expected of $1" ;;
    esac
    case $3 in
        start) expect_err "MPI_Init has not returned for $deadline s .sync.deadline.|rank . .*has been silent" ;;
        *) expect_err "rank $2 \([^ ]+\) has been silent for $deadline s \(sync\.deadline\); last heartbeat: " ;;
    esac
    deadline=60
}

# never_starts LAUNCHER RANK COMMAND: the rank does that instead of becoming pipetrain.
never_starts() {
    deadline=$short
    rm -rf "$work/runs/at"
    ENDS_FIRST="$2 $3"
    export ENDS_FIRST
    begin "$1"
    end_within $((end_ms + deadline * 1000))
    unset ENDS_FIRST
    command_line="$command_line, rank $2: $3"
    [ $code -ne 0 ] || fail 'code 0 although a rank never started'
    deadline=60
}

# ---- a rank fails ----

# expect_codes LAUNCHER FAILING CODE: the launcher ends with that code, as the failing rank does, and the others with 72; with
# MPICH, which ors them, all with the same.
expect_codes() {
    expect_code "$3" "$1, rank $2"
    for other in 0 1 2; do
        case $1,$other in
            *mpich,* | *,"$2") expected=$3 ;;
            *) expected=72 ;;
        esac
        expect_equal "$(cat "$ENDS_FILES/code.$other" 2>/dev/null)" $expected "code of rank $other with $1, rank $2 failing"
        [ $expected -ne 72 ] || [ "$ENDS_FILES/code.$2" -ot "$ENDS_FILES/code.$other" ] || fail "rank $2 fails, and ends after rank $other"
    done
}

expect_err_once() {
    expect_equal "$(grep -cE -- "$1" "$work/err")" 1 "times that stderr says: $1"
}

# with_codes LAUNCHER OPTION...: a run to its end, with the codes of ranks.
with_codes() {
    once_more with_codes_once "$@"
}

with_codes_once() {
    ENDS_CODES=yes
    export ENDS_CODES
    rm -rf "$work/runs/at"
    begin "$@"
    end_within $hang_ms
    unset ENDS_CODES
}

fails() {
    launcher=$1
    mkdir "$work/bad"
    cp -r "$work/data" "$work/bad/data"
    flip "$work/bad/data/train-00002-of-00004" 30000
    sed "s,$work/data/train,$work/bad/data/train," "$work/tiny.conf" >"$work/bad/tiny.conf"
    for failing in 0 1; do
        ENDS_FIRST="$failing program=\$1; shift 3; set -- \$program -c $work/bad/tiny.conf \"\$@\""
        export ENDS_FIRST
        with_codes "$launcher" --set train.epochs=50
        unset ENDS_FIRST
        expect_codes "$launcher" $failing 3
        expect_err_once 'payload checksum differs'
        [ $failing -eq 0 ] || expect_err "^pipetrain: rank $failing \([^ ]+\): .*train-00002-of-00004: record 33 .*payload checksum differs"
    done
    rm -rf "$work/bad"

    # No memory: Open MPI gets to the pipeline, MPICH not even through MPI_Init.
    ENDS_FIRST="1 ulimit -v $little_kb"
    export ENDS_FIRST
    with_codes "$launcher" --set train.epochs=50
    unset ENDS_FIRST
    [ $code -ne 0 ] || fail 'code 0 without memory'

    # The run directory is removed.
    in_phase "$launcher" 0 training --set train.epochs=100000
    rm -rf "$work/runs/at"
    acted_ms=$(now_ms)
    end_within $end_ms
    expect_code 5 'the run directory is removed'
    expect_err 'the run ends, because its directory was removed'

    # Numbers that are not finite.
    with_codes "$launcher" --set train.epochs=50 --set train.learning_rate=1e30 --set train.optimizer=sgd \
        --set report.interval=1000
    expect_code 73 'a loss that is not finite'
    expect_equal "$(cat "$ENDS_FILES"/code.* | tr '\n' ' ')" '73 73 73 ' "codes with $launcher"
    expect_err_once 'not finite: epoch 1, step .*: try a smaller learning rate'
}

# ---- ends that are none of a failure: as one process with as many towers ----

# same_as_one WHAT CODE OPTION...: code and results.
same_as_one() {
    same=$1 expected_code=$2
    shift 2
    rm -rf "$work/runs/one"
    run "$pipetrain" -c "$work/tiny.conf" --set run.dir="$work/runs/one" --set train.batch=16 --set devices.towers=3 "$@"
    expect_code "$expected_code" "one process: $same"
    with_codes "$launcher" "$@"
    expect_equal "$(cat "$ENDS_FILES"/code.* | tr '\n' ' ')" "$expected_code $expected_code $expected_code " \
        "codes: $same with $launcher"
    [ -e "$work/runs/one/summary.json" ] || return 0
    expect_same_file "$work/runs/one/weights.safetensors" "$work/runs/at/weights.safetensors" "$same with $launcher"
    for key in ended steps images; do
        expect_equal "$(summary at $key)" "$(summary one $key)" "$key: $same with $launcher"
    done
}

lanes='--set data.shuffle=block --set input.read_block=8KiB --set input.keep_shards=0 --set data.lanes'
ends_as_one() {
    launcher=$1
    same_as_one 'train.stop_at' 0 --set train.epochs=30 --set train.stop_at=0.5 --set train.optimizer=adam --set train.learning_rate=0.01
    same_as_one 'train.patience' 0 --set train.epochs=100 --set train.patience=1 --set checkpoint.keep_best=yes
    same_as_one overfit 74 --overfit=20 --set train.epochs=1
    same_as_one data.lanes 0 $lanes=6 --set train.epochs=30 --set train.stop_at=0.5 --set train.optimizer=adam --set train.learning_rate=0.01
    with_codes "$launcher" $lanes=4
    expect_code 2 "4 lanes of 3 ranks with $launcher"
    # The launcher may end a rank before it has started.
    expect_equal "$(cat "$ENDS_FILES"/code.* | sort -u)" 2 "codes: 4 lanes of 3 ranks with $launcher"
    expect_err_once 'data.lanes: 4 lanes cannot be shared equally by 3 ranks: set it to 6,'
    same_as_one --check 0 --check
    same_as_one --dry-run 0 --dry-run
    with_codes "$launcher" --set train.epochs=100000 --set 'train.max_time=1 second'
    expect_equal "$(cat "$ENDS_FILES"/code.* | tr '\n' ' ')" '0 0 0 ' "codes: train.max_time with $launcher"
    expect_equal "$(summary at ended)" max_time 'end of a run with max_time'
}

# ---- a rank is asked to end ----

steps=150
whole="--set train.steps=$steps --set train.epochs=100 --set checkpoint.every=20"

# The same run by one process, which nobody disturbs.
reference() {
    run "$pipetrain" -c "$work/tiny.conf" --set run.dir="$work/runs/whole" --set train.batch=16 \
        --set devices.towers=3 $whole
    expect_code 0 'one process with three towers'
}

# goes_on WHAT: the same command, as often as that needs, leaves the weights of that run.
goes_on() {
    unset PIPETRAIN_SLOW
    if [ $code -ne 0 ]; then
        begin "$launcher" $whole
        end_within $hang_ms
        expect_code 0 "the same command after: $1"
    fi
    cmp -s "$work/runs/whole/weights.safetensors" "$work/runs/at/weights.safetensors" || fail "other weights after: $1"
}

# is_asked LAUNCHER "SIGNAL RANK" PHASE: nothing is slow where it evaluates, so that run is endless.
is_asked() {
    length=$whole
    [ "$3" != evaluating ] || length=$(length_of evaluating)
    case $2 in
        *launcher) in_phase "$1" 0 "$3" $length ;;
        *) in_phase "$1" "${2#* }" "$3" $length ;;
    esac
    send ${2% *} "${2#* }"
    end_within $end_ms
    # MPICH's launcher sometimes ends with 0 after it passed on a signal, whatever its ranks ended with.
    case $1,$2,$code in
        *mpich,'USR1 launcher',0) [ "$3" = saving ] || code=75 ;;
    esac
    case $2,$3,$code in
        INT*,130 | TERM*,75 | USR1*,75) expect_err '(interrupted|asked to stop( by SIGUSR1)?): ' ;;
        *,saving,0) ;;
        *) fail "code $code after $2, $3" ;;
    esac
    [ "$3" = evaluating ] || goes_on "$2, $3"
}

# ---- at any instant ----

random() {
    awk -v seed="$1" -v below="$2" 'BEGIN { srand(seed); rand(); print int(rand() * below) }'
}

# at_any_instant SEED: of the start or of the steps.
at_any_instant() {
    seed=$1
    launcher=$(echo $launchers | cut -d ' ' -f $((seed % $(echo $launchers | wc -w) + 1)))
    rank=$(random "$seed" 3) event=$([ $((seed % 2)) -eq 0 ] && echo TERM || echo KILL)
    moment_ms=$(random "$seed$seed" 1000)
    unset PIPETRAIN_SLOW
    rm -rf "$work/runs/at"
    begin "$launcher" $whole
    await test -s "$ENDS_FILES/pid.$rank"
    sleep "$(printf '0.%03d' "$moment_ms")"
    send $event "$rank"
    end_within $((end_ms + deadline * 1000))
    goes_on "seed $seed: $event of rank $rank, $launcher, $moment_ms ms after its start"
}

# ---- all ----

# turn WORD...: all of them in the soak, else the next one.
turns=0
turn() {
    [ "$soak" = no ] || { echo "$@"; return; }
    shift $((turns % $#))
    echo "$1"
}

each_phase() {
    for phase_of in start indexing allocating 'first step' training evaluating saving closing; do
        turns=$((turns + 1))
        for rank_of in $(turn 0 1); do
            once_more dies "$1" "$rank_of" "$phase_of"
        done
        case $soak,$phase_of in
            yes,closing) continue ;;
            yes,* | no,training | no,saving) ;;
            *) continue ;;
        esac
        for rank_of in $(turn 0 1); do
            once_more stands_still "$1" "$rank_of" "$phase_of"
        done
    done
}

# The rank of the asynchronous server dies or stands still, or one that it serves; the same with ranks that own buckets.
served_ends() {
    for mode in async parameter_server; do
        turns=$((turns + 1))
        served="--set sync.mode=$mode"
        for rank_of in $(turn 0 1); do
            once_more dies "$1" "$rank_of" training
            once_more dies "$1" $((1 - rank_of)) evaluating
            once_more stands_still "$1" "$rank_of" training
        done
    done
    once_more is_asked "$1" 'TERM 1' training
    served=
}

each_request() {
    for phase_of in start indexing 'first step' training evaluating saving; do
        for request_of in TERM:1 USR1:0 INT:2 USR1:launcher TERM:0; do
            case $soak,$request_of,$phase_of in
                yes,*) ;;
                no,TERM:1,training | no,USR1:0,evaluating | no,INT:2,"first step" | no,USR1:launcher,indexing | no,TERM:0,saving) ;;
                *) continue ;;
            esac
            once_more is_asked "$1" "${request_of%:*} ${request_of#*:}" "$phase_of"
        done
    done
}

# seeds FIRST LAST LAUNCHERS
seeds() {
    launchers=$3
    for seed_of in $(seq "$1" "$2"); do
        once_more at_any_instant "$seed_of"
    done
}

reference
for mpi in $mpis; do
    each_phase "$mpi"
    served_ends "$mpi"
    once_more never_starts "$mpi" 1 'exit 3'
    once_more never_starts "$mpi" 0 'kill -KILL $$'
    each_request "$mpi"
    fails "$mpi"
    ends_as_one "$mpi"
done
seeds 1 "$([ "$soak" = yes ] && echo 100 || echo 18)" "$mpis"

# ---- srun ----

[ "$failures" -eq 0 ] || finish
need_slurm
slurm_start
sruns=
for mpi in $mpis; do
    sruns="$sruns srun-$mpi"
done
for event in dies stands_still never_starts is_asked; do
    turns=$((turns + 1))
    for srun_of in $(turn $sruns); do
        case $event in
            dies) once_more dies "$srun_of" 1 training ;;
            stands_still) once_more stands_still "$srun_of" 0 training ;;
            never_starts) once_more never_starts "$srun_of" 1 'exit 3' ;;
            is_asked) once_more is_asked "$srun_of" 'TERM 1' training ;;
        esac
    done
done
[ "$soak" = no ] || for srun_of in $sruns; do each_phase "$srun_of"; each_request "$srun_of"; done
seeds 101 "$([ "$soak" = yes ] && echo 150 || echo 102)" "$sruns"
finish
