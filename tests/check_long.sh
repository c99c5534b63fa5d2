#!/bin/sh
# make check-long: everything that is too long for make check, one part after the other, each of them also a target of its
# own. A part that fails does not end the others; the table at the end says how each went, and long/PART.log what it said.
# PYTHON: an interpreter with PyTorch, for check-parity, ONNX Runtime, for check-peers, pytest, for check-python; ONEDNN: a folder of
# another oneDNN, for check-onednn.
set -u
make=${MAKE:-make}
mkdir -p long
failed=0
table=

# part NAME COMMAND...
part() {
    name=$1
    shift
    begun=$(date +%s)
    echo "== $name"
    if "$@" >"long/$name.log" 2>&1; then
        outcome=passed
    else
        outcome='FAILED'
        failed=1
        grep -E '^(FAIL|ERROR|XPASS): ' "long/$name.log" || tail -n 20 "long/$name.log" | sed 's/^/    /'
    fi
    table="$table$(printf '%7d s  %-7s %s' $(($(date +%s) - begun)) "$outcome" "$name")
"
}

left_out() {
    table="$table$(printf '%9s  %-7s %s: %s' - 'not run' "$1" "$2")
"
}

part check env PIPETRAIN_TEST_LONG=yes "$make" check
part torture "$make" check-torture TORTURE=--all
part kills "$make" check-kills
part cluster "$make" check-cluster
part fma "$make" check-fma
part asan "$make" check-asan
part tsan "$make" check-tsan
part distcheck "$make" distcheck
if command -v clang >/dev/null 2>&1; then
    part clang "$make" check-clang
    part fuzz "$make" check-fuzz FUZZ_SECONDS="${FUZZ_SECONDS:-20}"
else
    left_out clang 'clang is missing'
    left_out fuzz 'clang is missing'
fi
if "${PYTHON:-python3}" -c 'import torch' 2>/dev/null; then
    part parity "$make" check-parity PYTHON="${PYTHON:-python3}"
else
    left_out parity 'PYTHON=venv/bin/python names an interpreter with PyTorch'
fi
if "${PYTHON:-python3}" -c 'import onnx, onnxruntime' 2>/dev/null; then
    part peers "$make" check-peers PYTHON="${PYTHON:-python3}"
else
    left_out peers 'PYTHON=venv/bin/python names an interpreter with onnx and onnxruntime'
fi
if "${PYTHON:-python3}" -c 'import pytest, numpy' 2>/dev/null; then
    part python "$make" check-python PYTHON="${PYTHON:-python3}"
else
    left_out python 'PYTHON=venv/bin/python names an interpreter with pytest and NumPy'
fi
if [ -n "${ONEDNN-}" ]; then
    part onednn "$make" check-onednn ONEDNN="$ONEDNN"
else
    left_out onednn 'ONEDNN=DIR names another oneDNN'
fi
printf '\n%s' "$table"
exit $failed
