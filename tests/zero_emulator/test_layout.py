import numpy as np
import pytest

from zero_emulator.layout import FlatLayout

LAYOUT = FlatLayout((("weight", (2, 3)), ("bias", (3,)), ("scale", ())))


def test_views_tile_the_buffer_in_order() -> None:
    views = LAYOUT.views(np.arange(10))
    assert list(views) == ["weight", "bias", "scale"]
    assert views["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert views["bias"].tolist() == [6, 7, 8]
    assert views["scale"].shape == ()
    assert views["scale"] == 9


@pytest.mark.parametrize("stride", [1, 2, -1])
def test_writing_to_a_view_writes_to_the_buffer(stride: int) -> None:
    flat = np.zeros(LAYOUT.size * abs(stride))[::stride]
    for view in LAYOUT.views(flat).values():
        view[...] = 1
    assert flat.all()


@pytest.mark.parametrize("shape", [(9,), (11,), (2, 5)])
def test_a_buffer_of_another_shape_is_refused_with_the_numbers(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"shape \({shape[0]},.*weight \(2, 3\).*shape \(10,\)"):
        LAYOUT.views(np.zeros(shape))


def test_padding_lies_behind_each_tensor_and_in_no_view() -> None:
    padded = FlatLayout(LAYOUT.shapes, padding=(2, 0, 1))
    views = padded.views(np.arange(13))
    assert (padded.num_params, padded.size) == (10, 13)
    assert views["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert views["bias"].tolist() == [8, 9, 10]
    assert views["scale"] == 11


def test_clearing_the_padding_leaves_the_tensors_as_they_are() -> None:
    padded = FlatLayout(LAYOUT.shapes, padding=(2, 0, 1))
    flat = np.arange(1, 14)
    padded.clear_padding(flat)
    assert flat.tolist() == [1, 2, 3, 4, 5, 6, 0, 0, 9, 10, 11, 12, 0]
