"""Ready-made tools and counterparties for settlemark; the first ones come with their own release."""

__all__: list[str] = []
