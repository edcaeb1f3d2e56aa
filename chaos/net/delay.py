#!/usr/bin/env python3
"""Holds the packets that iptables sends to an NFQUEUE and lets them go later: delay, jitter (which also reorders) and
loss, without a queueing discipline of the kernel's.

    delay.py QUEUE DELAY_MS JITTER_MS LOSS

Run by chaos/run in the network namespace of a node, as root; prints "ready" and works until it is killed. Speaks
nfnetlink itself: only the numbers of the packets come here, never their bytes."""

import errno
import heapq
import random
import select
import socket
import struct
import sys
import time

NETLINK_NETFILTER = 12
SUBSYSTEM_QUEUE = 3
PACKET, VERDICT, CONFIG = 0, 1, 2
CONFIG_COMMAND, CONFIG_PARAMETERS, CONFIG_LENGTH = 1, 2, 3
BIND, COPY_META = 1, 1
PACKET_HEADER, VERDICT_HEADER = 1, 2
DROP, ACCEPT = 0, 1
QUEUE_LENGTH = 8192
BUFFER_BYTES = 1 << 22
MESSAGE_ERROR = 2
REQUEST, ACKNOWLEDGE = 1, 4


def attribute(kind, body):
    return struct.pack("=HH", 4 + len(body), kind) + body + b"\0" * (-len(body) % 4)


def message(queue, kind, body, flags=REQUEST):
    head = struct.pack("=BBH", socket.AF_UNSPEC, 0, socket.htons(queue))
    return struct.pack("=IHHII", 20 + len(body), SUBSYSTEM_QUEUE << 8 | kind, flags, 0, 0) + head + body


class Queue:
    def __init__(self, number):
        self.number = number
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self.socket.bind((0, 0))
        for body in (attribute(CONFIG_COMMAND, struct.pack("=BBH", BIND, 0, socket.htons(socket.AF_INET))),
                     attribute(CONFIG_PARAMETERS, struct.pack("!IB", 0, COPY_META)),
                     attribute(CONFIG_LENGTH, struct.pack("!I", QUEUE_LENGTH))):
            self.socket.send(message(number, CONFIG, body, REQUEST | ACKNOWLEDGE))
            code = struct.unpack_from("=i", self.socket.recv(4096), 16)[0]
            if code != 0:
                raise OSError(-code, "the queue cannot be had")
        self.socket.setblocking(False)

    def packets(self):
        """The numbers of the packets that have come."""
        try:
            data = self.socket.recv(1 << 18)
        except OSError as error:
            if error.errno in (errno.ENOBUFS, errno.EAGAIN):
                return  # some were not told of and stay: TCP sends them again
            raise
        at = 0
        while at + 20 <= len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            if kind == SUBSYSTEM_QUEUE << 8 | PACKET:
                yield from self.number_of(data[at + 20:at + length])
            at += (length + 3) & ~3

    def number_of(self, body):
        at = 0
        while at + 4 <= len(body):
            length, kind = struct.unpack_from("=HH", body, at)
            if kind & 0x3FFF == PACKET_HEADER:
                yield struct.unpack_from("!I", body, at + 4)[0]
                return
            at += max(4, (length + 3) & ~3)

    def judge(self, packet, verdict):
        self.socket.send(message(self.number, VERDICT, attribute(VERDICT_HEADER, struct.pack("!II", verdict, packet))))


def main():
    queue = Queue(int(sys.argv[1]))
    delay, jitter, loss = float(sys.argv[2]) / 1000, float(sys.argv[3]) / 1000, float(sys.argv[4])
    held = []  # (when it may go, packet)
    print("ready", flush=True)
    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        ready, _, _ = select.select([queue.socket], [], [], wait)
        now = time.monotonic()
        if ready:
            for packet in queue.packets():
                if random.random() < loss:
                    queue.judge(packet, DROP)
                else:
                    heapq.heappush(held, (now + delay + random.random() * jitter, packet))
        while held and held[0][0] <= now:
            queue.judge(heapq.heappop(held)[1], ACCEPT)


if __name__ == "__main__":
    main()
