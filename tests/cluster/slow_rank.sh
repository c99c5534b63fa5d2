#!/bin/sh
# A rank for which the others wait is named, with what makes it slow; the trace has the exchanges.
. "${0%/*}/cluster.sh"
find_mpis
make_tiny

# The program whose stages can be slow, beside its modules. slow RANK COMMAND...: they are slow in that rank only.
mkdir "$work/bin"
cp "$slow" "$work/bin/pipetrain" && cp "$build"/pipetrain-*.so "$work/bin" || exit 99
cat >"$work/slow" <<'END'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = "$1" ] || unset PIPETRAIN_SLOW
shift
exec "$@"
END
chmod +x "$work/slow"

# check MPI RANK STAGE REASON
check() {
    name=$1-$2
    PIPETRAIN_SLOW=$3
    export PIPETRAIN_SLOW
    run mpi_run "$1" 2 "$work/slow" "$2" "$work/bin/pipetrain" -c "$work/tiny.conf" --set train.epochs=8 \
        --set "run.dir=$work/runs/$name" --set "report.prometheus=$work/$name.prom" --set "report.trace=$work/$name.json"
    unset PIPETRAIN_SLOW
    expect_code 0 "two ranks of $1, of which rank $2 is slow"
    expect_out_joined "verdict .*; rank $2 \(.*\) was last in [0-9]+ % of the sums, [0-9.]+ ms behind the median of the others: $4"
    expect_summary "$name" last_rank.rank "$2"
    expect_summary "$name" last_rank.slow true
    "$build/tests/e2e/trace/trace_check" "$work/$name.json" >"$work/seen" 2>&1 || fail "$name: the trace: $(cat "$work/seen")"
    for span in reduce-scatter all-gather; do
        grep -q "\"ph\":\"X\".*\"name\":\"$span\".*\"bucket\":0" "$work/$name.json" || fail "$name: a span '$span' is expected"
    done
    grep -q "^pipetrain_rank_last{.*} $2\$" "$work/$name.prom" || fail "$name: the file for Prometheus has another rank"
}

# Of equal ranks none is named.
check_equal() {
    run mpi_run "$1" 2 "$pipetrain" -c "$work/tiny.conf" --set train.epochs=8 --set "run.dir=$work/runs/$1-equal"
    expect_code 0 "two equal ranks of $1"
    ! tr -s '\n ' '  ' <"$work/out" | grep -q 'was last in' || fail "$1: one of two equal ranks is named: $(cat "$work/out")"
    expect_summary "$1-equal" last_rank.slow false
}

for mpi in $mpis; do
    check "$mpi" 1 'forward 30000' 'look for other programs'
    check_equal "$mpi"
done
check "$mpi" 0 'decode 10000' 'it waited for input'
finish
