"""A fit and a forecast are made once for the same timings: most tests here are of what is done with them."""

import functools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hotplug_timer.predict import groups, outlook, plot, validation
from hotplug_timer.predict.fit import fit, forecast


def kept(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return WORK with its results kept by what it was given, which need not be hashable."""
    results: dict[bytes, Any] = {}

    @functools.wraps(work)
    def call(*arguments: Any) -> Any:
        key = pickle.dumps(arguments)
        if key not in results:
            results[key] = work(*arguments)
        return results[key]

    return call


@pytest.fixture(scope="session", autouse=True)
def once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        once_fit, once_forecast = kept(fit), kept(forecast)
        patch.setattr(groups, "fit", once_fit)
        for module in (outlook, plot, validation):
            patch.setattr(module, "forecast", once_forecast)
        patch.setattr(plot, "SIZES", 5)  # a curve of few points is drawn as one of many
        yield
