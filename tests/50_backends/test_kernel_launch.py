"""What the driver is given for a launch: where arguments lie and what is in them, the stream, what it refuses."""

import ctypes
from dataclasses import replace
from struct import pack

import numpy as np
import pytest

from tests.support.driver import ENTRY, Driver
from tilegen.backends.calls import kernel_launch
from tilegen.backends.calls.engine import BoundMap, Run
from tilegen.errors import DeviceError
from tilegen.ir.affine import const
from tilegen.lowering.launch.tensor_maps import TensorMap
from tilegen.lowering.launch.timelines import LAUNCHES

RUN = Run("mine", (3, 2, 1), (160, 1, 1), 0, (2, 0), ((1, "f32"), (0, "i64")), (5, 2**31 - 1), False)
ADDRESSES, SCALARS = (2**40, 2**41, 2**42 + 16), (np.int64(-2), np.float32(0.5))


def launch(run=RUN, shared=99, use=lambda: None):
    return kernel_launch.KernelLaunch(ENTRY, run, shared, "a card", use)


def test_the_structures_are_those_of_the_header():
    """By cuda.h: CUlaunchConfig has 56 bytes, an attribute has 72."""
    assert ctypes.sizeof(kernel_launch.LaunchConfig) == 56
    assert ctypes.sizeof(kernel_launch.LaunchAttribute) == 72


def test_a_kernel_is_given_arrays_scalars_sizes(monkeypatch):
    driver = Driver(monkeypatch, (8, 8, 4, 8, 4, 4))
    launch()((), ADDRESSES, SCALARS, 5000)
    assert driver.launches == [{
        "grid": (3, 2, 1), "block": (160, 1, 1), "shared": 99, "stream": 5000, "function": 7000, "attributes": [],
        "arguments": [
            pack("=Q", 2**42 + 16), pack("=Q", 2**40), pack("=f", 0.5), pack("=q", -2), pack("=i", 5),
            pack("=i", 2**31 - 1),
        ],
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "value", "given"),
    [
        ("f64", np.float64(0.1), pack("=d", 0.1)),
        ("f32", np.float32(np.inf), pack("=f", np.inf)),
        ("bf16", np.float32(1.5), pack("=f", 1.5)),
        ("e4m3", np.float32(448), pack("=f", 448)),
        ("i32", np.int32(-7), pack("=i", -7)),
        ("i8", np.int8(-128), pack("=b", -128)),
        ("u8", np.uint8(255), pack("=B", 255)),
        ("bool", np.bool_(True), b"\1"),
    ],
)
def test_scalars_are_passed_as_the_text_takes_them(monkeypatch, dtype, value, given):
    driver = Driver(monkeypatch, (len(given),))
    launch(replace(RUN, arrays=(), scalars=((0, dtype),), sizes=()))((), (), (value,), 0)
    assert driver.launches[0]["arguments"] == [given]


def test_wide_sizes_have_64_bits(monkeypatch):
    driver = Driver(monkeypatch, (8,))
    launch(replace(RUN, arrays=(), scalars=(), sizes=(2**40,), wide=True))((), (), (), 0)
    assert driver.launches[0]["arguments"] == [pack("=q", 2**40)]


def test_a_second_launch_has_its_own_addresses_and_stream(monkeypatch):
    driver = Driver(monkeypatch)
    again = launch(replace(RUN, scalars=(), sizes=()))
    again((), ADDRESSES, (), 5000)
    again((), (64, 0, 128), (), 0)
    assert [(each["arguments"], each["stream"]) for each in driver.launches] == [
        ([pack("=Q", 2**42 + 16), pack("=Q", 2**40)], 5000),
        ([pack("=Q", 128), pack("=Q", 64)], 0),
    ]


def test_a_dependent_launch_has_the_attribute(monkeypatch):
    driver = Driver(monkeypatch)
    launch(replace(RUN, scalars=(), asks=LAUNCHES.asks))((), ADDRESSES, (), 0)
    assert driver.launches[0]["attributes"] == [(6, 1)]


def test_a_map_stands_between_arrays_and_scalars_and_is_made_once_an_address(monkeypatch):
    made = []

    def encode(tensor_map, address, sizes):
        made.append((tensor_map.name, address, sizes["M"]))
        return pack("=QQ", address, sizes["M"]) * 8

    monkeypatch.setattr(kernel_launch, "encode", encode)
    driver = Driver(monkeypatch, (8, 128, 4))
    maps = (BoundMap(TensorMap("A.map", "A", "f32", (const(8),), (8,)), 1, {"M": 9}),)
    again = launch(replace(RUN, arrays=(0,), scalars=(), sizes=(9,), maps=maps))
    for address in (512, 1024, 512):
        again((), (2**40, address), (), 0)
    assert [each["arguments"] for each in driver.launches] == [
        [pack("=Q", 2**40), pack("=QQ", address, 9) * 8, pack("=i", 9)] for address in (512, 1024, 512)
    ]
    assert made == [("A.map", 512, 9), ("A.map", 1024, 9)]
    for number in range(3, 1000):
        again((), (2**40, 512 * number), (), 0)
    assert len(again._maps[0].made) < 500


def test_what_the_driver_refuses_is_said(monkeypatch):
    driver = Driver(monkeypatch)
    driver.answers = [700]
    with pytest.raises(DeviceError, match="mine cannot be launched on a card: error 700"):
        launch()((), ADDRESSES, SCALARS, 0)


def test_a_thread_without_a_device_gets_one(monkeypatch):
    driver, used = Driver(monkeypatch), []
    driver.answers = [kernel_launch.INVALID_CONTEXT]
    launch(use=lambda: used.append("used"))((), ADDRESSES, SCALARS, 0)
    assert len(driver.launches) == 2
    assert used == ["used"]
