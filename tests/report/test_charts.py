"""Plots: what they show, and that texts in them stay texts."""

import pytest

from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.report.charts import Point, activity_plot, frontier_plot


@pytest.mark.parametrize("users", [1, 2, 700])
def test_the_activity_plot_falls_from_the_busiest_user_to_the_least(users):
    log = synth(users=users, records=5000, seed=1)
    chart = activity_plot(log)
    counts = log.frame.group_by("user").len()["len"].sort(descending=True).to_list()
    assert [counts[rank - 1] for rank, _ in chart.points] == [records for _, records in chart.points]
    assert (chart.points[0][0], chart.points[-1][0]) == (1, users)
    shown = chart._repr_html_()
    assert shown.startswith("<svg")
    assert not any(name in shown for name in log.users())


def test_the_activity_plot_has_log_axes_so_that_equal_ratios_are_equally_far_apart():
    frame = QueryLog.of([(f"user {n}", "x") for n in range(1, 101) for _ in range(100 // n)])
    chart = activity_plot(frame)
    line = chart.svg.split('points="')[1].split('"')[0]
    places = dict(
        zip((rank for rank, _ in chart.points), (float(at.split(",")[0]) for at in line.split()), strict=True)
    )
    assert places[10] - places[1] == pytest.approx(places[100] - places[10], abs=0.2)


def test_the_activity_plot_of_an_empty_log_has_no_points():
    assert activity_plot(QueryLog.empty()).points == ()


def test_labels_beside_marks_that_fall_together_have_places_of_their_own_and_lines_that_lead_back():
    points = [Point(f"<{n}>", 0.006, 0.3, label=f"{n}") for n in range(12)]
    drawn = frontier_plot(points, risk="risk", utility="kept")
    places = {line.split(">")[0] for line in drawn.split('class="label"')[1:]}
    assert len(places) == 12
    assert drawn.count('class="lead"') >= 9
    assert "<3>" not in drawn


def test_the_acceptable_risk_is_shaded_up_to_the_end_of_the_scale():
    one = [Point("one", 0.02, 0.5)]
    assert "acceptable" not in frontier_plot(one, risk="risk", utility="kept")
    widths = [
        float(frontier_plot(one, risk="risk", utility="kept", acceptable=risk).split('width="')[2].split('"')[0])
        for risk in (0.025, 0.1, 1.0)
    ]
    assert widths[0] == pytest.approx(widths[1] / 2)
    assert widths[1] == widths[2]
