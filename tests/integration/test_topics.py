"""Topics that change while they are used, on three real nodes: settings and partitions are altered, messages are dropped by
retention and on order, and looked at without being taken."""

import json
import signal
import unittest

from lightq_cluster import Cluster, wait_for


class TopicsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster().up()
        self.addCleanup(self.close)

    def close(self):
        outcome = self._outcome.result
        failed = any(test is self for test, _ in outcome.failures + outcome.errors)
        self.cluster.close(failed)

    def starts(self, topic):
        """The first offset of each partition, when all its replicas have the same; else None."""
        seen = self.cluster.try_describe(topic)
        if seen is None:
            return None
        starts = []
        for partition in seen["partitions"]:
            replicas = partition["replicas"]
            if len(replicas) != 3 or not all(r["online"] for r in replicas) or len({r["log_start"] for r in replicas}) != 1:
                return None
            starts.append(replicas[0]["log_start"])
        return starts

    def test_topics_altered_partitions_are_used_by_those_who_run(self):
        c = self.cluster
        count = 30000
        c.lightq("topic", "create", "t", "--partitions", 2)
        age = ("--set", "metadata.max.age.ms=200")
        consumer = c.start_lightq("consume", "t", "--count", count, "--log", c.folder / "log", *age)
        producer = c.start_lightq("produce", "t", "--count", count, "--size", 100, "--rate", 6000,
                                  "--acked", c.folder / "acked", *age)
        c.wait_acked("acked", count // 4, producer)

        altered = self.cluster.json_lines("topic", "alter", "t", "--partitions", 5, "--config", "retention.messages=1000000")[0]

        self.assertEqual(altered["partitions"], 5)
        c.finish(producer)
        c.finish(consumer)
        self.assertEqual(c.acked_lines("acked"), count)
        c.check(["acked"], ["log"])
        used = {line.split()[2] for line in (c.folder / "acked").read_text().splitlines()}
        self.assertEqual(used, {"0", "1", "2", "3", "4"})
        seen = c.wait_equal("t")
        self.assertEqual(len(seen["partitions"]), 5)
        self.assertEqual(seen["config"]["retention.messages"], "1000000")
        fewer = c.lightq("topic", "alter", "t", "--partitions", 4, check=False)
        self.assertEqual(fewer.returncode, 1)
        self.assertIn("EINVAL: topic t has 5 partitions, and their number only grows", fewer.stderr)

    def test_topics_compressed_messages_are_the_same_for_everyone(self):
        c = self.cluster
        count = 500
        c.lightq("topic", "create", "t")
        c.lightq("group", "create", "t", "g", "--mode", "pipeline", "--key-ordered", "--max-deliver", 1)
        for codec in ("none", "lz4", "zstd"):
            c.lightq("produce", "t", "--count", count, "--size", 2000, "--key", codec, "--compression", codec,
                     "--acked", c.folder / codec)
            self.assertEqual(c.acked_lines(codec), count)
            c.lightq("verify", "--acked", c.folder / codec)
        unknown = c.lightq("produce", "t", "--count", 1, "--compression", "rar", check=False)
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("none|lz4|zstd", unknown.stderr)

        c.lightq("consume", "t", "--until-end", "--log", c.folder / "log")
        c.check(["none", "lz4", "zstd"], ["log"])
        c.lightq("consume", "t", "--group", "g", "--ack", "nack", "--count", 3 * count, "--timeout", 60000)
        wait_for(lambda: sum(p["dead"] for p in c.json_lines("group", "describe", "t", "g")[0]["partitions"]) == 3 * count,
                 "dead letters", 60)
        letters = c.lightq("consume", "t.g.dlq", "--count", 3 * count, "--timeout", 60000)
        self.assertIn(f"{3 * count} messages consumed", letters.stdout)
        last = self.cluster.json_lines("peek", "t", "--from", 3 * count - 1, "--count", 1)[0]
        self.assertEqual(last["key"], "zstd")
        c.wait_equal("t")

    def test_topics_alteration_outlives_leaders_and_restarts(self):
        c = self.cluster
        c.lightq("topic", "create", "t")
        c.lightq("produce", "t", "--count", 500, "--size", 20)
        first = c.leader("t")
        c.script("kill", first)
        wait_for(lambda: c.leader("t") not in (0, first), "another leader")
        c.lightq("topic", "alter", "t", "--config", "retention.messages=50")
        c.script("start", first)

        wait_for(lambda: self.starts("t") == [450], lambda: f"start 450 on all replicas, not {self.starts('t')}", 90)

        for node in (1, 2, 3):
            c.script("kill", node)
        c.script("up", 3)
        wait_for(lambda: self.starts("t") == [450], lambda: f"start 450 on all replicas, not {self.starts('t')}", 90)
        c.wait_equal("t")
        self.assertEqual(c.describe("t")["config"]["retention.messages"], "50")
        self.assertEqual(c.lightq("consume", "t", "--until-end", "--print").stdout.count("\n"), 50)

    def test_topics_purge_drops_everywhere_and_outlives_restarts(self):
        c = self.cluster
        c.lightq("topic", "create", "t", "--partitions", 2)
        for partition in (0, 1):
            c.lightq("produce", "t", "--count", 300, "--size", 20, "--partition", partition)
        slow = c.start_lightq("consume", "t", "--partition", 0, "--from", 299, "--count", 1)
        c.finish(slow)

        purged = self.cluster.json_lines("topic", "purge", "t", "--partition", 0, "--to", 100)[0]

        self.assertEqual((purged["log_start"], purged["log_end"], purged["held"]), (100, 300, False))
        below = c.lightq("consume", "t", "--partition", 0, "--from", 99, "--until-end", check=False)
        self.assertEqual(below.returncode, 1)
        self.assertIn("EOUTOFRANGE", below.stderr)
        beyond = c.lightq("topic", "purge", "t", "--partition", 0, "--to", 301, check=False)
        self.assertIn("EOUTOFRANGE: partition t/0: the partition ends at offset 300, and 301 is above it", beyond.stderr)
        leader = c.leader("t", 0)
        c.script("kill", leader)  # the next leader goes on where this one was, and once more does no harm
        self.assertEqual(self.cluster.json_lines("topic", "purge", "t", "--partition", 0, "--to", 100)[0]["log_start"], 100)
        c.script("start", leader)
        wait_for(lambda: self.starts("t") == [100, 0], lambda: f"starts [100, 0], not {self.starts('t')}", 60)
        everything = self.cluster.json_lines("topic", "purge", "t")
        self.assertEqual([p["log_start"] for p in everything], [300, 300])
        for node in (1, 2, 3):
            c.script("kill", node)
        c.script("up", 3)
        wait_for(lambda: self.starts("t") == [300, 300], lambda: f"starts [300, 300], not {self.starts('t')}", 60)
        c.lightq("produce", "t", "--partition", 0, data="next\n")
        self.assertEqual(self.cluster.json_lines("peek", "t")[0]["offset"], 300)
        c.wait_equal("t")

    def test_topics_expected_offset_lets_one_of_two_writers_win(self):
        c = self.cluster
        c.lightq("topic", "create", "t")
        c.lightq("produce", "t", "--count", 10)
        words = ("produce", "t", "--partition", 0, "--expected-offset", 10, "--count", 20)

        writers = [c.start_lightq(*words) for _ in range(2)]
        codes = sorted(w.wait(timeout=120) for w in writers)

        self.assertEqual(codes[1], 1)
        self.assertTrue(any("EEXPECTED" in c.said(w) for w in writers))
        lines = self.cluster.json_lines("peek", "t", "--from", 10, "--count", 100)
        self.assertLessEqual(len(lines), 20)  # each offset has gone to one of them
        self.assertEqual([m["offset"] for m in lines], list(range(10, 10 + len(lines))))
        c.wait_equal("t")

    def test_topics_message_ids_are_stored_once_through_leaders_and_restarts(self):
        c = self.cluster
        c.lightq("topic", "create", "t", "--partitions", 2)
        words = ("produce", "t", "--count", 50, "--message-id", "order")
        first = self.cluster.json_lines(*words)[0]
        self.assertEqual((first["acked"], first["same_id"]), (50, 0))
        leader = c.leader("t")
        c.script("kill", leader)

        again = self.cluster.json_lines(*words)[0]  # another producer, another leader

        self.assertEqual((again["acked"], again["same_id"]), (50, 50))
        c.script("start", leader)
        for node in (1, 2, 3):
            c.script("kill", node)
        c.script("up", 3)
        text = c.lightq("produce", "t", "--count", 51, "--message-id", "order").stdout
        self.assertIn("50 of them were there already", text)
        seen = c.wait_equal("t")
        ends = [p["replicas"][0]["log_end"] for p in seen["partitions"]]
        self.assertEqual(sum(ends), 51)
        self.assertGreater(min(ends), 0)  # the ids are spread over the partitions
        c.lightq("topic", "alter", "t", "--config", "dedup.window=1")
        wait_for(lambda: self.cluster.json_lines("produce", "t", "--count", 1, "--message-id", "order")[0]["same_id"] == 0,
                 "the window has passed")

    def test_topics_peek_changes_nobodys_place(self):
        c = self.cluster
        c.lightq("topic", "create", "t", "--partitions", 2)
        c.lightq("group", "create", "t", "g", "--mode", "pipeline")
        c.lightq("produce", "t", "--partition", 1, "--key", "k", data="one\ntwo\nthree\n")

        seen = self.cluster.json_lines("peek", "t", "--count", 2)

        self.assertEqual([(m["partition"], m["offset"], m["key"], m["value"], m["size"]) for m in seen],
                         [(1, 0, "k", "one", 3), (1, 1, "k", "two", 3)])
        self.assertGreater(seen[0]["time_ms"], 1600000000000)
        text = c.lightq("peek", "t", "--partition", 1, "--from", 2).stdout
        self.assertIn("t/1 2  ", text)
        self.assertIn('key "k"  value "three"', text)
        described = c.lightq("--format", "json", "group", "describe", "t", "g")
        self.assertEqual([p["lag"] for p in json.loads(described.stdout)["partitions"]], [0, 3])
        self.assertEqual(len(self.cluster.json_lines("peek", "t")), 3)  # and again


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    unittest.main(verbosity=2)
