#!/bin/sh
# The main commands, one after the other, on the digits files beside this script. Called by `make demo`.
set -e
here=$(dirname "$0")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run() { printf '\n$ bpmcli %s\n' "$*"; bpmcli "$@"; }

run fit "$here/digits_val.npz" --method auto -o "$out/params.json"
run apply "$out/params.json" "$here/digits_test.npz" -o "$out/calibrated.npz"
run metrics "$here/digits_test.npz"
run metrics "$out/calibrated.npz"
run simulate D4 -n 5000 -o "$out/d4.parquet"
run metrics "$out/d4.parquet"
run compare metrics "$here/digits_test.npz" "$out/calibrated.npz"
