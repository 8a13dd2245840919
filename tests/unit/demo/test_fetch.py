"""Fetching, with wheels made on the spot and no network."""

import hashlib
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headway.demo import Downloader, FetchStage, FetchStep, Member, ModelPackage, Progress, fetch
from headway.demo import graphs as demo_graphs
from headway.demo import onnx_wire as wire
from headway.errors import HeadwayError

CONTENTS = {"magika/models/standard_v3_3/model.onnx": b"graph", "magika/config.json": b"{}"}


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with two wanted members and one that is not."""
    path = tmp_path / "magika-1.0.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**CONTENTS, "magika/unwanted.py": b"pass"}.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def package(wheel: Path) -> ModelPackage:
    """The wheel above under the name of a real package."""
    return replace(
        fetch.find_package("magika"),
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        members=tuple(Member(path=p, size_bytes=len(c)) for p, c in CONTENTS.items()),
    )


def fetch_magika(
    cache: Path,
    package: ModelPackage,
    download: Downloader,
    progress: Progress | None = None,
) -> Path:
    """Fetches the one model and returns its graph."""
    paths = fetch.fetch_models(
        cache, models=["magika"], packages=[package], download=download, progress=progress
    )
    return paths["magika"]


def serving(wheel: Path) -> Callable[[ModelPackage, Path], Path]:
    """A downloader that copies a wheel which is already here."""

    def download(package: ModelPackage, folder: Path) -> Path:
        target = folder / wheel.name
        target.write_bytes(wheel.read_bytes())
        return target

    return download


def refuse(package: ModelPackage, folder: Path) -> Path:
    raise AssertionError("nothing should be downloaded")


def test_fetch_keeps_wanted_members_only(
    wheel: Path, package: ModelPackage, tmp_path: Path
) -> None:
    """The wanted members lie in the package's folder, and nothing else is left in the cache."""
    cache = tmp_path / "cache"
    path = fetch_magika(cache, package, serving(wheel))
    left = {str(p.relative_to(cache)): p.read_bytes() for p in cache.rglob("*") if p.is_file()}
    assert left == {"magika-1.0.3/model.onnx": b"graph", "magika-1.0.3/config.json": b"{}"}
    assert path == cache / "magika-1.0.3/model.onnx"


def test_fetch_tells_each_step(wheel: Path, package: ModelPackage, tmp_path: Path) -> None:
    """The caller hears what is being done, in order."""
    steps: list[FetchStep] = []
    fetch_magika(tmp_path / "c", package, serving(wheel), steps.append)
    assert [step.stage for step in steps] == list(FetchStage)
    assert {(step.package, step.index, step.count) for step in steps} == {(package, 0, 1)}


def test_fetch_again_downloads_nothing(wheel: Path, package: ModelPackage, tmp_path: Path) -> None:
    """What is cached is not fetched a second time."""
    fetch_magika(tmp_path / "c", package, serving(wheel))
    assert fetch.missing_packages(tmp_path / "c", ["magika"], [package]) == []
    fetch_magika(tmp_path / "c", package, refuse)


def test_fetch_replaces_a_torn_file(wheel: Path, package: ModelPackage, tmp_path: Path) -> None:
    """A cached file of the wrong size is fetched anew."""
    path = fetch_magika(tmp_path / "c", package, serving(wheel))
    path.write_bytes(b"gra")
    assert fetch.missing_packages(tmp_path / "c", ["magika"], [package]) == [package]
    fetch_magika(tmp_path / "c", package, serving(wheel))
    assert path.read_bytes() == b"graph"


def test_fetch_refuses_another_wheel(wheel: Path, package: ModelPackage, tmp_path: Path) -> None:
    """A wheel with another hash than the recorded one is refused and leaves nothing behind."""
    wheel.write_bytes(wheel.read_bytes() + b"!")
    with pytest.raises(HeadwayError, match="not the wheel that was recorded"):
        fetch_magika(tmp_path / "c", package, serving(wheel))
    assert list((tmp_path / "c").iterdir()) == []


def test_fetch_says_which_member_is_missing(
    wheel: Path, package: ModelPackage, tmp_path: Path
) -> None:
    """A wheel without a wanted member is an error, not an empty file."""
    lost = replace(package, members=(Member(path="magika/lost.onnx", size_bytes=1),))
    with pytest.raises(HeadwayError, match=r"magika/lost\.onnx"):
        fetch_magika(tmp_path / "c", lost, serving(wheel))


def test_fetch_into_an_unusable_folder_gives_a_hint(
    wheel: Path, package: ModelPackage, tmp_path: Path
) -> None:
    """A cache that cannot be written is reported with what to do."""
    (tmp_path / "c").write_text("a file, not a folder")
    with pytest.raises(HeadwayError) as caught:
        fetch_magika(tmp_path / "c", package, serving(wheel))
    assert caught.value.hint == "make room there, or choose another cache folder"


def test_fetch_builds_and_drops_what_it_was_built_from(tmp_path: Path) -> None:
    """A built graph is kept; the published one that it was made from is not."""
    graph = wire.blob(7, wire.blob(12, wire.value_info("softmax_11.tmp_0", wire.FLOAT, ["n"])))
    wheel = tmp_path / "w.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("m/ch_PP-OCRv4_rec_infer.onnx", graph)
    package = replace(
        fetch.find_package("rapidocr-onnxruntime"),
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        members=(
            Member(path="m/ch_PP-OCRv4_rec_infer.onnx", size_bytes=len(graph), is_kept=False),
        ),
    )
    paths = fetch.fetch_models(
        tmp_path / "c", models=["ocr-recognise"], packages=[package], download=serving(wheel)
    )
    assert paths["ocr-recognise"].read_bytes() == demo_graphs.build_ocr_recognise(graph)
    assert [path.name for path in paths["ocr-recognise"].parent.iterdir()] == [
        "ocr-recognise.v1.onnx"
    ]


def test_pip_is_asked_for_the_pinned_wheel_alone(tmp_path: Path) -> None:
    """The exact version is asked for, without what it depends on."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        (Path(command[-1]) / "magika-1.0.3-py3-none-any.whl").write_bytes(b"wheel")
        return subprocess.CompletedProcess(command, 0, "", "")

    wheel = fetch.download_with_pip(fetch.find_package("magika"), tmp_path, run=run)
    assert wheel.name == "magika-1.0.3-py3-none-any.whl"
    assert "magika==1.0.3" in commands[0]
    assert "--no-deps" in commands[0]


def test_pip_failure_becomes_an_error_with_a_hint(tmp_path: Path) -> None:
    """What pip complained of is passed on, with what to try."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no such host\n")

    with pytest.raises(HeadwayError, match="no such host") as caught:
        fetch.download_with_pip(fetch.find_package("magika"), tmp_path, run=run)
    assert "pip download" in (caught.value.hint or "")


def test_pip_that_hangs_is_given_up(tmp_path: Path) -> None:
    """A download that takes too long ends with an error."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(command, 5.0)

    with pytest.raises(HeadwayError, match="longer than 5 s"):
        fetch.download_with_pip(fetch.find_package("magika"), tmp_path, timeout_s=5.0, run=run)
