"""Three real nodes: produce and consume through killed, paused, stopped and wiped nodes. The numbers in the tests'
comments name rows of the catalogue of known failures that docs/reliability-cases.md walks through."""

import json
import signal
import unittest

from lightq_cluster import SLOW, Cluster, wait_for


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster().up()
        self.addCleanup(self.close)

    def close(self):
        outcome = self._outcome.result
        failed = any(test is self for test, _ in outcome.failures + outcome.errors)
        self.cluster.close(failed)

    def produce_through(self, topic, count, act, rate=20000):
        """Produces count messages and calls act() when a third is acknowledged."""
        c = self.cluster
        producer = c.start_lightq("produce", topic, "--count", count, "--size", 100, "--rate", rate,
                                  "--acked", c.folder / "acked")
        c.wait_acked("acked", count // 3, producer)
        act()
        c.finish(producer)
        self.assertEqual(c.acked_lines("acked"), count)

    def read_and_check(self, topic):
        c = self.cluster
        c.lightq("consume", topic, "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked"], ["log"])

    def test_cluster_produced_lines_are_consumed_in_order(self):
        c = self.cluster
        c.lightq("topic", "create", "lines")
        c.lightq("produce", "lines", data="one\ntwo\n\nfour\n")

        read = c.lightq("consume", "lines", "--until-end", "--print")

        self.assertEqual(read.stdout, "one\ntwo\n\nfour\n")  # J1: an empty message is a message

    def test_cluster_many_partitions_spread_their_leaders(self):
        c = self.cluster
        c.lightq("topic", "create", "wide", "--partitions", 12)

        def spread(seen):
            leaders = [p["leader"] for p in seen["partitions"]]
            return all(leaders.count(node) >= 2 for node in (1, 2, 3))

        c.when_described("wide", spread, "leaders on all nodes")
        c.lightq("produce", "wide", "--count", 6000, "--size", 50, "--acked", c.folder / "acked")
        self.read_and_check("wide")
        c.wait_equal("wide")

    def test_cluster_killed_leader_loses_nothing(self):  # A12, E1, G1, G5
        c = self.cluster
        c.lightq("topic", "create", "t")
        killed = []

        def kill():
            killed.append(c.leader("t"))
            c.script("kill", killed[0])

        self.produce_through("t", 60000, kill)
        c.script("start", killed[0])

        self.read_and_check("t")
        c.wait_equal("t")

    def test_cluster_paused_leader_is_replaced(self):
        c = self.cluster
        c.lightq("topic", "create", "t")
        paused = []

        def pause():
            paused.append(c.leader("t"))
            c.script("pause", paused[0])

        self.produce_through("t", 60000, pause)
        c.script("resume", paused[0])

        self.read_and_check("t")
        c.wait_equal("t")

    def test_cluster_all_killed_keeps_everything(self):  # B1, B11, H1
        c = self.cluster
        c.lightq("topic", "create", "t")
        c.lightq("produce", "t", "--count", 20000, "--size", 100, "--acked", c.folder / "acked")
        for node in (1, 2, 3):
            c.script("kill", node)

        c.up()

        topics = [json.loads(line)["topic"] for line in c.lightq("--format", "json", "topic", "list").stdout.splitlines()]
        self.assertIn("t", topics)
        self.read_and_check("t")
        c.wait_equal("t")

    def test_cluster_rolling_stop_loses_nothing(self):
        c = self.cluster
        c.lightq("topic", "create", "t", "--partitions", 3)

        def roll():
            for node in (1, 2, 3):
                c.script("stop", node)
                c.script("start", node)

        self.produce_through("t", 100000, roll, rate=10000)

        self.read_and_check("t")
        c.wait_equal("t")

    def test_cluster_wiped_node_is_refused_then_replaced(self):  # F1, F3
        c = self.cluster
        c.lightq("topic", "create", "t", "--partitions", 2)
        c.lightq("produce", "t", "--count", 20000, "--size", 100, "--acked", c.folder / "acked")
        c.script("kill", 2)
        c.script("wipe", 2)

        c.script("start", 2)

        c.lightq("produce", "t", "--count", 5000, "--size", 100, "--acked", c.folder / "acked2")
        c.wait_equal("t")
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked", "acked2"], ["log"])

    def test_cluster_deleted_topic_is_gone_and_its_name_is_free(self):
        c = self.cluster
        c.lightq("topic", "create", "t")
        c.lightq("produce", "t", "--count", 100, "--size", 10)
        c.lightq("topic", "delete", "t")
        self.assertEqual(c.lightq("produce", "t", "--count", 1, "--size", 10, "--timeout", 2000,
                                  check=False).returncode, 1)

        c.lightq("topic", "create", "t")

        read = c.lightq("consume", "t", "--until-end", "--print")
        self.assertEqual(read.stdout, "")

    def test_cluster_majority_down_refuses_and_recovers(self):
        c = self.cluster
        c.lightq("topic", "create", "t")
        c.script("kill", 1)
        c.script("kill", 2)

        refused = c.lightq("produce", "t", "--count", 10, "--size", 10, "--timeout", 3000, check=False)

        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, r"E[A-Z]+")
        c.script("start", 1)
        c.lightq("produce", "t", "--count", 10, "--size", 10)

    def test_cluster_messages_given_up_are_stored_in_order_or_never(self):
        """Their proposals, or requests in a paused leader's sockets, are still under way when the producer goes on."""
        c = self.cluster
        c.lightq("topic", "create", "t")
        tried, read = c.folder / "tried", c.folder / "read"
        producer = c.start_lightq("produce", "t", "--count", 1000000, "--size", 100, "--rate", 2000, "--timeout", 1000,
                                  "--acked", c.folder / "acked", "--history", tried)

        def given_up():
            return sum(1 for line in tried.read_text().splitlines() if line.startswith("unknown "))

        def pause_until_given_up(choose):
            """Pauses whom choose(leader) names. When leadership had moved by then, others acknowledge: chosen anew."""
            c.wait_acked("acked", c.acked_lines("acked") + 1000, producer)
            before = given_up()
            while given_up() == before:
                acked = c.acked_lines("acked")
                paused = choose(c.leader("t"))
                for node in paused:
                    c.script("pause", node)
                wait_for(lambda: given_up() > before or c.acked_lines("acked") > acked + 4000,
                         "messages whose outcome is unknown, or acknowledged by another leader")
                for node in paused:
                    c.script("resume", node)

        pause_until_given_up(lambda leader: [node for node in (1, 2, 3) if node != leader])
        pause_until_given_up(lambda leader: [leader])
        producer.send_signal(signal.SIGTERM)  # it waits for what is under way
        producer.wait(60 * SLOW)

        c.wait_equal("t")
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log", "--history", read)
        c.check(["acked"], ["log"])
        c.check_history(tried, read)
        producers = {line.split()[4] for line in (c.folder / "acked").read_text().splitlines()}
        self.assertEqual(len(producers), 1)  # one id, in several epochs

    def test_cluster_bad_topic_names_are_refused(self):  # J6, J7
        for name in ("a b", "é", "x" * 250, "a\n", "", ".", "..", "../../../tmp/x"):
            refused = self.cluster.lightq("topic", "create", name, check=False)

            self.assertNotEqual(refused.returncode, 0, name)
        self.cluster.lightq("topic", "create", "x" * 249)


if __name__ == "__main__":
    unittest.main(verbosity=2)
