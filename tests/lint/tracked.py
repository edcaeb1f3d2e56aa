#!/usr/bin/env python3
"""Checks of all files that belong to the repository, one for each word:

    tracked.py shell|format|words [ROOT]

shell    shellcheck -x finds nothing in the scripts: *.sh, and others that begin with #! and name a shell
format   clang-format-14 would change no .c or .h file
words    no file has a mark of unfinished work, or names a host of a package registry (a machine has its own mirrors)

The files are those that git tracks; in a tree without git, all but build folders. Every finding is a line; exit 1 when
there is one.
"""
import os
import re
import subprocess
import sys

CLANG_FORMAT = "clang-format-14"

# What must not be in a file, and why. This folder, which names them, is not looked at.
WORDS = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK|TBD)\b"), "unfinished work: finish it, or say in a sentence what holds"),
    (re.compile(r"\b(deb\.debian\.org|security\.debian\.org|archive\.ubuntu\.com|dl-cdn\.alpinelinux\.org|pypi\.org"
                r"|pythonhosted\.org|npmjs\.(org|com)|crates\.io|proxy\.golang\.org|rubygems\.org"
                r"|repo1?\.maven(\.apache)?\.org|conan\.io|ghcr\.io|quay\.io)\b", re.I),
     "a package registry's host: use what the machine is set up with"),
]
WORDS_UNCHECKED = ("tests/lint/",)
SKIPPED_FOLDERS = {".git", "build", ".cluster", "__pycache__"}


def files_of(root):
    """Paths below @root of the files that belong to the repository and are there, sorted."""
    if os.path.exists(os.path.join(root, ".git")):
        listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z"], capture_output=True,
                                check=True).stdout.decode().split("\0")
        found = [path for path in listed if path]
    else:
        found = []
        for here, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
            found += [os.path.relpath(os.path.join(here, name), root) for name in names]
    return sorted(path for path in found if os.path.isfile(os.path.join(root, path)))


def read(root, path):
    """The text of a file; empty for one that is not text."""
    with open(os.path.join(root, path), "rb") as file:
        content = file.read()
    return "" if b"\0" in content else content.decode("utf-8", "replace")


def is_script(root, path):
    if path.endswith(".sh"):
        return True
    first = read(root, path).split("\n", 1)[0]
    return re.match(r"#!.*\b(ba|da)?sh\b", first) is not None


def run_tool(root, command, paths):
    """The tool's findings about @paths, as lines."""
    if not paths:
        return []
    try:
        done = subprocess.run([*command, *paths], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return [f"{command[0]} is not installed: run deploy/deps.sh"]
    if done.returncode == 0:
        return []
    return (done.stdout + done.stderr).splitlines() or [f"{command[0]} failed with status {done.returncode}"]


def check_shell(root):
    scripts = [path for path in files_of(root) if is_script(root, path)]
    return run_tool(root, ["shellcheck", "-x", "-f", "gcc"], scripts)


def check_format(root):
    sources = [path for path in files_of(root) if path.endswith((".c", ".h"))]
    return run_tool(root, [CLANG_FORMAT, "--dry-run", "-Werror"], sources)


def check_words(root):
    found = []
    for path in files_of(root):
        if path.startswith(WORDS_UNCHECKED):
            continue
        for number, line in enumerate(read(root, path).split("\n"), 1):
            for pattern, why in WORDS:
                match = pattern.search(line)
                if match is not None:
                    found.append(f"{path}:{number}: {match.group()}: {why}")
    return found


CHECKS = {"shell": check_shell, "format": check_format, "words": check_words}


def main(arguments):
    if len(arguments) not in (2, 3) or arguments[1] not in CHECKS:
        print("usage: tracked.py shell|format|words [ROOT]", file=sys.stderr)
        return 2
    default = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = CHECKS[arguments[1]](arguments[2] if len(arguments) == 3 else default)
    for line in found:
        print(line)
    print(f"{arguments[1]}: " + ("nothing found" if not found else "see above"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
