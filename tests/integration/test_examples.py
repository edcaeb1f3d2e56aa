"""The examples of docs/examples, built against the installed library, run against three real nodes."""

import pathlib
import subprocess
import unittest

from lightq_cluster import BIN, SLOW, Cluster

SCRIPT = pathlib.Path(__file__).resolve().parent / "examples.sh"


class ExamplesTest(unittest.TestCase):
    def test_examples_run_against_the_installed_library(self):
        cluster = Cluster().up()
        self.addCleanup(cluster.close)

        done = subprocess.run([SCRIPT, BIN.parent, cluster.environment["LIGHTQ_SERVERS"]], capture_output=True,
                              text=True, check=False, timeout=300 * SLOW)

        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("examples.sh: done", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
