"""Two producers and one consumer that run while faults come and go, when each acknowledgement came, and the verdict."""

import re
import subprocess
import threading
import time

from cluster import ROOT, Broken, wait_for

TOPIC = "chaos"
CHECK = ROOT / "deploy" / "check_receipts.py"
PRODUCERS = 2
GAP_SECONDS = 10.0  # how long behind a fault a silence counts as caused by it
EARLY_SECONDS = 0.5  # acknowledgements are written and seen a little late


class Tail:
    """Follows a receipt file on a thread: how many lines there are, and when each partition last had one."""

    def __init__(self, path):
        self.path = path
        self.count = 0
        self.times = {}  # partition: [seconds]
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while not self.path.exists():
            if self.ended.wait(0.05):
                return
        with open(self.path, encoding="ascii") as lines:
            rest = ""
            while True:
                last_round = self.ended.is_set()
                chunk = lines.read(1 << 20)
                if chunk:
                    now = time.monotonic()
                    whole, _, rest = (rest + chunk).rpartition("\n")
                    for line in whole.splitlines():
                        self.count += 1
                        times = self.times.setdefault(int(line.split(" ", 3)[2]), [])
                        if not times or times[-1] != now:
                            times.append(now)
                elif last_round:
                    return
                else:
                    self.ended.wait(0.05)

    def close(self):
        self.ended.set()
        self.thread.join()


class Load:
    def __init__(self, cluster, partitions, rate, seconds, size=100):
        self.cluster = cluster
        self.count = rate * seconds // PRODUCERS
        self.attempted = self.count * PRODUCERS
        self.stored = 0
        self.faults = []  # (began, counted from, name)
        cluster.lightq("topic", "create", TOPIC, "--partitions", partitions)
        self.acked = [cluster.folder / f"acked{i}" for i in range(PRODUCERS)]
        self.tails = [Tail(path) for path in self.acked]
        self.live = cluster.folder / "live"
        self.consumer = cluster.start_lightq("consume", TOPIC, "--from", "start", "--log", self.live)
        self.producers = [cluster.start_lightq("produce", TOPIC, "--count", self.count, "--size", size, "--rate",
                                               rate // PRODUCERS, "--acked", path, "--timeout", 600000)
                          for path in self.acked]
        self.partitions = partitions
        self.deadline = time.monotonic() + seconds

    def acknowledged(self):
        return sum(tail.count for tail in self.tails)

    def producing(self):
        return any(p.poll() is None for p in self.producers)

    def fault(self, name, counted_from=None):
        now = time.monotonic()
        self.faults.append((now, counted_from or now, name))

    def wait_flow(self, seconds=60):
        """Until each partition has another acknowledgement, or there is nothing left to send."""
        began = time.monotonic()

        def flows():
            if not self.producing():
                return True
            return all(any(t.times.get(p, [0])[-1] > began for t in self.tails) for p in range(self.partitions))

        wait_for(flows, "acknowledgements from every partition after a fault", seconds)

    def finish(self, refusal=None, seconds=180):
        """Waits for the producers; gives how many messages were refused for certain with the status that may be."""
        def done():
            self.cluster.look_for_dead()
            return not self.producing()

        wait_for(done, f"the end of the producers ({self.acknowledged()} of {self.attempted} acknowledged)", seconds)
        for tail in self.tails:
            tail.close()
        refused = 0
        for producer in self.producers:
            producer.output.seek(0)
            text = producer.output.read().strip()
            found = re.search(r"^(\d+) not acknowledged, of which 0 may be stored$", text, re.M)
            if producer.returncode == 1 and refusal and refusal in text and found:
                refused += int(found[1])
            elif producer.returncode != 0:
                raise Broken(f"produce gave {producer.returncode}: {text}")
        return refused

    def recoveries(self):
        """For each fault the longest silence of any partition that began at it or soon after, in seconds."""
        result = []
        for place, (began, counted_from, _name) in enumerate(self.faults):
            next_began = self.faults[place + 1][0] if place + 1 < len(self.faults) else float("inf")
            until = min(counted_from + GAP_SECONDS, next_began - EARLY_SECONDS)
            worst = 0.0
            for partition in range(self.partitions):
                times = sorted({t for tail in self.tails for t in tail.times.get(partition, [])})
                for before, after in zip(times, times[1:]):
                    if before <= until and after >= began - EARLY_SECONDS:
                        worst = max(worst, after - max(before, counted_from))
            result.append(worst)
        return result

    # ---- verdict

    def read_all(self):
        """Reads everything stored; gives (lost, doubled, unexpected, lines of complaint)."""
        log, printed = self.cluster.folder / "log", self.cluster.folder / "printed"
        self.cluster.lightq("consume", TOPIC, "--from", "start", "--until-end", "--log", log, seconds=300)
        text = self.cluster.lightq("consume", TOPIC, "--from", "start", "--until-end", "--print", seconds=300).stdout
        printed.write_text(text, encoding="ascii")
        done = subprocess.run([CHECK, "--acked", *self.acked, "--log", log], capture_output=True, text=True, check=False)
        complaints = [] if done.returncode == 0 else [done.stdout + done.stderr]
        found = re.search(r"lost (\d+)", done.stdout)
        lost = int(found[1]) if found else -1
        doubled, unexpected = self.judge_payloads(text)
        self.stored = len(text.splitlines())
        return lost, doubled, unexpected, complaints

    def judge_payloads(self, text):
        """Payloads are `<producer>-<number>....`: each at most once, and none that was never sent."""
        seen, doubled, unexpected, names = set(), 0, 0, set()
        for line in text.splitlines():
            found = re.fullmatch(r"(\d+)-(\d+)\.*", line)
            if not found or int(found[2]) >= self.count:
                unexpected += 1
                continue
            names.add(found[1])
            key = (found[1], int(found[2]))
            doubled += key in seen
            seen.add(key)
        if len(names) > PRODUCERS:
            unexpected += len(names) - PRODUCERS
        return doubled, unexpected

    def check_consumer(self):
        """The consumer that ran all the time has read everything, in order, without skips."""
        with open(self.cluster.folder / "log", "rb") as log:
            stored = sum(1 for _ in log)

        def caught_up():
            with open(self.live, "rb") as live:
                return sum(1 for _ in live) >= stored

        complaints = []
        try:
            wait_for(caught_up, "the consumer reading on after the faults", 20)
        except Broken as error:
            complaints.append(str(error))
        self.consumer.terminate()
        self.consumer.wait(timeout=20)
        complaints += self.judge_order(self.live)
        return complaints

    def judge_order(self, path):
        """One consumer reads each partition from its start without a skip and without going back."""
        expected = {}
        with open(path, encoding="ascii") as lines:
            for line in lines:
                if not line.endswith("\n"):
                    break  # the consumer was ended while it wrote
                _topic, partition, offset = line.split(" ", 3)[:3]
                wanted = expected.get(partition, 0)
                if int(offset) != wanted:
                    return [f"the running consumer got offset {offset} of partition {partition}, not {wanted}"]
                expected[partition] = wanted + 1
        return []
