#!/bin/sh
# Published systems on the simulated CUDA device beside PyTorch's numbers (tests/oracle/): logits, loss, every gradient by
# name, decoding, ten steps of the optimizer, as unit/test_oracle.c has it on the CPU.
#
#   tests/checks/cuda_oracle.sh          two rows
#   tests/checks/cuda_oracle.sh all      every row; minutes
#   tests/checks/cuda_oracle.sh ROW...   those
. "$(dirname "$0")/../begin.sh"
on_simulator
case ${1:-} in
all) set -- ;;
"") set -- moe_small_sdpa gated_delta_small ;;
esac
"$BUILD/tests/unit/test_oracle" compiled "$@"
