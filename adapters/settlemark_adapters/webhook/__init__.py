"""Events for others: published at commit, at least once under a stable id, and handled once where they arrive.

The sender is a tool:

```python
events = Webhook("https://partner.example/hooks", settlement, secret="whsec_…")
agent = create_agent(model, events.tools())
```

The receiver verifies a delivery and asks whether it has come before; it needs neither httpx nor a settlement:

```python
event = verify(request.headers, request.body, secret="whsec_…")
with seen.once(event.id) as first:
    if first:
        handle(event)
```
"""

from __future__ import annotations

from settlemark_adapters.webhook._seen import Seen, StillHandled
from settlemark_adapters.webhook._signature import Event, WebhookRejected, signature, verify
from settlemark_adapters.webhook._webhook import Webhook

__all__ = ["Event", "Seen", "StillHandled", "Webhook", "WebhookRejected", "signature", "verify"]
