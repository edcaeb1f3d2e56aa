#!/usr/bin/env python3
"""Measures the figures of docs/performance.md on this machine with a release build and writes that file.

    tests/bench/figures.py [--only NAME,...] [--runs 3] [--no-write]

Three nodes, the client and all disks share this machine. Every figure is the median of --runs runs, with its goal beside
it. Nothing here is a test: a missed goal is written down, not failed."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "integration"))
os.environ.setdefault("LIGHTQ_BIN", str(ROOT / "build" / "release" / "bin"))

from lightq_cluster import BIN, Cluster, wait_for  # noqa: E402

RAW = ROOT / "docs" / "performance.json"
PAGE = ROOT / "docs" / "performance.md"
GIB = 1024**3


def pids(cluster):
    return [int((cluster.folder / "cluster" / f"n{i}" / "pid").read_text()) for i in range(1, cluster.nodes + 1)]


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def written_bytes(pid):
    lines = pathlib.Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("write_bytes")).split()[1])


def memory_mib(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def bench(cluster, *words, seconds=300):
    done = cluster.lightq("--format", "json", "bench", *words, seconds=seconds)
    return json.loads(done.stdout.strip().splitlines()[-1])


def with_topic(cluster, name, *words):
    cluster.lightq("topic", "create", name, *words)
    return name


def produce_rate(size, count, *words):
    def measure(cluster, run):
        topic = with_topic(cluster, f"p{size}-{run}-{time.monotonic_ns()}")
        result = bench(cluster, "produce", topic, "--count", count, "--size", size, *words)
        cluster.lightq("topic", "delete", topic)
        return {"value": result["acked_per_s"], "p50_us": result["p50_us"], "p99_us": result["p99_us"]}

    return measure


def end_to_end(cluster, run):
    topic = with_topic(cluster, f"e-{run}-{time.monotonic_ns()}")
    result = bench(cluster, "end-to-end", topic, "--count", 2_000_000, "--size", 256)
    cluster.lightq("topic", "delete", topic)
    return {"value": result["consumed_per_s"], "acked_per_s": result["acked_per_s"]}


def open_loop(key):
    def measure(cluster, run):
        topic = with_topic(cluster, f"o-{run}-{time.monotonic_ns()}")
        result = bench(cluster, "produce", topic, "--count", 50_000, "--size", 256, "--rate", 5000)
        cluster.lightq("topic", "delete", topic)
        return {"value": result[key] / 1000, "p50_us": result["p50_us"], "p999_us": result["p999_us"]}

    return measure


def pipeline(cluster, run):
    topic = with_topic(cluster, f"g-{run}-{time.monotonic_ns()}")
    result = bench(cluster, "pipeline", topic, "--count", 2_000_000, "--size", 256, "--consumers", 2)
    cluster.lightq("topic", "delete", topic)
    return {"value": result["settled_per_s"], "consumed_per_s": result["consumed_per_s"], "p99_us": result["p99_us"]}


def delivered(key):
    def measure(cluster, run):
        topic = with_topic(cluster, f"d-{run}-{time.monotonic_ns()}")
        result = bench(cluster, "end-to-end", topic, "--count", 50_000, "--size", 256, "--rate", 5000)
        cluster.lightq("topic", "delete", topic)
        return {"value": result[key] / 1000, "p50_us": result["p50_us"], "p999_us": result["p999_us"]}

    return measure


def settle_cost(_cluster, _run):
    """Processor time of a leader for one ack, out of order, by how many messages are delivered and not settled."""
    done = subprocess.run([BIN / "bench_settle", "3"], capture_output=True, text=True, check=True)
    whole = [float(line.split()[2]) for line in done.stdout.splitlines() if line.split()[0].isdigit()]
    return {"value": whole[-1] / whole[0], "ns_1k": whole[0], "ns_100k": whole[1], "ns_1M": whole[2]}


def group_cost(cluster, topic, groups, count):
    """Processor seconds of all nodes for each delivery of @count messages to each of @groups groups of one topic."""
    for i in range(groups):
        cluster.lightq("group", "create", topic, f"g{i}", "--mode", "pipeline")
    before = sum(cpu_seconds(pid) for pid in pids(cluster))
    readers = [cluster.start_lightq("consume", topic, "--group", f"g{i}", "--count", count, "--timeout", 60000)
               for i in range(groups)]
    bench(cluster, "produce", topic, "--count", count, "--size", 256)
    for reader in readers:
        cluster.finish(reader)
    return (sum(cpu_seconds(pid) for pid in pids(cluster)) - before) / groups / count


def many_groups(cluster, run):
    few = with_topic(cluster, f"few-{run}-{time.monotonic_ns()}")
    many = with_topic(cluster, f"many-{run}-{time.monotonic_ns()}")
    ten, hundred = group_cost(cluster, few, 10, 50_000), group_cost(cluster, many, 100, 50_000)
    for topic in (few, many):
        cluster.lightq("topic", "delete", topic)
    return {"value": hundred / ten, "us_at_10": ten * 1e6, "us_at_100": hundred * 1e6}


def one_in_flight(cluster, run):
    topic = with_topic(cluster, f"s-{run}-{time.monotonic_ns()}")
    result = bench(cluster, "produce", topic, "--count", 10_000, "--size", 256, "--window", 1)
    cluster.lightq("topic", "delete", topic)
    return {"value": result["p50_us"] / 1000, "p99_us": result["p99_us"]}


def server_cost(kind):
    def measure(cluster, run):
        topic = with_topic(cluster, f"c-{run}-{time.monotonic_ns()}")
        before = [(cpu_seconds(pid), written_bytes(pid)) for pid in pids(cluster)]
        bench(cluster, "produce", topic, "--count", 3_000_000, "--size", 100)
        cluster.wait_equal(topic)
        after = [(cpu_seconds(pid), written_bytes(pid)) for pid in pids(cluster)]
        cluster.lightq("topic", "delete", topic)
        if kind == "cpu":
            return {"value": sum(a[0] - b[0] for a, b in zip(after, before)) / 3}
        return {"value": statistics.mean(a[1] - b[1] for a, b in zip(after, before)) / 3e8}

    return measure


def failover(verb, back):
    def measure(cluster, run):
        topic = with_topic(cluster, f"f-{run}-{time.monotonic_ns()}")
        leader = cluster.leader(topic)
        child = cluster.start_lightq("--format", "json", "bench", "produce", topic, "--count", 30_000, "--size", 100,
                                     "--rate", 3000)
        time.sleep(3)  # the load runs for ten seconds: break the leader in its first third
        cluster.script(verb, leader)
        result = json.loads(cluster.finish(child).strip().splitlines()[-1])
        cluster.script(back, leader)
        cluster.wait_equal(topic)
        cluster.lightq("topic", "delete", topic)
        return {"value": result["max_gap_us"] / 1e6}

    return measure


def fill(cluster, topic, total=GIB):
    bench(cluster, "produce", topic, "--count", total // 4096, "--size", 4096, seconds=600)
    cluster.wait_equal(topic, seconds=120)


def restart(cluster, run):
    topic = with_topic(cluster, f"r-{run}-{time.monotonic_ns()}")
    fill(cluster, topic)
    node = cluster.leader(topic) % 3 + 1
    cluster.script("stop", node)
    begin = time.monotonic()
    cluster.script("start", node)
    value = time.monotonic() - begin
    cluster.wait_equal(topic)
    cluster.lightq("topic", "delete", topic)
    return {"value": value}


def catch_up(cluster, run):
    topic = with_topic(cluster, f"u-{run}-{time.monotonic_ns()}")
    fill(cluster, topic)
    node = cluster.leader(topic) % 3 + 1
    cluster.script("kill", node)
    cluster.script("wipe", node)
    begin = time.monotonic()
    cluster.script("start", node)
    cluster.wait_equal(topic, seconds=120)
    value = GIB / 1e6 / (time.monotonic() - begin)
    cluster.lightq("topic", "delete", topic)
    return {"value": value}


def many_active(cluster, run):
    topic = with_topic(cluster, f"m-{run}-{time.monotonic_ns()}", "--partitions", 256)
    result = bench(cluster, "produce", topic, "--count", 500_000, "--size", 256, "--spread")
    cluster.lightq("topic", "delete", topic)
    return {"value": result["acked_per_s"], "p50_us": result["p50_us"], "p99_us": result["p99_us"]}


def all_led(cluster, topic):
    done = cluster.lightq("--format", "json", "topic", "describe", topic, check=False)
    return done.returncode == 0 and all(p["leader"] for p in json.loads(done.stdout)["partitions"])


def idle(cluster, _run):
    begin = time.monotonic()
    topic = with_topic(cluster, f"i-{time.monotonic_ns()}", "--partitions", 1000)
    created = time.monotonic() - begin
    before = [cpu_seconds(pid) for pid in pids(cluster)]
    begin = time.monotonic()
    time.sleep(20)  # the figure is what an idle node costs over time
    elapsed = time.monotonic() - begin
    cpu = statistics.mean(cpu_seconds(pid) - b for pid, b in zip(pids(cluster), before)) / elapsed * 100
    memory = statistics.mean(memory_mib(pid) for pid in pids(cluster))
    cluster.script("down")
    begin = time.monotonic()
    cluster.up()
    wait_for(lambda: all_led(cluster, topic), "leaders", 60)
    leaders = time.monotonic() - begin
    cluster.lightq("topic", "delete", topic)
    return {"value": cpu, "memory_mib": memory, "created_s": created, "leaders_s": leaders}


# name: (sentence, unit, goal, measure)
FIGURES = {
    "produce-window": ("produce, 100 B, 1000 in flight", "msg/s", ">= 600000", produce_rate(100, 3_000_000, "--window", 1000)),
    "produce": ("produce, 100 B, default window", "msg/s", ">= 1000000", produce_rate(100, 5_000_000)),
    "produce-1k": ("produce, 1 KiB", "msg/s", ">= 200000", produce_rate(1024, 1_000_000)),
    "end-to-end": ("produce and consume together, 256 B", "msg/s", ">= 400000", end_to_end),
    "open-p50": ("open loop 5,000 msg/s of 256 B, acknowledged p50", "ms", "<= 1", open_loop("p50_us")),
    "open-p99": ("open loop 5,000 msg/s of 256 B, acknowledged p99", "ms", "<= 3", open_loop("p99_us")),
    "pipeline": ("pipeline group with acks, 256 B, 1 producer, 2 consumers, consumed and settled", "msg/s", ">= 250000", pipeline),
    "delivered-p50": ("open loop 5,000 msg/s of 256 B, delivered p50", "ms", "<= 1.2", delivered("p50_us")),
    "delivered-p99": ("open loop 5,000 msg/s of 256 B, delivered p99", "ms", "<= 4", delivered("p99_us")),
    "settle": ("a leader's cost of an out-of-order ack with 1M unsettled, against 1k", "times", "<= 4", settle_cost),
    "groups": ("nodes' cost of a delivery with 100 groups on a topic, against 10 groups", "times", "<= 1.5", many_groups),
    "one": ("one in flight, 256 B, p50", "ms", "<= 0.6", one_in_flight),
    "cpu": ("server CPU over the three nodes per million messages of 100 B", "s", "<= 1.0", server_cost("cpu")),
    "bytes": ("bytes written by a replica per payload byte, 100 B messages", "", "<= 1.25", server_cost("bytes")),
    "kill": ("kill -9 of a leader: longest time without an acknowledgement", "s", "<= 0.5", failover("kill", "start")),
    "pause": ("SIGSTOP of a leader: longest time without an acknowledgement", "s", "<= 2.5", failover("pause", "resume")),
    "restart": ("restart of a node with a 1 GiB partition until ready", "s", "<= 2", restart),
    "catch-up": ("empty replica catches up, 1 GiB, start of the process included", "MB/s", ">= 150", catch_up),
    "active": ("256 partitions active, 256 B, one in flight each", "msg/s", ">= 100000", many_active),
    "idle": ("1,000 partitions idle, CPU a node (memory MiB, creation s, leaders after a start s beside it)", "%", "<= 3", idle),
}


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="ascii")
                if line.startswith("model name")), "unknown processor")
    memory = int(open("/proc/meminfo", encoding="ascii").readline().split()[1]) // 1024 // 1024
    kind = subprocess.run(["stat", "-f", "-c", "%T", ROOT], capture_output=True, text=True, check=True).stdout.strip()
    return f"{os.cpu_count()} cores ({cpu}), {memory} GiB, {kind}, Linux {os.uname().release}"


def met(value, goal):
    operator, bound = goal.split()
    return value >= float(bound) if operator == ">=" else value <= float(bound)


def text(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def page(results):
    lines = ["# Performance", "",
             "Written by `tests/bench/figures.py`: three nodes, the client and all disks on one machine, release build,",
             "replicas 3, fdatasync on all three before the acknowledgement of a majority is counted. Medians.", "",
             f"Machine: {results['machine']}. Commit {results['commit']}, {results['date']}.", "",
             "| what | measured | goal | met | beside it |", "| --- | --- | --- | --- | --- |"]
    for name, (sentence, unit, goal, _measure) in FIGURES.items():
        found = results["figures"].get(name)
        if found is None:
            continue
        beside = ", ".join(f"{key} {text(value)}" for key, value in found.items() if key != "value")
        verdict = "yes" if met(found["value"], goal) else "**no**"
        lines.append(f"| {sentence} | {text(found['value'])} {unit} | {goal} {unit} | {verdict} | {beside} |")
    notes = PAGE.with_name("performance-notes.md")
    if notes.exists():
        lines += ["", notes.read_text(encoding="utf-8").strip()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", default="", help="names, separated by commas: " + ", ".join(FIGURES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(FIGURES)
    results = json.loads(RAW.read_text(encoding="utf-8")) if RAW.exists() else {"figures": {}}
    results["machine"] = machine()
    results["date"] = time.strftime("%Y-%m-%d")
    results["commit"] = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True,
                                       text=True, check=True).stdout.strip()
    for name in names:
        sentence, unit, goal, measure = FIGURES[name]
        cluster = Cluster().up()
        ok = False
        try:
            runs = [measure(cluster, run) for run in range(1 if name == "idle" else arguments.runs)]
            ok = True
        finally:
            cluster.close(failed=not ok)
        found = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        results["figures"][name] = found
        print(f"{name}: {sentence}: {text(found['value'])} {unit} (goal {goal}) "
              f"{'met' if met(found['value'], goal) else 'MISSED'} {found}", flush=True)
        if not arguments.no_write:
            RAW.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            PAGE.write_text(page(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
