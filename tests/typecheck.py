"""The run-time type checker of the tests: whole numbers may stand for floats, as in static checking."""

from beartype import BeartypeConf, beartype

typecheck = beartype(conf=BeartypeConf(is_pep484_tower=True))
