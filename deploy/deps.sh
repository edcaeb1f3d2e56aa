#!/usr/bin/env bash
# deps.sh - installs every package LightQ needs to build, run and test itself. Idempotent; root or sudo.
#
#   deploy/deps.sh            everything: build, run, tests, sanitizers, lint
#   deploy/deps.sh --build    only what building and running needs
#
# libraft must be 0.22.x (docs/adr/0001). Debian 12 has it in its backports suite: that suite is enabled here by
# copying the address and the keyring of the machine's own Debian entry, so this script names no host.
set -euo pipefail

BUILD_PACKAGES=(
    build-essential cmake ninja-build pkg-config python3
    libuv1-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler
    libjansson-dev libisal-dev libxxhash-dev liblz4-dev libzstd-dev libsodium-dev
    libinih-dev uthash-dev libmicrohttpd-dev
)
TEST_PACKAGES=(
    libcmocka-dev libzmq3-dev clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14
    libfiu-dev fiu-utils strace valgrind iproute2 iptables man-db jq git patch shellcheck
)
RAFT_PACKAGES=(libraft-dev)
BACKPORTS_LIST=/etc/apt/sources.list.d/lightq-backports.sources

die() {
    echo "deps.sh: $*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        die "installing packages needs root: run this script as root, or install sudo"
    fi
}

# Prints "CODENAME" of this system, or stops with a sentence when it is not one we know.
system_codename() {
    [ -r /etc/os-release ] || die "cannot read /etc/os-release: only Debian 12 and Debian 13 are supported"
    # shellcheck disable=SC1091
    . /etc/os-release
    case "${ID:-}:${VERSION_CODENAME:-}" in
        debian:bookworm | debian:trixie) echo "$VERSION_CODENAME" ;;
        *) die "this is ${PRETTY_NAME:-an unknown system}; only Debian 12 (bookworm) and Debian 13 (trixie) are supported.
Install by hand the packages listed at the top of $0, with libraft 0.22.x" ;;
    esac
}

# Prints the address and the keyring of the machine's own entry for suite $1, tab separated. The keyring may be empty.
own_debian_entry() {
    python3 - "$1" <<'PY'
import glob, re, sys

suite = sys.argv[1]
for path in sorted(glob.glob("/etc/apt/sources.list.d/*.sources")):
    for stanza in re.split(r"\n\s*\n", open(path, encoding="utf-8").read()):
        fields = {}
        for line in stanza.splitlines():
            if line.startswith("#") or ":" not in line:
                continue
            name, value = line.split(":", 1)
            fields[name.strip().lower()] = value.strip()
        if suite in fields.get("suites", "").split():
            print(fields.get("uris", "").split()[0] + "\t" + fields.get("signed-by", ""))
            sys.exit(0)
paths = ["/etc/apt/sources.list"] + sorted(glob.glob("/etc/apt/sources.list.d/*.list"))
for path in paths:
    try:
        lines = open(path, encoding="utf-8").read().splitlines()
    except OSError:
        continue
    for line in lines:
        match = re.match(r"deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s", line + " ")
        if match and match.group(3) == suite:
            signed = re.search(r"signed-by=(\S+)", match.group(1) or "")
            print(match.group(2) + "\t" + (signed.group(1) if signed else ""))
            sys.exit(0)
sys.exit(1)
PY
}

# True when every package named is installed.
installed() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" = "ii " ] || return 1
    done
}

raft_is_right() {
    installed libraft-dev && [[ "$(dpkg-query -W -f '${Version}' libraft-dev)" == 0.22.* ]]
}

enable_backports() {
    local entry uri keyring
    [ -e "$BACKPORTS_LIST" ] && return 0
    entry=$(own_debian_entry bookworm) ||
        die "no Debian entry for the suite bookworm found under /etc/apt: add one, then run this script again"
    uri=${entry%%$'\t'*}
    keyring=${entry#*$'\t'}
    {
        echo "# Added by LightQ's deploy/deps.sh for libraft 0.22.x."
        echo "Types: deb"
        echo "URIs: $uri"
        echo "Suites: bookworm-backports"
        echo "Components: main"
        if [ -n "$keyring" ]; then
            echo "Signed-By: $keyring"
        fi
    } | as_root tee "$BACKPORTS_LIST" >/dev/null
}

main() {
    local codename packages=("${BUILD_PACKAGES[@]}")
    case "${1:-}" in
        "") packages+=("${TEST_PACKAGES[@]}") ;;
        --build) ;;
        *) die "usage: deploy/deps.sh [--build]" ;;
    esac
    codename=$(system_codename)
    if installed "${packages[@]}" && raft_is_right; then
        echo "deps.sh: everything is installed already"
        return 0
    fi
    command -v python3 >/dev/null 2>&1 || { as_root apt-get update -q; as_root apt-get install -y -q python3; }
    [ "$codename" = bookworm ] && enable_backports
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}"
    if [ "$codename" = bookworm ]; then
        as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -q --no-install-recommends -t bookworm-backports "${RAFT_PACKAGES[@]}"
    else
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${RAFT_PACKAGES[@]}"
    fi
    raft_is_right || die "libraft $(dpkg-query -W -f '${Version}' libraft-dev) was installed, but LightQ needs 0.22.x.
Remove it and run this script again"
    echo "deps.sh: done"
}

main "$@"
