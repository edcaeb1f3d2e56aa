"""Rot in files that nobody reads, in running nodes: it is found, and the replica that has it is made anew."""

import os
import unittest

from lightq_cluster import SLOW, Cluster, wait_for

ARGS = "--set segment.bytes=256k --set cache.bytes=1m --set scrub.interval=1s --set scrub.bytes.per.second=256m"
CALM = f" --set raft.election.ms={int(2 * SLOW)}s --set raft.stall.ms={int(6 * SLOW)}s"  # no leader changes for slowness


class ScrubTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(args=ARGS + CALM).up()
        self.addCleanup(self.close)
        c = self.cluster
        c.lightq("topic", "create", "t")
        c.lightq("produce", "t", "--count", 20000, "--size", 100, "--acked", c.folder / "acked")
        c.wait_equal("t")

    def close(self):
        outcome = self._outcome.result
        failed = any(test is self for test, _ in outcome.failures + outcome.errors)
        self.cluster.close(failed)

    def sealed_segments(self, node):
        """Of the only partition, oldest first."""
        folder = self.cluster.folder / "cluster" / f"n{node}" / "data"
        found = sorted(log for log in folder.glob("g*/*.log") if log.with_suffix(".idx").exists())
        return [log for log in found if not log.parent.name.startswith("g0-")]

    def flip(self, node, which):
        segments = wait_for(lambda: self.sealed_segments(node), f"sealed segments on node {node}")
        segment = segments[which]
        with open(segment, "r+b") as file:
            file.seek(segment.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0x10]))
            file.flush()
            os.fsync(file.fileno())
        return segment

    def wait_rebuilt(self, node):
        log = self.cluster.folder / "cluster" / f"n{node}" / "log"
        wait_for(lambda: "stored entries damaged" in log.read_text(errors="replace"), f"node {node} saying so")
        wait_for(lambda: [g for g in (log.parent / "data").glob("g[1-9]*-*") if not g.name.endswith("-1")],
                 f"a new replica on node {node}")
        wait_for(lambda: not list((log.parent / "data").glob("g[1-9]*-1")), f"the old one on node {node} being gone")

    def check_all(self):
        c = self.cluster
        c.wait_equal("t")
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked"], ["log"])

    def test_scrub_rot_in_a_follower_is_found_and_mended(self):
        leader = self.cluster.leader("t")
        follower = leader % 3 + 1

        bad = self.flip(follower, 1)

        self.wait_rebuilt(follower)
        self.check_all()
        self.assertFalse(bad.exists())
        self.assertEqual(self.cluster.leader("t"), leader)  # nobody was disturbed

    def test_scrub_rot_in_the_leader_is_found_and_mended(self):
        leader = self.cluster.leader("t")

        self.flip(leader, 1)

        self.wait_rebuilt(leader)
        self.check_all()

    def test_scrub_rot_in_every_replica_at_another_place_is_mended(self):  # C7
        for node in (1, 2, 3):
            self.flip(node, node - 1)

        for node in (1, 2, 3):
            self.wait_rebuilt(node)
        self.check_all()


if __name__ == "__main__":
    unittest.main()
