#!/usr/bin/env bash
# quickstart.sh - from a fresh machine to a three-node cluster that loses its leader and no message.
# Installs what is needed, builds, starts three nodes, creates a topic, produces 1,000,000 messages of 100 bytes, kills
# the leader in the middle, reads everything back and compares. Exit 0 only when nothing that was acknowledged is lost,
# doubled or reordered. The cluster is left running.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$here"
count=${LIGHTQ_QUICKSTART_COUNT:-1000000}
size=100
rate=$((count / 5 + 1)) # so that the kill falls into the middle of about five seconds
bin=$here/build/release/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() { printf '\n== %s\n' "$*"; }

die() {
    echo "quickstart.sh: $*" >&2
    exit 1
}

build() {
    cmake --preset release >"$work/configure.log" 2>&1 || { cat "$work/configure.log" >&2; die "cmake failed"; }
    cmake --build --preset release >"$work/build.log" 2>&1 ||
        { tail -n 40 "$work/build.log" >&2; die "the build failed"; }
}

# Prints the node that leads partition 0 of topic $1.
leader_of() {
    "$bin/lightq" --format json topic describe "$1" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["partitions"][0]["leader"])'
}

# Waits until at least $2 lines are in file $1 while process $3 lives.
wait_lines() {
    while [ "$(wc -l <"$1" 2>/dev/null || echo 0)" -lt "$2" ]; do
        kill -0 "$3" 2>/dev/null || return 0
        sleep 0.02
    done
}

step "installing packages (deploy/deps.sh)"
deploy/deps.sh --build >"$work/deps.log" 2>&1 || { tail -n 20 "$work/deps.log" >&2; die "deploy/deps.sh failed"; }
tail -n 1 "$work/deps.log"

step "building (preset release)"
build
echo "built $bin/lightqd, lightq and lightq-dump"

step "starting three nodes (deploy/cluster.sh up 3)"
deploy/cluster.sh up 3
LIGHTQ_SERVERS=$(deploy/cluster.sh servers)
export LIGHTQ_SERVERS

topic=quickstart-$(date +%Y%m%d-%H%M%S)-$$
step "creating topic $topic: one partition, three replicas"
"$bin/lightq" topic create "$topic" --partitions 1 --replicas 3

step "producing $count messages of $size bytes, and killing the leader in the middle"
touch "$work/acked"
"$bin/lightq" produce "$topic" --count "$count" --size "$size" --rate "$rate" --acked "$work/acked" >"$work/produce.out" &
producer=$!
wait_lines "$work/acked" $((count * 2 / 5)) "$producer"
leader=$(leader_of "$topic")
[[ "$leader" =~ ^[1-9]$ ]] || die "no leader is known for $topic"
deploy/cluster.sh kill "$leader"
echo "killed the leader, node $leader, after $(wc -l <"$work/acked") acknowledgements"
wait "$producer" || die "the producer failed: $(tail -n 1 "$work/produce.out")"
cat "$work/produce.out"
echo "acknowledged: $(wc -l <"$work/acked"); the leader now is node $(leader_of "$topic")"

step "bringing node $leader back"
deploy/cluster.sh start "$leader"

step "consuming from the start and comparing"
"$bin/lightq" consume "$topic" --from start --until-end --log "$work/log"
verdict=0
"$bin/lightq-check" --ordered --acked "$work/acked" --log "$work/log" || verdict=1
[ "$(wc -l <"$work/acked")" -eq "$count" ] || { echo "not every message was acknowledged"; verdict=1; }
if "$bin/lightq" topic describe "$topic" --wait-equal --timeout 60000; then
    echo "the three replicas are equal"
else
    verdict=1
fi

[ "$verdict" -eq 0 ] || die "FAILED: see above; the cluster's logs are under .cluster"
cat <<END

The cluster goes on running. Try it:
    export LIGHTQ_SERVERS=$LIGHTQ_SERVERS PATH=$bin:\$PATH
    lightq topic create orders --partitions 3
    echo hello | lightq produce orders
    lightq consume orders --until-end --print
    deploy/cluster.sh status
    deploy/cluster.sh down

OK: $count messages acknowledged through a killed leader; lost 0, doubled 0, reordered 0
END
