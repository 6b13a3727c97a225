"""A small neural model of words, trained with differential privacy per person: what `neural_baseline.py` compares.

    P(w | c) ∝ P₀(w | c) · exp(e(w) · h(c))

P₀ is the public prior of words and pairs, e(w) public features of a word (its vector, made white under the prior, and
its class), and h what is learned: a bias, a linear map of the vector of the word before, or one hidden layer. Every
step uses everybody (no sampling): each person's gradient is clipped to length C and Gaussian noise of z·C added, so T
steps are one Gaussian mechanism of μ = √T / z, and z follows exactly from (ε, δ). Later steps' average is kept.

Needs PyTorch and NumPy only, so that a machine with an accelerator and nothing else can run it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
AT_ONCE = 512
MOST_SCORE = 15.0
"""A word is made at most e^15 times as likely: large steps must not overflow."""
torch.set_float32_matmul_precision("high")


@dataclass(frozen=True)
class Setting:
    """What can be chosen; the choice is made on other people than those who judge."""

    shape: str
    classes: bool
    steps: int
    clip: float
    rate: float


@dataclass
class People:
    """Words in their order, and whose they are."""

    before: torch.Tensor
    word: torch.Tensor
    person: torch.Tensor

    @property
    def count(self) -> int:
        """How many people."""
        return int(self.person.max()) + 1


class Public:
    """Everything that is known without the log."""

    def __init__(self, data: dict[str, np.ndarray]) -> None:
        self.words = torch.tensor(data["prior_words"], dtype=torch.float32, device=DEVICE)
        size = len(self.words)
        vectors = np.zeros((size, data["vectors"].shape[1]), np.float32)
        vectors[: len(data["vectors"])] = data["vectors"].astype(np.float32)
        self.vectors = torch.nn.functional.pad(_white(torch.tensor(vectors, device=DEVICE), self.words), (0, 0, 0, 1))
        self.vectors[-1] = self.vectors[:-1].mean(dim=0)  # the start of a query
        classes = torch.tensor(data["classes"], dtype=torch.long, device=DEVICE)
        self.one_hot = torch.nn.functional.one_hot(classes, int(classes.max()) + 1).float()
        self.start = torch.tensor(data["pair_start"], dtype=torch.long, device=DEVICE)
        self.second = torch.tensor(data["pair_second"], dtype=torch.long, device=DEVICE)
        self.share = torch.tensor(data["pair_share"], dtype=torch.float32, device=DEVICE)
        self.mix = [float(value) for value in data["mix"]]

    def features(self, classes: bool) -> torch.Tensor:
        """e(w) of every word."""
        known = self.vectors[:-1]
        return torch.cat([known, self.one_hot], dim=1) if classes else known


def _white(vectors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    mean = weights @ vectors
    centred = vectors - mean
    values, axes = torch.linalg.eigh((centred * weights[:, None]).T @ centred)
    return centred @ (axes / values.clamp_min(1e-6).sqrt())


class Model:
    """h: a bias, and what the word before adds to it."""

    def __init__(self, public: Public, setting: Setting, seed: int) -> None:
        self.public, self.setting = public, setting
        self.features = public.features(setting.classes)
        drawn = torch.Generator(device=DEVICE).manual_seed(seed)
        width, given = self.features.shape[1], public.vectors.shape[1]
        hidden = {"bias": 0, "linear": given, "hidden": 32}[setting.shape]
        self.parameters = [torch.zeros(width, device=DEVICE), torch.zeros(width, hidden, device=DEVICE)]
        if setting.shape == "hidden":
            first = torch.randn(hidden, given, generator=drawn, device=DEVICE) / math.sqrt(given)
            self.parameters.append(first)

    def activation(self, before: torch.Tensor) -> torch.Tensor:
        """What the output's map is applied to."""
        given = self.public.vectors[before]
        if self.setting.shape == "bias":
            return given[:, :0]
        return given if self.setting.shape == "linear" else torch.tanh(given @ self.parameters[2].T)

    def expected(self, before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """log Z and the mean features of the next word, for each word before."""
        tilt = self.parameters[0] + self.activation(before) @ self.parameters[1].T
        sums, totals = [], []
        for at in range(0, len(before), AT_ONCE):
            part = tilt[at : at + AT_ONCE]
            weight = (part @ self.features.T).clamp_max(MOST_SCORE).exp() * self.public.words
            some_sum, some_total = weight @ self.features, weight.sum(dim=1)
            unigram, listed = self.public.mix
            low, high = self.public.start[before[at : at + AT_ONCE]], self.public.start[before[at : at + AT_ONCE] + 1]
            count = high - low
            unigram_only = torch.where(count == 0, unigram + listed, torch.full_like(some_total, unigram))
            some_sum, some_total = some_sum * unigram_only[:, None], some_total * unigram_only
            row = torch.repeat_interleave(torch.arange(len(part), device=DEVICE), count)
            place = torch.arange(len(row), device=DEVICE) - torch.repeat_interleave(count.cumsum(0) - count, count)
            place = place + low[row]
            seen = self.features[self.public.second[place]]
            pair = listed * self.public.share[place] * (seen * part[row]).sum(dim=1).clamp_max(MOST_SCORE).exp()
            some_sum.index_add_(0, row, seen * pair[:, None])
            some_total.index_add_(0, row, pair)
            sums.append(some_sum / some_total[:, None])
            totals.append(some_total.log())
        return torch.cat(totals), torch.cat(sums)

    def gradients(self, people: People) -> list[torch.Tensor]:
        """Each person's gradient of the words' log-likelihood, divided by the root of how many words there are."""
        distinct, which = torch.unique(people.before, return_inverse=True)
        _, mean = self.expected(distinct)
        left = self.features[people.word] - mean[which]
        many = torch.bincount(people.person, minlength=people.count).clamp_min(1)
        left = left / many[people.person].sqrt()[:, None]
        active = self.activation(people.before)
        found = [_per_person(left, torch.ones_like(left[:, :1]), people)[..., 0]]
        found.append(_per_person(left, active, people))
        if self.setting.shape == "hidden":
            back = (left @ self.parameters[1]) * (1 - active**2)
            found.append(_per_person(back, self.public.vectors[people.before], people))
        return found

    def ratios(self, people: People) -> np.ndarray:
        """P(w | c) / P₀(w | c) of each word."""
        distinct, which = torch.unique(people.before, return_inverse=True)
        log_z, _ = self.expected(distinct)
        tilt = self.parameters[0] + self.activation(distinct) @ self.parameters[1].T
        score = (self.features[people.word] * tilt[which]).sum(dim=1).clamp_max(MOST_SCORE) - log_z[which]
        return score.double().exp().cpu().numpy()


def _per_person(left: torch.Tensor, right: torch.Tensor, people: People) -> torch.Tensor:
    """Σ over a person's words of left ⊗ right; words come sorted by person."""
    out = torch.zeros(people.count, left.shape[1], right.shape[1], device=DEVICE)
    if right.shape[1] == 0:
        return out
    for at in range(0, len(left), 8192):
        product = left[at : at + 8192, :, None] * right[at : at + 8192, None, :]
        out.index_add_(0, people.person[at : at + 8192], product)
    return out


def trained(public: Public, people: People, setting: Setting, sigma: float, larger: float, seed: int) -> Model:
    """The model of these people; σ is what one step of length 1 would need, `larger` divides the noise."""
    model = Model(public, setting, seed)
    drawn = torch.Generator(device=DEVICE).manual_seed(1000 + seed)
    noise = sigma * math.sqrt(setting.steps) * setting.clip / larger
    total = [torch.zeros_like(value) for value in model.parameters]
    counted = 0
    for step in range(setting.steps):
        gradients = model.gradients(people)
        lengths = sum((part.flatten(1) ** 2).sum(dim=1) for part in gradients).sqrt()
        factor = (setting.clip / lengths.clamp_min(1e-12)).clamp_max(1.0)
        for value, part in zip(model.parameters, gradients, strict=True):
            summed = torch.einsum("u,u...->...", factor, part)
            summed = summed + noise * torch.randn(summed.shape, generator=drawn, device=DEVICE)
            value += setting.rate * summed / people.count
            value.clamp_(-5, 5)
        if 2 * step >= setting.steps - 1:
            counted += 1
            for kept, value in zip(total, model.parameters, strict=True):
                kept += value
    model.parameters = [kept / counted for kept in total]
    return model
