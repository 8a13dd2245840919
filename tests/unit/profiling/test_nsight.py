"""Exports of Nvidia's profilers: documented layouts, damage, and anything else.

The files under `fixtures/` were written by hand to the documented headers; none was recorded.
"""

import re
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import ConfigError, HeadwayError
from headway.profiling.nsight import Copies, Direction, KernelTotal
from headway.profiling.nsight_compute import read_ncu
from headway.profiling.nsight_systems import read_nsys

FIXTURES = Path(__file__).parent / "fixtures"


# --- Nsight Compute -------------------------------------------------------------------------------


def test_the_long_form_is_summed_by_kernel() -> None:
    """Units, separators, `n/a` and a counter that is given twice, for `sm` and for `smsp`."""
    profile = read_ncu(FIXTURES / "ncu_long.csv")
    assert profile.kernels == (
        KernelTotal(
            name="gemm(float *, int)",
            runs=1,
            time_ns=12_500,
            flop=2 * 1_048_576 + 1_024,
            traffic_bytes=1_500_000,
        ),
        KernelTotal(name="relu", runs=2, time_ns=5_000, flop=8_192, traffic_bytes=1_000_000),
    )
    assert profile.time_ns == 17_500
    assert profile.flop == 2 * 1_048_576 + 1_024 + 8_192
    assert profile.traffic_bytes == 2_500_000


def test_the_raw_page_takes_its_units_from_the_second_line() -> None:
    """Reads and writes are added; a kernel of the tensor cores leaves the total unknown."""
    profile = read_ncu(FIXTURES / "ncu_raw.csv")
    assert [(k.name, k.time_ns, k.traffic_bytes, k.flop) for k in profile.kernels] == [
        ("attention", 40_000, 2_500_000, 2_000),
        ("norm", 10_000, 1_250_000, 1_000),
    ]
    assert [k.has_tensor_cores for k in profile.kernels] == [True, False]
    assert profile.flop is None
    assert profile.traffic_bytes == 3_750_000


def test_a_summary_is_its_average_times_its_invocations() -> None:
    """Ten runs of two microseconds are twenty."""
    (kernel,) = read_ncu(FIXTURES / "ncu_summary.csv").kernels
    assert kernel == KernelTotal(
        name="gemm", runs=10, time_ns=20_000, flop=1_000, traffic_bytes=2_000
    )


def test_sections_by_their_words_give_the_time(tmp_path: Path) -> None:
    """The default page calls it `Duration`; no counters means no totals of them."""
    path = tmp_path / "default.csv"
    path.write_text(
        '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value","Rule Name"\n'
        '"0","a","GPU Speed Of Light Throughput","Duration","us","3.5",""\n'
        '"0","a","Occupancy","Registers Per Thread","register/thread","32",""\n'
    )
    profile = read_ncu(path)
    assert profile.time_ns == 3_500
    assert profile.flop is None
    assert profile.traffic_bytes is None


def test_processes_that_count_kernels_alike_are_told_apart(tmp_path: Path) -> None:
    """Kernel 0 of one process is not kernel 0 of the other."""
    path = tmp_path / "two.csv"
    path.write_text(
        '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","1","a","gpu__time_duration.sum","ns","10"\n'
        '"0","2","a","gpu__time_duration.sum","ns","30"\n'
    )
    (kernel,) = read_ncu(path).kernels
    assert (kernel.runs, kernel.time_ns) == (2, 40)


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (
            ('"12.50"', '"fast"'),
            "line 6, has `fast` as `gpu__time_duration.sum`",
            "export the file",
        ),
        (('"12.50"', '"-3"'), "line 6, has `-3` as", "export the file"),
        (('"usecond"', '"fortnight"'), "line 6, has the unit `fortnight`", "default units"),
        (('"gemm(float *, int)","1"', '"gemm"'), "line 6, has 14 cells under 15", "cut or edited"),
        (('"Kernel Name"', '"Kernel"'), "no line has a column `Kernel Name`", "ncu --csv"),
    ],
)
def test_damage_is_named_with_its_line_and_a_remedy(tmp_path, change, message, hint) -> None:
    """The file, the line, what is wrong and what to do."""
    path = tmp_path / "broken.csv"
    path.write_text((FIXTURES / "ncu_long.csv").read_text().replace(*change, 1))
    with pytest.raises(HeadwayError, match=r"broken\.csv") as caught:
        read_ncu(path)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_table_without_a_useful_metric_is_refused(tmp_path: Path) -> None:
    """And the hint has a command that records them."""
    path = tmp_path / "occupancy.csv"
    path.write_text('"ID","Kernel Name","launch__waves"\n"","","1"\n"0","a","3"\n')
    with pytest.raises(HeadwayError, match="without a metric that is of use") as caught:
        read_ncu(path)
    assert "gpu__time_duration.sum" in str(caught.value.hint)


# --- Nsight Systems -------------------------------------------------------------------------------


def test_reports_of_one_file_are_read_together() -> None:
    """Kernels, times and sizes of copies; calls of the interface are not kernels."""
    profile = read_nsys(FIXTURES / "nsys_stats.csv")
    assert [(k.name, k.runs, k.time_ns) for k in profile.kernels] == [
        ("void gemm<float, 128>(float *, float *)", 10, 3_000_000),
        ("relu", 20, 1_000_000),
    ]
    assert profile.copies == (
        Copies(direction=Direction.DEVICE_TO_HOST, count=2, time_ns=300_000, size_bytes=2_000_000),
        Copies(
            direction=Direction.HOST_TO_DEVICE, count=4, time_ns=600_000, size_bytes=1_024_500_000
        ),
        Copies(direction=Direction.SET, count=7, time_ns=100_000, size_bytes=1_000),
    )
    assert profile.time_ns == 4_000_000
    assert profile.flop is None


def test_old_report_names_and_directions_are_known() -> None:
    """`gpukernsum`, `HtoD`: as versions before 2023 wrote them."""
    profile = read_nsys(FIXTURES / "nsys_old.csv")
    assert profile.time_ns == 500
    assert [(c.direction, c.count, c.time_ns, c.size_bytes) for c in profile.copies] == [
        (Direction.HOST_TO_DEVICE, 2, 800, None),
        (Direction.PEER_TO_PEER, 2, 200, None),
    ]


def test_another_unit_of_time_is_read_from_the_header(tmp_path: Path) -> None:
    """`--timeunit msec` changes the words in brackets."""
    path = tmp_path / "ms.csv"
    path.write_text("Time (%),Total Time (ms),Instances,Name\n100.0,2.5,1,relu\n")
    assert read_nsys(path).time_ns == 2_500_000


def test_a_report_without_a_gpu_is_refused(tmp_path: Path) -> None:
    """With the commands that record one."""
    path = tmp_path / "api.csv"
    path.write_text("Time (%),Total Time (ns),Num Calls,Name\n100.0,9,3,cudaLaunchKernel\n")
    with pytest.raises(HeadwayError, match="no report of kernels or copies") as caught:
        read_nsys(path)
    assert "nsys stats -r cuda_gpu_kern_sum" in str(caught.value.hint)


def test_a_cut_row_is_named_with_its_line(tmp_path: Path) -> None:
    """Half a line is no row."""
    path = tmp_path / "cut.csv"
    path.write_text("Time (%),Total Time (ns),Instances,Name\n50.0,9,3,a\n50.0,9,3\n")
    with pytest.raises(HeadwayError, match=r"cut\.csv`, line 3, has 3 cells under 4 columns"):
        read_nsys(path)


def test_words_after_a_report_are_not_of_it(tmp_path: Path) -> None:
    """An empty line ends it, whatever a program prints then."""
    path = tmp_path / "words.csv"
    path.write_text("Time (%),Total Time (ns),Instances,Name\n50.0,9,3,a\n\nwell, that, was it\n")
    assert read_nsys(path).time_ns == 9


def export(path: Path, *, tables: str = "kernel copies set names", name: str = "demangledName"):
    """A SQLite export with the tables that are asked for, as they are made when first needed."""
    with sqlite3.connect(path) as database:
        if "names" in tables:
            database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
            database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "gemm"), (2, "relu")])
        if "kernel" in tables:
            database.execute(
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL "
                f'(start INTEGER, "end" INTEGER, deviceId INTEGER, {name} INTEGER)'
            )
            database.executemany(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, ?)",
                [(0, 50, 1), (60, 130, 1), (200, 210, 2)],
            )
        if "copies" in tables:
            database.execute(
                "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY "
                '(start INTEGER, "end" INTEGER, bytes INTEGER, copyKind INTEGER)'
            )
            database.executemany(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, ?)",
                [(0, 5, 1000, 1), (5, 9, 500, 2), (9, 10, 7, 1), (10, 11, 1, 99)],
            )
        if "set" in tables:
            database.execute(
                "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET "
                '(start INTEGER, "end" INTEGER, bytes INTEGER)'
            )
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (0, 3, 64)")
    database.close()
    return path


def test_a_sqlite_export_has_names_times_and_exact_sizes(tmp_path: Path) -> None:
    """Kinds of copies by CUPTI's numbers; one that is not known is called so."""
    profile = read_nsys(export(tmp_path / "run.sqlite"))
    assert [(k.name, k.runs, k.time_ns) for k in profile.kernels] == [
        ("gemm", 2, 120),
        ("relu", 1, 10),
    ]
    assert [(c.direction, c.count, c.time_ns, c.size_bytes) for c in profile.copies] == [
        (Direction.DEVICE_TO_HOST, 1, 4, 500),
        (Direction.HOST_TO_DEVICE, 2, 6, 1007),
        (Direction.OTHER, 1, 1, 1),
        (Direction.SET, 1, 3, 64),
    ]


@pytest.mark.parametrize(
    ("tables", "name", "kernels", "copies"),
    [
        ("kernel names", "shortName", ["gemm", "relu"], 0),
        ("kernel", "demangledName", ["a kernel without a name"], 0),
        ("copies", "", [], 3),
    ],
)
def test_tables_that_were_never_made_are_not_missed(
    tmp_path, tables, name, kernels, copies
) -> None:
    """They appear when something is recorded for them."""
    profile = read_nsys(export(tmp_path / "run.sqlite", tables=tables, name=name))
    assert [kernel.name for kernel in profile.kernels] == kernels
    assert len(profile.copies) == copies


def test_a_sqlite_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Nothing recorded, or no database at all behind the first bytes."""
    with pytest.raises(HeadwayError, match="holds no kernel and no copy"):
        read_nsys(export(tmp_path / "empty.sqlite", tables="names"))
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"SQLite format 3\0" + b"\xff" * 200)
    with pytest.raises(HeadwayError, match="is no export of Nsight Systems"):
        read_nsys(broken)


# --- anything -------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_ncu, read_nsys])
def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path, read) -> None:
    """The path is what is wrong."""
    with pytest.raises(ConfigError, match="cannot read"):
        read(tmp_path / "absent.csv")


CELLS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["n/a", "1,024", "-5", "inf", "1e400", '"', "12.5", "usecond", "Mbyte", ""]),
)


@given(
    st.sampled_from(sorted(path.name for path in FIXTURES.glob("*.csv"))),
    st.lists(st.tuples(st.integers(0, 4000), CELLS), max_size=6),
)
def test_damaged_exports_give_totals_or_a_named_error(name: str, edits) -> None:
    """Whatever is written over them: numbers that are amounts, or an error that names the file."""
    text = (FIXTURES / name).read_text()
    for at, cell in edits:
        text = text[:at] + cell + text[at + len(cell) :]
    check_amounts(name, text.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=600), st.sampled_from(["ncu_x.csv", "nsys_x.csv"]), st.booleans())
def test_any_bytes_give_totals_or_a_named_error(content: bytes, name: str, is_sqlite) -> None:
    """A picture, a core dump, half a database."""
    check_amounts(name, (b"SQLite format 3\0" if is_sqlite else b"") + content)


def test_a_name_that_is_no_text_gives_a_named_error(tmp_path: Path) -> None:
    """SQLite puts the bytes of a damaged table's name into its error, whatever they are."""
    content = export(tmp_path / "x.sqlite").read_bytes()
    damaged = content.replace(
        b"tableCUPTI_ACTIVITY_KIND_KERNEL", b"table\x80UPTI_ACTIVITY_KIND_KERNEL", 1
    )
    assert damaged != content
    check_amounts("nsys_x.sqlite", damaged)


@given(st.integers(0, 8191), st.binary(min_size=1, max_size=40))
def test_a_damaged_database_gives_totals_or_a_named_error(at: int, junk: bytes) -> None:
    """Pages with nonsense in them."""
    with TemporaryDirectory() as folder:
        content = export(Path(folder) / "x.sqlite").read_bytes()
    check_amounts("nsys_x.sqlite", content[:at] + junk + content[at + len(junk) :])


def check_amounts(name: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            profile = (read_ncu if name.startswith("ncu") else read_nsys)(path)
        except HeadwayError as error:
            if not re.search(re.escape(name), error.message):
                raise
            return
    amounts = [amount for k in profile.kernels for amount in (k.time_ns, k.flop, k.traffic_bytes)]
    amounts += [amount for c in profile.copies for amount in (c.time_ns, c.size_bytes)]
    assert all(amount is None or 0 <= amount < float("inf") for amount in amounts)
    assert all(total.runs >= 0 for total in profile.kernels)
    assert all(total.count >= 0 for total in profile.copies)
