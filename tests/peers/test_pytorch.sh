#!/bin/sh
# PyTorch computes with a few small models what this build computes; make check-parity: with all (`all`).
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
models="resnet20_v1 resnet20_v2 cifar_alexnet"
[ "${1-}" = all ] && models=
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$(dirname "$0")/torch_parity.py" $models
