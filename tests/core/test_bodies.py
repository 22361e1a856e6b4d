"""In whose body a caller is, is known for as long as its driver lives, and of no other driver."""

from __future__ import annotations

from contextvars import copy_context

from settlemark._acts.bodies import enter_body, is_in_body, leave_body


class Driver:
    """Stands in for one: bodies tell drivers apart, and ask nothing of them."""


def test_a_body_that_was_never_left_is_no_body_of_a_driver_that_stands_where_its_own_one_stood():
    context, gone = copy_context(), Driver()
    context.run(enter_body, gone, "trip")
    del gone  # and what is made next stands in its place
    assert not context.run(is_in_body, Driver(), "trip")


def test_a_body_is_its_drivers_and_its_names_own_and_is_left():
    context, driver, other = copy_context(), Driver(), Driver()
    context.run(enter_body, driver, "trip")
    asked = [(driver, "trip"), (driver, "tour"), (other, "trip")]
    assert [context.run(is_in_body, *each) for each in asked] == [True, False, False]
    context.run(leave_body, other, "trip")
    assert context.run(is_in_body, driver, "trip")
    context.run(leave_body, driver, "trip")
    assert not context.run(is_in_body, driver, "trip")
