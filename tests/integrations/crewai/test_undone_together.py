"""What a task, or a crew, shares and was undone is no success, and kicked off again it is all done anew."""

from __future__ import annotations

import pytest

pytest.importorskip("crewai")

from crewai import Crew
from crewai.tools import tool
from tests.integrations.crewai.scripted import Scripted
from tests.integrations.crewai.world import agent_of, call, task_of, tools_of, trip

from settlemark import InDoubt, Refused, Settlement, current_call, effect
from settlemark_crewai import settled_crew

WHOLE = ["book Ada", "hire X", "mail ada"]


class Cars:
    """Where a car is to be had from a certain try on; one that is doubtful is had, and nobody is told."""

    def __init__(self, world, *, from_try=1, doubtful=False):
        self.tries = 0
        self.had = {}
        self.tells = True
        self._world, self._from, self._doubtful = world, from_try, doubtful

    def tool(self):
        def give_back(plate: str):
            self._world.act(f"return {plate}")

        def probe(key: str):
            if not self.tells:
                raise ConnectionError("nobody answers")
            return self.had.get(key)

        @tool("hire")
        @effect("reversible", scope="car:/{plate}", undo=give_back, probe=probe)
        def hire(plate: str) -> str:
            """Hire a car."""
            self.tries += 1
            if self.tries < self._from:
                raise ValueError("no car is to be had")
            self._world.act(f"hire {plate}")
            self.had[current_call().key] = f"hired {plate}"
            if self._doubtful and self.tries == self._from:
                raise TimeoutError("no answer")
            return f"hired {plate}"

        return hire


def crew_of(world, cars, settle, *, again=False):
    """A clerk books and mails, and a driver hires a car, perhaps again if he is told that there was none."""
    first = [call("book", hotel="Ada"), call("mail", to="ada")]
    hires = [[call("hire", plate="X")]] * (2 if again else 1)
    if settle == "crew":
        clerk_llm, driver_llm = Scripted(first, final="booked"), Scripted(*hires, final="hired")
        clerk = agent_of(clerk_llm, tools_of(trip(world)), "clerk")
        driver = agent_of(driver_llm, [cars.tool()], "driver")
        return Crew(agents=[clerk, driver], tasks=[task_of(clerk), task_of(driver, "Drive.")]), clerk_llm
    llm = Scripted(first, *hires, final="done")
    clerk = agent_of(llm, [*tools_of(trip(world)), cars.tool()], "clerk")
    return Crew(agents=[clerk], tasks=[task_of(clerk)]), llm


def standing(world):
    found = [entry for entry in world.log if entry.startswith(("book", "hire", "mail"))]
    for entry in world.log:
        if entry.startswith(("cancel", "return")):
            found.remove(entry.replace("cancel", "book").replace("return", "hire"))
    return sorted(found)


@pytest.fixture(params=["here", "in another process"])
def reopened(request, tmp_path):
    """Return a settlement for each time that a crew is kicked off: the same one, or one of another process."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    kept = Settlement(url) if request.param == "here" else None

    def reopen():
        return kept or Settlement(url)

    yield reopen
    if kept is not None:
        kept.close()


@pytest.mark.parametrize("again", [False, True], ids=["gives up", "tries again"])
@pytest.mark.parametrize("settle", ["task", "crew"])
def test_what_was_undone_is_no_success_and_a_rerun_does_it_all_anew(world, reopened, settle, again):
    cars = Cars(world, from_try=2)
    ends_well = again and settle == "task"  # who had done it was told, and has gone on: what he does next is new
    first, llm = crew_of(world, cars, settle, again=again)
    settlement = reopened()

    if ends_well:
        settled_crew(first, settlement, run="r", settle=settle).kickoff()
        assert standing(world) == ["hire X"]
        return
    with pytest.raises(Refused, match="book on room:/Ada.*undone or never left.*run it again to do it all anew"):
        settled_crew(first, settlement, run="r", settle=settle).kickoff()
    assert (standing(world), settlement.residue(), "mail ada" in world.log) == ([], [], False)
    if settle == "task":
        told = [message["content"] for message in llm.seen[-1] if message["role"] == "tool"]
        assert "undone because hire failed: ValueError: no car is to be had" in told[0]
        assert "dropped because hire failed: ValueError: no car is to be had" in told[1]

    second, llm = crew_of(world, cars, settle)
    settlement = reopened()
    output = settled_crew(second, settlement, run="r", settle=settle).kickoff()

    assert [done.raw for done in output.tasks_output] == (["booked", "hired"] if settle == "crew" else ["done"])
    assert llm.seen  # its task's recorded output went with what it had done
    assert standing(world) == WHOLE
    assert settlement.residue() == []

    third, llm = crew_of(world, cars, settle)
    assert settled_crew(third, reopened(), run="r", settle=settle).kickoff().raw == output.raw
    assert (llm.seen, standing(world)) == ([], WHOLE)


@pytest.mark.parametrize("settle", ["task", "crew"])
def test_what_is_in_doubt_is_asked_about_again_and_done_once(world, reopened, settle):
    cars = Cars(world, doubtful=True)
    cars.tells = False
    first, _ = crew_of(world, cars, settle)
    with pytest.raises((Refused, InDoubt)):
        settled_crew(first, reopened(), run="r", settle=settle).kickoff()
    assert (standing(world), "mail ada" in world.log) == (["hire X"], False)

    cars.tells = True
    second, _ = crew_of(world, cars, settle)
    settlement = reopened()
    settlement.recover()
    settled_crew(second, settlement, run="r", settle=settle).kickoff()

    assert standing(world) == WHOLE
    assert settlement.in_doubt() == []
