# Shared by the tests of several processes, which source it: launchers of both MPIs, and a Slurm of the test's own, which
# ends with the test. They run one after the other (make check-cluster) and are no part of make check.

. "${0%/*}/../e2e/e2e.sh"

slurm_nodes=0
trap 'slurm_stop; rm -rf "$work"' EXIT

# need PROGRAM PACKAGE: skip the test without it.
need() {
    command -v "$1" >/dev/null 2>&1 || skip "no $1 here (Debian: $2)"
}

# ---- launchers ----

module() {
    echo "$build/pipetrain-$1.so"
}

# The mpirun of a library: mpirun.openmpi on Debian, mpirun where there is only one.
launcher_of() {
    for launcher in "mpirun.$1" mpirun; do
        case $1,$("$launcher" --version 2>/dev/null) in
            openmpi,*'Open MPI'* | openmpi,*OpenRTE* | mpich,*HYDRA*) echo "$launcher"; return ;;
        esac
    done
}

# The MPIs that pipetrain was built with and that have a launcher. Skips the test if there is none.
find_mpis() {
    mpis=
    for mpi in openmpi mpich; do
        [ ! -e "$(module $mpi)" ] || [ -z "$(launcher_of $mpi)" ] || mpis="$mpis $mpi"
    done
    [ -n "$mpis" ] || skip 'pipetrain was built without MPI, or there is no mpirun (Debian: libopenmpi-dev openmpi-bin, libmpich-dev mpich)'
}

# mpi_command MPI RANKS: the words that start a command on this host, whatever it has of cores. Ranks are bound to none.
mpi_command() {
    case $1 in
        openmpi) echo "$(launcher_of openmpi) --allow-run-as-root --oversubscribe --bind-to none -n $2" ;;
        mpich) echo "$(launcher_of mpich) -n $2" ;;
    esac
}

# mpi_run MPI RANKS COMMAND...
mpi_run() {
    launcher_words=$(mpi_command "$1" "$2")
    shift 2
    $launcher_words "$@"
}

# ---- Slurm ----

# Skip the test where there is no Slurm.
need_slurm() {
    PATH=$PATH:/usr/sbin:/sbin
    need slurmctld slurm-wlm
    need slurmd slurm-wlm
    need munged munge
    [ "$(id -u)" -eq 0 ] || skip 'Slurm is started as root'
}

# slurm_start [NODES]: a Slurm with so many nodes n1, n2, ... of 4 CPUs, all of them on this machine, and a munge of its own.
# srun starts tasks without PMIx and PMI2 unless it is told to, as Debian's does. There are two partitions: jobs in "high"
# preempt jobs in "low", the default, which have 20 s to end and are requeued when they exit with 75.
slurm_start() {
    slurm_nodes=${1:-1}
    slurm=$work/slurm
    port=$((20000 + $$ % 1000 * 10))
    host=$(hostname -s)
    mkdir -p "$slurm/munge" "$slurm/state"
    chmod 755 "$work"
    chmod 700 "$slurm/munge"
    head -c 1024 /dev/urandom >"$slurm/munge/key"
    chmod 400 "$slurm/munge/key"
    munged --force --key-file="$slurm/munge/key" --socket="$slurm/munge/socket" --pid-file="$slurm/munge.pid" \
        --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed" 2>"$work/err" || { fail 'munged does not start'; finish; }
    cat >"$slurm/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until its credential has expired.
AuthInfo=socket=$slurm/munge/socket,cred_expire=5
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool.%n
TmpFS=$slurm/tmp.%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.%n.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdTimeout=0
InactiveLimit=0
KillWait=5
CompleteWait=0
JobRequeue=1
RequeueExit=75
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-$slurm_nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + slurm_nodes))] CPUs=4 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=20
PartitionName=high Nodes=ALL State=UP PriorityTier=2 PreemptMode=OFF
END
    SLURM_CONF=$slurm/slurm.conf
    export SLURM_CONF
    srun --mpi=list 2>&1 | grep -q pmix || skip 'this Slurm has no PMIx (Debian: slurm-wlm-basic-plugins)'
    slurmctld -c >"$slurm/out" 2>&1
    for node in $(seq "$slurm_nodes"); do
        mkdir "$slurm/spool.n$node" "$slurm/tmp.n$node"
        slurmd -N "n$node" >>"$slurm/out" 2>&1
    done
    await slurm_is_up
    slurm_is_up || { cat "$slurm/out"; tail -n 5 "$slurm"/slurm*.log; fail 'Slurm does not start'; finish; }
}

slurm_is_up() {
    [ "$(sinfo -h -N -p low -t idle -o %N 2>/dev/null | wc -l)" -eq "$slurm_nodes" ]
}

slurm_stop() {
    [ "$slurm_nodes" -gt 0 ] || return 0
    slurm_nodes=0
    scancel -p low,high 2>/dev/null
    for file in "$slurm"/slurmd.*.pid "$slurm/slurmctld.pid" "$slurm/munge.pid"; do
        [ ! -s "$file" ] || end_daemon "$(cat "$file")"
    done
}

# The daemons write into $work until they have ended, which is removed then.
end_daemon() {
    kill "$1" 2>/dev/null
    await has_ended "$1"
    has_ended "$1" || kill -KILL "$1"
}

# Nobody may wait for a daemon.
has_ended() {
    case $(ps -o stat= -p "$1") in
        '' | Z*) return 0 ;;
    esac
    return 1
}

# pmi_of MPI: how srun starts tasks for it.
pmi_of() {
    case $1 in
        openmpi) echo pmix ;;
        mpich) echo pmi2 ;;
    esac
}

# srun_command MPI TASKS: the words that start a command as a step of so many tasks, which all end when one fails.
srun_command() {
    echo "srun --mpi=$(pmi_of "$1") --kill-on-bad-exit=1 -n $2"
}
