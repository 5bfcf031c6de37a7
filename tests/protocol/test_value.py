import inspect

import pytest

from acp_proxy.protocol.jsonrpc import Notification, Request, Response
from acp_proxy.protocol.value import Value
from acp_proxy.proxy.effects import Forward, RecordLine, RecordUpdates
from acp_proxy.proxy.events import LinesRead


class Point(Value):
    x: int
    y: int = 0


class Size(Value):
    x: int
    y: int = 0


class Labelled(Point):
    label: str = ""


def test_a_missing_field_has_its_default() -> None:
    assert (Point(1).x, Point(1).y) == (1, 0)


def test_fields_are_given_by_position_or_by_name() -> None:
    assert Point(1, 2) == Point(1, y=2) == Point(y=2, x=1)


@pytest.mark.parametrize("other", [Point(2, 2), Point(1), Size(1, 2), (1, 2)])
def test_only_values_of_the_same_class_with_the_same_fields_are_equal(other: object) -> None:
    assert Point(1, 2) != other


def test_equal_values_are_one_key() -> None:
    assert {Point(1): "there"}[Point(1, 0)] == "there"


def test_a_pattern_matches_fields_by_position() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_the_repr_is_the_expression_that_makes_the_value() -> None:
    assert repr(Point(1)) == "Point(x=1, y=0)"


def test_a_subclass_has_the_inherited_fields_first() -> None:
    assert repr(Labelled(1, 2, "here")) == "Labelled(x=1, y=2, label='here')"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((), {}),
        ((), {"y": 1}),
        ((1, 2, 3), {}),
        ((1,), {"z": 1}),
        ((1,), {"x": 1}),
        ((), {"z": 1}),
    ],
)
def test_a_missing_an_unknown_and_a_repeated_field_are_errors_under_tests(
    values: tuple[int, ...], named: dict[str, int]
) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(*values, **named)


def test_a_copy_with_an_unknown_field_is_an_error_under_tests() -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(1).but(z=1)


@pytest.mark.parametrize(
    "made",
    [Request, Notification, Response, RecordLine, RecordUpdates, Forward, LinesRead],
    ids=lambda made: made.__name__,
)
def test_an_init_that_is_hidden_from_mypy_takes_the_fields_with_their_defaults(made: type[Value]) -> None:
    taken = inspect.signature(made).parameters.values()
    assert tuple(each.name for each in taken) == made._names
    assert [each.default for each in taken] == [getattr(made, each.name, inspect.Parameter.empty) for each in taken]
    values = [object() for _ in taken]
    assert [getattr(made(*values), each.name) for each in taken] == values
