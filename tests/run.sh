#!/usr/bin/env bash
# run.sh - everything that must pass: lint, unit and integration tests in the dev build, then the same tests under the
# address+undefined and the thread sanitizer. What only computes runs beside others; what waits has the machine alone
# (deploy/cmake/LightqModule.cmake). Installs what it needs. Ends with ctest's closing line and the number of
# cmocka tests for each preset.
#
#   tests/run.sh [PRESET...]     default: dev asan tsan
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$here"
presets=("$@")
[ "${#presets[@]}" -gt 0 ] || presets=(dev asan tsan)
jobs=$(nproc)
summary=()

# Prints the sum of "[==========] N test(s) run." lines of the last ctest run of preset $1.
cmocka_count() {
    sed -n 's/.*\[==========\] \([0-9]\{1,\}\) test(s) run\..*/\1/p' "build/$1/Testing/Temporary/LastTest.log" |
        awk '{ sum += $1 } END { print sum + 0 }'
}

run_preset() {
    local preset=$1 log=build/$1/ctest.log status=0
    echo "== $preset: configure and build"
    cmake --preset "$preset" >/dev/null
    cmake --build --preset "$preset" -- -j "$jobs" | tail -n 1
    echo "== $preset: test"
    ctest --preset "$preset" -j "$jobs" --no-tests=error 2>&1 | tee "$log" || status=$?
    summary+=("$preset: $(cmocka_count "$preset") cmocka tests; $(grep -E 'tests passed|tests failed' "$log" | tail -n 1)")
    return "$status"
}

deploy/deps.sh | tail -n 1
failed=0
for preset in "${presets[@]}"; do
    run_preset "$preset" || failed=1
done
echo
printf '%s\n' "${summary[@]}"
exit "$failed"
