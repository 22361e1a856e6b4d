"""A settled tool that a program calls itself: under one id an equal call is one act, in and across processes."""

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("crewai")

from crewai.flow.flow import Flow, listen, start
from crewai.tools import tool
from tests.integrations.contract.world import together

from settlemark import InDoubt, Settlement, effect
from settlemark_crewai import settled


def mailer(world, kind="irreversible", *, broken=(), doubtful=(), waits=None):
    undo = {} if kind == "irreversible" else {"undo": lambda to: world.act(f"unmail {to}")}

    @tool
    @effect(kind, scope="mail:/{to}", **undo)
    def mail(to: str) -> str:
        """Send a mail."""
        if waits is not None:
            waits()
        if (to, len(world.log)) in broken:
            world.act(f"fail {to}")
            raise ValueError(f"no {to}")
        world.act(f"mail {to}")
        if to in doubtful:
            raise TimeoutError("no answer")
        return f"sent {len(world.log)}"

    return mail


def made(world, settlement, run="job-9", **how):
    return settled(mailer(world, **how), settlement=settlement, run=run)


@pytest.fixture(params=["irreversible", "reversible"])
def kind(request):
    return request.param


def test_an_equal_call_is_one_act_and_gets_what_the_first_returned(world, settlement, kind):
    mail = made(world, settlement, kind=kind)

    assert [mail.run(to=to) for to in ("ada", "ada", "bee", "ada")] == ["sent 1", "sent 1", "sent 2", "sent 1"]
    assert world.log == ["mail ada", "mail bee"]


def test_so_it_is_in_another_process_however_often_each_calls(world, tmp_path, kind):
    for times in (1, 2, 3):
        with Settlement(f"sqlite:///{tmp_path}/ledger.db") as settlement:
            mail = made(world, settlement, kind=kind)
            assert [mail.run(to="ada") for _ in range(times)] == ["sent 1"] * times

    assert world.log == ["mail ada"]


def test_so_it_is_for_a_flow_that_is_kicked_off_again_and_under_another_id_it_acts_anew(world, settlement):
    def flow(mail):
        class Mailing(Flow):
            @start()
            def one(self):
                return mail.run(to="ada")

            @listen(one)
            def two(self):
                return mail.run(to="ada")

        return Mailing()

    for run in ("job-9", "job-9", "job-10"):
        flow(made(world, settlement, run)).kickoff()

    assert world.log == ["mail ada", "mail ada"]


def test_so_it_is_for_calls_at_the_same_time(world, settlement):
    begun, go_on = threading.Event(), threading.Event()

    def wait():
        begun.set()
        assert go_on.wait(20)

    mail, got = made(world, settlement, kind="reversible", waits=wait), []

    def second():
        begun.wait(20)
        go_on.set()
        got.append(mail.run(to="ada"))

    together(lambda: got.append(mail.run(to="ada")), second)

    assert (got, world.log) == (["sent 1", "sent 1"], ["mail ada"])


def test_so_it_is_for_coroutines(world, settlement):
    @tool
    @effect("irreversible", scope="mail:/{to}")
    async def mail(to: str) -> str:
        """Send a mail."""
        world.act(f"mail {to}")
        return f"sent {len(world.log)}"

    sends = settled(mail, settlement=settlement, run="job-9")

    async def both():
        return await asyncio.gather(sends.arun(to="ada"), sends.arun(to="ada"))

    assert (asyncio.run(both()), world.log) == (["sent 1", "sent 1"], ["mail ada"])


def test_what_failed_is_tried_again(world, settlement, kind):
    mail = made(world, settlement, kind=kind, broken=[("ada", 0)])

    with pytest.raises(ValueError, match="no ada"):
        mail.run(to="ada")

    assert mail.run(to="ada") == "sent 2"
    assert world.log == ["fail ada", "mail ada"]


def test_what_is_in_doubt_is_told_again_and_not_done_again(world, settlement, kind):
    mail = made(world, settlement, kind=kind, doubtful={"ada"})

    for _ in range(2):
        with pytest.raises(InDoubt):
            mail.run(to="ada")

    assert [entry for entry in world.log if entry.startswith("mail")] == ["mail ada"]


def test_without_an_id_each_call_is_an_act_of_its_own(world, settlement):
    mail = settled(mailer(world), settlement=settlement)

    assert [mail.run(to="ada"), mail.run(to="ada")] == ["sent 1", "sent 2"]
