"""Whatever a job does to keyed state, in whatever order, on whatever backends: it is what the model says.

``TIDEMILL_EXAMPLES`` says how many examples each machine runs.
"""

from __future__ import annotations

import pytest

from tests.contract.keyed_state_machine import EXAMPLES, MATERIALS, run


@pytest.mark.timeout(600 + EXAMPLES)
@pytest.mark.parametrize("material", MATERIALS)
def test_keyed_state_is_its_model(material: str) -> None:
    run(material)
