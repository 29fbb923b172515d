"""What a figure states of its rounds."""

from __future__ import annotations

import pytest

from twinrig.domain.benchmark import Figure


@pytest.mark.parametrize(
    ("rounds", "spread"),
    [
        ((100,), 10.0),
        ((100, 110), 15.0),
        ((95, 100, 110), 16.0),
        ((90, 100, 100, 110), 12.0),
        ((90, 95, 100, 105, 115), 15.0),
        ((90, 95, 99, 101, 105, 110), 10.0),
        ((100, 100, 100, 100, 100), 2.0),
        ((100, 100, 100), 2.0),
    ],
)
def test_fewer_rounds_state_less(rounds: tuple[float, ...], spread: float) -> None:
    figure = Figure.of(rounds)
    assert figure is not None
    assert figure.spread == pytest.approx(spread)


def test_figures_differ_when_what_they_state_does_not_overlap() -> None:
    one, other, far = (Figure.of([m - 1, m - 1, m, m + 1, m + 1]) for m in (40.0, 41.9, 42.1))
    assert one is not None and other is not None and far is not None
    assert not one.differs_from(other)
    assert one.differs_from(far) and far.differs_from(one)
    assert Figure.of([]) is None
