#!/bin/sh
# Asynchronous ranks on simulated GPUs: async.sh.
. "${0%/*}/../e2e/sim.sh"
exec sh "${0%/*}/async.sh"
