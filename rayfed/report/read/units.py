"""Numbers as people read them: 3 h 12 min, 4.1 GB, three significant digits."""

from __future__ import annotations

import math
from collections.abc import Sequence

MISSING = "-"
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_ENERGIES = ("J", "kJ", "MJ", "GJ", "TJ", "PJ")
_LONG = ((86400.0, "d", 3600.0, "h"), (3600.0, "h", 60.0, "min"), (60.0, "min", 1.0, "s"))


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits.

    Examples
    --------
    >>> number(0.041234), number(12345.6), number(3.2e-9)
    ('0.0412', '12,300', '3.2e-9')
    """
    if not math.isfinite(value):
        return MISSING if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    if not 1e-3 <= abs(rounded) < 1e6:
        mantissa, _, exponent = f"{rounded:.{digits - 1}e}".partition("e")
        return f"{_trim(mantissa)}e{int(exponent)}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return _trim(f"{rounded:,.{places}f}")


def target(value: float) -> str:
    """Return a target: rounded like other numbers it may be one that a run began with.

    Examples
    --------
    >>> target(0.078), target(2.3053)
    ('0.078', '2.3053')
    """
    return number(value, 6)


def setting(value: float) -> str:
    """Return a setting: a power of two that three digits do not hold is written as one.

    Examples
    --------
    >>> setting(0.1), setting(0.25), setting(2.0**-5)
    ('0.1', '0.25', '2^-5')
    """
    text = number(value)
    if value > 0 and float(text.replace(",", "")) != value:
        mantissa, exponent = math.frexp(value)
        if mantissa == 0.5:
            return f"2^{exponent - 1}"
    return text


def settings(values: Sequence[float]) -> list[str]:
    """Return the settings of an axis; where one is written as a power of two, all that can be are.

    Examples
    --------
    >>> settings([2.0**-5, 0.25, 0.5]), settings([0.1, 0.25])
    (['2^-5', '2^-2', '2^-1'], ['0.1', '0.25'])
    """
    texts = [setting(value) for value in values]
    if not any(text.startswith("2^") for text in texts):
        return texts
    parts = [math.frexp(value) for value in values]
    return [
        f"2^{exponent - 1}" if mantissa == 0.5 else text
        for text, (mantissa, exponent) in zip(texts, parts, strict=True)
    ]


def telling(values: Sequence[float], least: int = 2, most: int = 4) -> list[str]:
    """Return numbers with the fewest digits that distinguish them, NaN as an empty text.

    Examples
    --------
    >>> telling([0.5, 0.25]), telling([0.6012, 0.6049, float("nan")])
    (['0.5', '0.25'], ['0.601', '0.605', ''])
    """
    known = [value for value in values if math.isfinite(value)]
    every = len({number(value, most) for value in known})
    digits = least
    while len({number(value, digits) for value in known}) < every:
        digits += 1
    return ["" if math.isnan(value) else number(value, digits) for value in values]


def short_number(value: float, digits: int = 7) -> float | None:
    """Return a number with so many digits, None where it is not finite (JSON has no NaN)."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def count(value: float) -> str:
    """Return a count: whole if it is whole or large, else with one decimal.

    Examples
    --------
    >>> count(1234.0), count(41.333)
    ('1,234', '41.3')
    """
    if not math.isfinite(value):
        return MISSING
    integral = value == round(value) or abs(value) >= 1000
    return f"{value:,.0f}" if integral else f"{value:.1f}"


def duration(seconds: float) -> str:
    """Return a time in its two largest units.

    Examples
    --------
    >>> duration(11520), duration(72), duration(1.26), duration(0.0042)
    ('3 h 12 min', '1 min 12 s', '1.3 s', '4.2 ms')
    """
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 0.9995:
        return f"{number(seconds * 1000, 2)} ms" if seconds else "0 s"
    if seconds < 59.5:
        return f"{number(seconds, 2)} s"
    for large, name, small, part in _LONG:
        total = round(seconds / small)
        if total * small >= large:
            per = round(large / small)
            rest = total % per
            return f"{total // per} {name}" + (f" {rest} {part}" if rest else "")
    raise AssertionError("a minute or more always finds its unit")


def size(octets: float) -> str:
    """Return a number of bytes in decimal units.

    Examples
    --------
    >>> size(4.1e9), size(960), size(999_900)
    ('4.1 GB', '960 B', '1 MB')
    """
    return _metric(octets, _SIZES)


def energy(joules: float) -> str:
    """Return an energy.

    Examples
    --------
    >>> energy(960_000), energy(12.34)
    ('960 kJ', '12 J')
    """
    return _metric(joules, _ENERGIES)


def _metric(value: float, names: tuple[str, ...]) -> str:
    """Return a quantity in the unit, each 1,000 times the one before, that suits it."""
    if not math.isfinite(value):
        return MISSING
    step = 0
    while step < len(names) - 1 and float(f"{value:.2g}") >= 1000:
        value, step = value / 1000, step + 1
    return f"{number(value, 3 if value >= 100 else 2)} {names[step]}"


def share(value: float) -> str:
    """Return a fraction in percent.

    Examples
    --------
    >>> share(0.0915), share(0.5), share(0.00042)
    ('9.2 %', '50 %', '0.042 %')
    """
    if not math.isfinite(value):
        return MISSING
    return f"{number(100 * value, 2)} %" if abs(value) < 0.995 else f"{100 * value:.0f} %"


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
