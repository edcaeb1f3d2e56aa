"""Writes down what the clients cannot see: faults and their ends, who leads in which term (from the nodes' logs), and
digests of replicas (from what the cluster says of itself), in the format of lightq-check; and when this machine itself stood
still, which is nobody's fault. Threads of its own."""

import os
import re
import threading
import time

LEADS = re.compile(rb'msg="?leads"? group=(\d+) term=(\d+)')
# Why a leader gives up: it hands over, or its disk failed it. Other checks say whether that was right.
HANDS_OVER = re.compile(rb'(?:leadership is handed over|handing leadership over|this replica stops)" group=(\d+)')
LOOK_SECONDS = 0.05
SAMPLE_SECONDS = 1.0
PROBE_SECONDS = 0.2
STALLED_SECONDS = 0.4  # this program slept, or waited for the disk below all, that long: elections prove nothing then
RETURN_SECONDS = 10.0  # how long behind a return a change of leader is put down to it
PLANNED_SECONDS = 5.0  # how long behind a hand-over
SEEN_SECONDS = 1.0  # logs are read one after the other, and faults noted when they are sure: what came first may be seen last
CATALOG = "catalog/0"  # the log of group 0


def now_us():
    return time.monotonic_ns() // 1000


class Fault:
    def __init__(self, name, kind, nodes, majority):
        self.name, self.kind, self.nodes, self.majority = name, kind, tuple(nodes), majority
        self.begun_us, self.healed_us = now_us(), None

    def lasted_in(self, begin_us, end_us):
        return self.begun_us <= end_us and (self.healed_us is None or self.healed_us >= begin_us)


class Recorder:
    def __init__(self, path, clients, topic):
        self.clients, self.topic = clients, topic
        self.lock = threading.Lock()
        self.file = open(path, "w", encoding="ascii", buffering=1)
        self.probe = str(path) + ".probe"
        self.file.write("lightq-history 1\n")
        self.began_us = now_us()
        self.faults, self.leads, self.hand_overs, self.stalls = [], [], [], []
        self.logs = {0: CATALOG}  # group: log
        self.lives = {}  # node: how often it has lost its data by our doing
        self.ended = threading.Event()
        self.threads = []

    def line(self, *words):
        with self.lock:
            if not self.file.closed:
                self.file.write(" ".join(map(str, words)) + "\n")

    # ---- faults

    def fault(self, kind, nodes, majority=False):
        fault = Fault(f"f{len(self.faults) + 1}-{kind}" + "".join(f"-n{n}" for n in nodes), kind, nodes, majority)
        self.faults.append(fault)
        self.line("fault", fault.begun_us, fault.name, "majority" if majority else "minority", kind)
        return fault

    def heal(self, fault):
        if fault.healed_us is None:
            fault.healed_us = now_us()
            self.line("heal", fault.healed_us, fault.name)

    def heal_all(self):
        for fault in self.faults:
            self.heal(fault)

    def wiped(self, node):
        """From now on it may know less: another observer."""
        self.lives[node] = self.lives.get(node, 1) + 1

    # ---- watching

    def watch(self, logs=None):
        """Logs: {node: path} of nodes to follow."""
        self.learn_groups()
        steps = [self.sample_forever, self.probe_forever] + ([lambda: self.follow_forever(logs)] if logs else [])
        for step in steps:
            self.threads.append(threading.Thread(target=step, daemon=True))
            self.threads[-1].start()

    def learn_groups(self):
        for partition in self.clients.describe(self.topic)["partitions"]:
            self.logs[partition["group"]] = f"{self.topic}/{partition['partition']}"

    def follow_forever(self, logs):
        places = {node: 0 for node in logs}
        rests = {node: b"" for node in logs}
        while True:
            last_round = self.ended.is_set()
            for node, path in logs.items():
                try:
                    with open(path, "rb") as file:
                        file.seek(places[node])
                        text = file.read()
                except FileNotFoundError:
                    continue
                places[node] += len(text)
                whole, _, rests[node] = (rests[node] + text).rpartition(b"\n")
                for line in whole.splitlines():
                    self.take_line(node, line)
            if last_round:
                return
            self.rest()

    def rest(self):
        before = now_us()
        self.ended.wait(LOOK_SECONDS)
        if now_us() - before > (LOOK_SECONDS + STALLED_SECONDS) * 1e6:
            self.stalls.append((before, now_us()))

    def probe_forever(self):
        """How long the disk takes on which everything lies."""
        probe = os.open(self.probe, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            while not self.ended.wait(PROBE_SECONDS):
                before = now_us()
                os.pwrite(probe, b"x" * 512, 0)
                os.fdatasync(probe)
                if now_us() - before > STALLED_SECONDS * 1e6:
                    self.stalls.append((before, now_us()))
        finally:
            os.close(probe)
            os.unlink(self.probe)

    def stalled_seconds(self, since_us=0):
        """How long this machine has stood still since then."""
        total, until = 0, since_us
        for begin, end in sorted(self.stalls):
            total += max(0, end - max(begin, until))
            until = max(until, end)
        return total / 1e6

    def take_line(self, node, line):
        found = LEADS.search(line)
        if found:
            group, term = int(found[1]), int(found[2])
            log = self.logs.get(group)
            if log is not None:
                at = now_us()
                self.leads.append((at, log, term, node))
                life = self.lives.get(node, 1)
                observer = f"n{node}" if life == 1 else f"n{node}-{life}"
                self.line("leader", at, observer, log, term, f"n{node}")
            return
        found = HANDS_OVER.search(line)
        if found:
            self.hand_overs.append((now_us(), self.logs.get(int(found[1]))))

    def sample_forever(self):
        while not self.ended.wait(SAMPLE_SECONDS):
            asked = now_us()
            seen = self.clients.try_describe(self.topic)
            if seen is not None:
                self.write_digests(seen, asked)

    def write_digests(self, seen, at_us):
        """What was seen was so at some time since at_us."""
        for partition in seen["partitions"]:
            for r in partition["replicas"]:
                if r["online"]:
                    self.line("digest", at_us, f"{self.topic}/{partition['partition']}", f"n{r['node']}", r["digest_to"],
                              r["digest"])

    def quiet(self, seen):
        """Nothing is produced any more and all replicas are equal: seen is what the topic says of itself."""
        at = now_us()
        self.line("quiet", at)
        self.write_digests(seen, at)
        for partition in seen["partitions"]:
            self.line("end", at, f"{self.topic}/{partition['partition']}", max(r["log_end"] for r in partition["replicas"]))

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        self.threads = []

    def close(self):
        self.stop()
        with self.lock:
            self.file.close()

    # ---- leaders that change although nothing happened to them

    def excused(self, log, previous, at_us):
        """Whether leader `previous` (time, node) had a reason to be replaced before at_us."""
        since_us, node = previous
        first_us, last_us = at_us - PLANNED_SECONDS * 1e6, at_us + SEEN_SECONDS * 1e6
        if any(other == log and first_us <= when <= last_us for when, other in self.hand_overs):
            return "planned"
        for fault in self.faults:
            if (node in fault.nodes or fault.majority) and fault.lasted_in(since_us, last_us):
                return "fault"
        if any(begin <= at_us and end >= at_us - PLANNED_SECONDS * 1e6 for begin, end in self.stalls):
            return "stall"
        return None

    def returns(self):
        """When nodes came back: ends of faults; and when clocks were set, which must not matter either."""
        for fault in self.faults:
            if fault.healed_us is not None:
                yield fault.healed_us
            if not fault.nodes:
                yield fault.begun_us

    def needless_changes(self):
        """Changes of leader that followed a return and that nothing else explains: (time, log, term, from, to)."""
        leading, found = {}, []
        returns = list(self.returns())
        for at, log, term, node in sorted(self.leads):
            previous = leading.get(log)
            leading[log] = (at, node)
            if previous is None or not any(0 <= at - when <= RETURN_SECONDS * 1e6 for when in returns):
                continue
            if self.excused(log, previous, at) is None:
                found.append((at, log, term, previous[1], node))
        return found
