# Shared by the tests of several processes, which source it: launchers of both MPIs, a Slurm of the test's own, and hosts
# that are network namespaces. Everything that is started or set up here ends with the test. They run one after the other
# (make check-cluster) and are no part of make check.

. "${0%/*}/../e2e/e2e.sh"

# With simulated GPUs the program is beside its modules, too. Its stages can be slow.
if [ "$simulated" = yes ]; then
    mkdir "$work/program"
    cp "$pipetrain" "$work/program/pipetrain"
    cp "$build"/pipetrain-*.so "$work/program" 2>/dev/null
    pipetrain=$work/program/pipetrain
    slow=$pipetrain
fi

slurm_nodes=0 hosts=0
trap 'slurm_stop; hosts_down; rm -rf "$work"' EXIT

# The values of sync.reduce by which ranks on GPUs leave the bits of one process.
gpu_reductions='host ipc'

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

# await_codes RANKS FOLDER, for the shell of a rank that has written its exit code to FOLDER/code.RANK: until all have, or for
# some seconds. The first process that ends with a failure has launchers kill the others, and by its code they end; so one
# that failed because of another one ends last.
await_codes() {
    cat <<END
polls=0
until [ "\$(ls "$2" | grep -c '^code\.')" -eq $1 ] || [ \$polls -eq 100 ]; do
    sleep 0.05
    polls=\$((polls + 1))
done
[ \$code -ne 72 ] || sleep 0.5
END
}

# make_rank_1: "$work/rank" COMMAND runs the command, in rank 1 with the variable in FIRST_1 ("NAME=VALUE") in its
# environment.
make_rank_1() {
    cat >"$work/rank" <<'END'
#!/bin/sh
case ${OMPI_COMM_WORLD_RANK-$PMI_RANK} in
    1) exec env "${FIRST_1-NOTHING=}" "$@" ;;
    *) exec "$@" ;;
esac
END
    chmod +x "$work/rank"
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

# slurm_start [NODES]: a Slurm with so many nodes n1, n2, ... of 8 CPUs, all of them on this machine, and a munge of its own.
# srun starts tasks without PMIx and PMI2 unless it is told to, as Debian's does. There are two partitions: jobs in "high"
# preempt jobs in "low", the default, which have 20 s to end and are requeued when they exit with 75.
slurm_start() {
    slurm_nodes=${1:-1}
    slurm=$work/slurm
    slurm_port=$((20000 + $$ % 1000 * 10))
    mkdir -p "$slurm/munge" "$slurm/state"
    chmod 755 "$work"
    chmod 700 "$slurm/munge"
    head -c 1024 /dev/urandom >"$slurm/munge/key"
    chmod 400 "$slurm/munge/key"
    munged --force --key-file="$slurm/munge/key" --socket="$slurm/munge/socket" --pid-file="$slurm/munge.pid" \
        --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed" 2>"$work/err" || { fail 'munged does not start'; finish; }
    cat >"$slurm/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$slurm_port
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
# Open MPI names shared memory by host and job: jobs of two such Slurms on this machine need other numbers.
FirstJobId=$(($$ % 600000 * 100 + 1))
RequeueExit=75
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-$slurm_nodes] NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=[$((slurm_port + 1))-$((slurm_port + slurm_nodes))] CPUs=8 State=UNKNOWN
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
    scancel --full --signal=KILL --user=root 2>/dev/null
    scancel --user=root 2>/dev/null
    await has_no_jobs
    for file in "$slurm"/slurmd.*.pid "$slurm/slurmctld.pid" "$slurm/munge.pid"; do
        [ ! -s "$file" ] || end_daemon "$(cat "$file")"
    done
}

# Processes of jobs do not end with the daemons.
has_no_jobs() {
    [ -z "$(squeue -h 2>/dev/null)" ]
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

# ---- hosts ----

# Skip the test where no network namespaces can be made.
need_hosts() {
    need ip iproute2
    need tc iproute2
    [ "$(id -u)" -eq 0 ] && unshare --net true 2>/dev/null || skip 'network namespaces are made by root'
}

# hosts_up COUNT [RATE]: hosts h1, h2, ... with the addresses 10.77.0.1, ..., on a switch. RATE, such as 1gbit, is the most
# that each of them sends. Processes of a host see no others. "$work/on_host" NUMBER COMMAND... is a command there.
hosts_up() {
    hosts=$1
    ip netns add "pt$$-switch"
    ip -n "pt$$-switch" link add switch type bridge
    ip -n "pt$$-switch" link set switch up
    echo '127.0.0.1 localhost' >"$work/hosts"
    for host in $(seq "$hosts"); do
        host_up "$host" "${2-}"
    done
    cat >"$work/on_host" <<END
#!/bin/sh
host=h\$1
shift
exec ip netns exec "pt$$-\$host" unshare --uts --pid --fork --mount-proc sh -c 'hostname "\$0"; mount --bind "$work/hosts" /etc/hosts; exec "\$@"' "\$host" "\$@"
END
    # In place of ssh: mpirun calls it with the host and the words of a command of the shell.
    cat >"$work/agent" <<END
#!/bin/sh
while :; do
    case \$1 in
        -o | -p | -l) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
host=\${1#h}
shift
exec "$work/on_host" "\$host" sh -c "\$*"
END
    chmod +x "$work/on_host" "$work/agent"
}

# host_up NUMBER RATE
host_up() {
    echo "10.77.0.$1 h$1" >>"$work/hosts"
    ip netns add "pt$$-h$1"
    ip -n "pt$$-switch" link add "h$1" type veth peer name eth0 netns "pt$$-h$1"
    ip -n "pt$$-switch" link set "h$1" master switch up
    ip -n "pt$$-h$1" addr add "10.77.0.$1/24" dev eth0
    ip -n "pt$$-h$1" link set lo up
    ip -n "pt$$-h$1" link set eth0 up
    [ -z "$2" ] || ip netns exec "pt$$-h$1" tc qdisc add dev eth0 root tbf rate "$2" burst 256kb latency 100ms
}

# host_unplug NUMBER: the link of a host fails.
host_unplug() {
    ip -n "pt$$-switch" link set "h$1" down
}

hosts_down() {
    [ "$hosts" -gt 0 ] || return 0
    hosts=0
    for space in $(ip netns list | sed -n "s/^\(pt$$-[^ ]*\).*/\1/p"); do
        for process in $(ip netns pids "$space"); do
            kill -KILL "$process" 2>/dev/null
        done
        ip netns del "$space"
    done
}

# hosts_command MPI RANKS [EACH]: the words that start a command as ranks on all hosts in turn, or EACH neighbouring ranks on
# each host, by the mpirun of the first. All hosts have the memory of this machine, past whose network no rank may go.
hosts_command() {
    case $1 in
        openmpi)
            echo "$work/on_host 1 $(mpi_command openmpi "$2") --map-by ${3:+ppr:$3:}node --mca plm_rsh_agent $work/agent" \
                "--mca btl tcp,self --host $(seq -f "h%g:$2" -s , "$hosts")" ;;
        mpich)
            echo "$work/on_host 1 env UCX_TLS=tcp,self $(mpi_command mpich "$2") -launcher ssh -launcher-exec $work/agent" \
                "-ppn ${3:-1} -hosts $(seq -f h%g -s , "$hosts")" ;;
    esac
}
