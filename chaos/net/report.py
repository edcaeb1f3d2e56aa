"""The verdict of a run: lightq-check over its history, and the row of the table."""

import json
import subprocess

from lightq_cluster import BIN

COLUMNS = ("scenario", "faults", "attempted", "acked", "unknown", "lost", "doubled", "unexpected", "p50 s", "max s",
           "elections", "verdict")
ROW = "{:<16} {:>6} {:>9} {:>9} {:>7} {:>6} {:>7} {:>10} {:>6} {:>6} {:>9}  {}"
HEADER = ROW.format(*COLUMNS)
SECONDS_PER_US = 1e-6
BROKEN_EXAMPLES = 3


def check(folder, limits=None):
    """Judges the files of folder/history; writes verdict.txt and verdict.json; gives the latter's content, or None when
    the history cannot be judged. Limits: (median ms, longest ms) of recovery, or None."""
    files = sorted((folder / "history").iterdir())
    words = [BIN / "lightq-check"]
    if limits:
        words += ["--recovery-median", str(limits[0]), "--recovery-max", str(limits[1])]
    text = subprocess.run([*words, *files], capture_output=True, text=True, check=False)
    (folder / "verdict.txt").write_text(text.stdout + text.stderr, encoding="utf-8")
    done = subprocess.run([*words, "--json", *files], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        return None
    (folder / "verdict.json").write_text(done.stdout, encoding="utf-8")
    return json.loads(done.stdout)


def violations(verdict):
    """A line for each checker that found something."""
    if verdict is None:
        return ["lightq-check could not judge the history: see verdict.txt"]
    found = [f"{name} {checker['violations']}: " + "; ".join(checker["examples"][:BROKEN_EXAMPLES])
             for name, checker in verdict["checkers"].items() if checker["violations"]]
    if not verdict["passed"] and not found:
        found.append(verdict["reason"])
    return found


def seconds(value_us):
    return "-" if value_us is None else f"{value_us * SECONDS_PER_US:.1f}"


def row(name, verdict, needless, said):
    """Needless: how many leaders changed because a node came back, or None."""
    if verdict is None:
        return ROW.format(name, *["-"] * 10, said)
    checkers, recovery = verdict["checkers"], verdict["recovery"]
    # What one reader got and the last one did not is lost too.
    lost = max(checkers["lost"]["violations"] + checkers["unproven"]["violations"], checkers["unseen"]["violations"])
    return ROW.format(name, len(recovery["faults"]), verdict["attempted"], verdict["acknowledged"], verdict["unknown"], lost,
                      checkers["doubled"]["violations"], checkers["unexpected"]["violations"],
                      seconds(recovery["p50_us"]), seconds(recovery["max_us"]), "-" if needless is None else needless,
                      said)
