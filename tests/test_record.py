"""Records behave like named tuples that are not sequences."""

from __future__ import annotations

import copy
import pickle
from typing import ClassVar

import pytest

from bpmcli.record import Record


class Point(Record):
    x: float
    y: float = 2.0
    kind: ClassVar[str] = "point"

    def name(self) -> str:
        return f"{self.x}, {self.y}"


class Solid(Point):
    z: float = 3.0


def test_values_come_by_position_by_name_or_by_default():
    assert (Point(1.0).x, Point(1.0).y) == (1.0, 2.0)
    assert Point(1.0, 5.0) == Point(y=5.0, x=1.0)
    assert Solid(1.0, z=4.0)._asdict() == {"x": 1.0, "y": 2.0, "z": 4.0}
    assert (Point._fields, Point._field_defaults) == (("x", "y"), {"y": 2.0})
    assert (Solid._fields, Solid._field_defaults) == (("x", "y", "z"), {"y": 2.0, "z": 3.0})


@pytest.mark.parametrize(("values", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((1,), {"w": 2})])
def test_what_does_not_fit_the_fields_is_refused(values, named):
    with pytest.raises(TypeError, match="Point takes x, y"):
        Point(*values, **named)


def test_a_record_cannot_be_changed_and_its_copies_are_equal():
    point = Point(1.0)
    with pytest.raises(AttributeError, match="cannot be changed: 'x'"):
        point.x = 3.0
    with pytest.raises(AttributeError, match="cannot be changed: 'x'"):
        del point.x
    changed = point._replace(x=3.0)
    assert (point.x, changed.x, changed.y) == (1.0, 3.0, 2.0)
    assert changed.name() == "3.0, 2.0"
    assert pickle.loads(pickle.dumps(point)) == point == copy.copy(point)


def test_records_are_equal_when_their_class_and_values_are():
    assert Point(1.0) != Point(2.0)
    assert Point(1.0) != Solid(1.0)
    assert len({Point(1.0), Point(1.0), Point(2.0)}) == 2
    assert repr(Solid(1.0)) == "Solid(x=1.0, y=2.0, z=3.0)"
