#!/usr/bin/env bash
# The layer gate's own test: a module table with an upward edge must be refused at configure time. layer_gate.sh CMAKE REPOSITORY
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/src"
cat >"$folder/CMakeLists.txt" <<TXT
cmake_minimum_required(VERSION 3.25)
project(bad LANGUAGES CXX)
include($2/cmake/module.cmake)
set(PARASCALE_LAYERS "base 0" "config 1 plan" "plan 3")
parascale_check_edges(config)
TXT
if "$1" -S "$folder" -B "$folder/build" >"$folder/log" 2>&1; then
  echo "an upward edge was accepted"
  exit 1
fi
grep -q 'layer gate: `config` (layer 1) may not depend on `plan` (layer 3)' "$folder/log" || { cat "$folder/log"; exit 1; }
echo "an upward edge is refused at configure time"
