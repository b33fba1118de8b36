"""Secrets of a dashboard: its password with a limit on guesses, and the key of one without a password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable

from starlette.requests import Request

_FREE_GUESSES = 10
_WAIT_MAX_S = 60.0
# Without a wrong guess for this long, guesses are free again.
_FORGIVEN_AFTER_S = 600.0
_SESSION = "pgsluice_session"


class TooManyGuessesError(Exception):
    """Passwords are not looked at for a while.

    Attributes:
        wait_s: Time until the next one is, in seconds.
    """

    def __init__(self, wait_s: float) -> None:
        """Keep the time to wait."""
        super().__init__(f"too many wrong passwords; wait {wait_s:.0f} s")
        self.wait_s = wait_s


class Guesses:
    """Limit of wrong guesses in this process: ten are free, and then each doubles the wait, up to a minute.

    The wait is that of all clients: an address of a client says nothing behind a proxy, and can be forged otherwise.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without a wrong guess; `clock` returns seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong = 0
        self._wrong_at_s = 0.0
        self._until_s = 0.0

    def require_time(self) -> None:
        """Raise TooManyGuessesError while one has to wait."""
        with self._lock:
            wait_s = self._until_s - self._clock()
        if wait_s > 0:
            raise TooManyGuessesError(wait_s)

    def note_wrong(self) -> None:
        """Count a wrong guess."""
        with self._lock:
            now_s = self._clock()
            if now_s - self._wrong_at_s > _FORGIVEN_AFTER_S:
                self._wrong = 0
            self._wrong, self._wrong_at_s = self._wrong + 1, now_s
            doublings = self._wrong - _FREE_GUESSES
            if doublings >= 0:
                self._until_s = now_s + min(2.0 ** min(doublings, 10), _WAIT_MAX_S)


class Basic:
    """HTTP Basic authentication by one password: any user name is accepted, and is the name of the viewer.

    A browser that gave the password gets a cookie, with which wrong guesses of others do not make it wait.
    """

    def __init__(self, password: str, guesses: Guesses | None = None) -> None:
        """Authenticate by `password`."""
        self._password = password
        self._guesses = guesses or Guesses()
        self._session = secrets.token_urlsafe(32)

    def __call__(self, request: Request) -> str | None:
        """Return the user name of a request with the password; None for any other.

        Raises:
            TooManyGuessesError: There were too many wrong passwords.
        """
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        is_known = is_equal(request.cookies.get(_SESSION, ""), self._session)
        if not is_known:
            self._guesses.require_time()
        try:
            user, colon, given = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:  # also binascii.Error and UnicodeDecodeError
            return None
        if not (is_equal(given, self._password) and colon):
            self._guesses.note_wrong()
            return None
        if not is_known:
            request.scope["pgsluice.cookie"] = (_SESSION, self._session)
        return user


def is_equal(given: str, right: str) -> bool:
    """Compare a secret in a time that depends on neither text nor their lengths."""
    hashes = (
        hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in (given, right)
    )
    return hmac.compare_digest(*hashes)
