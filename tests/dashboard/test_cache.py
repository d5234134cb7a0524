"""Values by key, made again where their stamp has changed."""

from rayfed.dashboard.cache import Cache


def test_a_value_is_made_again_only_with_another_stamp():
    cache, made = Cache(10), []

    def make(earlier):
        made.append(earlier)
        return len(made)

    stamps = (1, 1, 2, 2, 1)
    assert [cache.get("key", stamp, make) for stamp in stamps] == [1, 1, 2, 2, 3]
    assert made == [None, 1, 2]


def test_values_that_were_not_asked_for_longest_leave_first():
    cache, made = Cache(5, size=len), []

    def value_of(key):
        return cache.get(key, 0, lambda _: made.append(key) or key)

    for key in ("aa", "bb", "aa", "cc", "aa", "bb"):
        value_of(key)
    assert made == ["aa", "bb", "cc", "bb"]
    value_of("too large")
    assert value_of("too large") == "too large"
    assert made[-2:] == ["bb", "too large"]


def test_a_value_that_replaces_another_counts_once():
    cache, made = Cache(5, size=len), []
    for stamp, value in enumerate(("aaaa", "a", "aaa", "aa")):
        cache.get("first", stamp, lambda _, value=value: value)
    for key in ("second", "first"):
        cache.get(key, 3, lambda _, key=key: made.append(key) or "bbb")
    assert made == ["second"]
