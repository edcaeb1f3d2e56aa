#!/usr/bin/env python3
"""Checks that the parts of LightQ use each other only as docs/architecture.md allows.

    arrows.py [ROOT]        every violation is a line "path:line: what is wrong"; exit 1 when there is one

Looked at: which part includes which; who includes a foreign library's header; who calls the file system, the clock and
the random source; includes of .c files, includes that are not paths from the root, and files that have become too long.
The tables below are the rules. To change one is a decision: say why in docs/adr/.
"""
import os
import re
import sys

LINES_MAX = 800
TEST_LINES_MAX = 1200  # tests are lists: long, but not deep

# The parts, most special path first, and what each may include beside itself.
PARTS = [
    ("client/include", "public", set()),
    ("client/base", "base", {"public"}),
    ("client/wire", "wire", {"public", "base"}),
    ("client/lib", "lib", {"public", "base", "wire"}),
    ("client/cli", "cli", {"public", "base", "wire", "lib"}),
    ("storage", "storage", {"public", "base"}),
    ("raft", "raft", {"public", "base", "storage"}),
    ("node", "node", {"public", "base", "wire", "lib", "storage", "raft"}),
    ("tests", "tests", None),  # None: everything
    ("chaos", "chaos", None),
    ("docs", "docs", {"public"}),
]

# Foreign headers: a pattern of the name in <...>, and patterns of the files that may include it.
OWNERS = [
    (r"c?zmq\.h", [r"node/gateway/", r"tests/"]),
    (r"raft(/.*)?\.h", [r"raft/", r"chaos/sim/", r"tests/unit/raft/", r"tests/lib/raft[^/]*\.[ch]", r"tests/fuzz/"]),
    (r"protobuf-c/.*", [r"client/wire/", r"tests/unit/wire/"]),
    (r"microhttpd\.h", [r"node/gateway/http[^/]*\.[ch]"]),
    (r"uv(/.*)?\.h", [r"storage/io_uv[^/]*\.[ch]", r"raft/(transport|sender|receiver|listener|connection|tls)[^/]*\.[ch]",
                      r"node/", r"tests/", r"chaos/net/"]),
    (r"(lz4.*|zstd.*)\.h", [r"client/wire/batch[^/]*\.[ch]"]),
    (r"isa-l(/.*)?\.h", [r"client/base/crc\.c"]),
    (r"(ini|jansson|sodium|wslay/.*)\.h", [r"node/", r"client/cli/", r"tests/", r"chaos/"]),
    (r"cmocka\.h", [r"tests/", r"chaos/"]),
]

# The generated header, which shows protobuf-c's structs: everybody else includes client/wire/codec.h.
GENERATED = {"client/wire/lightq.pb-c.h": [r"client/wire/"]}

FILE_CALLS = {
    "open", "open64", "openat", "creat", "fopen", "freopen", "fdopen", "opendir", "fdopendir", "readdir", "scandir",
    "pread", "preadv", "pwrite", "pwritev", "pwritev2", "fdatasync", "fsync", "sync_file_range", "syncfs", "rename",
    "renameat", "renameat2", "unlink", "unlinkat", "remove", "link", "linkat", "symlink", "mkdir", "mkdirat", "rmdir",
    "truncate", "ftruncate", "fallocate", "posix_fallocate", "mkstemp", "mkdtemp", "nftw",
}
CLOCK_CALLS = {
    "clock_gettime", "clock", "gettimeofday", "time", "timespec_get", "ftime", "uv_hrtime", "rand", "rand_r", "srand",
    "random", "srandom", "drand48", "lrand48", "getrandom", "getentropy", "arc4random", "arc4random_buf", "uv_random",
}

# Calls: what is meant, the names, the files that may (beside tests and chaos), and single exceptions with their reason.
CALLS = [
    ("the file system", FILE_CALLS, [r"storage/io_uv[^/]*\.c"], {
        r"node/options[^/]*\.c": {"fopen", "open"},  # lightqd reads its configuration file
        r"node/main[^/]*\.c": {"open", "fopen"},  # the log's descriptor, before anything else runs
        r"client/cli/[^/]*\.c": {"open", "fopen", "fdopen"},  # lightq reads and writes files that people name
        r"docs/examples/[^/]*\.c": {"fopen"},
    }),
    ("a clock or a random source", CLOCK_CALLS, [r"client/base/clock\.c"], {
        r"docs/examples/[^/]*\.c": {"clock_gettime", "time"},  # an application has its own clock
    }),
]
UNCHECKED_CALLS = [r"tests/", r"chaos/"]

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
CALL = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(")
# What makes "name(" a declaration or a definition: a type (and perhaps stars) in front of it.
DECLARED = re.compile(r"(?:^|[;{}])\s*(?:static\s+|extern\s+|inline\s+|const\s+|struct\s+|unsigned\s+)*[A-Za-z_]\w*"
                      r"(?:\s+|\s*\*+\s*)$")
NOT_TYPES = {"return", "else", "do", "case", "goto", "sizeof"}


def without_comments(text):
    """The text with comments and the content of strings made blank; line breaks stay."""
    out = []
    at = 0
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    for match in pattern.finditer(text):
        out.append(text[at:match.start()])
        found = match.group()
        if found[0] in "\"'":
            out.append(found[0] + " " * (len(found) - 2) + found[0])
        else:
            out.append(re.sub(r"[^\n]", " ", found))
        at = match.end()
    out.append(text[at:])
    return "".join(out)


def matches(patterns, path):
    return any(re.match(pattern if pattern.endswith("/") else pattern + r"\Z", path) for pattern in patterns)


def part_of(path):
    for prefix, name, allowed in PARTS:
        if path.startswith(prefix + "/"):
            return name, allowed
    return None, None


class Checker:
    """Collects the violations of a tree."""

    def __init__(self, root):
        self.root = root
        self.found = []

    def report(self, path, line, what):
        self.found.append((path, line, what))

    def check_quoted(self, path, line, name):
        if name.endswith(".c"):
            self.report(path, line, f'"{name}": a .c file is never included')
            return
        if name in GENERATED:
            if not matches(GENERATED[name], path):
                self.report(path, line, f'"{name}": include client/wire/codec.h instead')
            return
        if path.startswith("tests/") and "/" not in name:
            beside = os.path.join(os.path.dirname(path), name)
            if os.path.exists(os.path.join(self.root, beside)):
                return  # a fixture beside the test that uses it
        if not os.path.exists(os.path.join(self.root, name)):
            self.report(path, line, f'"{name}": not a path from the root of the repository')
            return
        self.check_arrow(path, line, name)

    def check_arrow(self, path, line, name):
        own, allowed = part_of(path)
        other, _ = part_of(name)
        if allowed is None or other is None or other == own or other in allowed:
            return
        self.report(path, line, f'"{name}": {own} must not use {other}')

    def check_angled(self, path, line, name):
        if name.startswith("lightq/"):
            self.check_arrow(path, line, "client/include/" + name)
            return
        for pattern, owners in OWNERS:
            if re.fullmatch(pattern, name) and not matches(owners, path):
                self.report(path, line, f"<{name}>: belongs to {', '.join(owners)}")

    def check_calls(self, path, text):
        if matches(UNCHECKED_CALLS, path):
            return
        rules = []
        for what, names, owners, exceptions in CALLS:
            if not matches(owners, path):
                excepted = set().union(*(names_ for file, names_ in exceptions.items() if matches([file], path)))
                rules.append((what, names - excepted))
        for number, line in enumerate(text.split("\n"), 1):
            if line.lstrip().startswith("#"):
                continue
            for match in CALL.finditer(line):
                name = match.group(1)
                for what, names in rules:
                    if name in names and not is_declaration(line[:match.start()]):
                        self.report(path, number, f"{name}(): only {what_owns(what)} asks for {what}")

    def check_file(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            text = file.read()
        lines = text.count("\n")
        allowed = TEST_LINES_MAX if path.startswith("tests/") else LINES_MAX
        if lines > allowed:
            self.report(path, lines, f"{lines} lines, and {allowed} are allowed: split it by responsibility")
        if not path.endswith((".c", ".h")):
            return
        blank = without_comments(text)
        visible = blank.split("\n")
        for number, line in enumerate(text.split("\n"), 1):
            match = INCLUDE.match(line)
            if match is None or not visible[number - 1].lstrip().startswith("#"):
                continue
            if match.group(1) is not None:
                self.check_quoted(path, number, match.group(1))
            else:
                self.check_angled(path, number, match.group(2))
        self.check_calls(path, blank)

    def check_tree(self):
        folders = sorted({prefix.split("/")[0] for prefix, _, _ in PARTS} | {"deploy"})
        for folder in folders:
            for here, names, files in os.walk(os.path.join(self.root, folder)):
                names.sort()
                for file in sorted(files):
                    if file.endswith((".c", ".h", ".py", ".sh", ".cmake")):
                        self.check_file(os.path.relpath(os.path.join(here, file), self.root))
        return self.found


def is_declaration(before):
    """Whether what stands in front of a name on its line makes it a declaration, not a call."""
    if not DECLARED.search(before):
        return False
    words = re.findall(r"\w+", before)
    return bool(words) and words[-1] not in NOT_TYPES


def what_owns(what):
    for name, _, owners, _ in CALLS:
        if name == what:
            return ", ".join(owner.replace("[^/]*", "*").replace("\\", "") for owner in owners)
    return ""


def main(arguments):
    default = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    root = arguments[1] if len(arguments) > 1 else default
    found = Checker(root).check_tree()
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    if found:
        print(f"arrows: {len(found)} violations")
        return 1
    print("arrows: no violations")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
