#!/usr/bin/env python3
"""Compares what producers were told is stored with what consumers read.

    check_receipts.py --acked FILE... --log FILE...

--acked: files of `lightq produce --acked`: cluster topic partition offset producer sequence term batch_crc
--log:   files of `lightq consume --log`:   topic partition offset producer sequence payload_crc deliveries

Checks, over everything given, that nothing acknowledged is lost (it is read at the offset that the acknowledgement
named), nothing is stored twice (one producer sequence, one offset), no offset has two values, and that the messages
of one producer lie in one partition in the order of their sequences. An acknowledged offset of "-" means "stored, its
offset is not known": then the sequence alone must be found. Prints one line; exit 0 when all holds, 1 when not,
2 when the files cannot be used.
"""

import argparse
import sys

EXAMPLES = 5


def rows(paths, columns):
    for path in paths:
        try:
            with open(path, encoding="ascii") as lines:
                for number, line in enumerate(lines, 1):
                    fields = line.split()
                    if len(fields) != columns:
                        print(f"check_receipts: {path}:{number} has {len(fields)} fields, not {columns}", file=sys.stderr)
                        sys.exit(2)
                    yield fields
        except OSError as error:
            print(f"check_receipts: {error}", file=sys.stderr)
            sys.exit(2)


def read_log(paths, problems):
    """What was read: {(topic, partition): {offset: (producer, sequence, payload_crc)}}."""
    stored = {}
    for topic, partition, offset, producer, sequence, crc, _deliveries in rows(paths, 7):
        values = stored.setdefault((topic, partition), {})
        value = (producer, int(sequence), crc)
        earlier = values.setdefault(int(offset), value)
        if earlier != value:
            problems["two values"].append(f"{topic}/{partition} offset {offset}: {earlier} and {value}")
    return stored


def check_order(stored, problems):
    """Doubled and reordered messages; returns every (topic, partition, producer, sequence) stored."""
    known = {}
    for (topic, partition), values in stored.items():
        last = {}
        for offset in sorted(values):
            producer, sequence, _crc = values[offset]
            key = (topic, partition, producer, sequence)
            if key in known:
                problems["doubled"].append(f"{producer} {sequence} at {topic}/{partition} {known[key]} and {offset}")
                continue
            known[key] = offset
            if sequence < last.get(producer, -1):
                problems["reordered"].append(f"{producer} {sequence} at {topic}/{partition} {offset}")
            last[producer] = sequence
    return known


def check_acked(paths, stored, known, problems):
    count = 0
    for _cluster, topic, partition, offset, producer, sequence, _term, _crc in rows(paths, 8):
        count += 1
        if offset == "-":
            found = (topic, partition, producer, int(sequence)) in known
        else:
            value = stored.get((topic, partition), {}).get(int(offset))
            found = value is not None and value[:2] == (producer, int(sequence))
        if not found:
            problems["lost"].append(f"{producer} {sequence} acknowledged at {topic}/{partition} {offset}")
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--acked", nargs="+", required=True)
    parser.add_argument("--log", nargs="+", required=True)
    arguments = parser.parse_args()
    problems = {"lost": [], "doubled": [], "two values": [], "reordered": []}
    stored = read_log(arguments.log, problems)
    known = check_order(stored, problems)
    acked = check_acked(arguments.acked, stored, known, problems)
    for name, found in problems.items():
        for example in found[:EXAMPLES]:
            print(f"check_receipts: {name}: {example}", file=sys.stderr)
    counts = ", ".join(f"{name} {len(found)}" for name, found in problems.items())
    print(f"acknowledged {acked}, read {sum(len(v) for v in stored.values())}: {counts}")
    if acked == 0:
        print("check_receipts: nothing was acknowledged, so nothing is proven", file=sys.stderr)
        sys.exit(1)
    sys.exit(1 if any(problems.values()) else 0)


if __name__ == "__main__":
    main()
