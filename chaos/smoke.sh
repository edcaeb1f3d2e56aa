#!/usr/bin/env bash
# smoke.sh - chaos in under four minutes: a killed leader, a paused one, one that is cut off, and lost power. Part of the
# dev preset's tests. Words are given on to chaos/run. Exit status: that of chaos/run (77: some need root, skipped).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/run" --scenario kill-leader --scenario pause-leader --scenario isolate-leader --scenario power-one \
    --duration 12 --rate 1000 "$@"
