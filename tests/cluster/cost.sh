#!/bin/sh
# What a run on several machines costs: each of them the price, and the energy of each once, whichever of its ranks can read
# it. Two ranks are on this machine, and two, one of which may not read counters, on one of another name.
. "${0%/*}/cluster.sh"
find_mpis
unshare --uts true 2>/dev/null || skip 'hosts of another name need root (unshare --uts)'
make_tiny
step=1000000 range=65532610987

# pipetrain_slow reads other counters; the modules for MPI are beside the program.
mkdir "$work/bin" "$work/none"
cp "$slow" "$work/bin/pipetrain" && cp "$build"/pipetrain-*.so "$work/bin" || exit 99

# rank.sh HOST FOLDER SPENDS COMMAND... - a rank on that host, whose counters are in the folder; it makes them count if
# SPENDS is yes
cat >"$work/rank.sh" <<END
#!/bin/sh
hostname "\$1"
PIPETRAIN_ROOT=$work/\$2
PIPETRAIN_SPEND="$work/\$2/sys/class/powercap/intel-rapl:0/energy_uj $step $range"
export PIPETRAIN_ROOT
[ "\$3" = no ] || export PIPETRAIN_SPEND
shift 3
exec "\$@"
END
chmod +x "$work/rank.sh"

counter() {
    domain=$work/$1/sys/class/powercap/intel-rapl:0
    mkdir -p "$domain"
    echo package-0 >"$domain/name"
    echo $range >"$domain/max_energy_range_uj"
    printf '%020d\n' 0 >"$domain/energy_uj"
}

spent() {
    sed 's/^0*//' "$work/$1/sys/class/powercap/intel-rapl:0/energy_uj"
}

for mpi in $mpis; do
    counter a
    counter b
    words=
    for rank in "h1 a yes" "h1 a no" "h2 none no" "h2 b yes"; do
        words="$words${words:+ : }-n 1 unshare --uts $work/rank.sh $rank $work/bin/pipetrain -c $work/tiny.conf
               --set run.dir=$work/runs/$mpi --set report.price=\$2"
    done
    launcher_words=$(mpi_command "$mpi" 1)
    run ${launcher_words% -n 1} $words
    expect_code 0 "four ranks of $mpi on two machines"
    expect_out '^price     2\.00 \$ an hour of a machine, 4\.00 \$ of all 2$'
    expect_out '^energy    measured of 2 CPU packages, with what other programs use of them$'
    expect_out_joined 'cost .* \$ \([0-9.]+ s on 2 machines, 2\.00 \$ an hour each\): '
    expect_summary "$mpi" price.machines 2
    expect_summary "$mpi" cost.energy_complete true
    expect_near "$mpi" cost.machine_seconds "$(awk -v s="$(summary "$mpi" cost.seconds)" 'BEGIN { print 2 * s }')" 1e-5
    expect_near "$mpi" cost.money "$(awk -v s="$(summary "$mpi" cost.seconds)" 'BEGIN { print 4 * s / 3600 }')" 1e-5
    [ "$(spent b)" -gt 0 ] || fail "$mpi: the other machine has counted nothing"
    expect_near "$mpi" cost.joules "$(awk -v uj=$(($(spent a) + $(spent b))) 'BEGIN { print uj / 1e6 }')" 1e-9
done
finish
