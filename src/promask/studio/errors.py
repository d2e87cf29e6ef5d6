"""What the server answers when it cannot do what was asked."""

from promask.errors import InputError


class RefusedError(InputError):
    """One sentence for the page, and the HTTP status that goes with it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
