"""Client functions: who is to blame where one fails, and what is refused."""

import re

import numpy as np
import pytest

from rayfed.clients.request import Failure
from tests.clients.toy_host import host_with, request


def test_a_client_that_fails_is_named_with_its_traceback():
    host, _ = host_with([2] * 5)
    failure = host.exchange("run", request([1, 2, 3, 4]), {"x": np.ones(2)})
    assert isinstance(failure, Failure)
    assert failure.client == 3
    assert "client 3 is broken" in failure.trace
    assert "Traceback" in failure.trace


def test_an_upload_that_was_not_declared_is_refused():
    host, _ = host_with([2] * 5)
    failure = host.exchange("run", request([1], "liar", {"vector": 2}), {"x": np.ones(2)})
    assert "declares the upload {'vector': 2} but sends {'vector': 7}" in failure.reason


@pytest.mark.parametrize(
    ("work", "up", "found"),
    [
        ("sideways", {"vector": 2}, r"ToyHalf.sideways sends 'vector' \(2, 3\) for 3 clients"),
        ("forgetful", {}, "keeps 'cals', which `client_state` does not make"),
        ("greedy", {}, r"keeps 'calls' \(3, 2\); a row a client is \(3, 1\)"),
        ("lossy", {}, r"lossy gives a loss \(3, 1\) for 3 clients; give each one number"),
        ("odd", {}, r"odd returns a str; return Upload"),
    ],
)
def test_what_would_be_lost_or_read_amiss_is_refused(work, up, found):
    host, _ = host_with([2] * 5)
    failed = host.exchange("run", request([2, 1, 4], work, up), {"x": np.ones(2)})
    assert isinstance(failed, Failure)
    assert re.search(found, failed.reason)
