"""How the rows of a dataset are to be divided: a description, which `splits` carries out."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal, get_args

from hopular.data.errors import DataError
from hopular.util import did_you_mean

Scheme = Literal["fixed", "kfold", "holdout"]
Order = Literal["stratified", "plain", "grouped", "time"]


@dataclass(frozen=True)
class Protocol:
    """A way to divide rows into training, validation and test rows.

    `fixed` uses the parts that come with the dataset (published folds, a split column), `kfold` makes each row a test
    row once, `holdout` draws one test part. Validation rows are a share of what is left. `order` None means: time if
    the dataset has a time column, grouped if it has groups, stratified for classes, plain otherwise.
    """

    scheme: Scheme = "kfold"
    folds: int = 5
    test_share: float = 0.2
    valid_share: float = 0.2
    seed: int = 1
    order: Order | None = None

    def __post_init__(self) -> None:
        for name, valid in (("scheme", get_args(Scheme)), ("order", get_args(Order))):
            value = getattr(self, name)
            if value not in valid and not (name == "order" and value is None):
                hint = did_you_mean(str(value), valid)
                raise DataError(f"protocol: {name} {value!r} is unknown: use one of {', '.join(valid)}.{hint}")
        if not isinstance(self.folds, Integral) or self.folds < 2:
            raise DataError(f"protocol: folds is {self.folds!r}: use a whole number from 2 on")
        for name in ("test_share", "valid_share"):
            share = getattr(self, name)
            if not isinstance(share, Real) or not 0 < share < 1:
                raise DataError(f"protocol: {name} is {share!r}: use a number between 0 and 1, such as 0.2")
        if not isinstance(self.seed, Integral) or not 0 <= self.seed < 2**32:
            raise DataError(f"protocol: seed is {self.seed!r}: use a whole number from 0 to {2**32 - 1}")
