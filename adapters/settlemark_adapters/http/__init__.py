"""An HTTP API as tools: what each call touches, its idempotency key, its undo and its probe.

An API is declared in a few lines, one `Call` for each operation:

```python
shop = Http(
    "https://shop.example/v1",
    settlement,
    headers={"Authorization": f"Bearer {token}"},
    calls=[
        Call(
            "create_order", "POST", "/orders", kind="reversible", doc="Order an item for a customer.",
            scope="order:/{customer}/{sku}", body={"customer": str, "sku": str, "count": Field(int, default=1)},
            undo=Request("DELETE", "/orders/{result.id}"), probe=Request("GET", "/orders/by-key/{key}"),
            key_header="Idempotency-Key", window=86_400,
        ),
        Call("get_order", "GET", "/orders/{id}", doc="Look at an order.", live=True),
    ],
)
agent = create_agent(model, shop.tools())
```

What an answer says of the effect: 2xx: it happened. 4xx (not 408), 501, 307 and 308: it did not. Other statuses from
500 on, 408, a lost connection, no answer in time: unknown, so the call is sent again under its key or probed; without
either a person is asked. No connection: surely nothing was done.
"""

from __future__ import annotations

from settlemark_adapters.http._call import Call, Field, Request
from settlemark_adapters.http._errors import (
    HttpError,
    HttpRefused,
    HttpTimedOut,
    HttpUnanswered,
    HttpUnreadable,
    HttpUnsent,
)
from settlemark_adapters.http._http import Http
from settlemark_adapters.http._patience import Patience

__all__ = [
    "Call",
    "Field",
    "Http",
    "HttpError",
    "HttpRefused",
    "HttpTimedOut",
    "HttpUnanswered",
    "HttpUnreadable",
    "HttpUnsent",
    "Patience",
    "Request",
]
