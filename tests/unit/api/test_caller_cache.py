"""Callers whose tokens were accepted just now: for a second at most, and only those."""

from __future__ import annotations

from duebook.api import caller_cache
from duebook.api.caller_cache import FRESH, CallerCache
from duebook.api.permissions import Caller
from duebook.model.access import Role

CI = Caller("1", "ci", Role.VIEWER)
NOW = 100.0


class Ticking:
    now = NOW

    def __call__(self) -> float:
        return self.now


def test_a_caller_is_known_for_a_second_after_the_books_were_asked() -> None:
    clock = Ticking()
    cache = CallerCache(clock)
    asked = cache.begin()
    clock.now += 0.75  # the books were slow
    cache.keep("secret", CI, asked)
    assert cache.get("secret") == CI
    assert cache.get("secret ") is None
    assert cache.get("") is None
    clock.now = NOW + FRESH
    assert cache.get("secret") is None
    assert FRESH <= 1


def test_a_token_that_expires_sooner_is_known_until_then() -> None:
    clock = Ticking()
    cache = CallerCache(clock)
    cache.keep("secret", CI, cache.begin(), expires_in=0.25)
    assert cache.get("secret") == CI
    clock.now += 0.25
    assert cache.get("secret") is None


def test_what_was_asked_before_a_revocation_is_not_kept_after_it() -> None:
    cache = CallerCache()
    cache.keep("other", CI, cache.begin())
    asked = cache.begin()  # the books say yes, and then the token is revoked
    cache.forget()
    cache.keep("secret", CI, asked)
    assert cache.get("secret") is None
    assert cache.get("other") is None
    cache.keep("secret", CI, cache.begin())
    assert cache.get("secret") == CI


def test_it_is_bounded_and_keeps_no_secret() -> None:
    cache = CallerCache()
    for number in range(3 * caller_cache.MOST):
        cache.keep(f"secret-{number}", CI, cache.begin())
        assert cache.get(f"secret-{number}") == CI
    assert len(cache._callers) <= caller_cache.MOST
    assert "secret" not in str(cache._callers)


def test_a_text_that_is_not_unicode_is_not_known() -> None:
    assert CallerCache().get("dbk_\ud800") is None
