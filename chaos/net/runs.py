"""One run: a cluster of our own that a scenario breaks (Run), or the user's, which only the user breaks (Against). Both drive
a load, record, wait until all is quiet, judge, and leave a report folder:

    history/      one file for each client, and `cluster`: what lightq-check judges
    verdict.txt, verdict.json    its verdict
    run.txt       the row of the table, and every complaint
    timeline.svg  acknowledgements, leaders, faults
    n1.log ...    what the nodes said
    describe.json the replicas at the end, receipts of all acknowledgements"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import report
import timeline
from cluster import BIN, Broken, Clients, Cluster
from faults import Skipped
from load import Load
from recorder import Recorder
from scenarios import SCENARIOS, has_clocks, nodes_for, replicas_for

PARTITIONS = 3
SMALL_FILES = ("segment.bytes=256k", "journal.bytes=256k", "disk.reserve.bytes=8m")  # so that files end and begin
DISK_MB_LEAST = 256
DISK_BYTES_PER_MESSAGE = 400
COPIES_OF_DAMAGED = 6  # of all the data, on one disk: damaged replicas are set aside and never deleted
EQUAL_SECONDS = 60  # after the heal
SETTLE_SECONDS = 2.0  # of load after the last fault, so that what follows it is seen
FAILURES = (Broken, RuntimeError, OSError, subprocess.SubprocessError, KeyError, ValueError)


class Judged:
    """What both kinds have."""

    def __init__(self, name, arguments, folder):
        self.name, self.arguments, self.folder = name, arguments, folder
        self.topic = "chaos"
        self.complaints = []
        self.skipped = None
        self.verdict = self.needless = self.recorder = self.load = self.c = None
        self.began = time.monotonic()
        if folder.exists():
            shutil.rmtree(folder)  # of an earlier report in the same place
        folder.mkdir(parents=True)

    def say(self, text):
        print(f"  {time.monotonic() - self.began:6.1f} s {text}", file=sys.stderr, flush=True)

    def complain(self, texts):
        for text in texts:
            self.complaints.append(text)
            self.say(f"FAILED: {text}")

    def start_load(self, logs=None):
        history = self.c.folder / "history"
        history.mkdir(exist_ok=True)
        self.recorder = Recorder(history / "cluster", self.c, self.topic)
        self.recorder.watch(logs)
        self.load = Load(self.c, self.recorder, self.topic, PARTITIONS, self.arguments.rate)

    def settle(self):
        """No more load: all replicas become equal, and everything is read."""
        self.recorder.heal_all()
        self.load.stop_producers()
        began = time.monotonic()
        seen = self.c.wait_equal(self.topic, EQUAL_SECONDS)
        self.say(f"replicas equal {time.monotonic() - began:.1f} s after the load")
        (self.folder / "describe.json").write_text(json.dumps(seen, indent=1), encoding="utf-8")
        self.recorder.quiet(seen)
        self.load.read_all()
        self.complain(self.load.end_consumer())
        self.complain(self.load.verify())

    def judge(self):
        """Everything is written down: the verdict and the picture."""
        if self.recorder is None:
            return
        if self.load is not None and not self.load.stopped:
            self.load.stop_producers(look=False)  # so that all attempts are written down
        self.recorder.close()
        stalled = self.recorder.stalled_seconds()
        if stalled > 0:
            self.say(f"this machine stood still for {stalled:.1f} s")
        self.c.end_clients()
        shutil.move(self.c.folder / "history", self.folder / "history")
        if (self.c.folder / "receipts").exists():
            shutil.move(self.c.folder / "receipts", self.folder / "receipts")
        if self.load is None or self.skipped:
            return
        limits = (2000, 5000) if self.arguments.limits else None
        self.verdict = report.check(self.folder, limits)
        self.complain(report.violations(self.verdict))
        changes = self.recorder.needless_changes()
        if self.recorder.leads:
            self.needless = len(changes)
        self.complain(f"leader of {log} changed from node {old} to {new} in term {term}, {(at - self.recorder.began_us) / 1e6:.1f} s "
                      "in, after a node came back and for no other reason" for at, log, term, old, new in changes)
        timeline.draw(self.folder, f"LightQ {self.name}, {PARTITIONS} partitions", self.recorder)

    def line(self):
        said = f"skipped: {self.skipped}" if self.skipped else "FAILED" if self.complaints else "passed"
        row = report.row(self.name, self.verdict, self.needless, said)
        (self.folder / "run.txt").write_text("\n".join([report.HEADER, row, *self.complaints]) + "\n", encoding="utf-8")
        return row


class Run(Judged):
    """One scenario on a cluster of our own."""

    def __init__(self, name, arguments, folder):
        super().__init__(name, arguments, folder)
        self.dice = random.Random(f"{arguments.seed} {name}")
        self.harmed = set()  # (node, file) that a scenario spoiled
        self.used = {}  # scenarios that the mix chose: how often

    # ---- for scenarios

    def note(self, kind, nodes, majority=False):
        """A fault has its effect from now on. While a majority is gone nothing can be acknowledged: recovery counts from
        healed() then."""
        self.say(f"{kind} {' '.join(map(str, nodes))}")
        return self.recorder.fault(kind, nodes, majority)

    def healed(self):
        self.recorder.heal_all()

    def remove_data(self, node):
        self.c.remove_data(node)
        self.recorder.wiped(node)

    # ----

    def break_it(self):
        self.load.wait_flow()
        end = time.monotonic() + self.arguments.duration
        while time.monotonic() < end:
            SCENARIOS[self.name](self)
            self.healed()
            self.c.look_for_dead()
            self.load.look()
            if self.c.bad_ends:
                return
            time.sleep(self.dice.uniform(0.5, SETTLE_SECONDS))  # the seed decides how soon the next one comes
        self.load.wait_flow()

    def verify_directories(self):
        for node in self.c.nodes:
            done = subprocess.run([BIN / "lightq-dump", "--verify", self.c.place.data(node)], capture_output=True,
                                  text=True, check=False)
            bad = [line for line in done.stdout.splitlines() if line.startswith("damaged ")]
            latent = [line for line in bad if (node, line.split()[1].rstrip(":")) in self.harmed]
            if latent:
                self.say(f"node {node}: {len(latent)} spoiled files have not been read since: {latent[0][:120]}")
            if done.returncode != 0 and len(latent) != len(bad) or done.returncode not in (0, 1):
                self.complain([f"node {node}: lightq-dump gave {done.returncode}: " + " | ".join(bad)[-600:]])

    def work(self):
        arguments = self.arguments
        nodes = nodes_for(self.name, arguments.nodes)
        copies = COPIES_OF_DAMAGED if self.name == "mix" else 1
        disk_mb = max(DISK_MB_LEAST, arguments.rate * arguments.duration * DISK_BYTES_PER_MESSAGE * copies >> 20)
        self.c = Cluster(nodes, SMALL_FILES, disk_mb, clocks=has_clocks(self.name))
        self.say(f"{self.c.folder}, {'namespaces' if self.c.place.namespaces else 'loopback only: no root'}")
        self.c.up()
        replicas = replicas_for(self.name)
        self.c.lightq("topic", "create", self.topic, "--partitions", PARTITIONS,
                      *(["--replicas", replicas] if replicas else []))
        self.start_load({node: self.c.log(node) for node in self.c.nodes})
        self.break_it()
        if not self.c.bad_ends:
            self.settle()
            self.c.wait_whole(self.topic)  # reading may have found rot
            for node in self.c.nodes:
                self.c.stop(node)
            self.verify_directories()

    def go(self):
        try:
            self.work()
        except Skipped as why:
            self.skipped = str(why)
        except FAILURES as error:
            self.complain([f"{type(error).__name__}: {error}"])
        finally:
            self.finish()
        return self.line()

    def finish(self):
        if self.c is None:
            return
        try:
            self.c.look_for_dead()
            self.complain(self.c.bad_ends)
            self.judge()
            for node in self.c.nodes:
                shutil.copy(self.c.log(node), self.folder / f"n{node}.log")
        except FAILURES as error:
            self.complain([f"{type(error).__name__}: {error}"])
        finally:
            keep = self.arguments.keep or bool(self.complaints)
            if self.recorder is not None:
                self.recorder.close()
            self.c.close(keep)
            if keep:
                self.say(f"kept for inspection: {self.c.folder}")
        if self.used:
            self.say("mixed: " + ", ".join(f"{name} {count}" for name, count in sorted(self.used.items())))


class Against(Judged):
    """Load on somebody's cluster, who breaks it: nothing is done to it here but a topic of our own."""

    def __init__(self, arguments, folder):
        super().__init__("against", arguments, folder)
        self.topic = f"chaos-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self.interrupted = threading.Event()

    def work(self):
        self.c.lightq("topic", "create", self.topic, "--partitions", PARTITIONS)
        self.start_load()
        self.load.wait_flow()
        self.say(f"load on topic {self.topic}: break the cluster now; Ctrl-C ends the load")
        end = time.monotonic() + self.arguments.duration
        before = self.load.acknowledged()
        while time.monotonic() < end and not self.interrupted.wait(min(5.0, max(0.1, end - time.monotonic()))):
            self.load.look()
            now = self.load.acknowledged()
            self.say(f"{now} acknowledged, {now - before} of them since the last line")
            before = now
        self.say("waiting until all is quiet")
        self.load.wait_flow(EQUAL_SECONDS)
        self.settle()

    def go(self):
        folder = tempfile.mkdtemp(prefix="lightq-against-")
        self.c = Clients(folder, self.arguments.against)
        try:
            self.work()
        except FAILURES as error:
            self.complain([f"{type(error).__name__}: {error}"])
        finally:
            try:
                self.judge()
            except FAILURES as error:
                self.complain([f"{type(error).__name__}: {error}"])
            self.c.end_clients()
            if not self.complaints and not self.arguments.keep:
                self.c.lightq("topic", "delete", self.topic, check=False)
            else:
                self.say(f"topic {self.topic} is kept for inspection")
            shutil.rmtree(folder, ignore_errors=True)
        return self.line()
