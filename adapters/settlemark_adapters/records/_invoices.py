"""Invoices with their lines: one commit each, with every sum computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, cast

from settlemark_adapters.records._entity import Entity
from settlemark_adapters.records._errors import BadRecord
from settlemark_adapters.records._money import amount, cents, plain, total
from settlemark_adapters.records._records import Records
from settlemark_adapters.records._tool import record_tool
from settlemark_adapters.records._tx import Tx

INVOICE = Entity("Invoice", {"customer_id": str, "total": float, "notes": str}, computed=("total",))
INVOICE_LINE = Entity(
    "InvoiceLine",
    {"invoice_id": str, "description": str, "qty": float, "unit_price": float, "line_total": float},
    computed=("line_total",),
)
_MAY = ("description", "qty", "unit_price")


class Invoices(Records):
    """Invoices and their lines.

    Tool: `create_invoice_with_lines`, beside those of `Records`.

    Laws: after every commit, by any author, each line belongs to an invoice, its `line_total` is its quantity times
    its price in cents, and the invoice's `total` is the sum of its lines.

    >>> from settlemark_adapters.records import SqlBackend
    >>> invoices = Invoices(SqlBackend("sqlite://"))
    >>> lines = [{"description": "Hours", "qty": 10, "unit_price": 150}, {"description": "Less", "unit_price": -0.1}]
    >>> made = invoices.create_invoice_with_lines("cus_001", lines)
    >>> (made["invoice"]["total"], [line["line_total"] for line in made["lines"]])
    (1499.9, [1500, -0.1])
    """

    ENTITIES: ClassVar[tuple[Entity, ...]] = (INVOICE, INVOICE_LINE)

    def _fit(self, customer_id: str, lines: list[dict[str, Any]], notes: str) -> None:
        INVOICE.fit({"customer_id": customer_id, "notes": notes}, partly=True)
        if not customer_id.strip():
            raise INVOICE.bad("has no customer_id", "customer_id")
        worked_out(lines)

    @record_tool("create_invoice_with_lines", creates=("Invoice", "InvoiceLine"), check=_fit)
    def create_invoice_with_lines(  # noqa: D417 - a model reads this, which passes no tx
        self, tx: Tx, customer_id: str, lines: list[dict[str, Any]], notes: str = ""
    ) -> dict[str, Any]:
        """Create an invoice with all its lines, or nothing. Totals are computed here: do not pass any.

        Args:
            customer_id: Whom it is for.
            lines: One object for each line: {"description": "Consulting hours", "qty": 10, "unit_price": 150}. "qty" is
                1 when left out; "unit_price" is in the currency's main unit, and below zero for a discount.
            notes: What else it says.
        """
        self._fit(customer_id, lines, notes)
        fit = worked_out(lines)
        tx.message = f"create Invoice with {len(fit)} {'line' if len(fit) == 1 else 'lines'}"
        due = total((Decimal(repr(line["line_total"])) for line in fit), "the total")
        invoice = tx.create("Invoice", {"customer_id": customer_id, "total": plain(due), "notes": notes})
        made = [tx.create("InvoiceLine", {"invoice_id": invoice["id"], **line}) for line in fit]
        return {"invoice": invoice, "lines": made}

    def before_commit(self, tx: Tx) -> None:
        """Refuse sums that do not add up, and lines of no invoice."""
        super().before_commit(tx)
        lines = [line for pair in tx.changed("InvoiceLine") for line in pair if line is not None]
        heads = [head for pair in tx.changed("Invoice") for head in pair if head is not None]
        for invoice_id in dict.fromkeys([*(head["id"] for head in heads), *(line["invoice_id"] for line in lines)]):
            _add_up(tx.peek("Invoice", invoice_id), tx.look("InvoiceLine", {"invoice_id": invoice_id}), invoice_id)


def worked_out(lines: object) -> list[dict[str, Any]]:
    """Return an invoice's lines with their totals.

    Raises:
        BadRecord: there are none, or one is invalid; it says which and why.

    >>> worked_out([{"description": "Travel", "unit_price": 350}])
    [{'description': 'Travel', 'qty': 1, 'unit_price': 350, 'line_total': 350}]
    """
    if not isinstance(lines, list | tuple) or not lines:
        raise BadRecord("lines: give a list with at least one line; nothing was written")
    return [_worked_out(f"lines[{n}]", line) for n, line in enumerate(cast("Sequence[Any]", lines))]


def _worked_out(where: str, line: object) -> dict[str, Any]:
    if not isinstance(line, Mapping):
        raise BadRecord(f"{where} is {line!r}: give an object with description and unit_price; nothing was written")
    given = cast("Mapping[str, Any]", line)
    for name in given:
        if name not in _MAY:
            sums = " (totals are computed here)" if "total" in str(name) else ""
            raise BadRecord(
                f"{where} has {name!r}{sums}: leave it out, it may have {', '.join(_MAY)}; nothing was written"
            )
    description: Any = given.get("description")
    if not isinstance(description, str) or not description.strip():
        raise BadRecord(f"{where}.description is {description!r}: say what is charged; nothing was written")
    qty, price = given.get("qty", 1), given.get("unit_price")
    if amount(qty, f"{where}.qty") <= 0:
        raise BadRecord(
            f"{where}.qty is {qty!r}: give a number above zero, and a discount as a price below it; nothing was written"
        )
    charged = plain(_charge(qty, price, where))
    return {"description": description, "qty": qty, "unit_price": price, "line_total": charged}


def _charge(qty: object, price: object, where: str) -> Decimal:
    return total([cents(amount(qty, f"{where}.qty") * amount(price, f"{where}.unit_price"))], f"{where}'s total")


def _add_up(invoice: dict[str, Any] | None, lines: list[dict[str, Any]], invoice_id: str) -> None:
    if invoice is None:
        if lines:
            stray, *_ = lines
            raise BadRecord(
                f"InvoiceLine {stray['id']} belongs to no invoice: there is no {invoice_id}; nothing was written",
                entity="InvoiceLine",
                record_id=stray["id"],
            )
        return
    for line in lines:
        if _charge(line["qty"], line["unit_price"], "the line") != Decimal(repr(line["line_total"])):
            raise BadRecord(
                f"InvoiceLine {line['id']} is {line['qty']} at {line['unit_price']} and says {line['line_total']};"
                " nothing was written",
                entity="InvoiceLine",
                record_id=line["id"],
            )
    due = total((Decimal(repr(line["line_total"])) for line in lines), "the total")
    if due != Decimal(repr(invoice["total"])):
        raise BadRecord(
            f"Invoice {invoice_id} says {invoice['total']}, and its lines come to {plain(due)}; nothing was written",
            entity="Invoice",
            record_id=invoice_id,
        )


__all__ = ["INVOICE", "INVOICE_LINE", "Invoices", "worked_out"]
