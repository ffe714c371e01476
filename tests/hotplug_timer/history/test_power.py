"""How often the history finds what is there, and what is not; tests/samples/powers.py asks longer."""

import re
from functools import partial

import pytest

from docpages.paths import DOCS
from tests.samples import powers
from tests.samples.powers import FIGURES, percentage

WANTED = [name for name, figure in FIGURES.items() if figure.at_least or figure.at_most]
QUICK = "step of 10% at 5% noise, after 10 nights"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", WANTED)
def test_it_is_as_wanted(name: str) -> None:
    """In a part of the series, so that a percentage or two is chance: a tenth of the wanted is given."""
    figure = FIGURES[name]
    percent = percentage(figure, 30 if figure.at_most else 60)
    assert percent >= 0.9 * (figure.at_least or 0)
    assert percent <= 1.1 * (figure.at_most or 100)


def test_a_large_step_is_found_and_the_figure_knows_its_bounds() -> None:
    figure = powers.Figure("", partial(powers.finds_step, percent=20, sd=0.05, after=10), at_least=75)
    assert figure.holds(percentage(figure, 10))
    assert not figure.holds(74)
    assert not FIGURES[WANTED[-1]].holds(26)


def test_the_command_of_the_guide_prints_a_row_for_each_figure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(powers, "FIGURES", {QUICK: FIGURES[QUICK]})
    powers.main(2)
    assert re.fullmatch(
        r"\| 2 series of each \| % \| wanted \|\n[-|]+\n\| step of 10.* \| \d+ \| at least 75 \|\n",
        capsys.readouterr().out,
    )


def test_the_guide_has_the_figures() -> None:
    """As of the last long run; each holds, or the guide tells that it does not."""
    text = (DOCS / "guides/operators/history-power.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ((?:step|creep|alarm) [^|]+) \| (\d+) \|", text, re.MULTILINE))
    assert set(rows) == set(FIGURES)
    assert ".venv/bin/python -m tests.samples.powers 300\n" in text
    missed = [name for name in WANTED if not FIGURES[name].holds(float(rows[name]))]
    assert all("**missed**" in line for name in missed for line in text.splitlines() if f"| {name} |" in line)
