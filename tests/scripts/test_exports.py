"""What editors are told of the classes of plug-ins is what there is."""

import pytest

from rayfed.core.plugins import KINDS
from scripts import exports


@pytest.mark.parametrize("kind", KINDS)
def test_the_list_for_editors_is_that_of_the_classes(kind):
    assert exports.module(kind).read_text("utf-8") == exports.text(kind), "run make exports"
