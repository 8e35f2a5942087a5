"""The normal distribution against the standard library."""

from __future__ import annotations

from statistics import NormalDist

import pytest

from bpmcli.core.data.normal import Z95, normal_cdf, normal_quantile


@pytest.mark.parametrize("p", [1e-300, 1e-12, 0.001, 0.025, 0.3, 0.5, 0.7, 0.975, 0.9999])
def test_quantile_and_cdf(p):
    assert normal_cdf(normal_quantile(p)) == pytest.approx(p, rel=1e-12)
    if p > 1e-10:
        assert normal_quantile(p) == pytest.approx(NormalDist().inv_cdf(p), rel=1e-12, abs=1e-15)


def test_z95():
    assert normal_quantile(0.975) == pytest.approx(Z95, rel=1e-14)
    assert normal_cdf(Z95) == pytest.approx(0.975, rel=1e-14)
