#!/bin/sh
# What is wrong at the start of a run of several ranks ends all of them with one exit code, and is printed once: with the
# ranks that have it, their hosts, and where ranks differ the values of both.
. "${0%/*}/cluster.sh"
find_mpis
make_tiny
make_quick
host=$(hostname)
ranks=3

# The program as the ranks in $ON call it: $OTHER instead of it, and with the words in $MORE. Notes its exit code.
cat >"$work/rank" <<END
#!/bin/sh
trap : TERM
rank=\${OMPI_COMM_WORLD_RANK-\$PMI_RANK}
program='$pipetrain'
case " \${ON-} " in *" \$rank "*) program=\${OTHER:-\$program} ;; *) MORE= ;; esac
"\$program" "\$@" \${MORE-}
code=\$?
echo \$code >"$work/code.\$rank"
$(await_codes $ranks "$work")
exit \$code
END
chmod +x "$work/rank"

# on RANKS MORE COMMAND...: with these words more on those ranks.
on() {
    ON=$1 MORE=$2
    export ON MORE
    shift 2
    "$@"
    unset ON MORE
}

start() {
    start_once "$@"
    if [ $code -eq 124 ] && [ "$(ls "$work" | grep -c '^code\.')" -eq $ranks ]; then
        echo "note: the launcher of $mpi did not end after all ranks had; once more: $command_line"
        start_once "$@"
    fi
}

start_once() {
    rm -rf "$work"/code.* "$work/runs"
    run timeout -k 5 60 $(mpi_command $mpi $ranks) "$work/rank" "$@"
}

started() {
    start -c "$work/tiny.conf" --set run.dir="$work/runs/one" "$@"
}

# all_end CODE WHAT
all_end() {
    for rank in $(seq 0 $((ranks - 1))); do
        expect_equal "$(cat "$work/code.$rank" 2>/dev/null)" "$1" "exit code of rank $rank of $mpi: $2"
    done
    expect_code "$1" "$mpi: $2"
}

# said_once PATTERN...: each by one line of stderr.
said_once() {
    for pattern in "$@"; do
        expect_equal "$(grep -Ec -- "$pattern" "$work/err")" 1 "lines of stderr with $pattern"
    done
}

# refused CODE PATTERN...: by all ranks; nothing is printed on stdout or written.
refused() {
    refused_code=$1
    shift
    all_end "$refused_code" "$1"
    said_once "$@"
    [ ! -s "$work/out" ] || fail "a refused start prints on stdout: $1"
    [ ! -e "$work/runs" ] || fail "a refused start writes results: $1"
}

# The version as this program names it, replaced in another one.
other_version() {
    mkdir -p "$work/other"
    version=$("$pipetrain" --version | sed 's/pipetrain //')
    sed "s/$(echo "$version" | sed 's/\./\\./g')/$(echo "$version" | tr 0-9 9)/g" "$pipetrain" >"$work/other/pipetrain"
    cp "$build"/pipetrain-*.so "$work/other"
    chmod +x "$work/other/pipetrain"
}

# On a CPU with fewer instructions.
printf '#!/bin/sh\nDNNL_MAX_CPU_ISA=SSE41 exec "%s" "$@"\n' "$pipetrain" >"$work/older_cpu"
chmod +x "$work/older_cpu"

# As the training data: the same names and sizes but other records; and a shard less.
mkdir "$work/data-other" "$work/data-less"
set -- "$work"/data/train-*
cp "$@" "$work/data-other"
cp "$1" "$work/data-other/${2##*/}"
cp "$2" "$work/data-other/${1##*/}"
cp "$work"/data/train-* "$work/data-less"
rm "$work"/data-less/train-*2-of-*
sed 's/filters 6/filters 8/' "$work/quick.net" >"$work/other.net"
echo text >"$work/file"
other_version

for mpi in $mpis; do
    # ---- what all ranks find ----
    started --set train.batchx=3
    refused 2 "^--set train\.batchx: unknown key 'batchx'"
    started --set train.epochs=0
    refused 2 '^--set train\.epochs: '
    start --chekc
    refused 2 "there is no option '--chekc'"
    started --set sync.mode=async --set train.ema=0.9
    refused 2 '^--set sync\.mode: train\.ema needs the same weights on all towers'
    started --set devices.towers=257
    refused 2 '^--set devices\.towers: '
    started --set data.train="$work/nowhere"
    refused 3 "train: $work/nowhere: No such file"
    started --set run.dir="$work/file/run"
    refused 5 "run directory $work/file/run"
    for words in evaluate 'predict -w x y' --doctor '-c x --tune' '-c x --compare towers=1,2'; do
        start $words
        case $words in evaluate) start evaluate -c "$work/tiny.conf" ;; esac
        all_end 2 "$words"
        said_once 'is the work of one process, and mpirun of .* started 3: start the same command without'
    done

    # ---- what one rank finds ----
    on 1 '--set train.batchx=3' started
    refused 2 "^rank 1 \\($host\\): --set train\.batchx: unknown key 'batchx'"
    on 2 "--set data.train=$work/nowhere" started
    refused 3 "^rank 2 \\($host\\): .*train: $work/nowhere: No such file"
    on '1 2' "--set model.file=$work/nowhere" started
    refused 2 "^ranks 1-2 \\($host\\): .*$work/nowhere"

    # ---- differences ----
    on 1 '--set train.batch=32' started
    refused 2 "^pipetrain: train\.batch is 64 on rank 0 \\($host\\), but 32 on rank 1 \\($host\\): all ranks need the same"
    on '1 2' '--set run.seed=3 --set model.freeze=conv*' started
    refused 2 "run\.seed is 1 on rank 0 \\($host\\), but 3 on rank 1 \\($host\\)" \
        "model\.freeze is not set on rank 0 \\($host\\), but conv\\* on rank 1"
    on 2 --check started
    refused 2 'command is train on rank 0 .*, but --check on rank 2'
    on 1 "--set model.file=$work/other.net" started
    refused 2 'hash of model\.file is [0-9a-f]* on rank 0 .*, but [0-9a-f]* on rank 1'
    on 1 "--set data.train=$work/data-other/train-*" started
    expect_code 3 "$mpi: another set of the same size"
    said_once "^pipetrain: rank 1 \\($host\\): .*data-other/train-.* is another file than the one that rank 0 describes"
    on 1 "--set data.train=$work/data-less/train-*" started
    refused 3 "^rank 1 \\($host\\): train: found only 3 of the 4 shards" \
        "rank 1 \\($host\\): .*has 3 shards here, and 4 in rank 0, whose first that is not here is train-00002-of-00004"
    OTHER=$work/other/pipetrain
    export OTHER
    on 2 '' started
    unset OTHER
    refused 2 "version of pipetrain is $version on rank 0 .*, but 9[0-9.]* on rank 2"
    OTHER=$work/older_cpu
    export OTHER
    on 1 '' started
    unset OTHER
    refused 2 'instruction set \(DNNL_MAX_CPU_ISA can lower it\) is [-A-Z0-9]* on rank 0 .*, but SSE4\.1 on rank 1'

    # ---- a run that starts ----
    cp -r "$work/data" "$work/data-copy"
    on 1 "--set data.train=$work/data-copy/train-*" started --set report.trace_steps=1..2
    all_end 0 'the data at another place'
    said_once 'report\.trace_steps = 1\.\.2 has no effect'
    expect_err_lines 1
    expect_equal "$(grep -c '^result ' "$work/out")" 1 'results that are printed'
    rm -rf "$work/data-copy"
    started --check
    all_end 0 --check
    expect_equal "$(grep -c '^checked ' "$work/out")" 1 'lines of --check'
done
finish
