#!/usr/bin/env bash
# Where the loader's time goes beside the tokenizer's: a flame graph of one case of the overhead benchmark, by default
# lines of 80 bytes, and callgrind's list of the functions of a whole loader. Results stay in benches/results/.
#
#     benches/flame.sh [CASE]
#
# It needs perf, valgrind, and inferno (`cargo install inferno`). What it builds, with frame pointers and line tables,
# is kept apart in target/flame.
set -euo pipefail
cd "$(dirname "$0")/.."

case=${1:-lines-80}
results=benches/results
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/flame
export CARGO_PROFILE_BENCH_DEBUG=line-tables-only
export RUSTFLAGS="-C force-frame-pointers=yes"
mkdir -p "$results" "$CARGO_TARGET_DIR"

program() {
    cargo bench --bench "$1" --no-run >&2
    cargo bench --bench "$1" --no-run --message-format json 2>/dev/null |
        sed -n "s/.*\"name\":\"$1\".*\"executable\":\"\([^\"]*\)\".*/\1/p" | tail -1
}
bench=$(program bench) instructions=$(program instructions)

# The corpus and the tokenizer are made before anything is measured.
"$bench" overhead --case "$case" --pairs 1 --only loader --bench >/dev/null
data=$CARGO_TARGET_DIR/perf.data
perf record --quiet --freq 499 --call-graph fp --output "$data" -- \
    "$bench" overhead --case "$case" --pairs 9 --only loader --bench
# What reads the corpus and loads the tokenizer before is not the loader's.
perf script --no-inline --input "$data" 2>/dev/null | inferno-collapse-perf 2>/dev/null |
    grep -vE 'corpus::Corpus|Bare|HfTokenizer::(trial|from_json)' |
    inferno-flamegraph --title "The loader over $case: CPU time by function" --minwidth 0.4 >"$results/flame-$case.svg"

"$instructions" --profile loader | sed -n '/file:function/,$p' |
    sed -E 's# \[[^]]*\]##; s#/[^ ]*/(registry/src/[^/]*|library)/##' | cut -c1-160 | sed -n 1,42p >"$results/callgrind-loader.txt"
echo "wrote $results/flame-$case.svg and $results/callgrind-loader.txt"
