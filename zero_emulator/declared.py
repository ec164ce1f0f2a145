"""JSON read as what a dataclass declares, or a ValueError that names the field and what stands there."""

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

NOUNS = {
    int: "a whole number", float: "a number", str: "a text", bool: "true or false", NoneType: "null",
    list: "a list", dict: "an object",
}  # fmt: skip


def read_declared(kind: type[T], value: Any, where: str) -> T:
    """``value`` as the dataclass ``kind``: every field must be there and of its type, others are passed over.

    Fields may be dataclasses again, tuples of one type, dicts by name, optionals, literals, and what NOUNS
    has words for. TypeError for a field that is declared as anything else.
    """
    return cast(T, _read(kind, value, where))


def _read(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint):
        return _dataclass(hint, _of(dict, value, where), where)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        if inner[1:] != (...,):
            raise _unreadable(hint, where)
        return tuple(_read(inner[0], one, f"{where}[{at}]") for at, one in enumerate(_of(list, value, where)))
    if origin is dict:
        return {
            name: _read(inner[1], one, f"{where}.{name}") for name, one in _of(dict, value, where).items()
        }
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{where} is {value!r:.40}, not one of {', '.join(map(str, inner))}")
        return value
    if origin in (Union, UnionType):
        return None if value is None else _read(_optional(hint, where), value, where)
    if hint not in NOUNS:
        raise _unreadable(hint, where)
    return _of(hint, value, where)


def _optional(hint: Any, where: str) -> Any:
    """What ``hint`` is beside None."""
    members = [member for member in get_args(hint) if member is not NoneType]
    if len(members) != 1:
        raise _unreadable(hint, where)
    return members[0]


def _unreadable(hint: Any, where: str) -> TypeError:
    return TypeError(f"{where} is declared as {hint}: declare one of what read_declared reads")


def _dataclass(kind: Any, value: dict[str, Any], where: str) -> Any:
    hints = get_type_hints(kind)
    missing = [field.name for field in fields(kind) if field.name not in value]
    if missing:
        raise ValueError(f"{where} has no {' and no '.join(missing)}")
    return kind(
        **{
            field.name: _read(hints[field.name], value[field.name], f"{where}.{field.name}")
            for field in fields(kind)
        }
    )


def _of(kind: type, value: Any, where: str) -> Any:
    # Not isinstance: to Python, true is a whole number.
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ValueError(f"{where} is {value!r:.40}, not {NOUNS[kind]}")
    return value
