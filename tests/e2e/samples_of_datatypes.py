"""Two rows of four elements in each datatype of the protocol, its extremes among them.

Plain values, so that a client's own environment can read them; needs nothing but Python.
"""

SAMPLES = {
    "BOOL": [[True, False, False, True], [False, True, True, True]],
    "UINT8": [[0, 1, 254, 255], [7, 8, 9, 10]],
    "UINT16": [[0, 1, 65534, 65535], [256, 257, 258, 259]],
    "UINT32": [[0, 1, 2**32 - 2, 2**32 - 1], [65536, 2, 3, 4]],
    "UINT64": [[0, 1, 2**63, 2**64 - 1], [2**53 + 1, 2, 3, 4]],
    "INT8": [[-128, -1, 0, 127], [1, 2, 3, 4]],
    "INT16": [[-32768, -1, 0, 32767], [-129, 2, 3, 4]],
    "INT32": [[-(2**31), -1, 0, 2**31 - 1], [-32769, 2, 3, 4]],
    "INT64": [[-(2**63), -1, 0, 2**63 - 1], [2**53 + 1, 2, 3, 4]],
    "FP16": [[0.0, -1.5, 65504.0, 6e-08], [0.25, 2.0, 3.0, 4.0]],
    "FP32": [[0.0, -1.5, 3.4028234663852886e38, 1e-45], [0.1, 2.0, 3.0, 4.0]],
    "FP64": [[0.0, -1.5, 1.7976931348623157e308, 5e-324], [0.1, 2.0, 3.0, 4.0]],
    "BYTES": [["one", "zwölf", "", "three\n"], ["a", "b" * 300, "ç", "日本"]],
}
NUMPY = {
    "BOOL": "bool",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "BYTES": "object",
}


def numpy_name(datatype: str) -> str:
    """What numpy calls it."""
    return NUMPY.get(datatype, datatype.lower())


def model_of(datatype: str) -> str:
    """Who turns rows of it round."""
    return f"flip_{datatype.lower()}"
