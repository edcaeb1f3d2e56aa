"""timeline.svg of a run: acknowledged messages a second, who led each log, and the faults as bars."""

from html import escape

WIDTH, LEFT, RIGHT = 1200, 150, 20
GRAPH, STRIP, GAP, BAR, AXIS = 180, 18, 6, 12, 30
BUCKETS = 600
BUCKET_SECONDS_LEAST = 0.25
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b", "#ff9da6")
FAULT, LINE, TEXT = "#d62728", "#1f77b4", "#222"
STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600)
TICKS_MOST = 15


def acknowledgements(folder):
    """Times in us of all acknowledgements of a history."""
    for path in sorted((folder / "history").glob("producer*")):
        with open(path, encoding="ascii") as lines:
            for line in lines:
                if line.startswith("ok "):
                    yield int(line.split(" ", 2)[1])


class Picture:
    def __init__(self, title, begin_us, end_us):
        self.begin, self.seconds = begin_us, max(1e-3, (end_us - begin_us) / 1e6)
        self.parts, self.y = [], 0
        self.text(LEFT, 20, title, size=15)
        self.y = 34

    def x(self, us):
        inside = min(max(0.0, (us - self.begin) / 1e6), self.seconds)
        return LEFT + inside / self.seconds * (WIDTH - LEFT - RIGHT)

    def text(self, x, y, text, size=11, anchor="start"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{TEXT}" text-anchor="{anchor}">'
                          f"{escape(str(text))}</text>")

    def box(self, x1, y, x2, height, colour, tip, opacity=1.0):
        self.parts.append(f'<rect x="{x1:.1f}" y="{y:.1f}" width="{max(1.0, x2 - x1):.1f}" height="{height}" '
                          f'fill="{colour}" fill-opacity="{opacity}"><title>{escape(tip)}</title></rect>')

    def graph(self, times):
        width = max(BUCKET_SECONDS_LEAST, self.seconds / BUCKETS)
        counts = [0] * (int(self.seconds / width) + 1)
        for us in times:
            at = int((us - self.begin) / 1e6 / width)
            if 0 <= at < len(counts):
                counts[at] += 1
        most = max(1.0, *(count / width for count in counts))
        bottom = self.y + GRAPH
        points = [f"{self.x(self.begin + at * width * 1e6):.1f},{bottom - count / width / most * GRAPH:.1f}"
                  for at, count in enumerate(counts)]
        self.parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{LINE}"/>')
        self.parts.append(f'<path d="M{LEFT},{self.y} V{bottom} H{WIDTH - RIGHT}" fill="none" stroke="{TEXT}"/>')
        self.text(LEFT - 6, self.y + 10, f"{most:.0f}/s", anchor="end")
        self.text(LEFT - 6, bottom, "0", anchor="end")
        self.text(8, self.y + GRAPH / 2, "acknowledged")
        self.y = bottom + GAP

    def ticks(self):
        step = next((s for s in STEPS if self.seconds / s <= TICKS_MOST), STEPS[-1])
        for second in range(0, int(self.seconds) + 1, step):
            x = self.x(self.begin + second * 1e6)
            self.parts.append(f'<path d="M{x:.1f},{self.y} v5" stroke="{TEXT}"/>')
            self.text(x, self.y + 17, f"{second} s", anchor="middle")
        self.y += AXIS

    def leaders(self, leads):
        """Leads: (time, log, term, node)."""
        end = self.begin + self.seconds * 1e6
        for log in sorted({log for _, log, _, _ in leads}):
            mine = sorted((at, term, node) for at, other, term, node in leads if other == log)
            self.text(8, self.y + 13, f"leader of {log}")
            for (at, term, node), (until, _, _) in zip(mine, [*mine[1:], (end, 0, 0)]):
                x1, x2 = self.x(at), self.x(until)
                self.box(x1, self.y, x2, STRIP, COLOURS[(node - 1) % len(COLOURS)], f"node {node}, term {term}")
                if x2 - x1 > 16:
                    self.text((x1 + x2) / 2, self.y + 13, node, anchor="middle")
            self.y += STRIP + GAP

    def faults(self, faults, top):
        """Bars, each in the first row that has room; and a shadow over everything above."""
        rows, begin = [], self.y
        end = self.begin + self.seconds * 1e6
        self.text(8, self.y + 10, "faults")
        for fault in faults:
            x1, x2 = self.x(fault.begun_us), self.x(fault.healed_us or end)
            self.box(x1, top, x2, begin - top, FAULT, fault.name, 0.08)
            row = next((i for i, used in enumerate(rows) if used + 2 <= x1), len(rows))
            rows[row:row + 1] = [max(x2, x1 + 1)]
            self.box(x1, begin + row * (BAR + 2), x2, BAR, FAULT, fault.name, 0.9 if fault.majority else 0.5)
            if x2 - x1 > 6 * len(fault.name):
                self.text(x1 + 2, begin + row * (BAR + 2) + 10, fault.name, size=10)
        self.y = begin + max(1, len(rows)) * (BAR + 2) + GAP

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.y:.0f}" '
                f'viewBox="0 0 {WIDTH} {self.y:.0f}" font-family="sans-serif">\n'
                f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def draw(folder, title, recorder):
    times = list(acknowledgements(folder))
    ends = [at for at, _, _, _ in recorder.leads] + [f.healed_us or f.begun_us for f in recorder.faults]
    picture = Picture(title, recorder.began_us, max([recorder.began_us + 1, *times[-1:], *ends, *([max(times)] if times else [])]))
    top = picture.y
    picture.graph(times)
    picture.ticks()
    picture.leaders(recorder.leads)
    picture.faults(recorder.faults, top)
    (folder / "timeline.svg").write_text(picture.svg(), encoding="utf-8")
