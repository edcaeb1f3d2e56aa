#!/usr/bin/env python3
"""Three nodes, each in a control group of 256 MiB, with everything that memory could be lost to at once: a million
messages of a pipeline group that are delivered and not settled, 500 consumers that do not read (half of them stopped
altogether), and a large backlog. All nodes must stay up, and a normal producer and consumer go on.

    tests/bench/memory.py [--backlog-mib 10240] [--unsettled 1000000] [--consumers 500] [--limit-mib 256]

Needs root for the control groups (v1 or v2); without them it says so, and only looks at what the processes hold."""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "integration"))
os.environ.setdefault("LIGHTQ_BIN", str(ROOT / "build" / "release" / "bin"))

from lightq_cluster import BIN, Cluster  # noqa: E402

MIB = 1024**2


class Cage:
    """A control group for each node. None of this machine's: limits are not set, and looked at by resident memory."""

    def __init__(self, limit):
        self.limit, self.folders = limit, []
        v1, v2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
        self.base, self.file = (v1, "memory.limit_in_bytes") if v1.is_dir() else (v2, "memory.max")
        own = next((line.split(":", 2)[2].strip() for line in open("/proc/self/cgroup", encoding="ascii")
                    if ":memory:" in line or (not v1.is_dir() and line.startswith("0::"))), "/")
        inside = self.base / own.lstrip("/")
        self.base = inside if inside.is_dir() else self.base

    def take(self, name, pid):
        folder = self.base / f"lightq-memory-{os.getpid()}-{name}"
        try:
            folder.mkdir()
            self.folders.append(folder)
            (folder / self.file).write_text(str(self.limit), encoding="ascii")
            (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
            return True
        except OSError as error:
            print(f"no control group: {error}; resident memory is looked at instead", flush=True)
            return False

    def peak(self, name):
        for file in ("memory.max_usage_in_bytes", "memory.peak"):
            path = self.base / f"lightq-memory-{os.getpid()}-{name}" / file
            if path.exists():
                return int(path.read_text(encoding="ascii")) // MIB
        return -1

    def close(self):
        for folder in self.folders:
            try:
                folder.rmdir()
            except OSError:
                pass


def pids(cluster):
    return [int((cluster.folder / "cluster" / f"n{i}" / "pid").read_text()) for i in range(1, cluster.nodes + 1)]


def resident(pid, name="VmHWM"):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) // 1024


def bench(cluster, *words, seconds=3600):
    done = cluster.lightq("--format", "json", "bench", *words, seconds=seconds)
    return json.loads(done.stdout.strip().splitlines()[-1])


def start_idle(cluster, *words):
    """idle_consumers, when it is ready."""
    child = subprocess.Popen([str(BIN / "idle_consumers"), cluster.environment["LIGHTQ_SERVERS"], *map(str, words)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    line = "begins"
    while line.strip() != "ready":
        line = child.stdout.readline()
        if line == "":
            raise RuntimeError("idle_consumers has ended")
    return child


def normal(cluster, topic):
    return bench(cluster, "pipeline", topic, "--count", 20000, "--size", 256, "--rate", 2000, "--consumers", 1, seconds=300)


def run(cluster, arguments, cage, idle):
    caged = [cage.take(f"n{i + 1}", pid) for i, pid in enumerate(pids(cluster))]
    before_pids = pids(cluster)
    for topic in ("normal", "backlog", "hoard"):
        cluster.lightq("topic", "create", topic)
    before = normal(cluster, "normal")
    print("before:", before["consumed_per_s"], "msg/s, p99", before["p99_us"], "us", flush=True)

    bench(cluster, "produce", "backlog", "--count", arguments.backlog_mib * 256, "--size", 4096)
    print("the backlog is written; resident", [resident(pid) for pid in pids(cluster)], "MiB at most", flush=True)
    bench(cluster, "produce", "hoard", "--count", arguments.unsettled + 1000, "--size", 64)
    cluster.lightq("group", "create", "hoard", "g", "--mode", "pipeline", "--max-unsettled", 1048576, "--ack-wait", 86400000)
    idle.append(start_idle(cluster, "hoard", 4, "g", arguments.unsettled))
    print("unsettled:", arguments.unsettled, flush=True)
    half = arguments.consumers // 2
    idle.append(start_idle(cluster, "backlog", half))
    idle.append(start_idle(cluster, "backlog", arguments.consumers - half))
    idle[-1].send_signal(signal.SIGSTOP)
    print("slow consumers:", arguments.consumers, flush=True)

    during = normal(cluster, "normal")
    print("during:", during["consumed_per_s"], "msg/s, p99", during["p99_us"], "us", flush=True)
    # The backlog is read beside it, by one who reads as fast as it can.
    reader = cluster.start_lightq("bench", "consume", "backlog", "--count", min(arguments.backlog_mib, 1024) * 256)
    reading = normal(cluster, "normal")
    print("beside a reader of the backlog:", reading["consumed_per_s"], "msg/s, p99", reading["p99_us"], "us", flush=True)
    cluster.finish(reader, seconds=1800)
    described = json.loads(cluster.lightq("--format", "json", "group", "describe", "hoard", "g").stdout)
    print("resident at most", [resident(pid) for pid in pids(cluster)], "MiB; control groups at most",
          [cage.peak(f"n{i + 1}") for i in range(3)], "MiB, page cache included", flush=True)

    wrong = []
    if pids(cluster) != before_pids or not all(pathlib.Path(f"/proc/{pid}").exists() for pid in before_pids):
        wrong.append("a node has ended")
    if any(resident(pid) > arguments.limit_mib for pid in before_pids):
        wrong.append("a node held more than its limit")
    for name, result in (("during", during), ("beside a reader", reading)):
        if result["settled"] != 20000 or result["consumed_per_s"] < 0.9 * before["consumed_per_s"]:
            wrong.append(f"{name}: the normal pair was not served in full: {result}")
    unsettled = sum(p["unsettled"] for p in described["partitions"])
    if unsettled < arguments.unsettled:
        wrong.append(f"only {unsettled} messages are unsettled")
    print("limited by control groups" if all(caged) else "NOT limited: no control groups here", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backlog-mib", type=int, default=10240)
    parser.add_argument("--unsettled", type=int, default=1_000_000)
    parser.add_argument("--consumers", type=int, default=500)
    parser.add_argument("--limit-mib", type=int, default=256)
    arguments = parser.parse_args()
    cage, idle, ok = Cage(arguments.limit_mib * MIB), [], False
    cluster = Cluster(args=f"--set memory.max={arguments.limit_mib * 3 // 4}m").up()
    begin = time.monotonic()
    try:
        wrong = run(cluster, arguments, cage, idle)
        ok = not wrong
    finally:
        for child in idle:
            child.kill()
            child.wait()
        cluster.close(failed=not ok)
        cage.close()
    for sentence in wrong:
        print("WRONG:", sentence)
    print(f"{'holds' if ok else 'DOES NOT HOLD'}, {time.monotonic() - begin:.0f} s")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
