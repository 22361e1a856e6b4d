"""A sink in a child process, as a consumer would write it: it verifies what comes, and handles each event once."""

from __future__ import annotations

import base64
import time

from tests.adapters.http.service import Api, Refusal, Service, serve
from tests.rooms.testing import Journal

from settlemark_adapters.webhook import Seen, WebhookRejected, verify

SECRET = "whsec_" + base64.b64encode(b"a secret that both ends know").decode()


class Sink(Api):
    """The parent's end."""

    module = "tests.adapters.webhook.service"

    def handled(self):
        return self.state()["handled"]

    def deliveries(self):
        """What came of each delivery, and its id."""
        return [(entry["did"], entry["headers"].get("webhook-id")) for entry in self.log()]


class Consumer(Service):
    """The child's end."""

    def clear(self):
        super().clear()
        self.seen, self.handled = Seen(), []

    def state(self):
        return {"handled": self.handled}

    def route(self, method, path, query, headers, body):
        if (method, path[0]) != ("POST", "hooks"):
            raise Refusal(404, "not here")
        try:
            event = verify(headers, self.raw, SECRET, now=self.now or time.time())
        except WebhookRejected as rejected:
            raise Refusal(400, str(rejected)) from None
        with self.seen.once(event.id) as first:
            if first:
                self.handled.append({"topic": event.topic, "payload": event.payload})
        return "handled" if first else "known", 204, None


def main(log_path):
    serve(Consumer(Journal(log_path)))
