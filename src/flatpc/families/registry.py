"""Families by name: how strings, and files, tell which one is meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from reprlib import repr as show
from typing import Any, TypeVar

import numpy as np

from flatpc._options import choice
from flatpc.errors import OptionError
from flatpc.families.base import Family
from flatpc.families.bernoulli import Bernoulli
from flatpc.families.beta import Beta
from flatpc.families.binomial import Binomial
from flatpc.families.categorical import Categorical
from flatpc.families.cyclic import Cyclic
from flatpc.families.discretized import Discretized
from flatpc.families.exponential import Exponential
from flatpc.families.gamma import Gamma
from flatpc.families.gaussian import Gaussian
from flatpc.families.geometric import Geometric
from flatpc.families.histogram import Histogram
from flatpc.families.hurdle import Hurdle
from flatpc.families.indicator import Indicator
from flatpc.families.log_normal import LogNormal
from flatpc.families.logistic import Logistic
from flatpc.families.logistic_mixture import LogisticMixture
from flatpc.families.mapped_gaussian import MappedGaussian
from flatpc.families.multivariate_gaussian import MultivariateGaussian
from flatpc.families.negative_binomial import NegativeBinomial
from flatpc.families.ordinal import Ordinal
from flatpc.families.piecewise_linear import PiecewiseLinear
from flatpc.families.poisson import Poisson
from flatpc.families.student_t import StudentT
from flatpc.families.transformed import Transformed
from flatpc.families.transforms import Log, Quantiles, Transform, YeoJohnson

Kind = TypeVar("Kind", bound=type[Family])
_BUILT_IN = {
    kind.__name__.lower(): kind
    for kind in (
        Bernoulli,
        Beta,
        Binomial,
        Categorical,
        Cyclic,
        Discretized,
        Exponential,
        Gamma,
        Gaussian,
        Geometric,
        Histogram,
        Hurdle,
        Indicator,
        LogNormal,
        Logistic,
        LogisticMixture,
        MappedGaussian,
        MultivariateGaussian,
        NegativeBinomial,
        Ordinal,
        PiecewiseLinear,
        Poisson,
        StudentT,
        Transformed,
    )
}
_TRANSFORMS: dict[str, type[Transform]] = {kind.__name__.lower(): kind for kind in (Log, Quantiles, YeoJohnson)}
_FAMILIES: dict[str, type[Family]] = dict(_BUILT_IN)


def register(kind: Kind) -> Kind:
    """Make a family known by the name of its class in lower case, for `fp.family` and for files; also a decorator.

    A class that is called like one of flatpc's own families is known by the name of its module, a dot, and its own.

    >>> import flatpc as fp
    >>> @fp.families.register
    ... class Flip(fp.Bernoulli):
    ...     pass
    >>> fp.family("flip")
    Flip()

    Parameters
    ----------
    kind
        A subclass of `fp.Family` whose options, if there are any, are fields of a dataclass.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    OptionError
        If it is no such class, or another family has the name. A class of the same module and name takes the old one's
        place, as when a cell of a notebook is run again.
    """
    if not (isinstance(kind, type) and issubclass(kind, Family)):
        raise OptionError(f"register({kind!r}): give a class that inherits from fp.Family, not an instance.")
    if "__init__" in kind.__dict__ and "__dataclass_fields__" not in kind.__dict__:
        raise OptionError(
            f"{kind.__name__} has an __init__ of its own, whose arguments files can't hold; make them fields, with "
            f"@dataclass(frozen=True) above the class."
        )
    name = name_of(kind)
    old = _FAMILIES.get(name)
    if old is not None and (old.__module__, old.__qualname__) != (kind.__module__, kind.__qualname__):
        raise OptionError(f"A family of the name {name!r} is there already: {old.__module__}.{old.__qualname__}. Rename yours.")
    _FAMILIES[name] = kind
    return kind


def name_of(kind: type[Family]) -> str:
    """The name of its class in lower case; with its module's, if a family of flatpc's own has that name."""
    name = kind.__name__.lower()
    if name in _BUILT_IN and kind is not _BUILT_IN[name]:
        return f"{kind.__module__}.{kind.__qualname__}".lower()
    return name


def family_names() -> list[str]:
    """The names of all families that are known.

    >>> import flatpc as fp
    >>> "gaussian" in fp.families.family_names()
    True

    Returns
    -------
    list of str
        In alphabetical order.
    """
    return sorted(_FAMILIES)


def kind_by_name(name: str) -> type[Family]:
    """The class of a family by its name; raises `OptionError` for an unknown one."""
    return _FAMILIES[choice("family", name, family_names(), also="a family, such as flatpc.Bernoulli()")]


def family(name: str | Family, **options: Any) -> Family:
    """A family by its name.

    >>> import flatpc as fp
    >>> fp.family("categorical", n=3)
    Categorical(n=3)

    Parameters
    ----------
    name
        One of `fp.families.family_names()`. A family is returned as it is.
    options
        Options of the family.

    Returns
    -------
    Family
        With these options.

    Raises
    ------
    OptionError
        For an unknown name or option, or an option out of its range.
    """
    if isinstance(name, Family):
        return name
    made = kind_by_name(name)
    known = [option.name for option in fields(made)]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise OptionError(f"The family {name!r} has no option {unknown[0]!r}; it has {', '.join(known) or 'none'}.")
    return made(**options)


# ---- as JSON --------------------------------------------------------------------------------------------------------------


def to_json(of: Family) -> dict[str, Any]:
    """Name and options, for a file; raises `OptionError` if the family isn't registered or has an option that is no JSON."""
    kind = type(of)
    name = name_of(kind)
    if _FAMILIES.get(name) is not kind:
        raise OptionError(
            f"the family {of} is not registered, so that no file could tell what it is; "
            f"call fp.families.register({kind.__name__})."
        )
    options = {}
    for field in fields(of):
        value = getattr(of, field.name)
        # One that is None by default is left out, so that a family may get new options and still read old files.
        if value is not None or field.default is not None:
            options[field.name] = _plain(value, f"the option {field.name} of {of}")
    return {"name": name, **options}


def _plain(value: Any, what: str) -> Any:
    if isinstance(value, Family):
        return {"family": to_json(value)}
    if isinstance(value, Transform):
        own = {field.name: _plain(getattr(value, field.name), what) for field in fields(value)}
        return {"transform": {"name": type(value).__name__.lower(), **own}}
    if isinstance(value, np.generic):  # NumPy's numbers are not JSON
        value = value.item()
    if isinstance(value, tuple):
        return [_plain(each, what) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise OptionError(f"{what} is {value!r}; files hold numbers, text, None, families, maps and tuples of these.")


def from_json(given: Mapping[str, Any]) -> Family:
    """The family of a file; raises `OptionError`, naming what is wrong."""
    options = dict(given)
    name = options.pop("name", None)
    if not isinstance(name, str) or name not in _FAMILIES:
        raise OptionError(
            f"unknown family {show(name)}; known are {', '.join(family_names())}. If it is one of your own, import the module "
            f"that defines it and call fp.families.register on its class before loading."
        )
    known = {field.name: field.default for field in fields(_FAMILIES[name])}
    needed = {key for key, default in known.items() if default is not None}
    if not needed <= set(options) <= set(known):
        raise OptionError(f"the family {name} should have the keys {sorted(known)}, not {show(sorted(options))}.")
    for key, value in options.items():
        options[key] = _option_from_json(name, key, value, known[key])
    try:
        return _FAMILIES[name](**options)
    except (TypeError, ArithmeticError) as error:  # a ValueError of the family's own says what is wrong
        raise OptionError(f"the options of the family {name} are wrong: {error}") from None


def _option_from_json(name: str, key: str, value: Any, default: Any) -> Any:
    wanted = None
    if value is None:
        wanted = "left out" if default is None else None
    elif isinstance(default, bool | str) and type(value) is not type(default):
        wanted = "text" if isinstance(default, str) else "true or false"
    elif isinstance(default, int) and type(value) is not int:
        wanted = "a whole number"
    elif isinstance(default, float) and type(value) not in (int, float):
        wanted = "a number"
    if wanted is not None:
        raise OptionError(f"the family {name}: {key} is {show(value)}, not {wanted}.")
    return _revived(value)


def _revived(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"transform"} and isinstance(value["transform"], dict):
            return _transform_from_json(value["transform"])
        if set(value) != {"family"} or not isinstance(value["family"], dict):
            raise OptionError(f"the option {show(value)} is neither a number, text, list, family nor map.")
        return from_json(value["family"])
    return tuple(_revived(each) for each in value) if isinstance(value, list) else value


def _transform_from_json(given: Mapping[str, Any]) -> Transform:
    options = {key: _revived(value) for key, value in given.items() if key != "name"}
    kind = _TRANSFORMS.get(given["name"]) if isinstance(given.get("name"), str) else None
    if kind is None or set(options) != {field.name for field in fields(kind)}:
        raise OptionError(f"unknown map {show(dict(given))}; known are {', '.join(sorted(_TRANSFORMS))}.")
    return kind(**options)
