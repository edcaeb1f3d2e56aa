#!/usr/bin/env bash
# cluster.sh - runs a LightQ cluster of several nodes on this machine.
#
#   deploy/cluster.sh up [N=3]      start N nodes (keeps earlier data), return when every one is ready
#   deploy/cluster.sh down          stop them all, keep the data
#   deploy/cluster.sh status        what runs, and what the cluster says of itself
#   deploy/cluster.sh servers       host:port,host:port,... for lightq --servers
#   deploy/cluster.sh stop I        end node I in good order (leaders handed over first)
#   deploy/cluster.sh kill I        end node I with SIGKILL
#   deploy/cluster.sh start I       start node I again (goes on when it is paused)
#   deploy/cluster.sh pause I       SIGSTOP
#   deploy/cluster.sh resume I      SIGCONT
#   deploy/cluster.sh wipe I        empty the data directory of node I, which must be down; when it is started again it
#                                   is replaced by itself (lightq node replace I I)
#   deploy/cluster.sh logs I        print the log of node I
#
# Environment: LIGHTQ_CLUSTER_DIR (.cluster) data and logs; LIGHTQ_CLUSTER_PORT (5600) first client port, peer ports
# follow 100 above, HTTP 200 above, 10 apart for each node; LIGHTQ_BIN (build/release/bin) the programs;
# LIGHTQ_CLUSTER_ARGS more words for every lightqd ("--set shards=2": up to 10, which is how far apart the ports are);
# LIGHTQ_CLUSTER_READY_SECONDS (60) and LIGHTQ_CLUSTER_END_SECONDS (20) how long a node may take to start and to end.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cluster_dir=${LIGHTQ_CLUSTER_DIR:-.cluster}
bin=${LIGHTQ_BIN:-$here/build/release/bin}
ready_seconds=${LIGHTQ_CLUSTER_READY_SECONDS:-60}
end_seconds=${LIGHTQ_CLUSTER_END_SECONDS:-20}

die() {
    echo "cluster.sh: $*" >&2
    exit 1
}

usage() {
    sed -n '2,/^set -/p' "${BASH_SOURCE[0]}" | sed -n 's/^# \{0,1\}//p' >&2
    exit 2
}

node_dir() { echo "$cluster_dir/n$1"; }
client_port() { echo $((base_port + 10 * ($1 - 1))); }
peer_port() { echo $((base_port + 100 + 10 * ($1 - 1))); }
http_port() { echo $((base_port + 200 + 10 * ($1 - 1))); }

# Reads what `up` wrote: the number of nodes and the first port.
load_settings() {
    [ -r "$cluster_dir/settings" ] || die "there is no cluster in $cluster_dir: run '$0 up' first"
    node_count=$(sed -n 's/^nodes=\([0-9]\{1,\}\)$/\1/p' "$cluster_dir/settings")
    base_port=$(sed -n 's/^port=\([0-9]\{1,\}\)$/\1/p' "$cluster_dir/settings")
    if [ -z "$node_count" ] || [ -z "$base_port" ]; then
        die "$cluster_dir/settings cannot be read: remove $cluster_dir, or put back its lines nodes=N and port=P"
    fi
}

check_node() {
    if ! [[ "${1:-}" =~ ^[1-9][0-9]*$ ]] || ! [ "$1" -le "$node_count" ]; then
        die "node must be a number from 1 to $node_count"
    fi
}

# Whether process $1 has ended and holds nothing any more. A killed process whose other threads are still ending shows
# as a zombie too, but its sockets and files are open until the last thread is gone.
is_gone() {
    local tasks
    [ -e "/proc/$1" ] || return 0
    grep -q '^State:[[:space:]]*[ZX]' "/proc/$1/status" 2>/dev/null || [ ! -e "/proc/$1" ] || return 1
    tasks=("/proc/$1/task/"[0-9]*)
    [ "${#tasks[@]}" -le 1 ]
}

# Prints the pid of node $1 when it runs. A pid file left behind is not believed: the process must be a lightqd that
# was started for this very directory, which any of its threads tells (the first one may have ended before the others).
running_pid() {
    local pid dir
    pid=$(cat "$(node_dir "$1")/pid" 2>/dev/null) || return 1
    dir=$(realpath "$(node_dir "$1")/data" 2>/dev/null) || return 1
    grep -qzxF -e "$dir" "/proc/$pid/task/"*/cmdline 2>/dev/null || return 1
    ! is_gone "$pid" || return 1
    echo "$pid"
}

is_paused() { grep -q '^State:[[:space:]]*T' "/proc/$1/status" 2>/dev/null; }

seeds() {
    local i list=
    for ((i = 1; i <= node_count; i++)); do
        list+=",127.0.0.1:$(peer_port "$i")"
    done
    echo "${list#,}"
}

servers() {
    local i list=
    for ((i = 1; i <= node_count; i++)); do
        list+=",127.0.0.1:$(client_port "$i")"
    done
    echo "${list#,}"
}

# Starts node $1 without waiting; its log grows from where it was.
launch() {
    local dir data log
    if [[ "${LIGHTQ_CLUSTER_ARGS:-}" =~ shards=([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -gt 10 ]; then
        die "shards=${BASH_REMATCH[1]}: the ports of this script's nodes are 10 apart, so a node can have 10 shards at most"
    fi
    dir=$(node_dir "$1")
    mkdir -p "$dir/data"
    data=$(realpath "$dir/data")
    log=$dir/log
    touch "$log"
    stat -c %s "$log" >"$dir/log.start"
    # shellcheck disable=SC2086
    setsid "$bin/lightqd" --data "$data" --node-id "$1" --seeds "$(seeds)" --expect "$node_count" \
        --listen "127.0.0.1:$(client_port "$1")" --peer-listen "127.0.0.1:$(peer_port "$1")" \
        --http "127.0.0.1:$(http_port "$1")" ${LIGHTQ_CLUSTER_ARGS:-} >>"$log" 2>&1 </dev/null &
    echo $! >"$dir/pid"
    # Until the new process has become lightqd it cannot be told from a pid used again.
    until running_pid "$1" >/dev/null || ! kill -0 "$!" 2>/dev/null; do
        sleep 0.01
    done
}

log_of_this_start() { tail -c "+$(($(cat "$(node_dir "$1")/log.start") + 1))" "$(node_dir "$1")/log"; }

# Waits until node $1, just launched, says that it is ready.
wait_ready() {
    local deadline=$((SECONDS + ready_seconds))
    until [ "$(log_of_this_start "$1" | grep -c '^ready ')" -gt 0 ]; do
        if ! running_pid "$1" >/dev/null; then
            log_of_this_start "$1" | tail -n 5 >&2
            die "node $1 ended before it was ready; its log is $(node_dir "$1")/log"
        fi
        if [ "$SECONDS" -ge "$deadline" ]; then
            log_of_this_start "$1" | tail -n 5 >&2
            die "node $1 was not ready within $ready_seconds s; its log is $(node_dir "$1")/log"
        fi
        sleep 0.02
    done
}

wait_gone() {
    local pid=$1 seconds=$2 deadline
    deadline=$((SECONDS + seconds))
    until is_gone "$pid"; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.02
    done
}

# When node $1 is ending this very moment, waits until it is gone.
await_ending() {
    local pid
    if pid=$(running_pid "$1") && grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null; then
        wait_gone "$pid" "$end_seconds" || die "node $1 (pid $pid) does not end"
    fi
}

cmd_up() {
    local i wanted=${1:-}
    [ -x "$bin/lightqd" ] || die "$bin/lightqd is missing: build it (cmake --preset release && cmake --build --preset release)"
    mkdir -p "$cluster_dir"
    if [ -e "$cluster_dir/settings" ]; then
        load_settings
        if [ -n "$wanted" ] && [ "$wanted" != "$node_count" ]; then
            die "the cluster in $cluster_dir has $node_count nodes, not $wanted: use another LIGHTQ_CLUSTER_DIR"
        fi
    else
        node_count=${wanted:-3}
        base_port=${LIGHTQ_CLUSTER_PORT:-5600}
        [[ "$node_count" =~ ^[1-9]$ ]] || die "the number of nodes must be 1 to 9"
        if ! [[ "$base_port" =~ ^[1-9][0-9]{3,4}$ ]] || ! [ "$base_port" -le 65000 ]; then
            die "LIGHTQ_CLUSTER_PORT must be 1000 to 65000"
        fi
        printf 'nodes=%s\nport=%s\n' "$node_count" "$base_port" >"$cluster_dir/settings"
    fi
    for ((i = 1; i <= node_count; i++)); do
        await_ending "$i"
        running_pid "$i" >/dev/null || launch "$i"
    done
    for ((i = 1; i <= node_count; i++)); do
        wait_ready "$i"
    done
    echo "cluster of $node_count is up: $(servers)"
}

cmd_down() {
    local i pid
    for ((i = 1; i <= node_count; i++)); do
        if pid=$(running_pid "$i"); then
            kill -CONT "$pid" 2>/dev/null || true
            kill -TERM "$pid" 2>/dev/null || true
        fi
    done
    for ((i = 1; i <= node_count; i++)); do
        if pid=$(running_pid "$i") && ! wait_gone "$pid" "$end_seconds"; then
            kill -KILL "$pid" 2>/dev/null || true
            wait_gone "$pid" "$end_seconds" || die "node $i (pid $pid) does not end"
        fi
    done
    echo "cluster is down; its data stays in $cluster_dir"
}

cmd_status() {
    local i pid state alive=
    for ((i = 1; i <= node_count; i++)); do
        state=down
        if pid=$(running_pid "$i"); then
            if is_paused "$pid"; then state="paused pid=$pid"; else state="running pid=$pid" alive=1; fi
        fi
        echo "node $i: $state client=127.0.0.1:$(client_port "$i") data=$(node_dir "$i")/data"
    done
    [ -z "$alive" ] || "$bin/lightq" --servers "$(servers)" cluster status
}

cmd_start() {
    local pid dir
    dir=$(node_dir "$1")
    await_ending "$1"
    if pid=$(running_pid "$1"); then
        is_paused "$pid" || die "node $1 runs already (pid $pid)"
        kill -CONT "$pid"
        echo "node $1 goes on"
        return
    fi
    if [ -e "$dir/wiped" ]; then # asking twice is harmless: a node that is in already is not replaced unless one insists
        "$bin/lightq" --servers "$(servers)" node replace "$1" "$1"
        rm -f "$dir/wiped"
        launch "$1"
        wait_ready "$1"
        echo "node $1 is ready, replaced by itself"
    else
        launch "$1"
        wait_ready "$1"
        echo "node $1 is ready"
    fi
}

cmd_signal() {
    local pid
    pid=$(running_pid "$2") || die "node $2 does not run"
    kill "-$1" "$pid"
    case "$1" in
        KILL) wait_gone "$pid" "$end_seconds" || die "node $2 (pid $pid) does not end" ;;
        TERM)
            if ! wait_gone "$pid" "$end_seconds"; then
                die "node $2 (pid $pid) is still closing after $end_seconds s: see its log, or use '$0 kill $2'"
            fi
            ;;
    esac
    echo "node $2: $3"
}

cmd_wipe() {
    local dir
    dir=$(node_dir "$1")
    ! running_pid "$1" >/dev/null || die "node $1 runs: stop or kill it before it is wiped"
    rm -rf "${dir:?}/data"
    mkdir -p "$dir/data"
    touch "$dir/wiped"
    echo "node $1 is wiped; '$0 start $1' brings it back as a replacement of itself"
}

main() {
    local verb=${1:-}
    [ -n "$verb" ] || usage
    shift
    case "$verb" in
        down | status | servers) [ $# -eq 0 ] || usage ;;
        *) [ $# -le 1 ] || usage ;;
    esac
    case "$verb" in
        up) cmd_up "$@" && return ;;
        down | status | servers) load_settings ;;
        kill | stop | start | pause | resume | wipe | logs)
            load_settings
            check_node "${1:-}"
            ;;
        *) usage ;;
    esac
    case "$verb" in
        down) cmd_down ;;
        status) cmd_status ;;
        servers) servers ;;
        start) cmd_start "$1" ;;
        kill) cmd_signal KILL "$1" killed ;;
        stop) cmd_signal TERM "$1" stopped ;;
        pause) cmd_signal STOP "$1" paused ;;
        resume) cmd_signal CONT "$1" "goes on" ;;
        wipe) cmd_wipe "$1" ;;
        logs) cat "$(node_dir "$1")/log" ;;
    esac
}

main "$@"
