#!/bin/sh
# Published systems on the simulated CUDA device against PyTorch's numbers (tests/oracle/): logits, loss, every gradient by
# name, decoding, ten optimizer steps, as in unit/test_oracle.c on the CPU.
#
#   tests/checks/cuda_oracle.sh          two rows
#   tests/checks/cuda_oracle.sh all      every row; minutes
#   tests/checks/cuda_oracle.sh ROW...   the named rows
. "$(dirname "$0")/../begin.sh"
on_simulator
case ${1:-} in
all) set -- ;;
"") set -- moe_small_sdpa gated_delta_small ;;
esac
"$BUILD/tests/unit/test_oracle" compiled "$@"
