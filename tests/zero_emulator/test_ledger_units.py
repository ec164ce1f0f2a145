"""Sizes and numbers as people write them."""

import pytest

from zero_emulator.units import format_gb, format_gib, parse_bytes, parse_params


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GB", 80 * 10**9), ("80 GiB", 80 * 2**30), ("512MiB", 512 * 2**20), ("80e9", 80 * 10**9),
        ("1.5kb", 1500), ("24g", 24 * 10**9), ("1TB", 10**12), ("7B", 7), ("0.5GiB", 2**29)
    ],
)  # fmt: skip
def test_sizes_are_decimal_unless_they_say_i(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "GB", "80XB", "-1GB", "0GB", "8iB", "1.2.3GB", "80GBs", "1e999GB", "inf", "٣GB"]
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is no size: write 80GB"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("8e9", 8 * 10**9),
        ("8B", 8 * 10**9),
        ("6738415616", 6738415616),
        ("124.4m", 124400000),
        ("1T", 10**12),
    ],
)
def test_parameters_are_counted_in_thousands(text: str, params: int) -> None:
    assert parse_params(text) == params


@pytest.mark.parametrize(
    "text", ["0", "0.5", "1.0001K", "1e16", "1e99", "8GB", "-8e9", "nan", "1e999999999", ""]
)
def test_what_is_no_number_of_parameters_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="parameters"):
        parse_params(text)


def test_gigabytes_are_ten_to_the_nine_and_gibibytes_are_not() -> None:
    assert (format_gb(128 * 10**9), format_gib(128 * 10**9)) == ("128.0", "119.2")
    assert (format_gb(1991036928), format_gib(1)) == ("1.99", "9.31e-10")
