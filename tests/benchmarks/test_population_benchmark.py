"""The benchmark of populations and cohorts: cases in processes of their own, a table, a figure."""

from xml.etree import ElementTree

import pytest

from benchmarks import population
from benchmarks.population import Cost

SVG = "{http://www.w3.org/2000/svg}"


def test_a_table_has_the_cost_of_a_client():
    text = population.table([Cost(10**7, 100, 1.0, 0.008, 144_000_000)])
    assert "| 10,000,000 | 100 | 1.00 | 8.0 | 80 | 144 |" in text


def test_lines_are_to_scale():
    costs = [Cost(10, 1, 0, 0.01, 10**8), Cost(1000, 1, 0, 0.1, 10**8)]
    figure = ElementTree.fromstring(population.figure(costs, costs))
    times, memory = [line.get("points").split() for line in figure.iter(f"{SVG}polyline")][:2]
    # a decade is as long for milliseconds as for megabytes: 10, 100 and 100, 100 of 10 to 100
    (x, low), (end, high) = (map(float, point.split(",")) for point in times)
    assert x < end
    assert low - high == pytest.approx(220)
    assert [point.split(",")[1] for point in memory] == [str(high)] * 2


def test_growth_with_the_population_is_found(capsys, monkeypatch):
    def cost(n, cohort, rounds):
        return Cost(n, cohort, 1.0, 0.01 * (3 if n > 10**6 and grows else 1), 10**8)

    monkeypatch.setattr(population, "in_a_process", cost)
    for grows in (False, True):
        assert population.main([]) == grows
    assert population.main(["--most", "1000"]) == 0
    assert "| 1,000 | 10 |" in capsys.readouterr().out


@pytest.mark.slow
def test_a_case_is_measured_in_a_process_of_its_own():
    cost = population.in_a_process(1000, 10, 4)
    assert (cost.population, cost.cohort) == (1000, 10)
    assert 0 < cost.round_s < cost.start_s
    assert cost.memory > 10**7
