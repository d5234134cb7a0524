"""The JSON schema of scenario files, made once: it takes a second, and as long to be checked."""

import jsonschema
import pytest

from rayfed.study import Study


@pytest.fixture(scope="session")
def schema():
    return Study.json_schema()


@pytest.fixture(scope="session")
def validator(schema):
    """Judge by the schema, which `test_schema` checks itself."""
    return jsonschema.Draft202012Validator(schema)
