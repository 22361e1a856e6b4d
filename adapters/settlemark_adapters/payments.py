"""Payments at a provider that remembers idempotency keys for a day: authorize, capture, refund, and probes.

The provider speaks HTTP and JSON: `POST /payments`, `/payments/{id}/capture`, `/payments/{id}/refunds` and
`/payments/{id}/void` under an `Idempotency-Key`, `GET /payments/{id}`, and `GET /keys/{key}`, whose `answer` is the
answer given under a key, 404 for an unknown one. A repeated void is answered as the first. For another provider write
its calls down for [Http][settlemark_adapters.http.Http], or subclass `Payments` and its `PATHS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from settlemark import UNKNOWN, Settlement
from settlemark.hosting import EffectName
from settlemark_adapters._adapter import Adapter, operation
from settlemark_adapters.http._call import Request
from settlemark_adapters.http._client import MOST, Client
from settlemark_adapters.http._errors import HttpUnanswered
from settlemark_adapters.http._filling import parts_of, sent_key
from settlemark_adapters.http._patience import Patience
from settlemark_adapters.http._preparing import prepared

if TYPE_CHECKING:
    import httpx

DAY = 86_400.0
MARGIN = 900.0
"""The last seconds of a key's day, in which nothing is sent under it any more: clocks differ, and a call takes time."""

_CODES = """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF
    CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL
    HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD
    MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG
    QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD
    TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
"""
CURRENCIES = frozenset(_CODES.split())
"""The currencies of ISO 4217."""

_KEY = MappingProxyType({"Idempotency-Key": "{key}"})


class Payments(Adapter):
    """The tools of a payment provider: `authorize_payment`, `capture_payment`, `refund_payment`, `get_payment`.

    Args:
        base_url: where the provider is, as in `"https://pay.example/v1"`.
        settlement: as in every adapter, and so are `name` and `effects`.
        api_key: goes with every request as a bearer token, and stands in no record, error or log.
        currencies: those that are taken, by their ISO codes.
        timeout, patience, clock, sleep, transport: as in `Http`.

    Laws: an amount is a whole number in the currency's smallest unit, and is checked before anything is recorded. One
    decision moves money once: its lost answer is asked for by its key, or it is sent again under that key, and no
    longer than the provider remembers it; past that it is in doubt, and a person says what happened.

    Raises:
        ValueError: the address or the api key is malformed.

    >>> Payments("https://pay.example/v1", api_key="sk_test").authorize("ada", 0, "EUR")
    Traceback (most recent call last):
    ValueError: amount=0: give a whole number above 0, in the smallest unit of EUR (1250 for 12.50)
    """

    PATHS: ClassVar[Mapping[str, str]] = {
        "authorize": "/payments",
        "capture": "/payments/{payment}/capture",
        "refund": "/payments/{payment}/refunds",
        "void": "/payments/{result.id}/void",
        "payment": "/payments/{payment}",
        "key": "/keys/{key}",
    }

    def __init__(
        self,
        base_url: str,
        settlement: Settlement | None = None,
        *,
        api_key: str,
        currencies: frozenset[str] = CURRENCIES,
        timeout: float = 30.0,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] = time.sleep,
        transport: httpx.BaseTransport | None = None,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
    ) -> None:
        self._client = Client(
            base_url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=timeout,
            patience=patience,
            most=MOST,
            clock=clock,
            sleep=sleep,
            transport=transport,
        )
        self._currencies = currencies
        super().__init__(settlement, name=name, effects=effects)

    # ---- shared by several tools

    def _payable(self, amount: int, currency: str) -> None:
        """Refuse an invalid amount of money."""
        if type(currency) is not str or currency not in self._currencies:
            raise ValueError(f"currency={currency!r} is not taken here: give its ISO 4217 code, as in 'EUR'")
        if type(amount) is not int or amount <= 0:
            raise ValueError(
                f"amount={amount!r}: give a whole number above 0, in the smallest unit of {currency} (1250 for 12.50)"
            )

    def _plausible(self, payment: str, amount: int, currency: str) -> None:
        """Refuse what no payment of that id can ever satisfy; its status at the release is not known yet."""
        self._payable(amount, currency)
        found = self._look(payment)
        if found.get("currency") != currency:
            raise ValueError(f"{payment} is in {found.get('currency')}: give the amount in it, not in {currency}")
        known: Any = found.get("amount")
        if type(known) not in (int, float):
            raise ValueError(f"the provider says that {payment} is for {known!r:.80}, which is no amount: ask it")
        if amount > known:
            raise ValueError(f"{payment} is for {known} {currency}: give no more than that, not {amount}")

    def _answered(self, amount: int, currency: str, key: str) -> Any:
        """Ask for the answer given under a key."""
        request = Request("GET", self.PATHS["key"])
        sending = prepared("payments", request, {"key": sent_key(key)}, reads=True, expected=frozenset(request.absent))
        answer = self._client.send(sending)
        if not answer.ok:
            return None
        found = (parts_of(answer.content) or {}).get("answer")
        return UNKNOWN if _mismatch(found, amount, currency) else found

    def _void(self, amount: int, currency: str, result: Any, key: str) -> None:
        """Void an authorization; the provider refuses one that was captured meanwhile."""
        found = self._answered(amount, currency, key) if result is None else result
        if found is not None:
            request = Request("POST", self.PATHS["void"])
            self._client.send(prepared("the undo of authorize_payment", request, {"result": found}, repeatable=True))

    def _order(self, tool: str, path: str, body: Mapping[str, Any], **values: Any) -> dict[str, Any]:
        """Order the provider to move money, under the key of the running call."""
        self._payable(body["amount"], body["currency"])
        request = Request("POST", self.PATHS[path], body=body, headers=_KEY)
        sending = prepared(tool, request, {**values, "key": sent_key(self.key)}, repeatable=True, within=MARGIN)
        found: Any = self._client.send(sending).content
        wrong = _mismatch(found, body["amount"], body["currency"])
        if wrong:
            raise HttpUnanswered(f"{tool}: {wrong}: ask the provider what it did", tool=tool, body=found)
        return cast("dict[str, Any]", found)

    def _look(self, payment: str) -> dict[str, Any]:
        request = Request("GET", self.PATHS["payment"])
        found: Any = self._client.send(prepared("get_payment", request, {"payment": payment}, reads=True)).content
        if not isinstance(found, dict) or "status" not in found:
            raise ValueError(f"what the provider says of {payment} is no payment: see that the address is its API's")
        return cast("dict[str, Any]", found)

    # ---- the tools

    @operation(
        "authorize_payment",
        "reversible",
        scope="customer:/{customer}",
        keyed=True,
        window=DAY - MARGIN,
        undo=_void,
        probe=_answered,
        check=_payable,
    )
    def authorize(self, customer: str, amount: int, currency: str, order: str = "") -> dict[str, Any]:
        """Reserve an amount of a customer's money, to be captured later.

        Args:
            customer: the customer's id at the provider.
            amount: a whole number in the currency's smallest unit: 1250 for 12.50.
            currency: its ISO 4217 code, such as EUR.
            order: what it is for.
        """
        body = {"customer": customer, "amount": amount, "currency": currency, "order": order}
        return self._order("authorize_payment", "authorize", body)

    @operation(
        "capture_payment",
        "irreversible",
        scope="payment:/{payment}",
        keyed=True,
        window=DAY - MARGIN,
        probe=_answered,
        check=_plausible,
    )
    def capture(self, payment: str, amount: int, currency: str) -> dict[str, Any]:
        """Take the money of an authorized payment, all of it or a part; it leaves when this step settles.

        Args:
            payment: the payment's id.
            amount: a whole number in the currency's smallest unit, no more than is authorized.
            currency: the payment's currency.
        """
        body = {"amount": amount, "currency": currency}
        return self._order("capture_payment", "capture", body, payment=payment)

    @operation(
        "refund_payment",
        "irreversible",
        scope="payment:/{payment}",
        keyed=True,
        window=DAY - MARGIN,
        probe=_answered,
        check=_plausible,
    )
    def refund(self, payment: str, amount: int, currency: str) -> dict[str, Any]:
        """Give captured money back to the customer; it leaves when this step settles.

        Args:
            payment: the payment's id.
            amount: a whole number in the currency's smallest unit, no more than was captured.
            currency: the payment's currency.
        """
        body = {"amount": amount, "currency": currency}
        return self._order("refund_payment", "refund", body, payment=payment)

    def _version(self, payment: str) -> str:
        request = Request("GET", self.PATHS["payment"])
        return self._client.send(prepared("get_payment", request, {"payment": payment}, reads=True)).digest

    @operation("get_payment", "read", scope="payment:/{payment}", live=_version)
    def payment(self, payment: str) -> dict[str, Any]:
        """Say how a payment stands: its amount, its currency, its status, what was captured and refunded.

        Args:
            payment: the payment's id.
        """
        return self._look(payment)


def _mismatch(found: Any, amount: int, currency: str) -> str | None:
    """Return what shows that an answer is not about this amount, or None."""
    answer = parts_of(found)
    if answer is None or not {"id", "amount", "currency"} <= answer.keys():
        return "the answer is no payment"
    told = (answer.get("amount"), answer.get("currency"))
    return None if told == (amount, currency) else f"the answer is about {told[0]} {told[1]}, not {amount} {currency}"


__all__ = ["CURRENCIES", "DAY", "MARGIN", "Payments"]
