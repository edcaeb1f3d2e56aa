"""A node whose process has no descriptors left for files, and later has them again: the others take over, and it goes on
without a restart."""

import resource
import unittest

from lightq_cluster import Cluster, has_ended, wait_for


class DescriptorsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(args="--set segment.bytes=256k --set cache.bytes=1m --set raft.stall.ms=500").up()
        self.addCleanup(self.close)

    def close(self):
        outcome = self._outcome.result
        failed = any(test is self for test, _ in outcome.failures + outcome.errors)
        self.cluster.close(failed)

    def pid(self, node):
        return int((self.cluster.folder / "cluster" / f"n{node}" / "pid").read_text())

    def log_of(self, node):
        return (self.cluster.folder / "cluster" / f"n{node}" / "log").read_text(errors="replace")

    def test_descriptors_run_out_and_come_back(self):
        c = self.cluster
        c.lightq("topic", "create", "t")
        producer = c.start_lightq("produce", "t", "--count", 60000, "--size", 100, "--rate", 10000,
                                  "--acked", c.folder / "acked1")
        c.wait_acked("acked1", 5000, producer)  # it is connected: for new clients there will be no descriptor either
        leader = c.leader("t")
        pid = self.pid(leader)
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))  # below all that are open: none can be opened

        c.finish(producer)

        wait_for(lambda: "no descriptor for" in self.log_of(leader), f"node {leader} saying what it lacks")
        wait_for(lambda: c.leader("t") != leader, "another leader")
        self.assertNotIn("this replica stops", self.log_of(leader))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        c.wait_equal("t")
        self.assertEqual(self.pid(leader), pid)
        self.assertFalse(has_ended(pid))
        c.lightq("produce", "t", "--count", 5000, "--size", 100, "--acked", c.folder / "acked2")
        c.wait_equal("t")
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked1", "acked2"], ["log"])


if __name__ == "__main__":
    unittest.main()
