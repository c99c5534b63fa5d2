#!/bin/sh
# The code of doc/add-a-model.md, put where the page says, compiles as all else does; its test passes, and the program
# knows the model, describes it and trains it.
. "$(dirname "$0")/../e2e.sh"
[ -n "${PIPETRAIN_COMPILE:-}" ] || skip 'make check tells how to compile'
source=$(cd "$above/../.." && pwd)
page=$source/doc/add-a-model.md
tree=$work/tree
make_tiny

# block HEAD: the code behind the line of the page that begins with HEAD.
block() {
    awk -v head="$1" 'index($0, head) == 1 { on = 1; next }
        on && /^    /    { seen = 1; print substr($0, 5); next }
        on && seen && /^$/ { print; next }
        on && seen       { exit }' "$page"
}

# insert BLOCK FILE PATTERN before|after: the lines of BLOCK beside the one line of FILE that matches.
insert() {
    expect_equal "$(grep -c "$3" "$2")" 1 "lines like '$3' in $2"
    awk -v block="$1" -v pattern="$3" -v place="$4" '
        function put(line) { while ((getline line < block) > 0) print line }
        $0 ~ pattern && place == "before" { put() }
        { print }
        $0 ~ pattern && place == "after" { put() }' "$2" >"$2.new"
    mv "$2.new" "$2"
}

mkdir -p "$tree/compute/models" "$tree/tests/compute"
cp "$source/compute/models/models.h" "$source/compute/models/model_table.c" "$tree/compute/models"
cp "$source/tests/compute/test_models.c" "$tree/tests/compute"

block '**1. ' >"$tree/compute/models/model_lenet5.c"
block '**2. ' >"$work/declared"
insert "$work/declared" "$tree/compute/models/models.h" '^#endif' before
block '**3. ' >"$work/row"
insert "$work/row" "$tree/compute/models/model_table.c" '^const struct model model_table' after
block '**5. ' >"$work/test"
insert "$work/test" "$tree/tests/compute/test_models.c" '^TESTS_MAIN' before
grep -q '^\*\*4\. The file\*\* `%D%/models/model_lenet5\.c` in `compute/local\.mk`' "$page" ||
    fail 'the page names no line of a makefile'
grep -q '%D%/models/models_small\.c' "$source/compute/local.mk" || fail 'compute/local.mk has no such line'

# compile FILE OBJECT; link PROGRAM OBJECTS LIBRARIES: in the build, where the commands are from.
compile() {
    run sh -c "cd '$build' && $PIPETRAIN_COMPILE -iquote '$tree' -c '$tree/$1' -o '$work/$2'"
    expect_code 0 "compiling $1"
}
link() {
    run sh -c "cd '$build' && $PIPETRAIN_LINK -o '$work/$1' $2 '$work/model_table.o' '$work/model_lenet5.o' $3"
    expect_code 0 "linking $1"
}

compile compute/models/model_lenet5.c model_lenet5.o
compile compute/models/model_table.c model_table.o
compile tests/compute/test_models.c test_models.o
[ "$failures" -eq 0 ] || finish
link test_models "'$work/test_models.o'" "$PIPETRAIN_TEST_LIBRARIES"
link pipetrain tools/pipetrain.o "$PIPETRAIN_LIBRARIES"
run "$work/test_models"
expect_code 0 'the test of the model'
expect_out '\[       OK \] lenet5_has_61706_parameters'
pipetrain=$work/pipetrain
run "$pipetrain" --describe=lenet5
expect_code 0 'the description'
expect_out '^parameters   P = 61,706, trained'
train lenet5 --set model.name=lenet5 --set train.steps=3
expect_summary lenet5 model lenet5
finish
