"""When a run with a limit of time stops."""

from __future__ import annotations

from blrc.training.loop import NEXT_STAGE, SAME_STAGE, late


def test_a_run_stops_where_another_epoch_might_not_fit() -> None:
    for same, factor in ((True, SAME_STAGE), (False, NEXT_STAGE)):
        for seconds in (1.0, 60.0, 1e4):
            end = 100.0 + seconds * (1 + factor)
            assert not late(100.0, 100.0 + seconds, end + 1e-6, same) and late(100.0, 100.0 + seconds, end - 1e-6, same)
