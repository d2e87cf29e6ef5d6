import pytest
import torch
from scipy.integrate import quad
from scipy.stats import ks_2samp, kstest

from helpers import seeded
from promask.sampling.straight_through import TINY, StraightThroughGumbel, bernoulli, logistic_noise, uniform

THETA = torch.tensor([0.05, 0.3, 0.5, 0.9], dtype=torch.float64)


def draws(count, temperature, theta=THETA, seed=0):
    noise = logistic_noise((count, *theta.shape), theta, seeded(seed))
    return StraightThroughGumbel(theta, temperature)(noise)


def test_noise_is_the_difference_of_two_gumbels():
    uniform = torch.rand(2, 100_000, generator=seeded(1), dtype=torch.float64)
    gumbel = -torch.log(-torch.log(uniform))
    noise = logistic_noise((100_000,), THETA, seeded(2))
    assert ks_2samp(noise.numpy(), (gumbel[1] - gumbel[0]).numpy()).pvalue > 0.001


@pytest.mark.parametrize("temperature", [1.0, 0.3, 0.03])
def test_masks_are_binary_with_the_given_probabilities(temperature):
    count = 200_000
    masks = draws(count, temperature).masks
    assert set(masks.unique().tolist()) == {0, 1}
    deviation = (THETA * (1 - THETA) / count).sqrt()
    assert ((masks.mean(0) - THETA).abs() < 4 * deviation).all()


def test_certain_units_are_certain():
    masks = draws(10_000, 0.5, torch.tensor([0.0, 1.0])).masks
    assert masks[..., 0].sum() == 0
    assert masks[..., 1].mean() == 1


def test_uniform_numbers_are_uniform_and_never_0_or_1():
    values = uniform((300, 333), torch.ones(1), seeded())
    assert values.shape == (300, 333)
    assert 0 < values.min() < 1e-4
    assert 1 - 1e-4 < values.max() < 1
    assert kstest(values.flatten().double().numpy(), "uniform").pvalue > 0.001
    # Neighbours come from one random word, and must not know of each other.
    pairs = values.flatten()[: 2 * 49_000].reshape(-1, 2)
    assert torch.corrcoef(pairs.T)[0, 1].abs() < 0.015


def test_the_largest_and_the_smallest_noise_are_finite(monkeypatch):
    """All bits 0 or all bits 1; a certain unit is acquired all the same."""
    for bits in (0, 2**62 - 1 + 2**62):
        monkeypatch.setattr(torch.Tensor, "random_", lambda tensor, bits=bits, **_: tensor.fill_(bits))
        noise = logistic_noise((1, 2), torch.ones(1), seeded())
        assert torch.isfinite(noise).all()
        assert StraightThroughGumbel(torch.tensor([1.0, 0.0]), 0.03)(noise).masks.tolist() == [[1, 0]]


def test_bernoulli_masks_have_the_given_probabilities():
    theta = torch.tensor([[0.0, 0.05, 0.5], [0.9, 1.0, 0.999]], dtype=torch.float64)
    count = 100_000
    masks = bernoulli(theta, count, seeded())
    assert masks.shape == (count, 2, 3)
    assert set(masks.unique().tolist()) == {0, 1}
    deviation = (theta * (1 - theta) / count).sqrt()
    assert ((masks.mean(0) - theta).abs() <= 4 * deviation).all()
    between = torch.corrcoef(masks.flatten(1)[:, 1:4].T)
    assert (between - torch.eye(3)).abs().max() < 0.02


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_slope_is_autograds(temperature):
    """The slope is d sigmoid((log odds + noise) / tau) / d theta, which autograd gives as well."""
    noise = logistic_noise((50, 4), THETA, seeded())
    theta = THETA.expand(50, 4).clone().requires_grad_()
    soft = torch.sigmoid((torch.log(theta + TINY) - torch.log(1 - theta + TINY) + noise) / temperature)
    (expected,) = torch.autograd.grad(soft.sum(), theta)
    torch.testing.assert_close(StraightThroughGumbel(THETA, temperature)(noise).slope, expected)


QUADRATIC = torch.tensor(
    [[2.0, 0.5, -0.3, 0.1], [0.5, 1.0, 0.2, 0.4], [-0.3, 0.2, 3.0, -0.6], [0.1, 0.4, -0.6, 0.7]],
    dtype=torch.float64,
)
LINEAR = torch.tensor([-1.0, 0.5, -2.0, 0.3], dtype=torch.float64)


def quadratic_gradients(masks):
    """dL/dm of L(m) = m^T A m + b^T m for each draw."""
    return 2 * masks @ QUADRATIC + LINEAR


def empirical_gradient(temperature, count=400_000):
    result = draws(count, temperature)
    each = result.slope * quadratic_gradients(result.masks)
    return each.mean(0), each.std(0) / count**0.5


def test_low_temperature_gives_the_exact_gradient_of_a_quadratic():
    """d E[L] / d theta, with E[m_i^2] = theta_i: A_ii + 2 sum_j A_ij theta_j + b_i."""
    off_diagonal = QUADRATIC - torch.diag(QUADRATIC.diagonal())
    exact = QUADRATIC.diagonal() + 2 * off_diagonal @ THETA + LINEAR
    mean, error = empirical_gradient(0.03)
    assert ((mean - exact).abs() < 4 * error + 0.005).all()


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_mean_gradient_of_a_quadratic_is_the_estimators_expectation(temperature):
    """Away from temperature 0 the estimator is biased, by as much as integrals over the noise say."""

    def moment(theta, weight):
        def integrand(uniform):
            noise = torch.logit(torch.tensor([[uniform]], dtype=torch.float64))
            draw = StraightThroughGumbel(torch.tensor([theta], dtype=torch.float64), temperature)(noise)
            return float(draw.slope * weight(draw.masks))

        return quad(integrand, 0, 1, points=[1 - theta], epsabs=1e-9)[0]

    slope = torch.tensor([moment(float(theta), lambda mask: 1) for theta in THETA], dtype=torch.float64)
    slope_and_mask = torch.tensor(
        [moment(float(theta), lambda mask: mask) for theta in THETA], dtype=torch.float64
    )
    off_diagonal = QUADRATIC - torch.diag(QUADRATIC.diagonal())
    expected = 2 * QUADRATIC.diagonal() * slope_and_mask + slope * (2 * off_diagonal @ THETA + LINEAR)
    mean, error = empirical_gradient(temperature)
    assert ((mean - expected).abs() < 4 * error).all()
