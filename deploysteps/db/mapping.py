"""Classes whose objects hold a table's rows, and whose attributes are its columns.

    class Port(Base):
        __tablename__ = "ports"
        id: Mapped[int] = column(Big, primary_key=True)
        name: Mapped[str | None] = column(short_text())

``Port.name`` is the column, for statements; ``port.name`` is the value. That, and nothing else,
is what models are here: objects are handed out detached and written by statements. SQLAlchemy's
own mapping brings sessions as well, and costs a process that never opens one a tenth of its memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import sqlalchemy as sa

T = TypeVar("T")

NAMING = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

_PLAIN: dict[str, sa.types.TypeEngine[Any]] = {"bool": sa.Boolean(), "int": sa.Integer()}
"""What a column holds that names no type, by its annotation."""
_MAPPED, _OPTIONAL = "Mapped[", " | None"


class Mapped(Generic[T]):
    """An attribute with a column. It is not even asked for the value of an object that has one."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take what :class:`sqlalchemy.Column` takes; its name is the attribute's if none is."""
        self._arguments, self._options = arguments, options

    def of(self, attribute: str, annotation: str) -> _Column[T]:
        """Return the attribute of one table: a class may lend its columns to several."""
        name, *arguments = self._arguments if self._is_named() else (attribute, *self._arguments)
        inner = annotation.removeprefix(_MAPPED).removesuffix("]")
        plain = inner.removesuffix(_OPTIONAL)
        if plain in _PLAIN and not any(map(_is_type, arguments)):
            arguments.insert(0, _PLAIN[plain])
        options = {"nullable": inner.endswith(_OPTIONAL), **self._options}
        return _Column(sa.Column(name, *arguments, **options))

    def _is_named(self) -> bool:
        return bool(self._arguments) and isinstance(self._arguments[0], str)

    if TYPE_CHECKING:  # what classes and objects of it show

        @overload
        def __get__(self, item: None, owner: type) -> sa.Column[T]: ...
        @overload
        def __get__(self, item: object, owner: type) -> T: ...
        def __get__(self, item: object | None, owner: type) -> Any: ...
        def __set__(self, item: object, value: T) -> None: ...


class _Column(Generic[T]):
    """What stands in a class: without ``__set__``, objects keep their values themselves."""

    def __init__(self, column: sa.Column[T]) -> None:
        self.column = column

    def __get__(self, item: object | None, owner: type) -> sa.Column[T] | None:
        return self.column if item is None else None


def _is_type(argument: Any) -> bool:
    kind = argument if isinstance(argument, type) else type(argument)
    return issubclass(kind, sa.types.TypeEngine)


def column(*arguments: Any, **options: Any) -> Any:
    """Return a :class:`Mapped`, of whatever type the attribute is annotated with."""
    return Mapped[Any](*arguments, **options)


class Base:
    """A class with ``__tablename__`` gets its table; see the module."""

    metadata: ClassVar[sa.MetaData] = sa.MetaData(naming_convention=NAMING)
    columns: ClassVar[Mapping[str, sa.Column[Any]]] = {}
    """Attribute -> column, in the table's order."""
    __tablename__: ClassVar[str]
    __table__: ClassVar[sa.Table]
    __table_args__: ClassVar[tuple[sa.schema.SchemaItem, ...]] = ()
    __table_options__: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **values: Any) -> None:
        """Make a detached object; what is not given is None."""
        for name, value in values.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no {name!r}")
            setattr(self, name, value)

    def __init_subclass__(cls, **rest: Any) -> None:
        """Make the table, of the columns that the class and its parents name."""
        super().__init_subclass__(**rest)
        attributes: dict[str, _Column[Any]] = {
            name: getattr(part, name, Mapped()).of(name, annotation)
            for part in reversed(cls.__mro__)
            for name, annotation in inspect.get_annotations(part).items()
            if str(annotation).startswith(_MAPPED)
        }
        for name, attribute in attributes.items():
            setattr(cls, name, attribute)
        cls.columns = {name: attribute.column for name, attribute in attributes.items()}
        cls.__table__ = sa.Table(
            cls.__tablename__,
            cls.metadata,
            *cls.columns.values(),
            *cls.__table_args__,
            **cls.__table_options__,
        )

    @classmethod
    def named(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return column name -> value for attribute -> value; other names stay as they are."""
        columns = cls.columns
        return {
            columns[name].name if name in columns else name: value for name, value in values.items()
        }

    @classmethod
    def __clause_element__(cls) -> sa.Table:
        """Be the table in SQLAlchemy's statements."""
        return cls.__table__
