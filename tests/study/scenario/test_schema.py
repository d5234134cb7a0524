"""The JSON schema accepts what `Study.parse` accepts and refuses what an editor should mark."""

import jsonschema
import pytest
import yaml

from rayfed.core import plugins
from rayfed.study import Study, apply_overrides

SCENARIO = {
    "seeds": [0],
    "rounds": 5,
    "problem": {"name": "logistic-regression", "dataset": "mushroom", "l2": 0.1, "test": 0.2},
    "partition": {"name": "dirichlet", "alpha": 0.3},
    "clients": {
        "count": 4,
        "delay": {"name": "uniform", "mean_s": 2.0},
        "stragglers": {"fraction": 0.2, "slowdown": 8},
        "availability": "always",
        "groups": [{"count": 1, "delay": "exponential", "local": {"steps": 5}}],
    },
    "participation": {"cohort": 2, "select": "weighted"},
    "algorithms": ["fedavg", {"name": "fedexp", "local": {"steps": 2, "batch": "full"}}],
}


def complaints(schema, *overrides):
    found = jsonschema.Draft202012Validator(schema).iter_errors(
        apply_overrides(SCENARIO, overrides)
    )
    return [error.json_path for error in found]


def test_it_is_a_schema(schema):
    assert jsonschema.validators.validator_for(schema) is jsonschema.Draft202012Validator
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "x-plugin" not in yaml.safe_dump(schema)


def test_it_accepts_a_scenario_and_its_resolved_form(schema):
    study = Study.parse(SCENARIO)
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors(SCENARIO)) == []
    assert list(validator.iter_errors(study.to_dict())) == []


@pytest.mark.parametrize(
    "override",
    [
        "clients.delay=my.own_module:Delay",
        "clients.delay={name: my.own:Delay, anything: 1}",
        "problem.dataset=rows.csv",
        "problem.dataset={name: mushroom}",
        "algorithms.1.local={name: sgd, lr: 0.1}",
    ],
)
def test_it_accepts_the_other_ways_to_name_a_plugin(schema, override):
    assert complaints(schema, override) == []


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ("clients.dela=constant", "$.clients"),
        ("clients.delay.mean_s=-1", "$.clients.delay"),
        ("clients.delay.sigma=1", "$.clients.delay"),
        ("clients.delay.name=lognorml", "$.clients.delay"),
        ("clients.delay={mean_s: 1}", "$.clients.delay"),
        ("problem.datset=mushroom", "$.problem"),
        ("algorithms.0.local.stes=1", "$.algorithms[0]"),
        ("participation.select=uniformly", "$.participation.select"),
    ],
)
def test_it_refuses(schema, override, place):
    assert complaints(schema, override) == [place]


@pytest.mark.parametrize("kind", sorted(plugins.KINDS))
def test_every_plugin_is_completed_and_described(schema, kind):
    for name, cls in plugins.find(kind).items():
        shown = schema["$defs"][f"{kind}.{name}"]
        assert shown["properties"]["name"] == {"const": name}
        assert shown["additionalProperties"] is False
        assert shown["description"]
        for setting in (field.name for field in plugins.settings(cls)):
            assert shown["properties"][setting].get("description"), f"{name}: {setting}"


def test_keys_are_described(schema):
    for key, shown in schema["properties"].items():
        assert shown["description"], key
    down = schema["$defs"]["Clients"]["properties"]["network"]["properties"]["down_mbps"]
    assert "megabits per second" in down["description"]


@pytest.mark.parametrize("executor", ["serial", {"name": "serial"}, {"clients_per_actor": 3}])
def test_a_bare_name_stands_for_a_part(schema, executor):
    jsonschema.Draft202012Validator(schema).validate(SCENARIO | {"executor": executor})


@pytest.mark.parametrize("executor", ["seral", {"name": "seral"}, 3])
def test_a_name_that_does_not_exist_is_refused(schema, executor):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(SCENARIO | {"executor": executor})
