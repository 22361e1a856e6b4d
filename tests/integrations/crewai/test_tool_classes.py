"""`@effect` on a class of tools, or on the method that its calls run, says what a call does."""

from __future__ import annotations

import pytest
from crewai.tools import BaseTool
from pydantic import BaseModel
from tests.integrations.crewai.scripted import Scripted
from tests.integrations.crewai.world import call, crew_of

from settlemark import DeclarationError, effect
from settlemark_crewai import settled, settled_crew


class Given(BaseModel):
    """What a booking is given."""

    hotel: str


def booking(world, where, **parts):
    def declared(place):
        made = effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"cancel {hotel}"), **parts)
        return made if place == where else lambda unchanged: unchanged

    @declared("the class")
    class Book(BaseTool):
        name: str = "book"
        description: str = "Book a room."
        args_schema: type[BaseModel] = Given

        @declared("its method")
        def _run(self, hotel: str) -> str:
            if hotel == "full":
                raise RuntimeError("no room left")
            world.act(f"book {hotel}")
            return "booked"

    return Book()


@pytest.mark.parametrize("where", ["the class", "its method"])
@pytest.mark.parametrize("how", ["settled crew", "settled tool"])
def test_what_is_declared_of_a_class_of_tools_counts_for_each_call(world, settlement, where, how):
    tool = booking(world, where)
    llm = Scripted([call("book", hotel="Ada"), call("book", hotel="full")], native=True)
    if how == "settled crew":
        settled_crew(crew_of(llm, [tool]), settlement, run="r").kickoff()
    else:
        crew_of(llm, [settled(tool, settlement=settlement, run="r")]).kickoff()

    assert world.log == ["book Ada", "cancel Ada"]
    assert settlement.residue() == []


@pytest.mark.parametrize("where", ["the class", "its method"])
def test_a_scope_that_names_no_argument_of_a_class_of_tools_is_refused_where_it_is_declared(world, where):
    with pytest.raises(DeclarationError, match="hostel"):
        booking(world, where, may_touch="house:/{hostel}", refine=lambda result: f"house:/{result}")
