#!/usr/bin/env python3
"""Kills and starts random nodes under load for a while, then compares what was acknowledged with what is stored.

    kill_loop.py [--seconds S=1200] [--seed N] [--rate R=2000] [--shards N=1]

Two producers run all the time; each round kills one random node (now and then all three), waits a little,
starts it again. At the end: lost 0, doubled 0, order kept, digests equal. Prints its seed first and one last line."""

import argparse
import random
import sys
import time

from lightq_cluster import Cluster

PARTITIONS = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--shards", type=int, default=1)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    dice = random.Random(arguments.seed)
    cluster = Cluster(args=f"--set shards={arguments.shards}").up()
    ok = False
    try:
        cluster.lightq("topic", "create", "loop", "--partitions", PARTITIONS)
        count = arguments.rate * arguments.seconds
        producers = [cluster.start_lightq("produce", "loop", "--count", count // 2, "--size", 100,
                                          "--rate", arguments.rate // 2, "--acked", cluster.folder / f"acked{i}")
                     for i in range(2)]
        kills, started = 0, time.monotonic()
        while any(p.poll() is None for p in producers) and time.monotonic() < started + 2 * arguments.seconds + 120:
            nodes = [1, 2, 3] if dice.random() < 0.1 else [dice.randint(1, 3)]
            for node in nodes:
                cluster.script("kill", node)
                kills += 1
            time.sleep(dice.uniform(0, 3))  # the fault's own length, drawn from the seed
            cluster.up()  # starts those that are down
            time.sleep(dice.uniform(0, 4))
        for producer in producers:
            cluster.finish(producer, seconds=180)
        cluster.wait_equal("loop", seconds=120)
        cluster.lightq("consume", "loop", "--from", "start", "--until-end", "--log", cluster.folder / "log",
                       seconds=600)
        verdict = cluster.check(["acked0", "acked1"], ["log"]).strip()
        print(f"{kills} kills in {time.monotonic() - started:.0f} s; {verdict}; replicas equal")
        ok = True
    finally:
        cluster.close(failed=not ok)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
