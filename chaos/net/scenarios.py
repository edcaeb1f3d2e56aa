"""The scenarios: each is called again and again while the load runs, makes one fault, heals it and returns when the
cluster may be hit again. `r` is a Run: r.c the Cluster, r.load the Load, r.topic, r.dice. r.note(kind, nodes, majority)
says that a fault begins, which is written down when it has its effect: before a signal, after what takes time to make;
r.healed() that it is over. Nodes are those that it hits. The numbers name rows of the catalogue of known failures that
docs/reliability-cases.md walks through."""

import shutil
import signal
import time

import faults
from cluster import Broken, wait_for

SCENARIOS = {}
DOWN_SECONDS = (0.5, 2.5)
RING_NODES = 5
REPLICAS = 3  # of a topic, when nothing else is said
CLOCK_JUMPS_S = (-3600, -60, -2, 2, 60, 3600)
CLOCK_SKEWS_PPM = (-50000, -5000, 5000, 50000)


def scenario(function):
    SCENARIOS[function.__name__.replace("_", "-")] = function
    return function


def nodes_for(name, wanted):
    """How many nodes a scenario runs on."""
    return max(wanted, RING_NODES) if name == "ring" else wanted


def replicas_for(name):
    """How many replicas its topic has; None: the default."""
    return RING_NODES if name == "ring" else None


def has_clocks(name):
    """Whether the nodes' wall clocks can be set."""
    return name in ("clock", "mix")


def pause(r, low=DOWN_SECONDS[0], high=DOWN_SECONDS[1]):
    time.sleep(r.dice.uniform(low, high))


def some_leader(r):
    return r.c.leader(r.topic, r.dice.randrange(r.load.partitions))


def some_node(r):
    return r.dice.choice(list(r.c.nodes))


def down_and_up(r, *nodes):
    pause(r)
    for node in nodes:
        r.c.launch(node)
    for node in nodes:
        r.c.wait_ready(node)
    r.healed()
    r.load.wait_flow()


def is_majority(r, count):
    """Whether so many nodes may be a majority of some partition's replicas."""
    return count > ((replicas_for(r.name) or min(r.c.count, REPLICAS)) - 1) // 2


@scenario
def none(r):
    time.sleep(1)


@scenario
def kill_leader(r):  # A12, E1, G1, G5
    node = some_leader(r)
    r.note("kill", [node])
    r.c.kill(node)
    down_and_up(r, node)


@scenario
def kill_random(r):  # A7, B4, B11
    """One node, or now and then two."""
    nodes = r.dice.sample(list(r.c.nodes), 2 if r.c.count > 2 and r.dice.random() < 0.3 else 1)
    r.note("kill", nodes, majority=is_majority(r, len(nodes)))
    r.c.kill(*nodes)
    down_and_up(r, *nodes)


@scenario
def kill_all(r):  # B1, B11
    r.note("kill", r.c.nodes, majority=True)
    r.c.kill(*r.c.nodes)
    down_and_up(r, *r.c.nodes)


@scenario
def pause_leader(r):  # A11, B1
    node = some_leader(r)
    r.note("pause", [node])
    r.c.signal(node, signal.SIGSTOP)
    try:
        pause(r, 2, 5)
    finally:
        r.c.signal(node, signal.SIGCONT)
    r.healed()
    r.load.wait_flow()


def separated(r, kind, nodes, cuts, seconds=(3, 7)):
    """cuts: pairs (deaf node, node it does not hear)."""
    faults.need_namespaces(r.c)
    try:
        for deaf, other in cuts:
            r.c.place.cut(deaf, other)
        r.note(kind, nodes)
        pause(r, *seconds)
    finally:
        for node in r.c.nodes:
            r.c.place.heal(node)
    r.healed()
    r.load.wait_flow()
    r.c.wait_whole(r.topic)


@scenario
def isolate_leader(r):  # A2, E13
    faults.need_namespaces(r.c)
    node = some_leader(r)
    others = [n for n in r.c.nodes if n != node]
    separated(r, "isolate", [node], [pair for other in others for pair in ((node, other), (other, node))])


@scenario
def one_way(r):
    faults.need_namespaces(r.c)
    node = some_node(r)
    others = [n for n in r.c.nodes if n != node]
    deaf = r.dice.random() < 0.5
    separated(r, "deaf" if deaf else "mute", [node], [(node, other) if deaf else (other, node) for other in others])


@scenario
def halves(r):
    """A minority and the rest, who do not hear one another; clients hear all."""
    faults.need_namespaces(r.c)
    nodes = list(r.c.nodes)
    r.dice.shuffle(nodes)
    few, many = nodes[:len(nodes) // 2], nodes[len(nodes) // 2:]
    hit = few if r.c.count <= REPLICAS else nodes  # a partition's leader may be left alone among the many
    separated(r, "halves", hit, [pair for a in few for b in many for pair in ((a, b), (b, a))])


@scenario
def bridge(r):  # E17
    """Two nodes that both see only the third."""
    faults.need_namespaces(r.c)
    a, b = r.dice.sample(list(r.c.nodes), 2)
    separated(r, "bridge", [a, b], [(a, b), (b, a)], (5, 9))


@scenario
def ring(r):
    """Each of five nodes hears only its two neighbours: each a majority, and each another one."""
    nodes = r.dice.sample(list(r.c.nodes), r.c.count)
    apart = [(a, b) for i, a in enumerate(nodes) for j, b in enumerate(nodes)
             if i != j and (i - j) % len(nodes) not in (1, len(nodes) - 1)]
    separated(r, "ring", nodes, apart, (6, 10))


@scenario
def power_one(r):  # B1, B5
    node = some_node(r)
    faults.need_root(r.c)
    r.note("power", [node])
    faults.power(r.c, [node])
    down_and_up(r, node)


@scenario
def power_all(r):  # B2
    faults.need_root(r.c)
    r.note("power", r.c.nodes, majority=True)
    faults.power(r.c, list(r.c.nodes))
    down_and_up(r, *r.c.nodes)


@scenario
def disk_full(r):  # A6, D1, D3, D5
    node = some_leader(r)
    faults.need_root(r.c)
    restart = r.dice.random() < 0.4
    try:
        faults.fill(r.c, node)
        r.note("full", [node])
        pause(r, 2, 5)
        if restart:
            r.c.kill(node)
    finally:
        faults.empty(r.c, node)
    if restart:
        r.c.start(node)
    r.healed()
    r.load.wait_flow()
    try:
        r.c.wait_whole(r.topic, 20)
    except Broken as error:
        raise Broken(f"after the disk of {node} has space again (restart: {restart}): {error}") from error


@scenario
def disk_full_all(r):  # D1
    faults.need_root(r.c)
    try:
        for node in r.c.nodes:
            faults.fill(r.c, node)
        r.note("full", r.c.nodes, majority=True)
        pause(r, 2, 5)
    finally:
        for node in r.c.nodes:
            faults.empty(r.c, node)
    r.healed()
    r.load.wait_flow()
    r.c.wait_whole(r.topic, 20)


@scenario
def fsync_eio(r):  # A12, D10
    """A failed sync is final for what the node has open: it must be restarted, and writes go on without it."""
    node = some_leader(r)
    faults.fail_next_sync(r.c, node, lambda: r.note("eio", [node]))
    r.load.wait_flow(20)
    pause(r)
    if r.c.ended(node) is None:
        r.c.kill(node)
    else:
        r.c.forget(node, tuple(range(1, 128)))  # it may end, but not by a signal
    r.c.start(node)
    r.healed()
    r.c.wait_whole(r.topic)


@scenario
def slow_disk(r):  # D9
    node = some_node(r)
    slow = faults.SlowDisk(r.c, node, 8)
    r.note("slow", [node])
    try:
        pause(r, 4, 8)
        r.load.wait_flow(20)
    finally:
        slow.close()
    r.healed()
    r.load.wait_flow()


@scenario
def hung_disk(r):
    node = some_leader(r)
    faults.need_root(r.c)
    try:
        faults.freeze(r.c, node)
        r.note("hang", [node])
        r.load.wait_flow(20)
        pause(r)
    finally:
        faults.thaw(r.c, node)
    r.healed()
    r.load.wait_flow()
    r.c.wait_whole(r.topic)


def damaged(r, harm, refusable=False):
    """A node comes back with bad files: it must not use them, and be whole again by itself."""
    r.c.wait_whole(r.topic)
    node = some_node(r)
    pause(r, 1, 2)
    r.note(harm.__name__.replace("_", "-"), [node])
    if r.dice.random() < 0.5:
        r.c.kill(node)
    else:
        r.c.stop(node)
    what = harm(r.c, node, r.dice)
    r.say(what)
    r.harmed.add((node, what.split(" ")[0]))
    r.c.launch(node)
    if refusable and refuses(r, node):
        must_be_refused(r, node)
        r.remove_data(node)
        r.c.launch(node)
        replaced(r, node)
        return
    r.c.wait_ready(node)
    r.healed()
    r.load.wait_flow()
    r.c.wait_whole(r.topic)


def refuses(r, node):
    """Whether node ends by itself instead of becoming ready."""
    def known():
        return r.c.ended(node) is not None or "\nready " in "\n" + r.c.log_of_this_start(node)

    wait_for(known, f"node {node} being ready or refusing to start", 30)
    return r.c.ended(node) is not None


@scenario
def bit_flip(r):  # A9, C1
    damaged(r, faults.flip_bit)


@scenario
def truncate(r):  # C3
    damaged(r, faults.truncate)


@scenario
def torn_tail(r):  # B9, E7
    damaged(r, faults.tear_tail)


@scenario
def lost_segment(r):  # A4
    damaged(r, faults.lose_segment)


@scenario
def bad_checkpoint(r):  # C3, C5
    damaged(r, faults.spoil_checkpoint)


@scenario
def bad_journal(r):
    """All votes of the node are in doubt: it refuses to start, until an operator replaces it."""
    damaged(r, faults.spoil_journal, refusable=True)


def replaced(r, node):
    r.c.lightq("node", "replace", node, node)
    if node not in r.c.running:
        r.c.launch(node)
    r.c.wait_ready(node)
    r.healed()
    r.load.wait_flow()
    r.c.wait_whole(r.topic)


@scenario
def wipe(r):  # F1, F2, F3, F5
    r.c.wait_whole(r.topic)
    wiped_and_replaced(r, some_node(r))


def must_be_refused(r, node):
    """The node says that it is refused and what to do, and does not serve."""
    said = wait_for(lambda: "node replace" in r.c.log_of_this_start(node) or r.c.ended(node) is not None,
                    f"node {node} being refused with a remedy", 20)
    time.sleep(1)
    text = r.c.log_of_this_start(node)
    if not said or "node replace" not in text:
        raise Broken(f"node {node} was refused without its remedy: {text[-400:]}")
    if any(line.startswith("ready ") for line in text.splitlines()):
        raise Broken(f"node {node} serves although it has lost its data: {text[-400:]}")
    if r.c.ended(node) is not None:
        r.c.forget(node, tuple(range(1, 128)))


@scenario
def old_copy(r):
    """A restored backup has forgotten what it acknowledged."""
    r.c.wait_whole(r.topic)
    node = some_node(r)
    copy = r.c.folder / f"copy{node}"
    r.c.stop(node)
    shutil.copytree(r.c.place.data(node), copy)
    r.c.start(node)
    r.load.wait_flow()
    pause(r, 1, 3)
    r.note("old-copy", [node])
    r.c.kill(node)
    shutil.rmtree(r.c.place.data(node))
    shutil.move(copy, r.c.place.data(node))
    r.recorder.wiped(node)
    r.c.launch(node)
    must_be_refused(r, node)
    if node in r.c.running:
        r.c.kill(node)
    r.remove_data(node)
    r.c.launch(node)
    must_be_refused(r, node)
    replaced(r, node)


@scenario
def fds(r):  # K3
    node = some_leader(r)
    limit = faults.limit_files(r.c, node, 0)
    r.note("fds", [node])
    try:
        for _ in range(5):
            r.c.describe(r.topic)
        pause(r, 3, 6)
    finally:
        if r.c.ended(node) is None:
            faults.restore_files(r.c, node, limit)
    r.healed()
    r.load.wait_flow()
    try:
        r.c.wait_whole(r.topic, 10)
    except Broken as error:
        r.say(f"restarted, since: {error}")
        r.c.stop(node)
        r.c.start(node)
        r.c.wait_whole(r.topic)


@scenario
def roll(r):  # F13
    for node in r.c.nodes:
        r.note("stop", [node])
        r.c.stop(node)
        r.c.start(node)
        r.healed()
        r.load.wait_flow()
        r.c.wait_whole(r.topic)


@scenario
def transfer_storm(r):  # G1
    """Leaders are asked to hand over all the time."""
    for _ in range(10):
        partition = r.dice.randrange(r.load.partitions)
        node = r.c.leader(r.topic, partition)
        r.note("transfer", [node])
        r.c.lightq("partition", "transfer-leader", f"{r.topic}/{partition}", check=False)
        r.healed()
    r.load.wait_flow()


@scenario
def loss_delay(r):
    """One node loses a fifth of the packets it gets, or gets them late and out of order, or both a little."""
    faults.need_namespaces(r.c)
    node = some_node(r)
    kind, delay_ms, jitter_ms, loss = r.dice.choice((("loss", 0, 0, 0.2), ("delay", 50, 0, 0), ("jitter", 20, 80, 0),
                                                     ("loss-delay", 20, 30, 0.05)))
    slow = faults.BadLine(r.c, node, delay_ms, jitter_ms, loss)
    try:
        r.note(kind, [node])
        pause(r, 4, 8)
        r.load.wait_flow(40)
    finally:
        slow.close()
    r.healed()
    r.load.wait_flow()
    r.c.wait_whole(r.topic)


@scenario
def reset(r):
    """Connections of one node are reset in the middle of frames, again and again."""
    faults.need_namespaces(r.c)
    node = some_leader(r)
    r.note("reset", [node])
    for _ in range(5):
        faults.reset_connections(r.c, node)
        pause(r, 0.2, 0.6)
    r.healed()
    r.load.wait_flow()
    r.c.wait_whole(r.topic)


@scenario
def starve(r):
    """A node gets a twentieth of a processor."""
    node = some_leader(r)
    few = faults.Starved(r.c, node, 5)
    r.note("starve", [node])
    try:
        pause(r, 4, 8)
        r.load.wait_flow(20)
    finally:
        few.close()
    r.healed()
    r.load.wait_flow()
    r.c.wait_whole(r.topic)


def wiped_and_replaced(r, node):
    r.note("wipe", [node])
    r.c.kill(node)
    r.remove_data(node)
    r.c.launch(node)
    must_be_refused(r, node)
    replaced(r, node)


@scenario
def replace_all(r):  # F7
    """One node after the other is replaced by an empty one; then all are killed, and know one another again."""
    r.c.wait_whole(r.topic)
    for node in r.dice.sample(list(r.c.nodes), r.c.count):
        wiped_and_replaced(r, node)
        if r.dice.random() < 0.3:
            kill_all(r)
    kill_all(r)
    r.c.wait_whole(r.topic)


@scenario
def power_rebuilding(r):  # A5, E11
    """All nodes lose power while one of them is being rebuilt."""
    faults.need_root(r.c)
    r.c.wait_whole(r.topic)
    node = some_node(r)
    pause(r, 1, 2)
    r.note("truncate", [node])
    r.c.kill(node)
    r.say(faults.truncate(r.c, node, r.dice))
    r.c.launch(node)
    pause(r, 0.1, 1.5)
    r.note("power", r.c.nodes, majority=True)
    faults.power(r.c, list(r.c.nodes))
    r.c.up()
    r.healed()
    r.load.wait_flow()
    r.c.wait_whole(r.topic)


@scenario
def clock(r):  # I3
    """A node's wall clock jumps, or runs too fast or slow for a while. Nothing may come of it."""
    if not r.c.clocks:
        raise faults.Skipped("needs lightq-clock.so beside lightqd")
    node = some_leader(r) if r.dice.random() < 0.5 else some_node(r)
    if r.dice.random() < 0.5:
        jump = r.dice.choice(CLOCK_JUMPS_S)
        r.say(f"clock of node {node} jumps by {jump} s")
        r.c.set_clock(node, offset_s=jump)
    else:
        skew = r.dice.choice(CLOCK_SKEWS_PPM)
        r.say(f"clock of node {node} runs {skew} ppm fast")
        r.c.set_clock(node, skew_ppm=skew)
    r.note("clock", [])
    pause(r, 4, 8)
    r.load.wait_flow(5)
    r.c.set_clock(node)
    r.healed()
    r.load.wait_flow(5)


MIXED = ("kill-leader", "kill-random", "kill-all", "pause-leader", "isolate-leader", "halves", "one-way", "bridge",
         "loss-delay", "reset", "clock", "power-one", "power-all", "power-rebuilding", "disk-full", "fsync-eio", "slow-disk",
         "hung-disk", "bit-flip", "truncate", "torn-tail", "lost-segment", "bad-checkpoint", "bad-journal", "wipe",
         "old-copy", "starve", "roll", "transfer-storm")


@scenario
def mix(r):  # A13
    r.c.wait_whole(r.topic)
    pause(r, 1, 2)  # damage of the fault before may be found late: a replica that is rebuilt leaves two
    r.c.wait_whole(r.topic)
    name = r.dice.choice(MIXED)
    r.used[name] = r.used.get(name, 0) + 1
    r.say(f"{name}:")
    try:
        SCENARIOS[name](r)
    except faults.Skipped as why:
        r.say(f"left out: {why}")
        r.used[name + " (left out)"] = r.used.get(name + " (left out)", 0) + 1
    r.healed()
    r.c.wait_whole(r.topic)
