"""A program carried out by hand: a test answers each of its requests, without a store, a thread or a clock."""

from __future__ import annotations


def carried_out(program, answer_to):
    """Return what a program returns, or raise what it raises; `answer_to` answers a request, or raises."""
    answer = failed = None
    while True:
        try:
            request = program.send(answer) if failed is None else program.throw(failed)
        except StopIteration as end:
            return end.value
        answer = failed = None
        try:
            answer = answer_to(request)
        except BaseException as error:
            failed = error


def in_turn(ends, number):
    """Return, or raise, what stands at this place of some ends; the last for good."""
    end = ends[min(number, len(ends) - 1)]
    if isinstance(end, BaseException):
        raise end
    return end


__all__ = ["carried_out", "in_turn"]
