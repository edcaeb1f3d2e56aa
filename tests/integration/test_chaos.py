"""chaos/run on somebody's cluster, and lightq verify on real nodes: both must find everything well, and say what is not."""

import signal
import subprocess
import unittest

from lightq_cluster import ROOT, SLOW, Cluster, wait_for


class ChaosTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster().up()
        self.addCleanup(self.close)

    def close(self):
        outcome = self._outcome.result
        failed = any(test is self for test, _ in outcome.failures + outcome.errors)
        self.cluster.close(failed)

    def test_against_survives_what_the_user_does_until_interrupted(self):
        c = self.cluster
        report = c.folder / "report"
        with open(c.folder / "said", "w+", encoding="utf-8") as said:
            run = subprocess.Popen([ROOT / "chaos" / "run", "--against", c.environment["LIGHTQ_SERVERS"], "--rate", "400",
                                    "--report", report], stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
                                   env=c.environment)
            try:
                wait_for(lambda: "break the cluster now" in (c.folder / "said").read_text() or run.poll() is not None,
                         "the load", 60)
                for node in (1, 2):
                    c.script("kill", node)
                    c.script("start", node)
                run.send_signal(signal.SIGINT)
                code = run.wait(timeout=240 * SLOW)
            finally:
                if run.poll() is None:
                    run.kill()
                    run.wait()
            text = (c.folder / "said").read_text()

        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"(?m)^against .* passed$")
        for name in ("verdict.txt", "verdict.json", "timeline.svg", "describe.json", "receipts", "history"):
            self.assertTrue((report / "against" / name).exists(), name)
        self.assertEqual(c.lightq("topic", "list").stdout, "")  # it leaves nothing behind

    def test_against_without_a_cluster_fails(self):
        done = subprocess.run([ROOT / "chaos" / "run", "--against", "127.0.0.1:1", "--duration", "1", "--report",
                               self.cluster.folder / "report"], capture_output=True, text=True, check=False, timeout=120 * SLOW)

        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("ECONNECT", done.stderr)

    def test_verify_finds_everything_and_what_is_not(self):
        c = self.cluster
        acked = c.folder / "acked"
        c.lightq("topic", "create", "t", "--partitions", 3)
        c.lightq("produce", "t", "--count", 20000, "--size", 100, "--acked", acked)
        c.script("kill", c.leader("t"))

        verified = c.lightq("verify", "--acked", acked)

        self.assertIn("20000 receipts: 20000 stored with their checksum, 0 different, 0 missing", verified.stdout)
        lines = acked.read_text(encoding="ascii").splitlines()
        words = lines[4711].split()
        lines[4711] = " ".join([*words[:7], str(int(words[7]) ^ 1)])
        acked.write_text("\n".join(lines) + "\n", encoding="ascii")
        refused = c.lightq("verify", "--acked", acked, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("line 4712", refused.stderr)
        self.assertIn("19999 stored with their checksum, 1 different, 0 missing", refused.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
