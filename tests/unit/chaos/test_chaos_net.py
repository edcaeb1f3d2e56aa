"""What chaos/run judges by itself: changes of leader that nothing explains, and what it makes of histories and verdicts."""

import json
import pathlib
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "chaos" / "net"), str(ROOT / "tests" / "integration")]

import recorder  # noqa: E402
import report  # noqa: E402
import scenarios  # noqa: E402
import timeline  # noqa: E402

S = 1000000
WANTED = ("kill-leader kill-random kill-all pause-leader isolate-leader halves one-way bridge ring loss-delay reset clock "
          "disk-full fsync-eio slow-disk hung-disk power-one power-all bit-flip truncate lost-segment bad-checkpoint "
          "bad-journal wipe old-copy fds starve roll transfer-storm none mix").split()


class RecorderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "cluster"
        self.r = recorder.Recorder(self.path, None, "t")
        self.addCleanup(self.r.close)
        self.r.logs[5] = "t/0"

    def fault(self, kind, nodes, begun_s, healed_s, majority=False):
        fault = self.r.fault(kind, nodes, majority)
        fault.begun_us, fault.healed_us = begun_s * S, healed_s * S
        return fault

    def test_recorder_change_after_a_fault_of_the_leader_is_explained(self):
        self.fault("kill", [1], 10, 14)
        self.r.leads = [(1 * S, "t/0", 2, 1), (11 * S, "t/0", 3, 2)]

        self.assertEqual(self.r.needless_changes(), [])

    def test_recorder_leader_that_was_left_alone_is_explained(self):
        self.fault("kill", [2, 3], 10, 12, majority=True)
        self.r.leads = [(1 * S, "t/0", 2, 1), (13 * S, "t/0", 4, 1)]

        self.assertEqual(self.r.needless_changes(), [])

    def test_recorder_fault_that_is_noted_a_little_late_explains(self):
        self.fault("isolate", [3], 2, 9)
        self.fault("eio", [1], 10, 14)
        self.r.leads = [(1 * S, "t/0", 2, 1), (10 * S - 20000, "t/0", 3, 2)]

        self.assertEqual(self.r.needless_changes(), [])

    def test_recorder_change_after_a_return_is_found(self):
        self.fault("pause", [1], 10, 14)
        self.r.leads = [(1 * S, "t/0", 2, 1), (11 * S, "t/0", 3, 2), (15 * S, "t/0", 4, 1)]

        self.assertEqual(self.r.needless_changes(), [(15 * S, "t/0", 4, 2, 1)])

    def test_recorder_change_of_a_follower_that_returns_is_found(self):
        self.fault("isolate", [3], 10, 14)
        self.r.leads = [(1 * S, "t/0", 2, 1), (14 * S + 1, "t/0", 9, 2)]

        self.assertEqual(len(self.r.needless_changes()), 1)

    def test_recorder_change_long_after_a_return_is_not_put_down_to_it(self):
        self.fault("isolate", [3], 10, 14)
        self.r.leads = [(1 * S, "t/0", 2, 1), (25 * S, "t/0", 3, 2)]

        self.assertEqual(self.r.needless_changes(), [])

    def test_recorder_planned_change_is_explained_for_its_log_only(self):
        self.fault("isolate", [3], 10, 14)
        self.r.leads = [(1 * S, "t/0", 2, 1), (1 * S, "t/1", 2, 1), (16 * S, "t/0", 3, 2), (16 * S, "t/1", 3, 2)]
        self.r.hand_overs = [(15 * S, "t/0")]

        self.assertEqual(self.r.needless_changes(), [(16 * S, "t/1", 3, 1, 2)])

    def test_recorder_change_while_the_machine_stood_still_is_explained(self):
        self.fault("isolate", [3], 10, 14)
        self.r.leads = [(1 * S, "t/0", 2, 1), (16 * S, "t/0", 3, 2)]
        self.r.stalls = [(14 * S, 15 * S)]

        self.assertEqual(self.r.needless_changes(), [])

    def test_recorder_time_stood_still_counts_once(self):
        self.r.stalls = [(1 * S, 3 * S), (2 * S, 4 * S), (10 * S, 11 * S)]

        self.assertEqual(self.r.stalled_seconds(), 4)
        self.assertEqual(self.r.stalled_seconds(3 * S), 2)
        self.assertEqual(self.r.stalled_seconds(12 * S), 0)

    def test_recorder_change_after_a_clock_was_set_is_found(self):
        self.fault("clock", [], 10, 14)
        self.r.leads = [(1 * S, "t/0", 2, 1), (12 * S, "t/0", 3, 2)]

        self.assertEqual(len(self.r.needless_changes()), 1)

    def test_recorder_reads_the_nodes_logs(self):
        log = self.folder / "log"
        log.write_text('ts=2026 level=info module=group at=raft/group.c:1 thread=1 msg=leads group=5 term=7\n'
                       'ts=2026 level=info module=watch msg="leadership is handed over" group=5 term=7\n'
                       'ts=2026 level=info module=group msg=leads group=99 term=1\n'
                       'ts=2026 level=error module=watch msg="this replica stops" group=5 status=ECORRUPT why=rot\n'
                       'msg="leads group=5 term', encoding="ascii")
        self.r.ended.set()

        self.r.follow_forever({2: log})

        self.assertEqual([lead[1:] for lead in self.r.leads], [("t/0", 7, 2)])
        self.assertEqual([log for _, log in self.r.hand_overs], ["t/0", "t/0"])
        self.r.close()
        self.assertRegex(self.path.read_text(encoding="ascii"), r"leader \d+ n2 t/0 7 n2\n")

    def test_recorder_log_lines_are_those_that_nodes_write(self):
        source = (ROOT / "raft" / "group.c").read_text() + (ROOT / "raft" / "watch.c").read_text()

        for message in ('"leads", "group"', '"leadership is handed over", "group"', 'handing leadership over", "group"',
                        '"this replica stops", "group"'):
            self.assertIn(message, source)

    def test_recorder_wiped_node_is_another_observer(self):
        self.r.wiped(2)
        self.r.take_line(2, b"msg=leads group=5 term=7")
        self.r.close()

        self.assertRegex(self.path.read_text(encoding="ascii"), r"leader \d+ n2-2 t/0 7 n2\n")

    def test_timeline_is_well_formed_and_names_what_happened(self):
        (self.folder / "history").mkdir()
        begin = self.r.began_us
        (self.folder / "history" / "producer0").write_text(
            "".join(f"ok {begin + i * S // 10} p {i} t/0 {i} 2\n" for i in range(100)), encoding="ascii")
        self.r.fault("kill", [1])
        self.r.faults[0].begun_us, self.r.faults[0].healed_us = begin + 2 * S, begin + 4 * S
        self.r.leads = [(begin, "t/0", 2, 1), (begin + 3 * S, "t/0", 3, 2)]

        timeline.draw(self.folder, "<title> & more", self.r)

        text = (self.folder / "timeline.svg").read_text(encoding="utf-8")
        xml.etree.ElementTree.fromstring(text)
        for part in ("f1-kill-n1", "node 2, term 3", "leader of t/0", "&lt;title&gt;", "polyline"):
            self.assertIn(part, text)

    def test_timeline_of_nothing_is_drawn(self):
        (self.folder / "history").mkdir()

        timeline.draw(self.folder, "none", self.r)

        xml.etree.ElementTree.fromstring((self.folder / "timeline.svg").read_text(encoding="utf-8"))


class ReportTest(unittest.TestCase):
    def judged(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        (path / "history").mkdir()
        (path / "history" / "all").write_text("lightq-history 1\n" + text, encoding="ascii")
        return path, report.check(path)

    def test_report_good_history_passes(self):
        path, verdict = self.judged("reader r final\nattempt 1 p 0 t/0 a\nok 2 p 0 t/0 0 1\nread 3 r t/0 0 p 0 a\n")

        self.assertEqual(report.violations(verdict), [])
        self.assertIn("passed", report.row("none", verdict, 0, "passed"))
        self.assertTrue(json.loads((path / "verdict.json").read_text(encoding="utf-8"))["passed"])
        self.assertIn("passed", (path / "verdict.txt").read_text(encoding="utf-8"))

    def test_report_lost_message_is_named(self):
        _, verdict = self.judged("reader r final\nattempt 1 p 0 t/0 a\nok 2 p 0 t/0 0 1\nend 3 t/0 0\n")

        self.assertTrue(any(line.startswith("lost 1") for line in report.violations(verdict)))

    def test_report_message_that_the_last_reader_does_not_get_is_lost(self):
        _, verdict = self.judged("reader r subscriber\nreader f final\nattempt 1 p 0 t/0 a\nok 2 p 0 t/0 0 1\n"
                                 "read 3 r t/0 0 p 0 a\nattempt 4 p 1 t/0 b\nok 5 p 1 t/0 0 2\nread 9 f t/0 0 p 1 b\n")

        self.assertEqual(report.row("x", verdict, 0, "FAILED").split()[5], "1")

    def test_report_history_of_nothing_does_not_pass(self):
        _, verdict = self.judged("attempt 1 p 0 t/0 a\n")

        self.assertNotEqual(report.violations(verdict), [])

    def test_report_unusable_history_does_not_pass(self):
        _, verdict = self.judged("nonsense\n")

        self.assertIsNone(verdict)
        self.assertNotEqual(report.violations(verdict), [])


class ScenariosTest(unittest.TestCase):
    def test_scenarios_all_are_there_and_the_mix_names_real_ones(self):
        self.assertEqual([name for name in WANTED if name not in scenarios.SCENARIOS], [])
        self.assertEqual([name for name in scenarios.MIXED if name not in scenarios.SCENARIOS], [])

    def test_scenarios_ring_gives_each_node_its_own_majority(self):
        cuts = []
        place = types.SimpleNamespace(cut=lambda deaf, other: cuts.append((deaf, other)), heal=lambda node: None,
                                      namespaces=True)
        r = types.SimpleNamespace(
            c=types.SimpleNamespace(nodes=range(1, 6), count=5, place=place, wait_whole=lambda topic: None), topic="t",
            dice=types.SimpleNamespace(sample=lambda nodes, count: list(nodes)[:count], uniform=lambda low, high: 0),
            load=types.SimpleNamespace(wait_flow=lambda: None), note=lambda kind, nodes: None, healed=lambda: None)

        scenarios.SCENARIOS["ring"](r)

        heard = {node: {n for n in range(1, 6) if n != node} - {other for deaf, other in cuts if deaf == node}
                 for node in range(1, 6)}
        self.assertTrue(all(len(others) == 2 for others in heard.values()))
        self.assertEqual(len({frozenset(others | {node}) for node, others in heard.items()}), 5)
        self.assertTrue(all((b, a) in cuts for a, b in cuts))


if __name__ == "__main__":
    unittest.main()
