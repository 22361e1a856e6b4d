"""Boxes and arrows as plain SVG, on a light ground of its own: readable on a dark page, too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, GAP, DOWN, EDGE = 156, 46, 100, 62, 24
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1d2733;text-anchor:middle}"
    ".title{font-weight:600}.label{font-size:11.5px;fill:#3c4a5a;paint-order:stroke;stroke:#fbfbf8;stroke-width:5px}"
    "rect{fill:#e8eef5;stroke:#51657b;stroke-width:1.3}.ground{fill:#fbfbf8;stroke:#c9ced4}"
    ".good{fill:#dcefe0;stroke:#4b8058}.bad{fill:#f6e0dc;stroke:#a05a4c}.held{fill:#f6edd3;stroke:#97803a}"
    "path{fill:none;stroke:#51657b;stroke-width:1.4}marker path{fill:#51657b}"
)

HEAD = (
    '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0,0.5 L8,4 L0,7.5 z"/></marker></defs>'
)


@dataclass(frozen=True)
class Box:
    """A box at a place of the grid; lines of its text are parted by a line break."""

    text: str
    column: float
    row: float
    kind: str = ""

    @property
    def centre(self) -> tuple[float, float]:
        """Where its middle is."""
        return (
            EDGE + WIDTH / 2 + self.column * (WIDTH + GAP),
            EDGE + HEIGHT / 2 + self.row * (HEIGHT + DOWN),
        )

    def border(self, towards: tuple[float, float]) -> tuple[float, float]:
        """Return where a line from its middle leaves it."""
        x, y = self.centre
        dx, dy = towards[0] - x, towards[1] - y
        part = min(
            WIDTH / 2 / abs(dx) if dx else float("inf"),
            HEIGHT / 2 / abs(dy) if dy else float("inf"),
        )
        return round(x + dx * part, 1), round(y + dy * part, 1)


def _lines(text: str, x: float, y: float, kind: str) -> str:
    rows = text.split("\n")
    top = y + 4.5 - 8 * (len(rows) - 1)
    rows_at = [(row, top + 16 * number) for number, row in enumerate(rows)]
    return "".join(f'<text class="{kind}" x="{x:g}" y="{at:g}">{escape(row)}</text>' for row, at in rows_at)


def draw(title: str, boxes: dict[str, Box], arrows: list[tuple[str, str, str]]) -> str:
    """Return a picture: boxes by name, and arrows from one to another with what stands at them."""
    width = max(box.centre[0] for box in boxes.values()) + WIDTH / 2 + EDGE
    height = max(box.centre[1] for box in boxes.values()) + HEIGHT / 2 + EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        HEAD,
        f'<rect class="ground" x="1" y="1" width="{width - 2:g}" height="{height - 2:g}" rx="10"/>',
    ]
    labels = []
    for one, other, said in arrows:
        start, end = boxes[one].border(boxes[other].centre), boxes[other].border(boxes[one].centre)
        told = re.sub(r"\s+", " ", said)
        lines.append(
            f'<path data-from="{one}" data-said="{escape(told)}" data-to="{other}" marker-end="url(#end)"'
            f' d="M{start[0]:g},{start[1]:g} L{end[0]:g},{end[1]:g}"/>'
        )
        if said:
            labels.append(_lines(said, (start[0] + end[0]) / 2, (start[1] + end[1]) / 2, "label"))
    for name, box in boxes.items():
        x, y = box.centre
        lines.append(
            f'<rect data-name="{name}" class="{box.kind}" x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}"'
            f' width="{WIDTH}" height="{HEIGHT}" rx="7"/>{_lines(box.text, x, y, "")}'
        )
    return "\n".join([*lines, *labels, "</svg>", ""])
