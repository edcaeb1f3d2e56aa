"""lightq-check as people call it: its exit status, its files and options, and on random receipts, good and damaged, the
same verdict as a second judge, written here in another way."""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(os.environ["LIGHTQ_BIN"]) / "lightq-check"

GOOD = """lightq-history 1
reader r subscriber
attempt 1000 p 0 t/0 a0
ok 2000 p 0 t/0 0 1
fault 10000 f minority kill
attempt 11000 p 1 t/0 a1
ok 15000 p 1 t/0 1 1
read 20000 r t/0 0 p 0 a0
read 20000 r t/0 1 p 1 a1
"""


class CheckProgram(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(text, encoding="ascii")
        return path

    def run_on(self, *words):
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)

    def test_program_good_history_exits_0(self):
        done = self.run_on(self.file("h", GOOD))

        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("passed: attempted 2, acknowledged 2", done.stdout)

    def test_program_manual_page_names_the_options_of_help(self):
        page = pathlib.Path(__file__).resolve().parents[3] / "docs" / "man" / "lightq-check.1"

        told = set(re.findall(r"^  (--[a-z-]+)", self.run_on("--help").stdout, re.M))

        explained = re.findall(r"^\.TP\n\.BI? (\S+)", page.read_text(encoding="ascii"), re.M)
        self.assertEqual(told, {word.replace("\\", "") for word in explained if word.startswith("\\-")})

    def test_program_broken_history_exits_1(self):
        done = self.run_on(self.file("h", GOOD + "read 1 r t/0 3 p 7 a1\n"))

        self.assertEqual(done.returncode, 1)
        self.assertIn("r in t/0: offset 3 where 2 was next", done.stdout)

    def test_program_several_histories_are_one(self):
        lines = GOOD.splitlines(keepends=True)
        first = self.file("first", "".join(lines[:2] + lines[7:]))
        second = self.file("second", "".join(lines[:1] + lines[2:7]))

        self.assertEqual(self.run_on(first, second).returncode, 0)

    def test_program_options_change_the_verdict(self):
        history = self.file("h", GOOD)
        unread = self.file("u", GOOD + "attempt 90000 p 2 t/0 a2\nok 90001 p 2 t/0 2 1\n")

        self.assertEqual(self.run_on("--recovery-max", "5", history).returncode, 0)
        self.assertEqual(self.run_on("--recovery-max", "3", history).returncode, 1)
        self.assertEqual(self.run_on("--recovery-median", "3", history).returncode, 1)
        self.assertEqual(self.run_on(unread).returncode, 1)
        self.assertEqual(self.run_on("--allow-unread", unread).returncode, 0)

    def test_program_json_is_one_object(self):
        done = self.run_on("--json", self.file("h", GOOD))

        report = json.loads(done.stdout)
        self.assertTrue(report["passed"])
        self.assertEqual(report["recovery"]["max_us"], 4000)

    def test_program_examples_are_as_many_as_asked(self):
        broken = self.file("h", GOOD + "".join(f"read 9 r t/0 {i + 2} x {i} a1\n" for i in range(9)))

        none = json.loads(self.run_on("--json", "--examples", "0", broken).stdout)["checkers"]["unexpected"]
        seven = json.loads(self.run_on("--json", "--examples", "7", broken).stdout)["checkers"]["unexpected"]

        self.assertEqual((none["violations"], len(none["examples"])), (9, 0))
        self.assertEqual((seven["violations"], len(seven["examples"])), (9, 7))

    def test_program_unusable_input_exits_2_with_a_sentence(self):
        good = self.file("h", GOOD)
        bad = self.file("bad", GOOD + "nonsense\n")
        for words, sentence in (
                ([], "give either histories, or both --acked and --log files"),
                (["--acked", good], "give either histories, or both --acked and --log files"),
                ([good, "--acked", good, "--log", good], "give either histories, or both --acked and --log files"),
                (["--nonsense", good], "unknown option: --nonsense"),
                (["--examples", "17", good], "a number must follow: --examples"),
                (["--recovery-max"], "a number must follow: --recovery-max"),
                ([bad], f"{bad}:10: \"nonsense\" is no kind of line"),
                ([self.folder.name + "/missing"], f"open {self.folder.name}/missing: ENOENT")):
            with self.subTest(words=words):
                done = self.run_on(*words)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_program_help_names_every_option(self):
        done = self.run_on("--help")

        self.assertEqual(done.returncode, 0)
        for option in ("--acked", "--log", "--ordered", "--recovery-max", "--allow-unread", "--examples", "--json"):
            self.assertIn(option, done.stdout)

    def test_program_output_to_a_full_disk_exits_2(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for words in ([], ["--json"]):
                done = subprocess.run([PROGRAM, *words, self.file("h", GOOD)], stdout=full, stderr=subprocess.PIPE,
                                      check=False)
                self.assertEqual(done.returncode, 2)


def receipts(rng):
    """Random receipts and logs of a cluster that kept everything: two lists of lists of words."""
    acked, log = [], []
    for partition in range(rng.randint(1, 3)):
        sequences = {}
        for offset in range(rng.randint(1, 30)):
            producer = rng.choice(("17", "18", "19"))
            sequence = sequences.get(producer, rng.randint(0, 2))
            sequences[producer] = sequence + rng.choice((1, 1, 1, 2))
            crc = f"{rng.getrandbits(32):08x}"
            log.append(["t", str(partition), str(offset), producer, str(sequence), crc, "1"])
            if rng.random() < 0.9:
                told = str(offset) if rng.random() < 0.9 else "-"
                acked.append(["c", "t", str(partition), told, producer, str(sequence), "3", f"{rng.getrandbits(32):x}"])
    return acked, log


def damage(rng, acked, log):
    """Changes one thing, or nothing."""
    kind = rng.randrange(8)
    victim = rng.choice(log)
    if kind == 1:
        log.remove(victim)
    elif kind == 2:
        log.append(victim[:2] + [str(rng.randint(0, 40))] + victim[3:])
    elif kind == 3:
        log.append(victim[:5] + [f"{rng.getrandbits(32):08x}", "1"])
    elif kind == 4:
        other = rng.choice(log)
        victim[4], other[4] = other[4], victim[4]
    elif kind == 5 and acked:
        rng.choice(acked)[3] = str(rng.randint(0, 40))
    elif kind == 6 and acked:
        rng.choice(acked)[5] = str(rng.randint(0, 40))
    elif kind == 7:
        rng.shuffle(log)


def holds(acked, log):
    """Whether nothing acknowledged is lost, nothing doubled or reordered, and no offset has two values."""
    stored, places = {}, {}
    for topic, partition, offset, producer, sequence, crc, _deliveries in log:
        value = (producer, int(sequence), crc)
        if stored.setdefault((topic, partition), {}).setdefault(int(offset), value) != value:
            return False
    for at, values in stored.items():
        last = {}
        for offset in sorted(values):
            producer, sequence, _crc = values[offset]
            if (at, producer, sequence) in places or sequence < last.get(producer, -1):
                return False
            places[at, producer, sequence] = offset
            last[producer] = sequence
    for _cluster, topic, partition, offset, producer, sequence, _term, _crc in acked:
        found = places.get(((topic, partition), producer, int(sequence)))
        if found is None or offset not in ("-", str(found)):
            return False
    return bool(acked)


class CheckReceiptsLikeAnother(unittest.TestCase):
    def test_program_random_receipts_same_verdict(self):
        seed = int(os.environ.get("LIGHTQ_TEST_SEED", random.randrange(1000000)))
        print("seed", seed, file=sys.stderr)
        rng = random.Random(seed)
        verdicts = set()
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / name for name in ("acked", "log")]
            for turn in range(25):
                files = receipts(rng)
                damage(rng, *files)
                for path, lines in zip(paths, files):
                    path.write_text("".join(" ".join(words) + "\n" for words in lines), encoding="ascii")
                arguments = ["--acked", paths[0], "--log", paths[1]]
                ours = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
                self.assertEqual(ours.returncode, 0 if holds(*files) else 1,
                                 f"seed {seed} turn {turn}: {ours.stdout}{ours.stderr}"
                                 f"{paths[0].read_text()}\n{paths[1].read_text()}")
                verdicts.add(ours.returncode)
        self.assertEqual(verdicts, {0, 1})


if __name__ == "__main__":
    unittest.main()
