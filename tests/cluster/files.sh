#!/bin/sh
# The files that ranks open: the run directory is that of rank 0 alone, also to resume; before the first step rank 0 opens
# the shards, and the others none; and a host that sees other shards ends the run, which says so.
. "${0%/*}/cluster.sh"
find_mpis
make_tiny
make_quick
host=$(hostname)

# Each rank in a directory of its own, so that a relative path is another file in each.
cat >"$work/apart" <<END
#!/bin/sh
rank=\${OMPI_COMM_WORLD_RANK-\$PMI_RANK}
mkdir -p "$work/\$rank"
cd "$work/\$rank" || exit 99
exec "\$@"
END
chmod +x "$work/apart"

for mpi in $mpis; do
    rm -rf "$work/0" "$work/1"
    train "whole-$mpi" --set devices.towers=2 --set train.steps=10
    run $(mpi_command $mpi 2) "$work/apart" "$pipetrain" -c "$work/tiny.conf" --set run.dir=run --set train.steps=6 \
        --set checkpoint.every='3 steps'
    expect_code 0 "a run by ranks of $mpi in directories of their own"
    run $(mpi_command $mpi 2) "$work/apart" "$pipetrain" -c "$work/tiny.conf" --set run.dir=run --set train.steps=10
    expect_code 0 "ranks of $mpi that do not see the checkpoint"
    expect_out 'resume    at step 6 of 10'
    expect_equal "$(ls -A "$work/1")" '' 'files of another rank'
    expect_same_file "$work/runs/whole-$mpi/weights.safetensors" "$work/0/run/weights.safetensors" 'weights after the resumption'
done

# ---- shards ----

run "$convert" digits --train 640 --validation 64 --shards=64 -o "$work/many"
expect_code 0 'a set of 64 shards'

# Each rank's calls of open by main, up to the first step; those by readers are of other threads.
cat >"$work/traced" <<END
#!/bin/sh
rank=\${OMPI_COMM_WORLD_RANK-\$PMI_RANK}
exec strace -f -qq -e trace=open,openat -o "$work/trace.\$rank" "\$@"
END
chmod +x "$work/traced"

# opened RANK PATTERN: how often main of that rank opened such files of the set.
opened() {
    awk -v pattern="$2" 'NR == 1 { main = $1 } $1 == main && $0 ~ "many/" pattern { n++ } END { print n + 0 }' "$work/trace.$1"
}

# start_traced MPI WHAT LIMIT: a run of 4 ranks opens at most so many files of the set.
start_traced() {
    rm -rf "$work/runs" "$work"/trace.*
    run $(mpi_command "$1" 4) "$work/traced" "$pipetrain" -c "$work/tiny.conf" --set run.dir="$work/runs/traced" \
        --set "data.train=$work/many/train-*" --set "data.validation=$work/many/validation-*" --set train.steps=2
    expect_code 0 "$2"
    total=0
    for rank in 0 1 2 3; do
        total=$((total + $(opened $rank '[.]?(train|validation)-') + $(opened $rank catalog)))
        [ $rank -eq 0 ] || expect_equal "$(opened $rank '[.]?(train|validation)-')" 0 "shards that rank $rank opens: $2"
    done
    [ $total -le "$3" ] || fail "$total files of the set were opened, $2"
}

if command -v strace >/dev/null && strace -qq true 2>/dev/null; then
    for mpi in $mpis; do
        rm -f "$work/many"/.*.pipetrain-index "$work/many/catalog.pipetrain"
        train indexed --set "data.train=$work/many/train-*" --set "data.validation=$work/many/validation-*" --set train.steps=2
        start_traced "$mpi" 'with index files' $((2 * 65 + 1))
        run "$build/pipetrain-shards" catalog "$work/many"
        expect_code 0 'a catalog'
        start_traced "$mpi" 'with a catalog' $((65 + 1))
    done
else
    echo 'no strace here: opens are not counted'
fi

# ---- a host with other shards ----

# 32 records of the same length, without the first of 33.
"$shard_maker" "$work/longer" 33 28
"$shard_maker" "$work/right" 32 28
bytes=$(($(wc -c <"$work/right") / 32))
tail -c "+$((bytes + 1))" "$work/longer" >"$work/shifted"

# seen_by_1 FILE NAME: the ranks have sets of their own, of the same shards but this one in rank 1.
seen_by_1() {
    for rank in 0 1; do
        rm -rf "$work/$rank"
        mkdir -p "$work/$rank/set"
        for i in 0 1 2 3; do
            cp "$work/right" "$work/$rank/set/train-$i.tfrecord"
        done
    done
    cp "$1" "$work/1/set/train-$2.tfrecord"
}

# refused_apart MPI MESSAGE
refused_apart() {
    run $(mpi_command "$1" 2) "$work/apart" "$pipetrain" -c "$work/tiny.conf" --set run.dir=run --set data.train=set \
        --set data.validation= --set train.epochs=2
    expect_code 3 "another shard in rank 1 of $1"
    expect_err "$2"
}

for mpi in $mpis; do
    seen_by_1 "$work/longer" 2
    refused_apart "$mpi" "rank 1 .$host.*train-2.tfrecord: is $((33 * bytes)) bytes long, rank 0 says $((32 * bytes))"
    seen_by_1 "$work/shifted" 2
    refused_apart "$mpi" "rank 1 .$host.*train-2.tfrecord.* is another file than the one that rank 0 describes"
done

# Only a part of the set was copied to a host: it is not taken for damage, also where that is skipped.
for rank in 0 1; do
    rm -rf "$work/$rank/set"
    cp -r "$work/many" "$work/$rank/set"
done
rm "$work/1/set/train-00042-of-00064"
for how in fail skip; do
    run $(mpi_command $mpi 2) "$work/apart" "$pipetrain" -c "$work/tiny.conf" --set run.dir=run --set data.train=set \
        --set data.validation= --set data.shuffle=block --set data.lanes=2 --set "data.on_corrupt=$how" --set train.steps=2
    expect_code 3 "a shard that rank 1 lacks, on_corrupt = $how"
    expect_err "rank 1 .$host.*train-00042-of-00064: is missing here, and rank 0 has it: copy it from the host of rank 0"
done
rm "$work/1/set/dataset.json"
run $(mpi_command $mpi 2) "$work/apart" "$pipetrain" -c "$work/tiny.conf" --set run.dir=run --set data.train=set --set data.validation=
expect_code 3 'a shard that rank 1 lacks, without dataset.json'
expect_err "rank 1 .$host.*has 63 shards here, and 64 in rank 0, whose first that is not here is train-00042-of-00064"
finish
