"""Nodes are replaced while others are away: who comes back catches up with whom it never heard of, and who was replaced
without being stopped finds out, ends and serves nothing (docs/adr/0010-behind-the-catalog.md)."""

import json
import pathlib
import shutil
import subprocess
import unittest

from lightq_cluster import Cluster, SLOW, has_ended, wait_for


class ReplaceTest(unittest.TestCase):
    def start_cluster(self, nodes):
        self.cluster = Cluster(nodes).up()
        self.addCleanup(self.close)
        return self.cluster

    def close(self):
        outcome = self._outcome.result
        failed = any(test is self for test, _ in outcome.failures + outcome.errors)
        self.cluster.close(failed)

    def wait_voting(self, nodes):
        """Waits until these nodes, and no other that is not down, decide in the meta group."""
        def voting():
            done = self.cluster.lightq("--format", "json", "cluster", "status", check=False)
            if done.returncode != 0:
                return False
            replicas = json.loads(done.stdout)["catalog"]["replicas"]
            roles = {r["node"]: r.get("role") for r in replicas}
            return all(roles.get(node) in ("leader", "follower") for node in nodes)

        wait_for(voting, f"nodes {nodes} voting in the meta group", 60)

    def replace(self, node):
        """What an operator does about a lost directory."""
        self.cluster.script("kill", node)
        self.cluster.script("wipe", node)
        self.cluster.script("start", node)
        self.wait_voting([1, 2, 3])

    def only(self, node):
        """The lightq command talks to this node alone."""
        servers = self.cluster.script("servers").stdout.strip().split(",")
        self.cluster.environment["LIGHTQ_SERVERS"] = servers[node - 1]

    def test_replace_node_that_knows_nobody_any_more_catches_up(self):
        c = self.start_cluster(4)
        self.wait_voting([1, 2, 3])
        c.script("stop", 4)
        for node in (1, 2, 3):
            self.replace(node)
        c.lightq("topic", "create", "later")
        c.lightq("produce", "later", "--count", 100, "--size", 10)

        c.script("start", 4)

        self.only(4)
        read = wait_for(lambda: c.lightq("consume", "later", "--until-end", "--log", c.folder / "log",
                                         check=False).returncode == 0, "reading through the node that was away", 60)
        self.assertTrue(read)
        self.assertEqual(c.acked_lines("log"), 100)

    def wait_homes(self, topic, nodes, what):
        """Waits until the replicas of the only partition are on these nodes."""
        self.cluster.when_described(
            topic, lambda seen: sorted(r["node"] for r in seen["partitions"][0]["replicas"]) == nodes, what)

    def wait_voters(self, topic, nodes, what):
        self.cluster.when_described(
            topic, lambda seen: sorted(r["node"] for r in seen["partitions"][0]["replicas"]
                                       if r["role"] in ("leader", "follower")) == nodes, what)

    def test_replace_by_others_moves_replicas_and_tops_them_up_when_a_node_comes(self):
        c = self.start_cluster(4)
        self.wait_voting([1, 2, 3])
        c.script("stop", 4)
        self.only(1)
        wait_for(lambda: "down" in c.lightq("cluster", "status", check=False).stdout, "node 4 being down")
        c.lightq("topic", "create", "t")
        c.lightq("produce", "t", "--count", 5000, "--size", 100, "--acked", c.folder / "acked")
        self.wait_homes("t", [1, 2, 3], "replicas where nodes are")
        c.script("start", 4)

        c.script("kill", 3)
        wait_for(lambda: c.lightq("node", "replace", 3, 4, check=False).returncode == 0, "node 3 replaced by node 4")
        self.wait_homes("t", [1, 2, 4], "the replica on node 4")
        self.wait_voters("t", [1, 2, 4], "the replica on node 4 voting: without it two of two are needed")
        c.wait_equal("t")
        self.wait_voting([1, 2, 4])
        c.script("kill", 2)
        wait_for(lambda: c.lightq("node", "replace", 2, 1, check=False).returncode == 0, "node 2 given up")
        self.wait_homes("t", [1, 4], "two replicas")
        c.script("wipe", 2)
        c.script("start", 2)

        self.wait_homes("t", [1, 2, 4], "a third replica where a node has come")
        c.wait_equal("t")
        c.lightq("produce", "t", "--count", 5000, "--size", 100, "--acked", c.folder / "acked2")
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked", "acked2"], ["log"])

    def test_replace_node_that_is_only_paused_ends_when_it_goes_on(self):
        c = self.start_cluster(4)
        c.lightq("topic", "create", "t", "--partitions", 6)
        c.lightq("produce", "t", "--count", 3000, "--size", 100, "--acked", c.folder / "acked")
        paused = c.leader("t", 0)
        home = pathlib.Path(c.environment["LIGHTQ_CLUSTER_DIR"]) / f"n{paused}"
        pid = int((home / "pid").read_text())
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
        c.script("pause", paused)
        servers = c.script("servers").stdout.strip().split(",")
        del servers[paused - 1]
        c.environment["LIGHTQ_SERVERS"] = ",".join(servers)
        wait_for(lambda: c.lightq("node", "replace", paused, paused, check=False).returncode == 0,
                 "the replacement of a node that does not answer", 60)

        c.script("resume", paused)

        wait_for(lambda: has_ended(pid), "the old process ending", 60)
        again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 * SLOW)
        self.assertEqual(again.returncode, 1)
        said = [line for line in again.stderr.splitlines() if line.startswith("lightqd: ")]
        self.assertEqual(len(said), 1, again.stderr)
        self.assertRegex(said[0], f"node {paused} was replaced.*[Mm]ove it away")
        self.assertNotIn("ready ", again.stdout)
        c.script("wipe", paused)
        c.script("start", paused)
        c.lightq("produce", "t", "--count", 3000, "--size", 100, "--acked", c.folder / "acked2")
        c.wait_equal("t")
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked", "acked2"], ["log"])

    def test_replace_node_that_is_up_is_refused_unless_insisted_on(self):
        c = self.start_cluster(3)
        home = pathlib.Path(c.environment["LIGHTQ_CLUSTER_DIR"]) / "n3"
        c.lightq("topic", "create", "t")
        c.lightq("produce", "t", "--count", 2000, "--size", 100, "--acked", c.folder / "acked")
        pid = int((home / "pid").read_text())

        for target in (3, 2):  # by itself, and by another
            refused = c.lightq("node", "replace", 3, target, check=False)
            self.assertEqual(refused.returncode, 1, refused.stdout)
            self.assertRegex(refused.stderr, "^lightq: EINVAL: node 3 is up .*thrown away.*--yes-replace-live-node")
        self.assertFalse(has_ended(pid))
        c.wait_equal("t")

        c.lightq("node", "replace", 3, 3, "--yes-replace-live-node")
        wait_for(lambda: has_ended(pid), "the node that was replaced while it was up ending", 60)
        c.script("wipe", 3)
        c.script("start", 3)  # asks once more
        again = int((home / "pid").read_text())
        c.lightq("node", "replace", 3, 3, check=False)  # as who has not heard of that
        c.wait_equal("t")
        self.assertFalse(has_ended(again))
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked"], ["log"])

    def test_replace_older_copy_is_refused_however_often_it_is_started(self):
        c = self.start_cluster(3)
        home = pathlib.Path(c.environment["LIGHTQ_CLUSTER_DIR"]) / "n3"
        c.lightq("topic", "create", "t")
        c.lightq("produce", "t", "--count", 2000, "--size", 100, "--acked", c.folder / "acked")
        command = pathlib.Path(f"/proc/{int((home / 'pid').read_text())}/cmdline").read_text().split("\0")[:-1]
        c.script("stop", 3)
        shutil.copytree(home / "data", home / "copy")
        c.script("start", 3)
        c.lightq("produce", "t", "--count", 2000, "--size", 100, "--acked", c.folder / "acked2")
        c.wait_equal("t")
        c.script("kill", 3)
        shutil.rmtree(home / "data")
        shutil.copytree(home / "copy", home / "data")

        for _ in range(4):  # each start counts: the third would look newer than all that was seen
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 * SLOW)
            self.assertEqual(ended.returncode, 1, ended.stderr)
            said = [line for line in ended.stderr.splitlines() if line.startswith("lightqd: ")]
            self.assertRegex(said[0], "copy.*lightq node replace 3 3")
            self.assertNotIn("ready ", ended.stdout)
        c.script("wipe", 3)
        c.script("start", 3)
        c.wait_equal("t")
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked", "acked2"], ["log"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
