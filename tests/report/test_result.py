"""Recorded results without their models."""

import rayfed

EMPTY = "{} of {} rounds used no reply: everybody was away"


def test_repeated_warnings_are_one_line_with_a_count(tmp_path, run_writer, rows):
    subset = "'cifar10' is a subset here, 1,000 of 50,000 rows"
    other = "'cifar100' is a subset here, 1,000 of 50,000 rows"
    held = {
        ("a", 0): [subset, f"a: {EMPTY.format(3, '1,000')}", "a: 1.5e-3 is small"],
        ("a", 1): [subset, f"a: {EMPTY.format(41, '1,000')}"],
        ("b", 0): [subset, f"b: {EMPTY.format(3, 200)}", other],
        ("b", 1): [subset, "b: 2 of 3 layers stay", "b: 1 of 4 layers stay"],
    }
    for (label, seed), warnings in held.items():
        run_writer(tmp_path, label, seed, rows([8.0, 4.0], label, seed), warnings=warnings)
    assert rayfed.load(tmp_path).warnings == (
        f"{subset} (in all 4 runs)",
        "a: 3 of 1,000 rounds used no reply: everybody was away (in 3 of 4 runs)",
        "a: 1.5e-3 is small",
        other,
        "b: 2 of 3 layers stay (and 1 more like it)",
    )
