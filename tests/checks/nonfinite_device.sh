#!/bin/sh
# The faults of nonfinite.sh on the simulated device.
FAULTS_ON='--device cuda' exec sh "$(dirname "$0")/nonfinite.sh"
