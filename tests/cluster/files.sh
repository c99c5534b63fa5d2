#!/bin/sh
# The files that ranks open: the run directory is that of rank 0 alone, also to resume.
. "${0%/*}/cluster.sh"
find_mpis
make_tiny
make_quick

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
finish
