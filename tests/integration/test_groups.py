"""Consumer groups on three real nodes: a pipeline through a killed leader settles every message once, a subscriber group
goes on where it committed, and what fails is delivered again, counted."""

import json
import signal
import unittest

from lightq_cluster import SLOW, Cluster, wait_for


def offsets(path):
    """(partition, offset) and deliveries of each line of a log."""
    return [((int(f[1]), int(f[2])), int(f[6])) for f in map(str.split, path.read_text().splitlines())]


class GroupsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster().up()
        self.addCleanup(self.close)

    def close(self):
        outcome = self._outcome.result
        failed = any(test is self for test, _ in outcome.failures + outcome.errors)
        self.cluster.close(failed)

    def group(self, topic, name):
        """What each partition says of the group; None when not all can."""
        done = self.cluster.lightq("--format", "json", "group", "describe", topic, name, check=False)
        if done.returncode != 0:
            return None
        partitions = json.loads(done.stdout)["partitions"]
        return partitions if all(p["status"] == "OK" for p in partitions) else None

    def wait_drained(self, topic, name):
        last = [None]

        def drained():
            last[0] = self.group(topic, name)
            return last[0] and all(p["lag"] + p["unsettled"] + p["dead_open"] == 0 for p in last[0])

        wait_for(drained, lambda: f"group {name} drained: {last[0]}", 60)
        return last[0]

    def end(self, consumers):
        """Consumers that have nothing more to do end in good order."""
        for consumer in consumers:
            consumer.send_signal(signal.SIGTERM)
        for consumer in consumers:
            self.cluster.finish(consumer)

    def test_groups_pipeline_through_killed_leader_settles_all_once(self):
        c = self.cluster
        count = 40000
        c.lightq("topic", "create", "work", "--partitions", 2)
        c.lightq("group", "create", "work", "g", "--mode", "pipeline")
        consumers = [c.start_lightq("consume", "work", "--group", "g", "--log", c.folder / f"log{i}") for i in range(2)]
        producer = c.start_lightq("produce", "work", "--count", count, "--size", 100, "--rate", 8000,
                                  "--acked", c.folder / "acked")
        c.wait_acked("acked", count // 3, producer)
        killed = c.leader("work")
        c.script("kill", killed)
        c.finish(producer)
        partitions = self.wait_drained("work", "g")
        self.end(consumers)
        c.script("start", killed)

        read = [offsets(c.folder / f"log{i}") for i in range(2)]
        seen = {place for log in read for place, _ in log}
        acked = {tuple(map(int, line.split()[2:4])) for line in (c.folder / "acked").read_text().splitlines()}
        self.assertEqual(acked - seen, set())  # nothing that was stored was left out
        self.assertTrue(all(len(log) > 0 for log in read))  # both had a share
        self.assertEqual(sum(p["settled"] for p in partitions), sum(p["end"] for p in partitions))
        self.assertEqual([p["position"] for p in partitions], [p["end"] for p in partitions])
        # Settled is settled: nothing comes again.
        again = c.lightq("consume", "work", "--group", "g", "--idle-exit", 1000)
        self.assertIn("0 messages consumed", again.stdout)

    def test_groups_subscriber_goes_on_at_its_committed_position(self):
        c = self.cluster
        c.lightq("topic", "create", "events")
        c.lightq("produce", "events", "--count", 1000, "--size", 60)
        c.lightq("group", "create", "events", "s", "--mode", "subscriber")

        c.lightq("consume", "events", "--group", "s", "--count", 400, "--log", c.folder / "one")
        leader = c.leader("events")
        c.script("kill", leader)
        c.lightq("consume", "events", "--group", "s", "--count", 600, "--log", c.folder / "two")
        c.script("start", leader)

        self.assertEqual([place[1] for place, _ in offsets(c.folder / "one")], list(range(400)))
        self.assertEqual([place[1] for place, _ in offsets(c.folder / "two")], list(range(400, 1000)))
        self.assertEqual(self.wait_drained("events", "s")[0]["position"], 1000)
        c.lightq("group", "seek", "events", "s", "--to", 900)
        c.lightq("consume", "events", "--group", "s", "--count", 100, "--log", c.folder / "three")
        self.assertEqual([place[1] for place, _ in offsets(c.folder / "three")], list(range(900, 1000)))

    def test_groups_what_is_not_acked_comes_again_counted(self):
        c = self.cluster
        c.lightq("topic", "create", "jobs")
        c.lightq("produce", "jobs", "--count", 10, "--size", 60)
        c.lightq("group", "create", "jobs", "g", "--mode", "pipeline", "--ack-wait", 60000, "--max-deliver", 0,
                 "--backoff", "10,20")

        # A clean end gives back what was not settled, and that is no failure.
        c.lightq("consume", "jobs", "--group", "g", "--ack", "none", "--count", 10, "--log", c.folder / "none")
        c.lightq("consume", "jobs", "--group", "g", "--ack", "nack", "--count", 10, "--log", c.folder / "nack")
        c.lightq("consume", "jobs", "--group", "g", "--count", 10, "--log", c.folder / "ack")

        self.assertEqual({d for _, d in offsets(c.folder / "none")}, {1})
        self.assertEqual({d for _, d in offsets(c.folder / "nack")}, {1})
        self.assertEqual(sorted(offsets(c.folder / "ack")), [((0, i), 2) for i in range(10)])
        self.assertEqual(self.wait_drained("jobs", "g")[0]["failed"], 10)

    def test_groups_dead_letters_are_stored_once_through_a_killed_leader(self):
        c = self.cluster
        count = 1500
        c.lightq("topic", "create", "jobs", "--partitions", 2)
        c.lightq("produce", "jobs", "--count", count, "--size", 60)
        c.lightq("group", "create", "jobs", "g", "--mode", "pipeline", "--max-deliver", 1)

        consumer = c.start_lightq("consume", "jobs", "--group", "g", "--ack", "nack")

        def begun():
            seen = self.group("jobs", "g")
            return seen and sum(p["dead"] for p in seen) > count // 10

        wait_for(begun, "dead letters", 60)
        killed = c.leader("jobs")
        c.script("kill", killed)
        partitions = self.wait_drained("jobs", "g")
        self.end([consumer])
        c.script("start", killed)

        self.assertEqual(sum(p["dead"] for p in partitions), count)
        read = c.lightq("consume", "jobs.g.dlq", "--from", "start", "--until-end", "--log", c.folder / "dlq")
        self.assertIn(f"{count} messages consumed", read.stdout)

    def test_groups_dead_letters_are_listed_and_moved_back(self):
        c = self.cluster
        c.lightq("topic", "create", "jobs", "--partitions", 2)
        c.lightq("group", "create", "jobs", "g", "--mode", "pipeline", "--max-deliver", 1)
        self.assertEqual(c.lightq("dlq", "list", "jobs", "g").stdout, "")
        self.assertIn("0 dead letters", c.lightq("dlq", "redrive", "jobs", "g").stdout)
        refused = c.lightq("dlq", "list", "jobs", "nobody", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("ENOTFOUND", refused.stderr)

        c.lightq("produce", "jobs", "--partition", 1, "--count", 5, "--size", 30, "--key", "k")
        c.lightq("consume", "jobs", "--group", "g", "--ack", "nack", "--count", 5, "--idle-exit", 5000)
        wait_for(lambda: sum(p["dead"] for p in self.group("jobs", "g")) == 5, "dead letters", 30)
        letters = c.json_lines("dlq", "list", "jobs", "g", "--count", 100)
        self.assertEqual([(x["topic"], x["group"], x["origin_partition"], x["key"]) for x in letters],
                         [("jobs", "g", 1, "k")] * 5)
        self.assertEqual(sorted(x["origin_offset"] for x in letters), list(range(5)))
        self.assertEqual({(x["reason"], x["deliveries"]) for x in letters}, {("nack", 1)})
        text = c.lightq("dlq", "list", "jobs", "g", "--count", 1).stdout
        self.assertRegex(text, r"^\d+/\d+  jobs/1/\d  nack after 1 deliveries  \d{4}-.*  key \"k\"  value \"")

        moved = c.json_lines("dlq", "redrive", "jobs", "g", "--count", 2)
        self.assertEqual(moved, [{"topic": "jobs", "group": "g", "redriven": 2, "left": 3}])
        self.assertEqual(len(c.json_lines("dlq", "list", "jobs", "g")), 3)
        self.assertIn("3 dead letters of group g moved back to topic jobs, 0 left",
                      c.lightq("dlq", "redrive", "jobs", "g").stdout)
        self.assertEqual(c.json_lines("dlq", "list", "jobs", "g"), [])

        back = c.json_lines("peek", "jobs", "--partition", 1, "--from", 5, "--count", 100)
        self.assertEqual(sorted(x["value"] for x in back), sorted(x["value"] for x in letters))
        self.assertEqual({(h["name"], h["value"]) for x in back for h in x["headers"]}, {("lightq.redriven", "g")})
        self.assertEqual({x["key"] for x in back}, {"k"})
        c.lightq("consume", "jobs", "--group", "g", "--count", 5, "--log", c.folder / "again")
        self.assertEqual(sorted(offsets(c.folder / "again")), [((1, i), 1) for i in range(5, 10)])

    def test_groups_purge_of_one_leaves_the_others_all(self):
        c = self.cluster
        c.lightq("topic", "create", "t", "--partitions", 2, "--config", "retention=workqueue")
        for name, mode in (("p", "pipeline"), ("s", "subscriber"), ("other", "pipeline")):
            c.lightq("group", "create", "t", name, "--mode", mode)
        for p in range(2):
            c.lightq("produce", "t", "--partition", p, "--count", 100, "--size", 20)
        refused = c.lightq("topic", "purge", "t", "--group", "p", "--to", "start", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--to does not go with --group", refused.stderr)
        self.assertIn("ENOTFOUND", c.lightq("topic", "purge", "t", "--group", "nobody", check=False).stderr)

        c.lightq("topic", "purge", "t", "--group", "p", "--partition", 1)
        self.assertEqual([p["lag"] > 0 for p in self.group("t", "p")], [True, False])
        self.assertIn("group p of topic t purged", c.lightq("topic", "purge", "t", "--group", "p").stdout)
        c.lightq("topic", "purge", "t", "--group", "s")

        for name in ("p", "s"):
            seen = self.group("t", name)
            self.assertEqual([p["lag"] for p in seen], [0, 0])
            self.assertEqual([p["position"] for p in seen], [p["end"] for p in seen])
            self.assertEqual([p["missed"] for p in seen], [0, 0])
        self.assertEqual(sum(p["lag"] for p in self.group("t", "other")), 200)
        c.lightq("consume", "t", "--group", "other", "--count", 200, "--log", c.folder / "log")
        self.assertEqual(len(set(offsets(c.folder / "log"))), 200)
        # What was kept for that group only goes with the purge.
        c.lightq("produce", "t", "--count", 50, "--size", 20)
        c.lightq("consume", "t", "--group", "other", "--count", 50)
        self.assertEqual(sum(p["lag"] for p in self.group("t", "p")), 50)
        c.lightq("topic", "purge", "t", "--group", "p")
        wait_for(lambda: all(p["start"] == p["end"] for p in self.group("t", "other")), "the work queue is empty", 30)

    def test_groups_explain_says_what_holds_what(self):
        c = self.cluster
        c.lightq("topic", "create", "t", "--partitions", 2, "--config", "retention=workqueue")
        self.assertIn("no pipeline group is there, so all is kept", c.lightq("explain", "t/0").stdout)
        c.lightq("group", "create", "t", "p", "--mode", "pipeline")
        c.lightq("group", "create", "t", "s", "--mode", "subscriber")
        c.lightq("produce", "t", "--partition", 1, "--count", 20, "--size", 20)

        seen = c.json_lines("explain", "t")
        self.assertEqual([(x["partition"], x["group"]) for x in seen],
                         [(0, "p"), (0, "s"), (0, None), (1, "p"), (1, "s"), (1, None)])
        self.assertEqual([x["state"] for x in seen[3:]], ["no-consumer", "no-consumer", "held"])
        self.assertIn("offset 0 on are kept for group p", seen[5]["reason"])
        c.lightq("group", "pause", "t", "p")
        text = c.lightq("explain", "t/1", "--group", "p").stdout
        self.assertRegex(text, r"^t/1 group p: the group is paused, 20 not settled, .*; try: lightq group resume t p\n$")
        c.lightq("topic", "purge", "t", "--partition", 1, "--to", 5)
        behind = c.json_lines("explain", "t/1", "--group", "s")[0]
        self.assertEqual(behind["state"], "behind-trim-point")
        self.assertIn("at offset 0, and the first message that is there is 5: it missed 5", behind["reason"])
        self.assertIn("5 trimmed away", c.lightq("explain", "t/1", "--group", "p").stdout)
        for place in ("t/7", "nope"):
            self.assertIn("ENOTFOUND", c.lightq("explain", place, check=False).stderr)

    def test_groups_live_and_are_told_of(self):
        c = self.cluster
        c.lightq("topic", "create", "t", "--partitions", 3)
        c.lightq("group", "create", "t", "a", "--mode", "pipeline")
        c.lightq("group", "create", "t", "b", "--mode", "subscriber", "--from", "end")

        self.assertEqual(c.lightq("group", "create", "t", "a", "--mode", "pipeline", check=False).returncode, 1)
        listed = c.lightq("group", "list", "t").stdout.splitlines()
        self.assertEqual([line.split("\t")[:3] for line in listed],
                         [["a", "pipeline", "3 partitions"], ["b", "subscriber", "3 partitions"]])
        c.lightq("group", "pause", "t", "a")
        c.lightq("produce", "t", "--count", 30)
        self.assertIn("0 messages", c.lightq("consume", "t", "--group", "a", "--idle-exit", 500).stdout)
        c.lightq("group", "resume", "t", "a")
        consumer = c.start_lightq("consume", "t", "--group", "a", "--ack", "none", "--set", "client.id=worker")

        def held():
            seen = self.group("t", "a")
            return seen and sum(p["unsettled"] for p in seen) == 30 and seen

        seen = wait_for(held, "30 messages held")
        self.assertEqual({o["consumer"] for p in seen for o in p["consumers"]}, {"worker"})
        header, *rows = c.lightq("group", "describe", "t", "a").stdout.splitlines()
        self.assertEqual(header.split(), "GROUP TOPIC PARTITION POSITION END LAG LAG-TIME UNSETTLED REDELIVERED CONSUMER "
                                         "HOST".split())
        self.assertEqual(len([row for row in rows if row.startswith("a ")]), 3)
        c.lightq("group", "delete", "t", "a")  # its consumers are told
        self.assertEqual(consumer.wait(timeout=30 * SLOW), 1)
        self.assertIn("ENOTFOUND", c.said(consumer))
        self.assertEqual(c.lightq("group", "describe", "t", "a", check=False).returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
