#!/usr/bin/env bash
# nightly.sh - hours of proof: simulation, planted bugs, every scenario several times, and a long mix. Runs as root; uses the
# programs in LIGHTQ_BIN (build/release/bin) and leaves everything in one report folder with summary.txt.
#
#   chaos/nightly.sh [FOLDER]
#
# Environment: LIGHTQ_NIGHTLY_REPEAT (3) of each scenario, LIGHTQ_NIGHTLY_SECONDS (60) of each, LIGHTQ_NIGHTLY_MIX_SECONDS
# (3600), LIGHTQ_NIGHTLY_SEEDS (20000) of the simulation. Exit status: 0 only when every part ran and passed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-$here/../build/chaos/nightly-$(date +%Y%m%d-%H%M%S)}
repeat=${LIGHTQ_NIGHTLY_REPEAT:-3}
seconds=${LIGHTQ_NIGHTLY_SECONDS:-60}
mix_seconds=${LIGHTQ_NIGHTLY_MIX_SECONDS:-3600}
seeds=${LIGHTQ_NIGHTLY_SEEDS:-20000}
mix_rate=500 # so that an hour's history stays small enough to be judged at once
first_seed=$(($(date +%s) * 100000))
failed=0

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# Runs part $1, the rest of the words, with its output in a file; one line of the summary.
part() {
    local name=$1 status=0 began=$SECONDS
    shift
    echo "== $name: $*"
    "$@" >"$folder/$name.txt" 2>&1 || status=$?
    [ "$status" -eq 0 ] || failed=1
    echo "$name: exit $status after $((SECONDS - began)) s" | tee -a "$folder/summary.txt"
    [ "$status" -eq 0 ] || tail -n 20 "$folder/$name.txt"
}

{
    date -u +%Y-%m-%dT%H:%M:%SZ
    git -C "$here" rev-parse HEAD 2>/dev/null || true
} >"$folder/summary.txt"

if [ -x "$here/sim/run" ]; then
    part simulation "$here/sim/run" --seeds "$first_seed..$((first_seed + seeds - 1))"
else
    echo "simulation: chaos/sim/run is not there" | tee -a "$folder/summary.txt"
    failed=1
fi
if [ -x "$here/plants/run" ]; then
    part plants "$here/plants/run"
else
    echo "plants: chaos/plants/run is not there" | tee -a "$folder/summary.txt"
    failed=1
fi
part scenarios "$here/run" --scenario all --repeat "$repeat" --duration "$seconds" --report "$folder/scenarios"
part mix "$here/run" --scenario mix --duration "$mix_seconds" --rate "$mix_rate" --report "$folder/mix"
part mix-of-five "$here/run" --scenario mix --nodes 5 --duration "$((mix_seconds / 4))" --rate "$mix_rate" \
    --report "$folder/mix-of-five"

cat "$folder/summary.txt" "$folder"/*/table.txt
exit "$failed"
