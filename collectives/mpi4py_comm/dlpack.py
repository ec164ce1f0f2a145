"""What numbers an array holds that is exchanged by DLPack: NumPy itself reads fewer kinds than mpi4py takes.

Source: the structures of dlpack.h, DLPack 0.8, https://dmlc.github.io/dlpack/latest/c_api.html.
"""

import ctypes

import numpy as np

_FLOAT, _COMPLEX = 2, 5
_KINDS = {(0, 1): "i", (1, 1): "u", (_FLOAT, 1): "f", (_COMPLEX, 1): "c", (6, 1): "b"}
"""NumPy's kinds for DLDataTypeCode and a number of lanes: those that MPI has types for."""


class _Tensor(ctypes.Structure):
    """The beginning of a DLTensor, as far as its DLDataType."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("num_dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


def dlpack_code(capsule: object) -> str:
    """NumPy's character code for the elements of a tensor. BufferError if there is none.

    >>> dlpack_code(np.ones(3, np.complex64).__dlpack__())
    'F'
    """
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    code, bits, lanes = tensor.code, tensor.bits, tensor.lanes
    if (code, lanes) == (_FLOAT, 2):  # a complex number whose bits are more than a byte can count
        code, bits, lanes = _COMPLEX, 2 * bits, 1
    try:
        return np.dtype(f"{_KINDS[code, lanes]}{bits // 8}").char
    except (KeyError, TypeError):
        raise BufferError(
            f"no MPI datatype for a DLPack type of code {code}, {bits} bits and {lanes} lanes"
        ) from None
