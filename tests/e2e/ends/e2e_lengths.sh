#!/bin/sh
# A command that asks for less than a run has done is refused with both lengths; one that asks for what is done says so,
# also where it is quiet, and does nothing; one that asks for more continues. So in run.dir and in runs/NAME, for runs that
# have ended and runs that were stopped, with checkpoints and without.
. "$(dirname "$0")/../e2e.sh"
make_tiny
make_quick
cd "$work" || exit 99

# again OPTION... - in the directory of $where
again() {
    run "$pipetrain" -q -c tiny.conf $where "$@"
}

directories() {
    ls -d "$1" "$1"-* 2>/dev/null | wc -l
}

# unchanged CODE WHAT WORDS - the run says the words, and no result has changed
unchanged() {
    expect_code "$1" "$2"
    expect_err "$3"
    expect_equal "$(cat "$directory/summary.json" | cksum)" "$before" "$2: the summary"
    expect_equal "$(directories "$directory")" "$count" "$2: directories"
}

# begin DIRECTORY [OPTION...] - a first run of 20 steps
begin() {
    directory=$1
    shift
    again --set train.steps=20 --set train.epochs=2 "$@"
    expect_code 0 "a first run in $directory"
    before=$(cat "$directory/summary.json" | cksum) count=$(directories "$directory")
}

for saves in never epoch; do
    for place in given named; do
        save="--set checkpoint.every=$saves"
        where="--set run.dir=given-$saves" directory=given-$saves
        [ $place = given ] || where="--set run.name=named-$saves" directory=runs/named-$saves
        begin $directory $save
        again $save --set train.steps=20 --set train.epochs=2
        unchanged 0 "$directory again" "^$directory.* has ended.*: nothing is left to do .*run.resume=never"
        again $save --set train.epochs=2
        unchanged 0 "$directory by its epochs" "^$directory.* has ended.*: nothing is left to do"
        again $save --set train.epochs=1
        unchanged 2 "$directory, less" "^pipetrain: $directory.* is after step 20, but this run ends at step 10: "
        again $save --set train.steps=19 --set train.epochs=2 --check
        unchanged 2 "$directory, a check of less" "is after step 20, but this run ends at step 19: "
        run "$pipetrain" -c tiny.conf $where $save --set train.epochs=2 --check
        unchanged 0 "$directory, a check" 'nothing is left to do'
        expect_out_joined 'checked +this run has ended: the same command without --check does nothing'
        again $save --set train.epochs=2 --set train.learning_rate=0.5
        case $place in
        given) unchanged 2 "$directory, another run" 'run.dir' ;;
        *)
            expect_code 0 "$directory, another run"
            expect_equal "$(directories $directory)" 2 "$directory, another run"
            run "$pipetrain" -c tiny.conf $where $save --set train.epochs=2 --set train.learning_rate=0.25 --check
            expect_code 0 "$directory, a third run"
            [ $saves = never ] || expect_err "^$directory-2 is a run with other settings .train.learning_rate is 0.25, there 0.5.: starting a new run"
            ;;
        esac
        again $save --set train.epochs=2
        expect_err "^$directory.* has ended.*: nothing is left to do"
        again $save --set train.epochs=3
        case $place-$saves in
        *-epoch)
            expect_code 0 "$directory, more"
            expect_equal "$("$json_value" $directory/summary.json steps)" 30 "$directory, more"
            ;;
        named-never)
            expect_code 0 "$directory, more"
            expect_err "^$directory has ended after step 20 without a checkpoint .*: starting a new run of 30 steps"
            expect_equal "$("$json_value" $directory-3/summary.json steps)" 30 "$directory, more"
            # Both lengths are there.
            count=3
            again $save --set train.epochs=2
            unchanged 0 "$directory of two" "^$directory is a run that has ended after step 20: nothing"
            again $save --set train.steps=25 --set train.epochs=3
            unchanged 2 "$directory between two" "$directory-3 is after step 30, but this run ends at step 25"
            ;;
        *) unchanged 2 "$directory, more" 'holds the results of an earlier run, and no checkpoint' ;;
        esac
        again $save --set train.epochs=2 --set run.resume=never
        expect_code 0 "$directory, never"
    done
done

# Ended by a rule, without a checkpoint: the same rule ends it there again.
where='--set run.dir=rule'
begin rule --set train.stop_at=0.0001
again --set train.epochs=2 --set train.stop_at=0.0001
unchanged 0 'the same rule' '^rule is a run that has ended after step 10: nothing is left to do'
again --set train.epochs=2 --set train.stop_at=0.9999
unchanged 2 'another rule' 'holds the results of an earlier run, and no checkpoint'

# The option that a message names can be pasted.
cp -r rule "it's a rule"
run "$pipetrain" -q -c tiny.conf --set "run.dir=it's a rule" --set train.epochs=2
expect_code 2 'a name with blanks and quotes'
option=$(sed -n 's/.*choose another with \(--set .*\), or replace.*/\1/p' err)
eval "run \"\$pipetrain\" -q -c tiny.conf --set train.steps=1 $option"
expect_code 0 "pasted: $option"
[ -f "it's a rule-2/summary.json" ] || fail "no results where $option says"

# Stopped, with a checkpoint.
where='--set run.dir=stopped'
slowly again --set train.epochs=1000 --set 'train.max_time=1 seconds'
steps=$("$json_value" stopped/summary.json steps)
directory=stopped before=$(cat stopped/summary.json | cksum) count=1
again --set train.steps=1
unchanged 2 'less than a stopped run' "is after step $steps, but this run ends at step 1: "

# What measures, or tests whether data can be learnt, does so again.
where='--set run.name=synthetic'
for time in 1 2; do
    again --set input.source=synthetic --set train.steps=2
    expect_code 0 'synthetic input again'
    expect_equal "$(directories runs/synthetic)" $time 'synthetic input again'
done
where='--set run.name=data'
for time in 1 2; do
    again --overfit=4 --set train.learning_rate=0 --set train.steps=2
    expect_code 74 'data that is not learnt, again'
done
finish
