"""A payment provider in a child process: it authorizes, captures, refunds, voids, and forgets a key after a day."""

from __future__ import annotations

from tests.adapters.http.service import Api, Refusal, Service, serve
from tests.rooms.testing import Journal


class Provider(Api):
    """The parent's end."""

    module = "tests.adapters.payments.service"

    def payments(self):
        return self.state()["payments"]

    def moved(self):
        """What was done to money, from its own log: what came of each request that was no question, and its key."""
        return [
            (entry["did"], entry["key"]) for entry in self.log() if entry["did"] not in ("told", "nothing", "refused")
        ]


class Desk(Service):
    """The child's end."""

    def clear(self):
        super().clear()
        self.payments = {}

    def seed(self, **message):
        self.payments.update(message["payments"])

    def state(self):
        return {"payments": self.payments}

    def route(self, method, path, query, headers, body):
        if headers.get("Authorization") != "Bearer sk_live_treasury":
            raise Refusal(401, "who are you?")
        key = headers.get("Idempotency-Key")
        asked = [path, body]
        match method, *path:
            case "POST", "payments":
                return self.keyed(key, asked, lambda: self._authorize(body))
            case "POST", "payments", name, "capture":
                return self.keyed(key, asked, lambda: self._capture(self._known(name), body))
            case "POST", "payments", name, "refunds":
                return self.keyed(key, asked, lambda: self._refund(self._known(name), body))
            case "POST", "payments", name, "void":
                return self._void(self._known(name))
            case "GET", "payments", name:
                return "told", 200, self._known(name)
            case "GET", "keys", key:
                return "told", 200, {"answer": self._still(self.under(key))}
        raise Refusal(404, f"no {method} {path}")

    def _known(self, name):
        if name not in self.payments:
            raise Refusal(404, f"there is no payment {name}")
        return self.payments[name]

    def _still(self, answer):
        """An authorization that was voided is none."""
        if self.payments.get(answer["id"], {}).get("status") == "voided":
            raise Refusal(404, "it was voided")
        return answer

    def _authorize(self, body):
        name = f"pay_{len(self.payments) + 1}"
        self.payments[name] = {"id": name, **body, "status": "authorized", "captured": 0, "refunded": 0}
        return "authorized", 201, dict(self.payments[name])

    def _capture(self, payment, body):
        if payment["status"] != "authorized" or body["amount"] > payment["amount"]:
            raise Refusal(409, f"it is {payment['status']}")
        payment |= {"status": "captured", "captured": body["amount"]}
        return "captured", 200, {"id": payment["id"], **body}

    def _refund(self, payment, body):
        if body["amount"] > payment["captured"] - payment["refunded"]:
            raise Refusal(409, "there is not so much")
        payment["refunded"] += body["amount"]
        return "refunded", 200, {"id": f"{payment['id']}-r", **body}

    def _void(self, payment):
        if payment["status"] == "captured":
            raise Refusal(409, "it is captured: refund it")
        did = "void-replayed" if payment["status"] == "voided" else "voided"
        payment["status"] = "voided"
        return did, 200, dict(payment)


def main(log_path):
    serve(Desk(Journal(log_path)))
