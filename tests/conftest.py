"""Fixtures that every test has: asyncio only, as the SDKs are."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
