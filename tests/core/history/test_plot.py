"""The picture of anomalies can be read: each witness has its times and its sentence, and no text hides another."""

from __future__ import annotations

from itertools import combinations

import pytest
from tests.rooms.history import Verdict, Witness

pytest.importorskip("matplotlib", reason="pip install 'settlemark[plot]'")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from settlemark.history._detect.plot import draw

STALE = Witness(
    "ada read flight at 3, bob overwrote it at 5, and ada committed at 9 what it had made of the old one",
    (3, 2),
    "flight",
    (3, 5, 9),
)
SPLIT = Witness("ada read one and bob the other", (1, 2))
FOUND = {
    "trip.jsonl": [Verdict("A1", 1234, [STALE, SPLIT]), Verdict("A4", 1, [SPLIT]), Verdict("A6")],
    "other.jsonl": [Verdict("A2", 2, [Witness("bob chose pay, which was gone", (1,), None, (2, 7))])],
}


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draw, and return the figure."""

    def draw_it(found):
        kept, save = [], Figure.savefig

        def saved(figure, *given, **more):
            kept.append(figure)
            save(figure, *given, **more)
            FigureCanvasAgg(figure).draw()

        monkeypatch.setattr(Figure, "savefig", saved)
        draw(found, tmp_path / "h.png")
        return kept[0]

    return draw_it


def texts(axis):
    """Return what is written on a row but for the numbers of its axis, each with its place on the picture."""
    told = [*axis.texts, axis.xaxis.label, *(each for each in (axis.title, axis._left_title) if each.get_text())]
    return [(each.get_text(), each.get_window_extent()) for each in told]


def within(place, whole):
    return whole.x0 <= place.x0 and place.x1 <= whole.x1 and whole.y0 <= place.y0 and place.y1 <= whole.y1


def test_each_anomaly_that_was_found_has_a_row_with_its_name_its_times_and_the_sentence_of_its_first_witness(drawn):
    assert [[text for text, _ in texts(axis)] for axis in drawn(FOUND).axes] == [
        ["read at 3", "overwritten at 5", "committed at 9", STALE.sentence,
         "trip.jsonl: A1, stale generation, 1,234 times"],
        ["read", "read", SPLIT.sentence, "trip.jsonl: A4, split view, 1 times"],
        ["chosen at 2", "committed at 7", "bob chose pay, which was gone", "other.jsonl: A2, phantom tool, 2 times"],
    ]  # fmt: skip # a list of names and values


def test_no_text_of_the_picture_hides_another_or_a_mark_or_is_cut_off(drawn):
    figure = drawn(FOUND)
    places = [place for axis in figure.axes for _, place in texts(axis)]
    assert [(a, b) for a, b in combinations(places, 2) if a.overlaps(b)] == []
    for axis in figure.axes:
        marks = [line.get_window_extent() for line in axis.lines if line.get_marker() == "o"]
        assert len(marks) > 1
        assert [told for told in (each.get_window_extent() for each in axis.texts) if not within(told, axis.bbox)] == []
        assert [(mark, place) for mark in marks for _, place in texts(axis) if mark.overlaps(place)] == []
    assert [place for place in places if not within(place, figure.bbox)] == []


def test_a_picture_of_no_anomaly_says_so_in_its_middle(drawn):
    figure = drawn({"trip.jsonl": [Verdict("A1")]})
    assert (figure.axes, [each.get_text() for each in figure.texts]) == ([], ["no anomaly"])
    place = figure.texts[0].get_window_extent()
    assert (place.x0 + place.x1, place.y0 + place.y1) == pytest.approx((figure.bbox.width, figure.bbox.height), abs=4)
