"""Rules: how masks are drawn from the probabilities, and how what came of them moves the probabilities.

A new rule is one file and one line in the table.
"""

from collections.abc import Callable

from promask.learners.base import Conditions, Rule
from promask.learners.best_response import BestResponse
from promask.learners.exchange import Exchange
from promask.learners.gumbel_adam import Published

__all__ = ["RULES", "BestResponse", "Conditions", "Exchange", "Published", "Rule"]

RULES: dict[str, Callable[[Conditions], Rule]] = {
    "response": BestResponse,
    "published": Published,
    "exchange": Exchange,
}
