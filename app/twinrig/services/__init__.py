"""Use cases on asyncio; no Qt."""
