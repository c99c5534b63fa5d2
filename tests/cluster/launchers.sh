#!/bin/sh
# mpirun and srun with the MPI that fits start one run of all ranks. With any other, every process ends with code 2 as soon
# as it was started, and says which command works.
. "${0%/*}/cluster.sh"
find_mpis
make_tiny
make_quick
printf "[run]\ndir = %s\n" "$work/runs/check" >>"$work/tiny.conf"

# The program in folders of its own, with the modules of a list of "MODULE" or "MODULE:NAME OF THE FILE".
program_with() {
    folder=$work/with
    for module in "$@"; do
        folder=$folder-$(echo "$module" | tr : -)
    done
    if [ ! -d "$folder" ]; then
        mkdir "$folder"
        cp "$pipetrain" "$folder/pipetrain"
        for module in "$@"; do
            cp "$(module "${module%:*}")" "$folder/pipetrain-${module#*:}.so"
        done
    fi
    echo "$folder/pipetrain"
}

# starts RANKS COMMAND...: a check of the configuration, as one run of so many ranks; 1: without MPI.
starts() {
    ranks=$1
    shift
    run "$@" -c "$work/tiny.conf" --check
    expect_code 0 "$*"
    expect_out '^checked '
    expect_equal "$(sed -n 's/^ranks *\([0-9]*\) on .*/\1/p' "$work/out")" "$([ "$ranks" -eq 1 ] || echo "$ranks")" "ranks of $*"
}

# A command, and how long it took, in a file of each process, unless the launcher kills it first.
cat >"$work/timed" <<END
#!/bin/sh
trap : TERM
begun=\$(date +%s%N)
"\$@"
code=\$?
echo \$(((\$(date +%s%N) - begun) / 1000000)) >"$work/took.\$\$"
exit \$code
END
chmod +x "$work/timed"

# refused WORDS PROGRAM LAUNCHER...: by every process, within two seconds, and printed once.
refused() {
    refused_somewhere "$@"
    expect_equal "$(grep -Ec "$words" "$work/err")" 1 "lines of stderr with $words"
}

# The same, printed by one process or more: where variables contradict each other, and where ranks differ.
refused_somewhere() {
    words=$1 program=$2
    shift 2
    rm -f "$work"/took.*
    run "$@" "$work/timed" "$program" -c "$work/tiny.conf" --check
    expect_code 2 "$* $program"
    expect_err "$words"
    took=$(cat "$work"/took.* 2>/dev/null | sort -n | tail -n 1)
    [ "${took:-9999}" -le 2000 ] || fail "refused after ${took:-?} ms: $* $program"
}

name_of() {
    case $1 in
        openmpi) echo 'Open MPI' ;;
        mpich) echo MPICH ;;
    esac
}

# ---- mpirun ----

for mpi in $mpis; do
    starts 1 mpi_run "$mpi" 1 "$pipetrain"
    starts 2 mpi_run "$mpi" 2 "$pipetrain"
    starts 3 mpi_run "$mpi" 3 "$(program_with "$mpi")"
    missing="mpirun of $(name_of "$mpi") started 2 processes, but pipetrain was built without $(name_of "$mpi").*lib$mpi-dev"
    refused "$missing" "$(program_with)" mpi_run "$mpi" 2
    for other in $mpis; do
        [ "$other" != "$mpi" ] || continue
        refused "$missing.*or use mpirun of $(name_of "$other")" "$(program_with "$other")" mpi_run "$mpi" 2
        # A library that does not know this launcher believes to be alone.
        refused_somewhere "mpirun of $(name_of "$mpi") started rank . of 2, but for the library it is rank 0 of 1" \
            "$(program_with "$other:$mpi")" mpi_run "$mpi" 2
    done
    refused_somewhere 'mpirun of Open MPI .OMPI_COMM_WORLD_SIZE. and of MPICH .MPI_LOCALNRANKS. are set' "$pipetrain" \
        mpi_run "$mpi" 2 env OMPI_COMM_WORLD_SIZE=2 MPI_LOCALNRANKS=2 PMI_RANK=0
    refused 'torchrun started 2 processes' "$pipetrain" mpi_run "$mpi" 2 env TORCHELASTIC_RUN_ID=x WORLD_SIZE=2
done
refused 'torchrun started 4 processes.*mpirun -n 4 ./pipetrain .*--set devices.towers=4' \
    "$pipetrain" env TORCHELASTIC_RUN_ID=x WORLD_SIZE=4 RANK=0
refused 'a launcher started 4 processes .MV2_COMM_WORLD_SIZE' "$pipetrain" env MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_RANK=0

# ---- what one rank alone is refused for ----

# Rank 1 runs another program, or with words before it; rank 0 waits for it in MPI_Init.
cat >"$work/odd" <<END
#!/bin/sh
case \${OMPI_COMM_WORLD_RANK-\${PMI_RANK-\$SLURM_PROCID}} in
    1) exec \$ODD "\$@" ;;
    *) exec '$pipetrain' "\$@" ;;
esac
END
chmod +x "$work/odd"

# odd_refused WORDS COMMAND LAUNCHER...: rank 1, by COMMAND in place of the program. All end with its code, and once is said why.
odd_refused() {
    words=$1 ODD=$2
    export ODD
    shift 2
    run timeout 60 "$@" "$work/odd" -c "$work/tiny.conf" --set sync.deadline=50 --check
    unset ODD
    expect_code 2 "$*: rank 1: $words"
    expect_equal "$(grep -Ec "^pipetrain: rank 1 \\($(hostname)\\): .*$words" "$work/err")" 1 "lines of stderr with $words"
    expect_equal "$(grep -c ^pipetrain: "$work/err")" 1 'messages of a refusal of rank 1'
}

echo text >"$work/no-module"
mkdir "$work/unloadable"
cp "$pipetrain" "$work/unloadable/pipetrain"
for mpi in openmpi mpich; do
    cp "$work/no-module" "$work/unloadable/pipetrain-$mpi.so"
done

odd_refused_all() {
    odd_refused 'started 2 processes, but pipetrain was built without' "$(program_with)" "$@"
    odd_refused 'cannot load the module' "$work/unloadable/pipetrain" "$@"
    odd_refused '(LOCAL_?RANK(ID)?|LOCALID) is "77"' "env OMPI_COMM_WORLD_LOCAL_RANK=77 MPI_LOCALRANKID=77 SLURM_LOCALID=77 $pipetrain" "$@"
}

for mpi in $mpis; do
    odd_refused_all $(mpi_command "$mpi" 2)
    # All have a word to say.
    run timeout 60 env ODD="$(program_with)" $(mpi_command "$mpi" 2) "$work/odd" -c "$work/tiny.conf" --set train.batchx=3
    expect_code 2 "two ranks that are refused, $mpi"
    expect_err '^pipetrain: rank 1 .*was built without'
    expect_err "unknown key 'batchx'"
done

# Without /proc the modules are found by the path of the command. The MPI may need it, too.
if unshare --mount mount -t tmpfs none /proc 2>/dev/null; then
    run mpi_run "$mpi" 2 unshare --mount sh -c 'mount -t tmpfs none /proc; exec "$@"' sh "$(program_with "$mpi")" -c "$work/tiny.conf" --check
    ! grep -q 'built without' "$work/err" || fail 'modules are not found without /proc'
fi

# A run without a launcher maps no MPI library, even where mpirun started it alone.
for words in '' "mpi_run ${mpis##* } 1"; do
    run $words env LD_DEBUG=files "$pipetrain" -c "$work/tiny.conf" --check
    expect_code 0 'a check with its libraries listed'
    expect_err 'file=libc\.so'
    ! grep -qE 'file=[^ ]*(libmpi|pipetrain-)' "$work/err" || fail 'a run of one process maps MPI'
done

# ---- srun ----

[ "$failures" -eq 0 ] || finish
need_slurm
slurm_start
starts 1 srun -n 1 "$pipetrain"
starts 1 srun -n 2 env -u SLURM_STEP_NUM_TASKS "$pipetrain"
refused 'srun started 2 tasks with neither PMIx nor PMI2.*srun --mpi=pmix.*srun env -u SLURM_STEP_NUM_TASKS' \
    "$pipetrain" srun -n 2
for mpi in $mpis; do
    pmi=$(pmi_of "$mpi")
    starts 2 $(srun_command "$mpi" 2) "$pipetrain"
    starts 1 $(srun_command "$mpi" 1) "$pipetrain"
    starts 1 $(srun_command "$mpi" 2) env -u SLURM_STEP_NUM_TASKS "$pipetrain"
    missing="srun --mpi=$pmi started 2 processes, but pipetrain was built without $(name_of "$mpi").*lib$mpi-dev"
    refused "$missing" "$(program_with)" $(srun_command "$mpi" 2)
    for other in $mpis; do
        [ "$other" = "$mpi" ] || refused "$missing.*or use srun --mpi=$(pmi_of "$other")" \
            "$(program_with "$other")" $(srun_command "$mpi" 2)
    done
    # MPICH under PMIx is rank 0 of 1 in every process.
    case $mpi,$mpis in
        openmpi,*mpich*) refused_somewhere 'srun started rank . of 2, but for Open MPI it is rank 0 of 1.*use mpirun -n 2 ./pipetrain' \
            "$(program_with mpich:openmpi)" $(srun_command openmpi 2) ;;
    esac
    odd_refused_all $(srun_command "$mpi" 2)
    odd_refused_all srun --mpi="$pmi" -n 2
    # The script of a job is one process, in which mpirun starts as many as it likes.
    starts 3 salloc -Q -n 2 $(mpi_command "$mpi" 3) "$pipetrain"
done
starts 1 salloc -Q -n 2 "$pipetrain"
finish
