"""Records: classes that declare fields as a named tuple does, and cost nothing to define.

A dataclass or a named tuple writes source text for its methods and compiles it whenever its module is imported. For
twelve fields that takes 1.8 million instructions (named tuple) or 6.3 million (frozen dataclass), of the 480 million
that importing numpy and typer takes. What every `metrics` command imports is therefore made of records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda decorated: decorated


@dataclass_transform(frozen_default=True)
class Record:
    """Fields are the annotated names of a class, in order, after the fields of its base class.

    A field with a value in the class body has that value as its default. Instances cannot be changed, are equal when
    all fields are, and have the methods `_asdict` and `_replace` of named tuples; they are not sequences.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _field_defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = [
            name
            for name, kind in cls.__annotations__.items()
            if not (isinstance(kind, str) and kind.startswith("ClassVar"))
        ]
        cls._fields = tuple(dict.fromkeys([*cls._fields, *own]))
        # Not getattr: a base class may have a method of that name.
        given = {name: cls.__dict__[name] for name in own if name in cls.__dict__}
        cls._field_defaults = {**cls._field_defaults, **given}

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = self._fields
        state = dict(zip(fields, values, strict=False))
        twice = state.keys() & named.keys()
        state = {**self._field_defaults, **state, **named}
        if len(values) > len(fields) or twice or len(state) != len(fields) or state.keys() - fields:
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields)}; got {len(values)} values, {[*named]}")
        self.__dict__.update(state)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: '{name}'")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: '{name}'")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def _asdict(self) -> dict[str, Any]:
        """The fields and their values."""
        return {name: getattr(self, name) for name in self._fields}

    def _replace(self, **changes: Any) -> Self:
        """The same record with other values of some fields."""
        return type(self)(**{**self._asdict(), **changes})
