"""Requests to servers that tests start."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.request import Request, urlopen


def text_of(address: str, cookie: str = "") -> str:
    """Return the text of an answer."""
    with urlopen(Request(address, headers={"Cookie": cookie}), timeout=30) as response:
        return response.read().decode()


def status_of(address: str, cookie: str = "") -> int:
    """Return the status of an answer; 0 if nothing listens yet."""
    try:
        with urlopen(Request(address, headers={"Cookie": cookie}), timeout=30) as response:
            return response.status
    except HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0
