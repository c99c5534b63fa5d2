#!/bin/sh
# Weights of torchvision and timm are loaded for every network of today: part of make check-parity.
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$(dirname "$0")/weights_exchange.py" "$@"
