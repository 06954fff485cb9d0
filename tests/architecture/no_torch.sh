#!/usr/bin/env bash
# The no-torch gate: the control binary needs no torch, Python or BLAS library, and holds no torch symbol. no_torch.sh BINARY...
# `--self-test BINARY` must be refused: it is a binary that does use torch.
set -euo pipefail

check() {
  local binary=$1 bad
  bad=$(ldd "$binary" | grep -Ei 'libtorch|libc10|libpython|blas|mkl|libgomp' || true)
  [ -z "$bad" ] || { echo "$binary needs: $bad"; return 1; }
  bad=$(nm -C "$binary" | grep -E ' (at|c10|torch|caffe2)::' | head -n 3 || true)
  [ -z "$bad" ] || { echo "$binary holds torch symbols: $bad"; return 1; }
}

if [ "$1" = --self-test ]; then
  if check "$2" >/dev/null; then echo "the gate lets a torch binary pass"; exit 1; fi
  exit 0
fi
for binary in "$@"; do check "$binary"; done
echo "no torch in $*"
