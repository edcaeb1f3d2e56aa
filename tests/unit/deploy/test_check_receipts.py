"""check_receipts.py must find every kind of damage: one good history, and for each check one that must fail it."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "check_receipts.py"


def acked(offset, sequence, producer="p1", partition=0):
    return f"c t {partition} {offset} {producer} {sequence} 1 crc"


def logged(offset, sequence, producer="p1", partition=0, crc="aa"):
    return f"t {partition} {offset} {producer} {sequence} {crc} 1"


class CheckReceipts(unittest.TestCase):
    def run_on(self, acked_lines, log_lines):
        with tempfile.TemporaryDirectory() as folder:
            paths = {}
            for name, lines in (("acked", acked_lines), ("log", log_lines)):
                paths[name] = pathlib.Path(folder) / name
                paths[name].write_text("".join(line + "\n" for line in lines), encoding="ascii")
            return subprocess.run(
                [sys.executable, PROGRAM, "--acked", paths["acked"], "--log", paths["log"]],
                capture_output=True, text=True, check=False)

    def assert_found(self, result, words):
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(words, result.stdout)

    def test_receipts_good_history_passes(self):
        result = self.run_on([acked(0, 0), acked(1, 1), acked("-", 2)], [logged(0, 0), logged(1, 1), logged(2, 2)])

        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("acknowledged 3, read 3: lost 0, doubled 0, two values 0, reordered 0", result.stdout)

    def test_receipts_unacknowledged_extra_passes(self):
        self.assertEqual(self.run_on([acked(0, 0)], [logged(0, 0), logged(1, 1)]).returncode, 0)

    def test_receipts_missing_message_is_lost(self):
        self.assert_found(self.run_on([acked(0, 0), acked(1, 1)], [logged(0, 0)]), "lost 1")

    def test_receipts_other_value_at_offset_is_lost(self):
        self.assert_found(self.run_on([acked(0, 0)], [logged(0, 7)]), "lost 1")

    def test_receipts_unknown_offset_not_stored_is_lost(self):
        self.assert_found(self.run_on([acked("-", 3)], [logged(0, 0)]), "lost 1")

    def test_receipts_same_sequence_at_two_offsets_is_doubled(self):
        self.assert_found(self.run_on([acked(0, 0)], [logged(0, 0), logged(1, 0)]), "doubled 1")

    def test_receipts_two_values_at_one_offset_are_found(self):
        self.assert_found(self.run_on([acked(0, 0)], [logged(0, 0), logged(0, 0, crc="bb")]), "two values 1")

    def test_receipts_order_of_a_producer_is_checked(self):
        self.assert_found(self.run_on([acked(0, 5)], [logged(0, 5), logged(1, 4)]), "reordered 1")

    def test_receipts_order_is_per_producer_and_partition(self):
        log = [logged(0, 5), logged(1, 4, producer="p2"), logged(0, 4, partition=1)]

        self.assertEqual(self.run_on([acked(0, 5)], log).returncode, 0)

    def test_receipts_nothing_acknowledged_proves_nothing(self):
        self.assertEqual(self.run_on([], [logged(0, 0)]).returncode, 1)

    def test_receipts_malformed_line_is_refused(self):
        self.assertEqual(self.run_on(["c t 0"], [logged(0, 0)]).returncode, 2)


if __name__ == "__main__":
    unittest.main()
