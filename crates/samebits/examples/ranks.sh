#!/bin/sh
# Starts the example on this machine, or on those that the file HOSTS names, a line each:
#   node1 slots=4
# The program must be at the same path on every machine; all it reads must be there too.
set -eu
cargo build --release --package samebits --example ranks --features mpi
export RAYON_NUM_THREADS="${RAYON_NUM_THREADS:-1}"
exec mpirun -n "${RANKS:-4}" ${HOSTS:+--hostfile "$HOSTS"} -x RAYON_NUM_THREADS \
  target/release/examples/ranks
