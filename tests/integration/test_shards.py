"""Real nodes of several shards: every shard has its own ports, threads and directory, and clients, replicas, metrics and
the ends of nodes must not show it."""

import json
import re
import shutil
import signal
import subprocess
import threading
import unittest
import urllib.request

from lightq_cluster import BIN, SLOW, Cluster, wait_for


def metric(port, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10 * SLOW) as answer:
        found = re.search(rf"^lightq_{name} (\d+)$", answer.read().decode(), re.M)
    return int(found.group(1))


class ShardsTest(unittest.TestCase):
    def start(self, shards, nodes=3, more=""):
        self.cluster = Cluster(nodes, f"--set shards={shards} {more}").up()
        self.addCleanup(self.close)
        return self.cluster

    def close(self):
        outcome = self._outcome.result
        failed = any(test is self for test, _ in outcome.failures + outcome.errors)
        self.cluster.close(failed)

    def base(self):
        return int(self.cluster.environment["LIGHTQ_CLUSTER_PORT"])

    def wait_all_led(self, topic, partitions):
        """Waits until every partition is described with a leader and three replicas that answer."""
        def led(seen):
            described = seen["partitions"]
            return len(described) == partitions and all(
                p["leader"] and all(r["online"] for r in p["replicas"]) for p in described)

        self.cluster.when_described(topic, led, f"leaders of all partitions of {topic}")

    def through_a_killed_node(self, shards):
        c = self.start(shards)
        c.lightq("topic", "create", "t", "--partitions", 8)
        producer = c.start_lightq("produce", "t", "--count", 60000, "--size", 100, "--rate", 20000,
                                  "--acked", c.folder / "acked")
        c.wait_acked("acked", 20000, producer)
        c.script("kill", 2)
        c.finish(producer)
        c.script("start", 2)

        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")

        self.assertEqual(c.acked_lines("acked"), 60000)
        c.check(["acked"], ["log"])
        self.wait_all_led("t", 8)
        c.wait_equal("t")

    def test_shards_two_lose_nothing_through_a_killed_node(self):
        self.through_a_killed_node(2)

    def test_shards_three_lose_nothing_through_a_killed_node(self):
        self.through_a_killed_node(3)

    def test_shards_all_killed_keep_everything(self):
        c = self.start(2)
        c.lightq("topic", "create", "t", "--partitions", 8)
        c.lightq("produce", "t", "--count", 20000, "--size", 100, "--acked", c.folder / "acked")
        for node in (1, 2, 3):
            c.script("kill", node)

        c.up()

        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked"], ["log"])
        c.wait_equal("t")

    def test_shards_wiped_node_is_replaced(self):
        c = self.start(2)
        c.lightq("topic", "create", "t", "--partitions", 8)
        c.lightq("produce", "t", "--count", 20000, "--size", 100, "--acked", c.folder / "acked")
        c.script("kill", 3)
        c.script("wipe", 3)

        c.script("start", 3)

        c.lightq("produce", "t", "--count", 5000, "--size", 100, "--acked", c.folder / "acked2")
        self.wait_all_led("t", 8)
        c.wait_equal("t")
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked", "acked2"], ["log"])

    def test_shards_replaced_directory_ends_with_its_node(self):
        c = self.start(3)
        c.lightq("topic", "create", "t", "--partitions", 6)
        c.script("stop", 3)
        old = c.folder / "old"
        shutil.copytree(c.folder / "cluster" / "n3" / "data", old)
        c.script("wipe", 3)
        c.script("start", 3)
        c.script("stop", 3)

        # Whichever shard is told so first, all of them end.
        ended = subprocess.run(
            [BIN / "lightqd", "--data", old, "--node-id", "3", "--set", "shards=3", "--listen",
             f"127.0.0.1:{self.base() + 20}", "--peer-listen", f"127.0.0.1:{self.base() + 120}",
             "--seeds", ",".join(f"127.0.0.1:{self.base() + 100 + 10 * i}" for i in range(3)), "--expect", "3"],
            capture_output=True, text=True, check=False, timeout=60 * SLOW)

        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("was replaced", ended.stderr.splitlines()[-1])
        c.script("start", 3)
        self.wait_all_led("t", 6)

    def test_shards_any_port_takes_any_request(self):
        c = self.start(3)
        base = self.base()
        ports = [base + 10 * node + shard for node in range(3) for shard in range(3)]

        for port in ports:  # each from its own point of view, as if nothing else were known
            servers = ("--servers", f"127.0.0.1:{port}")
            topic = f"t{port}"
            c.lightq(*servers, "topic", "create", topic, "--partitions", 4)
            c.lightq(*servers, "produce", topic, "--count", 400, "--size", 20, "--acked", c.folder / topic)
            def led(from_here=servers, name=topic):
                described = json.loads(c.lightq(*from_here, "--format", "json", "topic", "describe", name).stdout)
                self.assertEqual([p["partition"] for p in described["partitions"]], [0, 1, 2, 3])
                return all(p["leader"] for p in described["partitions"])

            wait_for(led, f"leaders of {topic}, as port {port} knows them")
            read = c.lightq(*servers, "consume", topic, "--until-end", "--print").stdout
            self.assertEqual(len(read.splitlines()), 400)
            status = json.loads(c.lightq(*servers, "--format", "json", "cluster", "status").stdout)
            self.assertEqual(len(status["nodes"]), 3)

        first = ("--servers", f"127.0.0.1:{ports[1]}")
        for port in ports:
            c.lightq(*first, "topic", "delete", f"t{port}")
        self.assertEqual(c.lightq("topic", "list").stdout.strip(), "")

    def test_shards_metrics_are_of_the_whole_node(self):
        c = self.start(2)
        c.lightq("topic", "create", "t", "--partitions", 8)
        c.lightq("produce", "t", "--count", 8000, "--size", 50)
        https = [self.base() + 200 + 10 * node for node in range(3)]

        # What the other shards counted comes some times a second.
        wait_for(lambda: sum(metric(port, "messages_in_total") for port in https) == 8000, "all messages counted")
        wait_for(lambda: sum(metric(port, "raft_groups_leading") for port in https) == 9, "all groups counted")
        for port in https:
            self.assertEqual(metric(port, "shards"), 2)
            wait_for(lambda p=port: metric(p, "replicas") == 8, "the replicas of both shards")

    def test_shards_rolling_stop_loses_nothing(self):
        c = self.start(2)
        c.lightq("topic", "create", "t", "--partitions", 6)
        producer = c.start_lightq("produce", "t", "--count", 60000, "--size", 100, "--rate", 10000,
                                  "--acked", c.folder / "acked")
        c.wait_acked("acked", 10000, producer)
        for node in (1, 2, 3):
            c.script("stop", node)
            c.script("start", node)
        c.finish(producer)

        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")

        c.check(["acked"], ["log"])
        c.wait_equal("t")
        for node in (1, 2, 3):
            log = (c.folder / "cluster" / f"n{node}" / "log").read_text()
            self.assertIn('msg="ending: leaderships are handed over" shard=1', log)
            self.assertNotIn("were not handed over in time", log)

    def restart_with(self, shards, signal="stop"):
        """All nodes end, and start with another number."""
        for node in range(1, self.cluster.nodes + 1):
            self.cluster.script(signal, node)
        self.cluster.environment["LIGHTQ_CLUSTER_ARGS"] = f"--set shards={shards}"
        self.cluster.up()

    def check_directories(self, shards, groups):
        """Every group is in the directory of its shard, and nowhere else."""
        for data in sorted(self.cluster.folder.glob("cluster/n*/data")):
            self.assertFalse((data / "reshard").exists())
            lie = {}
            for path in data.rglob("g*-*"):
                if path.is_dir() and "removed" not in path.parts:
                    group = int(path.name[1:].split("-")[0])
                    lie[group] = path.parent.relative_to(data).as_posix()
            self.assertEqual(len(lie), groups)
            for group, place in lie.items():
                self.assertEqual(place, "." if group % shards == 0 else f"shard-{group % shards}")
            self.assertEqual(len(list(data.glob("shard-*"))), shards - 1)

    def test_shards_another_number_takes_everything_over(self):
        c = self.start(1)
        c.lightq("topic", "create", "t", "--partitions", 8)
        c.lightq("produce", "t", "--count", 30000, "--size", 100, "--acked", c.folder / "acked0")

        for i, (shards, signal_name) in enumerate(((3, "stop"), (2, "kill"), (1, "kill"), (4, "stop"), (1, "stop")), 1):
            self.restart_with(shards, signal_name)
            self.check_directories(shards, 9)  # the meta group too
            c.lightq("produce", "t", "--count", 5000, "--size", 100, "--acked", c.folder / f"acked{i}")
            for k in range(i + 1):
                c.lightq("verify", "--acked", c.folder / f"acked{k}")

        self.wait_all_led("t", 8)
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check([f"acked{k}" for k in range(6)], ["log"])
        c.wait_equal("t")
        for node in (1, 2, 3):
            log = (c.folder / "cluster" / f"n{node}" / "log").read_text()
            self.assertEqual(log.count('msg="another number of shards is taken over"'), 5)

    def test_shards_clients_follow_to_another_number(self):
        c = self.start(1)
        c.lightq("topic", "create", "t", "--partitions", 8)
        producer = c.start_lightq("produce", "t", "--count", 60000, "--size", 100, "--rate", 6000,
                                  "--acked", c.folder / "acked")
        consumer = c.start_lightq("consume", "t", "--from", "start", "--count", 60000, "--log", c.folder / "log")
        c.wait_acked("acked", 10000, producer)

        self.restart_with(4)
        c.finish(producer)
        c.finish(consumer)

        self.assertEqual(c.acked_lines("acked"), 60000)
        c.check(["acked"], ["log"])
        c.lightq("verify", "--acked", c.folder / "acked")

    def test_shards_killed_while_another_number_is_taken_over(self):
        c = self.start(1, nodes=1)
        c.lightq("topic", "create", "t", "--partitions", 16)
        c.lightq("produce", "t", "--count", 10000, "--size", 50, "--acked", c.folder / "acked")
        c.script("kill", 1)
        data = c.folder / "cluster" / "n1" / "data"
        words = [BIN / "lightqd", "--data", data, "--listen", f"127.0.0.1:{self.base()}",
                 "--peer-listen", f"127.0.0.1:{self.base() + 100}"]

        for shards in (5, 3, 8, 1, 2) * 3:
            node = subprocess.Popen([*words, "--set", f"shards={shards}"], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE, text=True)
            self.addCleanup(node.kill)
            said = ""  # killed wherever it is then; it serves when the start before had come to this number
            while "is to be taken over" not in said and 'msg="serving"' not in said:
                said = node.stderr.readline()
                self.assertIsNone(node.poll(), said)
            node.kill()
            node.communicate()

        self.cluster.environment["LIGHTQ_CLUSTER_ARGS"] = "--set shards=4"
        c.script("start", 1)
        self.check_directories(4, 17)
        c.lightq("verify", "--acked", c.folder / "acked")
        c.script("stop", 1)
        dumped = subprocess.run([BIN / "lightq-dump", "--verify", data], capture_output=True, text=True, check=False,
                                timeout=60 * SLOW)
        self.assertEqual(dumped.returncode, 0, dumped.stdout)
        self.assertRegex(dumped.stdout, r"shard-1/g\d+-1")

    def start_alone(self, number, shards):
        """A node with another number than the rest, until it knows."""
        base = self.base()
        seeds = ",".join(f"127.0.0.1:{base + 100 + 10 * i}" for i in range(3))
        at = 10 * (number - 1)
        node = subprocess.Popen(
            [BIN / "lightqd", "--data", self.cluster.folder / "cluster" / f"n{number}" / "data", "--node-id", str(number),
             "--set", f"shards={shards}", "--listen", f"127.0.0.1:{base + at}", "--peer-listen",
             f"127.0.0.1:{base + 100 + at}", "--seeds", seeds, "--expect", "3"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(node.kill)
        while "must run with the same number of shards" not in (said := node.stderr.readline()):
            self.assertIsNone(node.poll(), said)
        return node

    def test_shards_another_number_on_one_node_after_the_other_loses_nothing(self):
        c = self.start(1)
        c.lightq("topic", "create", "t", "--partitions", 6)
        c.lightq("produce", "t", "--count", 10000, "--size", 100, "--acked", c.folder / "acked0")
        c.script("stop", 1)
        alone = self.start_alone(1, 2)
        threading.Thread(target=alone.stderr.read, daemon=True).start()  # it has more to say
        c.lightq("produce", "t", "--count", 5000, "--size", 100, "--acked", c.folder / "acked1")

        c.environment["LIGHTQ_CLUSTER_ARGS"] = "--set shards=2"
        for node in (2, 3):
            c.script("stop", node)
            c.script("start", node)
            c.lightq("produce", "t", "--count", 5000, "--size", 100, "--acked", c.folder / f"acked{node}")

        for k in range(4):
            c.lightq("verify", "--acked", c.folder / f"acked{k}")
        alone.send_signal(signal.SIGTERM)
        self.assertEqual(alone.wait(timeout=60 * SLOW), 0)
        c.script("start", 1)
        self.wait_all_led("t", 6)
        c.wait_equal("t")
        self.check_directories(2, 7)

    def test_shards_another_number_on_one_node_is_named_and_can_be_taken_back(self):
        c = self.start(1)
        c.lightq("topic", "create", "t", "--partitions", 4)
        c.script("stop", 3)
        base = self.base()
        node = self.start_alone(3, 2)

        refused = c.lightq("--servers", f"127.0.0.1:{base + 20}", "topic", "list", "--timeout", 3000, check=False)
        c.lightq("produce", "t", "--count", 5000, "--size", 100, "--acked", c.folder / "acked")

        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("must run with the same number of shards", refused.stderr)
        node.send_signal(signal.SIGTERM)
        node.communicate(timeout=60 * SLOW)
        self.assertEqual(node.returncode, 0)
        c.script("start", 3)
        self.check_directories(1, 5)
        self.wait_all_led("t", 4)
        c.wait_equal("t")
        c.lightq("verify", "--acked", c.folder / "acked")

    def test_shards_node_with_another_number_cannot_join(self):
        c = self.start(2)
        base = self.base()
        stranger = subprocess.run(
            [BIN / "lightqd", "--data", c.folder / "other", "--node-id", "4", "--set", "shards=1",
             "--seeds", ",".join(f"127.0.0.1:{base + 100 + 10 * i}" for i in range(3)), "--expect", "3",
             "--listen", f"127.0.0.1:{base + 30}", "--peer-listen", f"127.0.0.1:{base + 130}"],
            capture_output=True, text=True, check=False, timeout=30 * SLOW)

        self.assertEqual(stranger.returncode, 1, stranger.stderr)
        self.assertIn("must run with the same number of shards", stranger.stderr)
        c.lightq("topic", "create", "t")  # the others do not mind

    def test_shards_port_in_use_is_named_and_changes_nothing(self):
        c = self.start(1, nodes=1)
        base = self.base()
        data = c.folder / "other"

        refused = subprocess.run([BIN / "lightqd", "--data", data, "--set", "shards=2", "--listen",
                                  f"127.0.0.1:{base - 1}", "--peer-listen", f"127.0.0.1:{base + 150}"],
                                 capture_output=True, text=True, check=False, timeout=20 * SLOW)

        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"127.0.0.1:{base} is in use", refused.stderr)
        self.assertFalse(data.exists())

        refused = subprocess.run([BIN / "lightqd", "--data", data, "--set", "shards=4", "--listen",
                                  f"127.0.0.1:{base + 10}", "--peer-listen", f"127.0.0.1:{base + 98}"],
                                 capture_output=True, text=True, check=False, timeout=20 * SLOW)

        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"the peer port 127.0.0.1:{base + 100} is in use", refused.stderr)
        self.assertFalse(data.exists())

    def test_shards_lost_part_of_the_directory_is_refused(self):
        c = self.start(3, nodes=1)
        c.lightq("topic", "create", "t", "--partitions", 6)
        c.lightq("produce", "t", "--count", 1000, "--size", 10, "--acked", c.folder / "acked")
        c.script("stop", 1)
        data = c.folder / "cluster" / "n1" / "data"
        words = [BIN / "lightqd", "--data", data, "--set", "shards=3", "--listen", f"127.0.0.1:{self.base()}",
                 "--peer-listen", f"127.0.0.1:{self.base() + 100}"]
        lost = {"shard-1/journal": "shard-1: the journal is not there", "shard-2": "shard-2: the journal is not there"}

        for path, sentence in lost.items():
            (data / path).rename(c.folder / "aside")
            refused = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20 * SLOW)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn(sentence, refused.stderr)
            self.assertNotIn("Assertion", refused.stderr)
            shutil.rmtree(data / path, ignore_errors=True)  # the empty one that the start made
            (c.folder / "aside").rename(data / path)

        c.script("start", 1)
        c.lightq("consume", "t", "--from", "start", "--until-end", "--log", c.folder / "log")
        c.check(["acked"], ["log"])

    def test_shards_all_end_in_good_order(self):
        c = Cluster(1)
        self.addCleanup(c.close)
        base = int(c.environment["LIGHTQ_CLUSTER_PORT"])
        words = [BIN / "lightqd", "--data", c.folder / "data", "--set", "shards=4", "--listen", f"127.0.0.1:{base}",
                 "--peer-listen", f"127.0.0.1:{base + 100}"]
        servers = ("--servers", f"127.0.0.1:{base}")

        for number in (signal.SIGTERM, signal.SIGINT):
            node = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(node.kill)  # nothing when it has ended
            self.assertRegex(node.stdout.readline(), "^ready ")
            c.lightq(*servers, "topic", "create", f"t{number}", "--partitions", 8)
            c.lightq(*servers, "produce", f"t{number}", "--count", 1000, "--size", 10)
            node.send_signal(number)
            _, said = node.communicate(timeout=30 * SLOW)
            self.assertEqual(node.returncode, 0, said)

        waiting = subprocess.Popen([*words, "--data", c.folder / "other", "--seeds", f"127.0.0.1:{base + 5}"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(waiting.kill)
        while "looking for a cluster" not in waiting.stderr.readline():
            self.assertIsNone(waiting.poll())
        waiting.send_signal(signal.SIGTERM)
        _, said = waiting.communicate(timeout=30 * SLOW)
        self.assertEqual(waiting.returncode, 0, said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
