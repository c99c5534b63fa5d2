#!/bin/sh
# The modules of pipetrain export --torch compute in PyTorch what pipetrain computes: part of make check-peers.
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$(dirname "$0")/torch_module.py" "$@"
