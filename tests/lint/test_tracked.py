#!/usr/bin/env python3
"""Tests of tracked.py: what is planted in a tree of its own is found, and what is allowed is not."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tracked  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class TrackedTest(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.TemporaryDirectory()
        self.addCleanup(self.tree.cleanup)

    def plant(self, path, text):
        full = os.path.join(self.tree.name, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def found(self, check):
        return tracked.CHECKS[check](self.tree.name)

    def test_words_of_unfinished_work_are_found(self):
        for word in ("TODO", "FIXME", "XXX", "HACK", "TBD"):
            with self.subTest(word=word):
                self.plant("node/a.c", f"int a;\n/* {word}: later */\n")
                found = self.found("words")
                self.assertEqual(len(found), 1)
                self.assertTrue(found[0].startswith(f"node/a.c:2: {word}: unfinished work"), found)

    def test_words_of_registries_are_found(self):
        for host in ("deb.debian.org", "https://pypi.org/simple", "registry.npmjs.org", "Crates.io", "ghcr.io/x"):
            with self.subTest(host=host):
                self.plant("deploy/a.sh", f"curl {host}\n")
                self.assertEqual(len(self.found("words")), 1)

    def test_words_that_only_look_alike_are_allowed(self):
        self.plant("a.sh", "mktemp /tmp/a.XXXXXX; XXX_LIMIT=1; mastodons=todo\n")
        self.plant("b.bin", b"TODO\0")
        self.plant("tests/lint/c.py", "TODO\n")
        self.plant("build/d.c", "/* TODO */\n")
        self.assertEqual(self.found("words"), [])

    def test_scripts_are_found_by_name_and_by_first_line(self):
        bad = "#!/usr/bin/env bash\nfor f in $(ls *.c); do rm $f; done\n"
        for path in ("deploy/a.sh", ".ci/run"):
            with self.subTest(path=path):
                self.plant(path, bad)
                self.assertTrue(any(line.startswith(f"{path}:2:") for line in self.found("shell")))
                os.remove(os.path.join(self.tree.name, path))

    def test_scripts_that_are_good_and_other_files_are_allowed(self):
        self.plant("a.sh", "#!/usr/bin/env bash\nset -eu\necho \"$1\"\n")
        self.plant("b", "#!/usr/bin/env python3\nfor f in $(ls); do\n")
        self.plant("c.txt", "rm $f\n")
        self.assertEqual(self.found("shell"), [])

    def test_sources_in_another_format_are_found(self):
        shutil.copy(os.path.join(ROOT, ".clang-format"), self.tree.name)
        self.plant("node/good.c", "int good(void)\n{\n    return 1;\n}\n")
        self.assertEqual(self.found("format"), [])
        self.plant("node/bad.h", "int  bad (void) ;\n")
        self.assertTrue(any(line.startswith("node/bad.h:1:") for line in self.found("format")))

    def test_files_are_those_that_git_tracks(self):
        git = ["git", "-C", self.tree.name, "-c", "user.name=a", "-c", "user.email=a@localhost"]
        if shutil.which("git") is None:
            self.skipTest("git is not installed")
        subprocess.run([*git, "init", "-q"], check=True)
        for path in ("kept.c", "gone.c", "untracked.c"):
            self.plant(path, "TODO\n")
        subprocess.run([*git, "add", "kept.c", "gone.c"], check=True)
        os.remove(os.path.join(self.tree.name, "gone.c"))
        self.assertEqual(tracked.files_of(self.tree.name), ["kept.c"])

    def test_missing_tool_is_a_finding(self):
        self.assertEqual(tracked.run_tool(self.tree.name, ["no-such-tool"], ["a"]),
                         ["no-such-tool is not installed: run deploy/deps.sh"])

    def test_main_says_and_fails(self):
        self.assertEqual(tracked.main(["tracked.py", "words", self.tree.name]), 0)
        self.plant("a.c", "/* FIXME */\n")
        self.assertEqual(tracked.main(["tracked.py", "words", self.tree.name]), 1)
        self.assertEqual(tracked.main(["tracked.py", "nonsense"]), 2)


if __name__ == "__main__":
    unittest.main()
