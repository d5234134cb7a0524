"""Numbers in scenario files: powers beside what YAML knows."""

import pytest
import yaml

from rayfed.core import yamlfile
from rayfed.core.dotted import apply_overrides
from rayfed.core.errors import ScenarioError
from rayfed.core.yamlfile import parse_yaml, read_yaml, yaml_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2^-7", 1 / 128),
        ("2^+3", 8),
        ("10^-3", 0.001),
        ("2^0", 1),
        ("2^60", 2.0**60),
        ("0^3", 0),
        ("'2^3'", "2^3"),
        ("2^-", "2^-"),
        ("2^0.5", "2^0.5"),
        ("x^2", "x^2"),
        ("2^3^2", "2^3^2"),
        ("1e-3", 0.001),
        ("-5E2", -500.0),
        ("+1.5e+3", 1500.0),
        ("1.e2", 100.0),
        ("'1e-3'", "1e-3"),
        ("e-3", "e-3"),
        ("1e-3x", "1e-3x"),
        ("0x1e3", 0x1E3),
    ],
)
def test_a_power_is_a_number(text, value):
    found = parse_yaml(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["1e-3", "-5E2", "2^-7", "7", "0.1", "yes", "1:30", "x"])
def test_a_text_that_looks_like_a_number_is_written_as_a_text(text):
    assert parse_yaml(yaml_text({"key": text})) == {"key": text}


def test_on_the_command_line_too():
    changed = apply_overrides({}, ["grid={algorithms.*.lr: [2^-7, 2^3]}", "rounds=2^5"])
    assert changed == {"grid": {"algorithms.*.lr": [1 / 128, 8]}, "rounds": 32}


@pytest.mark.parametrize("text", ["9^99999", "0^-1"])
def test_a_power_that_is_no_number_is_one_line(tmp_path, text):
    file = tmp_path / "s.yaml"
    file.write_text(f"a: 1\nlr: {text}\n")
    with pytest.raises(ScenarioError) as error:
        read_yaml(file)
    shown = text.replace("^", r"\^")
    assert error.match(
        rf"s\.yaml:2: is not valid YAML: '{shown}' is too large or too small a number"
    )


def chain(length):
    """Return a text with lists in each other, by aliases alone."""
    return "a0: &a0 [1]\n" + "".join(f"a{k}: &a{k} [*a{k - 1}]\n" for k in range(1, length))


def test_aliases_repeat_values_as_deep_as_may_be():
    found = parse_yaml(chain(49))["a48"]
    for _ in range(49):
        (found,) = found
    assert found == 1
    with pytest.raises(yaml.YAMLError, match="lists and mappings lie more than 50 deep"):
        parse_yaml(chain(50))


def test_aliases_count_as_the_values_that_they_repeat(monkeypatch):
    monkeypatch.setattr(yamlfile, "MOST_VALUES", 15)  # one of which is the whole
    assert parse_yaml("{a: &a [0, 1], b: [*a, *a]}")["b"] == [[0, 1], [0, 1]]  # 1 + 4 + 2 + 6
    with pytest.raises(yaml.YAMLError, match="more than 15 values, aliases included"):
        parse_yaml("{a: &a [0, 1], b: [*a, *a, *a]}")


def test_a_merged_mapping():
    assert parse_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n")["b"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{<<: !foo {a: 1}}", "!foo"),
        ("{<<: [{b: 2}, !foo {a: 1}]}", "!foo"),
        ("{<<: !foo [{a: 1}]}", "!foo"),
        ("{<<: !!python/object:os.system {a: 1}}", "python/object:os.system"),
        ("{<<: {<<: {a: !foo 1}}}", "!foo"),
        ("{<<: {? [a] : 1}}", "a key is a list or a mapping; write a name"),
        ("{<<: 3}", "'<<' takes a mapping, or a list of mappings"),
    ],
)
def test_what_is_merged_holds_plain_values_alone(text, told):
    with pytest.raises(yaml.YAMLError, match=told):
        parse_yaml(text)
