#!/bin/sh
# PyTorch computes with resnet20_v1 what this build computes.
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
exec "$python" "$(dirname "$0")/torch_resnet20.py"
