"""A case is timed beside its controls, round by round in one process, because machines are noisy.

What is told is the median, its ratio to each control, and across sizes the fitted exponent. Nothing
here fails for being slow. A case returns how much it did, and the benchmark asserts that: one that
did nothing would measure nothing.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import linear_regression, median
from time import perf_counter
from typing import Any

import pytest

SCALES = {"s": 1.0, "ms": 1e3, "µs": 1e6}

Case = Callable[..., int]


@dataclass(frozen=True)
class Measured:
    """What a comparison found: how many operations the case did, what one costs over each control's, and times it."""

    done: int
    over: Mapping[str, float]
    ratios: Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """One line of the table at the end of the run."""

    name: str
    size: int | None
    value: float
    unit: str
    aim: float | None = None
    ratio: float | None = None
    control: str = ""
    exponent: float | None = None
    at_least: bool = False  # the aim is a lower bound

    @property
    def met(self) -> bool | None:
        if self.aim is None:
            return None
        return self.value >= self.aim if self.at_least else self.value <= self.aim


REPORT: pytest.StashKey[list[Row]] = pytest.StashKey()


class Gauge:
    """Times cases with the `benchmark` fixture as its carrier; in smoke mode everything runs once."""

    def __init__(self, benchmark: Any, rows: list[Row]) -> None:
        self.full: bool = benchmark.enabled
        self._benchmark = benchmark
        self._rows = rows

    def scale(self, full: int, smoke: int) -> int:
        """Return how much to do: much when it is measured, little when it is only tried."""
        return full if self.full else smoke

    def beside(
        self,
        name: str,
        case: Case,
        controls: Mapping[str, Case],
        *,
        rounds: int = 7,
        unit: str = "µs",
        aim: float | None = None,
        size: int | None = None,
        known: Mapping[str, float] | None = None,
    ) -> Measured:
        """Time a case and its controls in turn, per operation.

        `known` are controls that were measured elsewhere, in the same unit.
        """
        times: dict[str, list[float]] = {"": [], **{control: [] for control in controls}}

        def one_round() -> int:
            done = 0
            for label, act in {**controls, "": case}.items():
                done, seconds = self._timed(act)
                times[label].append(seconds / max(done, 1))
            return done

        done: int = self._carry(one_round, rounds)
        value = median(times[""]) * SCALES[unit]
        ratios = {control: _middle_ratio(times[""], times[control]) for control in controls}
        ratios |= {control: value / cost for control, cost in (known or {}).items()}
        self._tell(name, size, value, unit, aim, ratios)
        over = {
            control: median(mine - other for mine, other in zip(times[""], times[control], strict=True)) * SCALES[unit]
            for control in controls
        }
        return Measured(done, over, ratios)

    def together(
        self,
        name: str,
        cases: Mapping[str, Callable[[], float]],
        *,
        rounds: int = 5,
        unit: str = "µs",
        aims: Mapping[str, float] | None = None,
        aims_over: Mapping[str, float] | None = None,
    ) -> None:
        """Tell of every case, in a line of its own, what it costs and its ratio to the first one, the floor.

        A case returns the seconds that one of its operations took; all cases take turns. An aim is in
        that unit, or in `aims_over` in floors.
        """
        times: dict[str, list[float]] = {label: [] for label in cases}

        def one_round() -> None:
            for label, act in cases.items():
                times[label].append(act())

        self._carry(one_round, rounds)
        floor, *_ = times
        wanted = dict(aims or {}) | {
            label: over * median(times[floor]) * SCALES[unit] for label, over in (aims_over or {}).items()
        }
        for label, found in times.items():
            told = f"{name}: {label}" if label == floor else f"  {label}"
            ratios = {} if label == floor else {floor: _middle_ratio(found, times[floor])}
            self._tell(told, None, median(found) * SCALES[unit], unit, wanted.get(label), ratios)

    def across(
        self,
        name: str,
        sizes: Sequence[int],
        build: Callable[[int], Any],
        run: Case,
        *,
        rounds: int = 5,
        aim: float | None = None,
        fresh: bool = False,
        control: tuple[str, Case] | None = None,
    ) -> list[tuple[int, Any]]:
        """Time `run(build(size))` per operation at every size, the sizes in turn; return what was built.

        With `fresh` every round builds anew. The exponent is the slope of cost per operation over
        size, both as logarithms: 0 is flat, and for a whole run linear; 1 is proportional.
        """
        built = {size: build(size) for size in sizes} if not fresh else {}
        times: dict[int, list[float]] = {size: [] for size in sizes}
        base: list[float] = []

        def one_round() -> None:
            for size in sizes:
                state = build(size) if fresh else built[size]
                done, seconds = self._timed(run, state)
                assert done, f"{name}: nothing was done at {size}"
                times[size].append(seconds / done)
                if fresh:
                    built[size] = state
            if control is not None:
                state = build(sizes[-1])
                done, seconds = self._timed(control[1], state)
                base.append(seconds / max(done, 1))

        self._carry(one_round, rounds)
        costs = {size: median(found) * 1e6 for size, found in times.items()}
        exponent = self._benchmark.extra_info["exponent"] = slope(costs)
        for size in sizes:
            last = size == sizes[-1]
            ratios: dict[str, float] = {}
            if last and len(sizes) > 1:
                ratios[f"the same at {sizes[0]:,}"] = _middle_ratio(times[size], times[sizes[0]])
            if last and control is not None:
                ratios[control[0]] = _middle_ratio(times[size], base)
            self._tell(name, size, costs[size], "µs", aim, ratios, exponent=exponent if last else None)
        return list(built.items())

    def count(
        self, name: str, value: float, unit: str, *, aim: float | None = None, size: int | None = None, **more: Any
    ) -> None:
        """Put a figure that is no time in the table."""
        self._tell(name, size, value, unit, aim, more.pop("ratios", {}), **more)

    def once(self, act: Callable[[], Any]) -> Any:
        """Run something once, as this benchmark's only round."""
        return self._carry(act, 1)

    def _timed(self, act: Case, *arguments: Any) -> tuple[int, float]:
        """Return how much a case did, and its seconds; the garbage of others is swept before."""
        if self.full:
            gc.collect()
        started = perf_counter()
        done = act(*arguments)
        return done, perf_counter() - started

    def _carry(self, act: Callable[[], Any], rounds: int) -> Any:
        return self._benchmark.pedantic(act, rounds=rounds if self.full else 1, warmup_rounds=min(rounds - 1, 1))

    def _tell(
        self,
        name: str,
        size: int | None,
        value: float,
        unit: str,
        aim: float | None,
        ratios: Mapping[str, float],
        *,
        exponent: float | None = None,
        at_least: bool = False,
    ) -> None:
        named = list(ratios.items()) or [("", None)]
        rows = [
            Row(name, size, value, unit, aim, ratio, control, exponent, at_least=at_least) for control, ratio in named
        ]
        self._rows.extend(rows)
        self._benchmark.extra_info.setdefault("figures", []).extend(asdict(row) for row in rows)


def slope(costs: Mapping[int, float]) -> float | None:
    """Return the exponent x for which the costs grow as size to the x, or None for fewer than two sizes."""
    if len(costs) < 2:
        return None
    sizes = [math.log(size) for size in costs]
    return linear_regression(sizes, [math.log(cost) for cost in costs.values()]).slope


def _middle_ratio(times: Sequence[float], others: Sequence[float]) -> float:
    return median(mine / other for mine, other in zip(times, others, strict=True))
