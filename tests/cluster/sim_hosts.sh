#!/bin/sh
# Ranks on simulated GPUs of two hosts: hosts.sh.
. "${0%/*}/../e2e/sim.sh"
exec sh "${0%/*}/hosts.sh"
