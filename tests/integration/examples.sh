#!/usr/bin/env bash
# examples.sh - installs the client from a build folder into a temporary place, builds docs/examples against it with
# CMake (shared and static) and with pkg-config, checks the headers as C++, and, when servers are given, runs the examples.
#
#   tests/integration/examples.sh BUILD_DIR [SERVERS]
set -euo pipefail

die() {
    echo "examples.sh: $*" >&2
    exit 1
}

[ $# -ge 1 ] || die "usage: examples.sh BUILD_DIR [SERVERS]"
build=$1
servers=${2:-}
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --component client --prefix "$prefix" >"$work/install.log" ||
    die "cannot install the client: $(tail -3 "$work/install.log")"

# What the shared library shows is lightq_* and nothing else.
library=$(find "$prefix" -name 'liblightq.so' | head -1)
[ -n "$library" ] || die "liblightq.so was not installed"
foreign=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | grep -v '^lightq_' || true)
[ -z "$foreign" ] || die "liblightq.so shows more than lightq_*: $foreign"

cmake -S "$source/docs/examples" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log" 2>&1 ||
    die "find_package(lightq) does not work: $(tail -5 "$work/cmake.log")"
cmake --build "$work/build" >"$work/make.log" 2>&1 || die "the examples do not build: $(tail -20 "$work/make.log")"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name lightq.pc)")
export PKG_CONFIG_PATH
# With the installed place in front: lightq.pc names the prefix of the build.
for example in producer consumer group_consumer; do
    # shellcheck disable=SC2046
    cc -Wall -Wextra -Werror "$source/docs/examples/$example.c" -o "$work/$example" \
        $(pkg-config --define-variable=prefix="$prefix" --cflags --libs lightq) ||
        die "$example.c does not build with pkg-config"
done

if command -v c++ >/dev/null 2>&1; then
    for header in "$prefix"/include/lightq/*.h; do
        echo "#include <lightq/$(basename "$header")>"
    done >"$work/headers.cc"
    c++ -std=c++11 -Wall -Wextra -Werror -pedantic -fsyntax-only -I"$prefix/include" "$work/headers.cc" ||
        die "the headers are not C++"
fi
if [ -z "$servers" ]; then
    echo "examples.sh: built, not run (no servers given)"
    exit 0
fi

LD_LIBRARY_PATH=$(dirname "$library")
export LD_LIBRARY_PATH
topic=examples-$$
"$prefix/bin/lightq" --servers "$servers" topic create "$topic" --partitions 3
for flavour in "$work" "$work/build"; do
    "$flavour/producer" "$servers" "$topic" 1000
done
"$work/build/producer_static" "$servers" "$topic" 1000
"$work/build/consumer" "$servers" "$topic" 3000 >"$work/read"
"$work/build/consumer_static" "$servers" "$topic" 3000 >"$work/read_static"
[ "$(sort "$work/read" | uniq | wc -l)" -eq 3000 ] || die "some message came twice or not at all"
cmp -s <(sort "$work/read") <(sort "$work/read_static") || die "two readers read different messages"
"$work/build/group_consumer" "$servers" "$topic" workers 1000 >"$work/read_group"
"$work/build/group_consumer_static" "$servers" "$topic" workers 2000 >>"$work/read_group"
cmp -s <(sort "$work/read") <(sort "$work/read_group") || die "two workers of a group did not handle each message once"
"$prefix/bin/lightq" --servers "$servers" topic delete "$topic"
echo "examples.sh: done"
