"""Rules: how masks are drawn from the probabilities, and how what came of them moves the probabilities.

A new rule is one file and one line in the table.
"""

from collections.abc import Callable

from promask.rules.exchange import Exchange
from promask.rules.published import Published
from promask.rules.response import BestResponse
from promask.rules.rule import Conditions, Rule

__all__ = ["RULES", "BestResponse", "Conditions", "Exchange", "Published", "Rule"]

RULES: dict[str, Callable[[Conditions], Rule]] = {
    "response": BestResponse,
    "published": Published,
    "exchange": Exchange,
}
