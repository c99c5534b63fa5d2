#!/bin/sh
# pipetrain --doctor: on this machine, for a run on it, and with an NVML that is replaced.
. "$(dirname "$0")/../e2e.sh"
source_dir=$(dirname "$0")/../../..
make_tiny

run "$pipetrain" --doctor
expect_code 0 'the machine'
expect_err_lines 0
expect_out '^cores     (fine|note|warn)  '
expect_out 'usable: [0-9]+'
expect_out '^memory '
expect_out '^libraries fine  '
expect_out 'doctor    [0-9]+ findings: [0-9]+ fine, [0-9]+ notes?, [0-9]+ warnings?$'
expect_narrow 'the machine'
expect_equal "$(ls "$work")" "$(printf 'data\nerr\nout\ntiny.conf')" 'files that are left'

# The same findings as JSON.
run "$pipetrain" --doctor=json -c "$work/tiny.conf"
expect_code 0 'a run, in JSON'
expect_err_lines 0
expect_equal "$(grep -cv '^{"topic":"[a-z]*","name":"[^"]*","judgement":"\(fine\|note\|warn\)","found":".*","advice":".*"}$' \
    "$work/out")" 0 'lines that are no findings'
expect_out '"topic":"cores","name":"run","judgement":"[a-z]*","found":"[0-9]+ threads? computes?, [0-9]+ decodes?, on'
expect_out '"topic":"data","name":"train","judgement":"[a-z]*","found":".* in 4 files'
expect_out '"topic":"data","name":"page cache","judgement":"[a-z]*","found":"[0-9]+ % of .* of train are in it"'
expect_out '"topic":"data","name":"disk"'

# A run that would be refused is a finding, a wrong configuration is an error.
run "$pipetrain" --doctor -c "$work/tiny.conf" --set "data.train=$work/none-*" --set data.validation=
expect_code 0 'a run without shards'
expect_out_joined 'data +warn +train: .*none-.* -> a run is refused: see data.train'
run "$pipetrain" --doctor -c "$work/tiny.conf" --set train.batch=-1
expect_code 2 'a wrong configuration'
run "$pipetrain" --doctor -c "$work/absent.conf"
expect_code 2 'no configuration'
run "$pipetrain" --doctor --set train.batch=3
expect_code 2 'a key without a configuration'
expect_err 'pipetrain --doctor -c run.conf --set'
run "$pipetrain" --doctor=xml
expect_code 2 'an unknown form'
expect_err '^pipetrain: --doctor=xml: '
run "$pipetrain" --doctor --check -c "$work/tiny.conf"
expect_code 2 'two things at once'

# An environment variable that limits oneDNN.
run "$pipetrain" --doctor=json
if grep -Eq '"oneDNN","judgement":"fine","found":"computes with AVX(-512|512)' "$work/out"; then
    ONEDNN_MAX_CPU_ISA=AVX2 run "$pipetrain" --doctor
    expect_code 0 'fewer instructions'
    expect_out_joined 'warn +oneDNN: computes with AVX2 on .* -> ONEDNN_MAX_CPU_ISA in the environment keeps it from'
fi

# Threads beyond the CPUs.
run "$pipetrain" --doctor -c "$work/tiny.conf" --set devices.kind=cpu --set devices.threads_per_tower=1024
expect_code 0 'too many threads'
expect_out_joined 'warn +run: 1024 threads compute, .* -> threads of a tower wait for each other'

# GPUs that the program cannot use, with the replaced NVML.
compiler=${CC:-cc}
if [ "$sanitizer" = no ] && $compiler --version >/dev/null 2>&1; then
    mkdir "$work/nvml"
    $compiler -std=c11 -D_GNU_SOURCE -O2 -shared -fPIC -I"$source_dir" -o "$work/nvml/libnvidia-ml.so.1" \
        "$source_dir/tests/e2e/use/nvml.c" >"$work/out" 2>&1 || fail 'the library could not be built'
    LD_LIBRARY_PATH=$work/nvml
    export LD_LIBRARY_PATH
    SIM_DEVICES=0 run "$pipetrain" --doctor
    expect_code 0 'GPUs that cannot be used'
    if grep -q 'usable: none' "$work/out"; then
        expect_equal "$(grep -c 'sharing: ' "$work/out")" 0 'findings on memory of GPUs that cannot be used'
        expect_out_joined 'gpu +warn +usable: none: .* -> there are 2 NVIDIA GPUs here'
        expect_out 'nvml: driver 580.65.06$'
    fi
    sim=$build/tests/e2e/pipetrain_sim
    if [ -x "$sim" ]; then
        run "$sim" --doctor
        expect_code 0 'simulated GPUs'
        expect_out 'usable: 2 by CUDA$'
        expect_out_joined 'device: 0: Simulated GPU, 1.0 GiB, compute capability 9.0, at 0000:01:00.0'
        expect_out_joined 'warn +link: 0: PCIe generation 1 with 1 lanes now, 1 with 2 at most -> '
        expect_out_joined 'fine +link: 1: PCIe generation 1 with 2 lanes now, 1 with 2 at most'
        expect_out 'copies: 1: [0-9.]+ GB/s measured'
        expect_out 'peers: GB/s from 1 to: 0 [0-9.]+$'
        expect_out 'sharing: memory is shared between processes: yes$'
        expect_out 'clocks: 0: 1000 MHz now, 1980 at most, 41 degrees'
        expect_narrow 'simulated GPUs'
        NVML_REASONS=0x40 run "$sim" --doctor
        expect_out_joined 'warn +clocks: 1: .* -> it is too hot'
        SIM_PEER=0 run "$sim" --doctor
        expect_code 0 'GPUs that do not reach each other'
        expect_out_joined 'warn +peers: GB/s from 0 to: 1 [0-9.]+ by the host -> '
        expect_out_joined 'note +sharing: memory is shared between processes: no \(the devices cannot use each other'
        SIM_IPC=0 run "$sim" --doctor
        expect_code 0 'memory that another process cannot open'
        expect_out_joined 'note +sharing: memory is shared between processes: no \(rank 0: cudaIpcOpenMemHandle: .*\) -> '
        expect_narrow 'memory that another process cannot open'
        NVML_INIT=9 run "$sim" --doctor
        expect_code 0 'a driver that is not loaded'
        expect_out_joined 'nvml: memory in use, clocks and temperatures are unknown: .* is installed but not loaded'
        LD_LIBRARY_PATH= SIM_FAIL=cudaMalloc:0:2 run "$sim" --doctor
        expect_code 0 'GPUs without memory'
        expect_out 'usable: 2 by CUDA$'
        expect_err 'cudaMalloc'
        expect_out_joined 'note +sharing: memory is shared between processes: no \(rank 0: device 0 cannot be used\) -> '
    fi
fi
finish
