#!/bin/sh
# first_light.sh rehearsed without a GPU: every item has its line in results.jsonl, what fails or hangs is reported and
# ends nothing else, a tool that is missing costs its items, and nothing begins when the time is up.
. "$(dirname "$0")/../e2e/e2e.sh"
[ "$sanitizer" = no ] || skip 'the scripts are the same without a sanitizer'
tests=$(cd "$(dirname "$0")" && pwd)
unset FIRST_LIGHT_LIMITS FIRST_LIGHT_JOBS
export PIPETRAIN_DEVICE=cpu FIRST_LIGHT_STEPS=1 PEER_TORCH="$work/no-python"

# lines OUT: stage, item and result of each line.
lines() { sed 's/{"stage": "\([^"]*\)", "item": "\([^"]*\)", "result": "\([^"]*\)".*/\1 \2 \3/' "$1/results.jsonl" | sort; }

# The real programs, but a small set of digits is drawn.
mkdir -p "$work/folder/tests/stage" "$work/folder/tests/e2e"
printf '#!/bin/sh\nexec "%s" "$@" --train 64 --validation 8\n' "$convert" >"$work/folder/pipetrain-convert"
chmod +x "$work/folder/pipetrain-convert"
ln -s "$pipetrain" "$work/folder/pipetrain"
ln -s "$build/tests/stage/test_device" "$work/folder/tests/stage/test_device"
ln -s "$json_value" "$work/folder/tests/e2e/json_value"
run sh "$tests/first_light.sh" "$work/folder" "$work/good" facts:version,pytorch trains \
    units:stage/test_device
expect_code 0 'a rehearsal'
expect_equal "$(lines "$work/good")" "$(sort <<'END'
facts version passed
facts pytorch skipped
trains digits passed
trains fp32-direct passed
trains fp32-graph passed
trains same-bits passed
trains bf16 passed
trains bf16-graph-off passed
trains bf16-graph-on passed
trains same-bits-bf16 passed
trains fp16 passed
trains tf32 passed
trains cpu passed
units stage/test_device passed
END
)" 'the results'
expect_equal "$(grep -c '"item": "tf32".*"loss": [0-9]' "$work/good/results.jsonl")" 1 'the loss is among the values'
expect_out '^trains +cpu +passed +[0-9.]+ +[0-9]+ images/s'
run tar -tzf "$work/good/logs.tgz"
expect_out 'trains.tf32.log'
"$json_value" --lines "$work/good/results.jsonl" item trains seconds >/dev/null || fail 'results.jsonl is no JSON'

# Items by name leave the results of the others as they are, and comparing trainings needs both.
run sh "$tests/first_light.sh" "$work/folder" "$work/good" trains:bf16
expect_code 0 'an item again'
[ -f "$work/good/runs/tf32/summary.json" ] || fail 'items that are not named keep their runs'
run sh "$tests/first_light.sh" "$work/folder" "$work/half" trains:fp32-graph,same-bits
expect_code 0 'half of what same-bits compares'
expect_equal "$(lines "$work/half" | tail -n 1)" 'trains same-bits skipped' 'the comparison of half'
expect_out 'fp32-direct has no weights'

# Programs that fail, hang, and do not heed the first signal: each is reported, and what follows runs.
cat >"$work/pipetrain" <<'END'
#!/bin/sh
case "$*" in
    *runs/bf16*) echo 'FAILED: for the test'; exit 3 ;;
    *runs/fp16*) exec sleep 1000 ;;
    *runs/tf32*) trap '' TERM; while :; do sleep 0.2; done ;;
esac
END
chmod +x "$work/pipetrain"
ln -sf "$work/pipetrain" "$work/folder/pipetrain"
FIRST_LIGHT_LIMITS='fp16=1 tf32=1' run sh "$tests/first_light.sh" "$work/folder" "$work/bad" \
    trains:bf16,fp16,tf32,cpu units:stage/test_device memcheck:cuda/test_kernels
expect_code 1 'items that fail'
expect_equal "$(lines "$work/bad" | grep -v '^memcheck')" "$(sort <<'END'
trains digits passed
trains bf16 failed
trains fp16 limit
trains tf32 limit
trains cpu passed
units stage/test_device passed
END
)" 'the results with items that fail'
expect_out 'FAILED: for the test'
grep -q '"item": "tf32".*had to be killed' "$work/bad/results.jsonl" || fail 'it is told what had to be killed'
command -v compute-sanitizer >/dev/null || expect_out '^memcheck +cuda/test_kernels +skipped .*there is no compute-sanitizer'

# Only what failed runs again.
ln -sf "$pipetrain" "$work/folder/pipetrain"
before=$(lines "$work/bad" | wc -l)
run sh "$tests/first_light.sh" -r "$work/folder" "$work/bad"
expect_code 0 'what failed, again'
mkdir "$work/again"
tail -n "+$((before + 1))" "$work/bad/results.jsonl" >"$work/again/results.jsonl"
expect_equal "$(lines "$work/again")" 'trains bf16 passed
trains fp16 passed
trains tf32 passed' 'the results again'
run sh "$tests/first_light.sh" -r "$work/folder" "$work/half"
expect_code 0 'what compares a training that is not there'
expect_equal "$(lines "$work/half" | grep -c 'same-bits skipped')" 2 'a comparison without both sides, again'
run sh "$tests/first_light.sh" -r "$work/folder" "$work/bad"
expect_code 0 'nothing failed'
expect_out 'nothing in .* failed'
run sh "$tests/first_light.sh" -r "$work/folder" "$work/bad" trains
expect_code 2 'a stage beside -r'
expect_err 'takes no STAGE'

# Stages side by side; ranks beside towers; ratios of two items.
run sh "$tests/first_light.sh" "$work/folder" "$work/pair" \
    facts:version+ranks:towers-host,ranks-host,same-bits-ranks-host@100 towers:tower-1,towers-2-host,towers-2-host/tower-1
expect_code 0 'stages side by side'
ranks=skipped
[ ! -e "$build/pipetrain-mpich.so" ] || ! command -v mpiexec.hydra >/dev/null || ranks=passed
expect_equal "$(lines "$work/pair")" "$(sort <<END
facts version passed
prepare digits passed
ranks towers-host passed
ranks ranks-host $ranks
ranks same-bits-ranks-host $ranks
towers tower-1 passed
towers towers-2-host passed
towers towers-2-host/tower-1 passed
END
)" 'the results of stages side by side'
expect_out '^towers +towers-2-host/tower-1 +passed +[0-9.]+ +[0-9.e+]+ / [0-9.e+]+ = [0-9.]+'

# Ranks on simulated GPUs, each with its own.
if [ $ranks = passed ] && [ -x "$build/tests/e2e/pipetrain_sim" ]; then
    ln -s "$build/tests/e2e/pipetrain_sim" "$work/folder/tests/e2e/pipetrain_sim"
    ln -s "$build"/pipetrain-*.so "$work/folder"
    PIPETRAIN_DEVICE=simulated run sh "$tests/first_light.sh" "$work/folder" "$work/simulated" \
        ranks:towers-host,ranks-nccl,same-bits-ranks-nccl
    expect_code 0 'ranks on simulated GPUs'
    expect_equal "$(lines "$work/simulated")" "$(sort <<'END'
ranks digits passed
ranks towers-host passed
ranks ranks-nccl passed
ranks same-bits-ranks-nccl passed
END
)" 'the results of ranks on simulated GPUs'
    expect_equal "$("$json_value" "$work/simulated/runs/ranks-nccl/summary.json" device)" cuda 'the device of these ranks'
fi
PIPETRAIN_DEVICE=gpu run sh "$tests/first_light.sh" "$work/folder" "$work/none" trains
expect_code 2 'a device that is not there'
run sh "$tests/first_light.sh" "$work/folder" "$work/pair" jpeg:r20-jpeg/synthetic
expect_out 'there is no images_per_second of r20-jpeg'
run sh "$tests/first_light.sh" "$work/folder" "$work/short" trains:cpu+units:stage/test_device@1
expect_code 1 'stages without time'
expect_equal "$(lines "$work/short")" 'prepare digits late
trains cpu late
trains digits late
units stage/test_device late' 'the results of stages without time'

# No time, no items.
run sh "$tests/first_light.sh" -n 1 "$work/folder" "$work/late" trains:cpu units:stage/test_device
expect_code 1 'a run without time'
expect_equal "$(lines "$work/late")" 'trains cpu late
trains digits late
units stage/test_device late' 'the results without time'

# A Python without PyTorch.
if command -v python3 >/dev/null; then
    PEER_TORCH="$work/bare-python"
    printf '#!/bin/sh\nexec python3 -S -I "$@"\n' >"$PEER_TORCH" && chmod +x "$PEER_TORCH"
    run sh "$tests/first_light.sh" "$work/folder" "$work/bare" facts:pytorch resnets:r50-bf16-torch-eager
    expect_code 0 'no PyTorch'
    expect_equal "$(lines "$work/bare")" 'facts pytorch skipped
resnets r50-bf16-torch-eager skipped' 'the results without PyTorch'

    # One that is there but cannot be imported.
    mkdir -p "$work/packages/torch"
    echo 'raise ImportError("libcudnn.so.9: not found")' >"$work/packages/torch/__init__.py"
    printf '#!/bin/sh\nPYTHONPATH="%s" exec python3 "$@"\n' "$work/packages" >"$PEER_TORCH"
    run sh "$tests/first_light.sh" "$work/folder" "$work/broken" facts:pytorch resnets:r50-bf16-torch-eager
    expect_code 0 'a PyTorch that cannot be imported'
    expect_equal "$(lines "$work/broken")" 'facts pytorch skipped
resnets r50-bf16-torch-eager skipped' 'the results with a PyTorch that cannot be imported'
    expect_out 'PyTorch cannot be imported: libcudnn.so.9: not found'
fi

# What Nsight Compute measured, as a table.
if command -v python3 >/dev/null; then
    {
        echo '==PROF== Connected to process 1'
        echo '"ID","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"'
        for launch in '0 (64, 2, 1)|4,000,000|1,000|50' '1 (32, 1, 1)|2,000,000|1,000|70' '2 (64, 2, 1)|2,000,000|1,000|30'; do
            echo "$launch" | sed 's/\([0-9]*\) \([^|]*\)|\([^|]*\)|\([^|]*\)|\(.*\)/\
"\1","normalise(tiling, void *)","\2","dram__bytes.sum","byte","\3"\
"\1","normalise(tiling, void *)","\2","gpu__time_duration.sum","ns","\4"\
"\1","normalise(tiling, void *)","\2","lts__t_sector_hit_rate.pct","%","\5"/'
        done
    } >"$work/kernels.csv"
    run python3 "$tests/kernel_table.py" "$work/kernels.csv"
    expect_code 0 'a table of kernels'
    expect_out '^normalise +3 +3\.0 us +8\.0 MB +2\.67 TB/s +50\.0 % hits'
    expect_out '^    grid \(64, 2, 1\) +2 +2\.0 us +6\.0 MB +3\.00 TB/s +40\.0 % hits'
    expect_out '^\{"launches": 3, '
    echo '==ERROR== ERR_NVGPUCTRPERM' >"$work/kernels.csv"
    run python3 "$tests/kernel_table.py" "$work/kernels.csv"
    expect_code 1 'no kernels'
fi

# The libraries that a CUDA build loads at run time are found beside libcudart; other builds need none of them.
mkdir -p "$work/bin" "$work/cuda"
touch "$work/cuda/libcublasLt.so.13" "$work/cuda/libnvrtc.so.13"
printf '#!/bin/sh\ncat "%s"\n' "$work/needed" >"$work/bin/ldd" && chmod +x "$work/bin/ldd"
search='. "$0/library_path.sh"; library_path "$1" no-python program'
echo "libcudart.so.13 => $work/cuda/libcudart.so.13 (0x0)" >"$work/needed"
LD_LIBRARY_PATH='' run env PATH="$work/bin:$PATH" sh -c "$search" "$tests" "$work"
expect_equal "$(cat "$work/out" "$work/err")" "$work/cuda" 'the path of a CUDA build'
echo 'libjansson.so.4 => /usr/lib/libjansson.so.4 (0x0)' >"$work/needed"
LD_LIBRARY_PATH='' run env PATH="$work/bin:$PATH" sh -c "$search" "$tests" "$work"
expect_equal "$(cat "$work/out" "$work/err")" '' 'the path of a build without CUDA'
run env PATH="$work/bin:$PATH" sh "$tests/first_light.sh" "$work/folder" "$work/whole" facts:libraries
expect_code 0 'no library is missing'
echo 'libnone.so.1 => not found' >"$work/needed"
run env PATH="$work/bin:$PATH" sh "$tests/first_light.sh" "$work/folder" "$work/missing" facts:libraries
expect_code 1 'a library is missing'
expect_out 'there is no libnone.so.1'

run sh "$tests/first_light.sh" "$work/folder" "$work/none" trains sight
expect_code 2 'a stage that is not there'
expect_err 'there is no stage sight'
finish
