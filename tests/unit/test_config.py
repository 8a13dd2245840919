"""The configuration: what is accepted, what wins, what is refused, and what is built."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from headway.config import (
    Backend,
    Config,
    LoadedConfig,
    Oversize,
    PriorityPolicyConfig,
    SourceKind,
    cache_folder,
    config_for_model_file,
    config_rows,
    config_schema,
    emulated_machine,
    kernel_params,
    load_config,
    load_target,
    model_params,
    model_spec,
    service_tiers,
    tier_of,
    tiers,
    usable_cores,
    wants_colour,
    warnings_of,
    with_model,
    worker_groups,
)
from headway.config.quantities import duration_text, size_text
from headway.core import DeviceParams, KernelParams, ModelParams, SlotClass, TierName
from headway.errors import ConfigError
from headway.executors import LaneSpec, ModelSpec, TensorSpec
from headway.policy import POLICY_PREDICTORS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/serve.yaml"


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes a file, and loads it without this process's environment."""

    def load(text: str, *, flags: dict[str, object] | None = None, **environ: str) -> LoadedConfig:
        path = tmp_path / "serve.yaml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, flags=flags, environ=environ)

    return load


@pytest.fixture
def refused(written: Any, tmp_path: Path) -> Any:
    """Writes a file that must be refused; the error's file is called `serve.yaml` in messages."""

    def load(text: str, **kwargs: Any) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            written(text, **kwargs)
        caught.value.message = caught.value.message.replace(f"{tmp_path}/", "")
        return caught.value

    return load


def config_of(text: str) -> Config:
    """A configuration without a file."""
    return Config.model_validate(yaml.safe_load(text))


# --- defaults and examples ------------------------------------------------------------------------


def test_defaults_are_safe_on_a_laptop() -> None:
    """Without a word the server listens on loopback only and lets nobody bring code."""
    config = load_config(None, environ={}).config
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8000)
    assert not config.server.admin.can_override
    assert config.policy == PriorityPolicyConfig(kind="priority")
    assert list(config.tiers) == ["standard"]
    assert [device.name for device in config.devices] == ["cpu:0"]


def test_empty_file_says_nothing(written: Any) -> None:
    """An empty file is the defaults."""
    assert written("# nothing\n").config == Config()


def test_example_file_is_valid_and_quiet() -> None:
    """The example in the repository loads, gives no warning, and obeys the schema."""
    loaded = load_config(EXAMPLE, environ={})
    assert [model.name for model in loaded.config.models] == ["echo", "echo-bulk"]
    assert warnings_of(loaded.config) == ()
    jsonschema.validate(yaml.safe_load(EXAMPLE.read_text()), config_schema())


def test_model_paths_start_at_the_files_folder(written: Any, tmp_path: Path) -> None:
    """Files are found beside the configuration wherever the command runs; modules stay as named."""
    text = """
    models:
      - {name: a, path: nets/a.onnx}
      - {name: b, path: "b.py:B"}
      - {name: c, path: "pkg.mod:C"}
      - {name: d, path: /srv/d.onnx}
    journal: {path: run.journal}
    """
    config = written(text).config
    assert [model.path for model in config.models] == [
        f"{tmp_path}/nets/a.onnx",
        f"{tmp_path}/b.py:B",
        "pkg.mod:C",
        "/srv/d.onnx",
    ]
    assert config.journal.path == f"{tmp_path}/run.journal"


def test_paths_from_outside_start_where_the_command_runs(written: Any) -> None:
    """A path in a variable or a flag is not the file's, so it does not start at its folder."""
    loaded = written("{}", HEADWAY_JOURNAL__PATH="run.journal")
    assert loaded.config.journal.path == f"{Path.cwd()}/run.journal"
    loaded = written("{}", flags={"journal.path": "other.journal"})
    assert loaded.config.journal.path == f"{Path.cwd()}/other.journal"


def test_back_end_is_guessed_from_the_path() -> None:
    """`.onnx` and `file.py:Class` need no `backend`; a named one is kept."""
    text = """
    models:
      - {name: a, path: a.onnx}
      - {name: b, path: "b.py:B"}
      - {name: c, path: weights.bin, backend: onnx}
    """
    data = yaml.safe_load(text)
    loaded = load_config(None, flags={"models": data["models"]}, environ={})
    assert [model.backend for model in loaded.config.models] == [
        Backend.ONNX,
        Backend.PYTHON,
        Backend.ONNX,
    ]


# --- quantities -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount_ns", "text"),
    [(0, "0"), (1, "1ns"), (1_234_567, "1234567ns"), (1_500_000, "1500us"), (90 * 10**9, "90s")],
)
def test_durations_print_exactly(amount_ns: int, text: str) -> None:
    """A printed duration reads back as the same number."""
    assert duration_text(amount_ns) == text
    assert load_config(None, flags={"server.grace": text}, environ={}).config.server.grace == (
        amount_ns
    )


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0"), (1, "1B"), (1000, "1000B"), (1536 << 10, "1536KiB")]
)
def test_sizes_print_exactly(size_bytes: int, text: str) -> None:
    """A printed size reads back as the same number."""
    assert size_text(size_bytes) == text
    config = load_config(None, flags={"limits.bytes_max": text}, environ={}).config
    assert config.limits.bytes_max == size_bytes


def test_dump_loads_again_as_the_same(written: Any) -> None:
    """What `config show --format json` prints is itself a configuration."""
    config = load_config(EXAMPLE, environ={}).config
    dump = config.model_dump(mode="json")
    assert dump["tiers"]["interactive"]["budget"] == "200ms"
    jsonschema.validate(dump, config_schema())
    assert written(json.dumps(dump)).config == config


# --- precedence and origins -----------------------------------------------------------------------


def test_flag_wins_over_environment_over_file_over_default(written: Any) -> None:
    """Of four who may speak the first that does is heard, and named as the source."""
    text = "server:\n  port: 1\n  host: file\n  grace: 1s\n"
    environ = {"HEADWAY_SERVER__PORT": "2", "HEADWAY_SERVER__HOST": "variable"}
    flags = {"server.port": 3, "server.host": None}
    loaded = written(text, flags=flags, **environ)
    server = loaded.config.server
    assert (server.port, server.host, server.grace) == (3, "variable", 10**9)
    kinds = [loaded.sources[f"server.{name}"].kind for name in ("port", "host", "grace")]
    assert kinds == [SourceKind.FLAG, SourceKind.ENVIRONMENT, SourceKind.FILE]
    places = [str(loaded.sources[f"server.{name}"]) for name in ("port", "host", "keep_alive")]
    assert places == ["--port", "HEADWAY_SERVER__HOST", "default"]
    assert str(loaded.sources["server.grace"]).endswith("serve.yaml:4")


def test_every_value_has_a_source(written: Any) -> None:
    """Each line of `config show` knows where its value came from."""
    rows = config_rows(load_config(EXAMPLE, environ={}))
    assert {row.path for row in rows} >= {"models.0.inputs.0.shape", "devices.0.niceness.low"}
    assert len({row.path for row in rows}) == len(rows)


def test_environment_reaches_lists_and_names(written: Any) -> None:
    """Indices name entries of lists; case and `-` do not matter in names."""
    text = "models: [{name: a, path: a.onnx}]\ntiers: {my-tier: {budget: 1s}}\n"
    environ = {
        "HEADWAY_MODELS__0__BATCH__ROWS_MAX": "3",
        "HEADWAY_TIERS__MY_TIER__BUDGET": "2s",
        "HEADWAY_DEVICES__0__CORES": "[0]",
        "HEADWAY_POLICY": "edf",
        "HEADWAY_LOG__LEVEL": "",
    }
    config = written(text, **environ).config
    assert config.models[0].batch.rows_max == 3
    assert config.tiers["my-tier"].budget == 2 * 10**9
    assert config.devices[0].cores == (0,)
    assert config.policy.kind == "edf"


def test_environment_of_a_cluster_is_not_ours(written: Any) -> None:
    """Variables that a cluster makes for a service called headway set nothing."""
    environ = {"HEADWAY_PORT": "tcp://10.0.0.1:80", "HEADWAY_SERVICE_HOST": "10.0.0.1"}
    assert written("{}", **environ, HEADWAY_CACHE="/var/cache").config == Config()


def test_variable_that_is_no_yaml_is_text(written: Any) -> None:
    """Text need not be quoted for YAML where there is no YAML around it."""
    assert written("{}", HEADWAY_SERVER__HOST="[::1").config.server.host == "[::1"


def test_policy_from_outside_comes_with_its_defaults(written: Any) -> None:
    """`--policy fifo` replaces the file's policy as a whole."""
    loaded = written("policy: {kind: edf, class_slots: true}", flags={"policy": "fifo"})
    assert loaded.config.policy.model_dump() == {"kind": "fifo", "class_slots": False}
    assert str(loaded.sources["policy.kind"]) == "--policy"
    assert str(loaded.sources["policy.class_slots"]) == "default"


def test_unknown_variable_is_refused(refused: Any) -> None:
    """A mistyped variable is an error that names it, not a setting that quietly has no effect."""
    error = refused("{}", HEADWAY_SERVRE__PORT="1")
    assert error.message == "HEADWAY_SERVRE__PORT: servre: `servre` is not a setting"
    assert "did you mean `server`?" in error.hint
    error = refused("models: []", HEADWAY_MODELS__0__NAME="x")
    assert "`0` is not one of the 0 entries of models" in error.message
    error = refused("{}", HEADWAY_SERVER__PORT="many")
    assert error.message == "HEADWAY_SERVER__PORT: server.port: `many` is not a whole number"


# --- refusals -------------------------------------------------------------------------------------

A = "name: a, path: a.onnx"
E = "name: a, inputs: [{name: x, datatype: FP32, shape: [-1, 4]}]"
F = "outputs: [{name: y, datatype: FP32, shape: [-1, 4]}]"
"""Together an emulated model, but for its options."""
G = "{kind: emulated}"
H = "sha256:" + "0" * 64
"""What a key is kept as."""
REFUSALS = [
    ("tenancy: {}", "tenancy.tenants: `tenants` is missing", "by name"),
    (
        "tenancy: {tenants: {a: {keys: [{hash: hwk_secret}]}}}",
        "tenancy.tenants.a.keys.0.hash: this is not the hash of a key",
        "sha256:",
    ),
    (
        f"tenancy: {{tenants: {{a: {{keys: [{{hash: '{H}'}}]}}, b: {{keys: [{{hash: '{H}'}}]}}}}}}",
        "tenancy.tenants.b.keys.0.hash: the key is one of tenant `a` already",
        "headway key",
    ),
    (
        "tenancy: {tenants: {a: {tier: gold}}}",
        "tenants.a.tier: there is no tier `gold`",
        "standard",
    ),
    (
        "tenancy: {tenants: {a: {tiers: [x]}}}",
        "tenants.a.tiers.0: there is no tier `x`",
        "standard",
    ),
    ("tenancy: {tenants: {a: {models: [x]}}}", "a.models.0: there is no model `x`", "models:"),
    ("tenancy: {tenants: {a: {}}, anonymous: b}", "tenancy.anonymous: there is no tenant `b`", "a"),
    (
        "tenancy: {tenants: {a: {reserve: 0.6}, b: {reserve: 0.6}}}",
        "tenancy.tenants: reserves add up to 1.2 of the capacity",
        "1 or less",
    ),
    (
        "server: {shared_memory: true}\ntenancy: {tenants: {a: {}}}",
        "serve.yaml:1: server.shared_memory: tenants share nothing",
        "false",
    ),
    ("tenancy: {tenants: {a: {quota: {period: day}}}}", "device_time` is missing", "in a period"),
    ("server: {port: 81, admin: {port: 81}}", "admin.port: `81` is the server's own", "another"),
    ("server: {tls: {key: a}}", "server.tls.certificate: `certificate` is missing", "PEM"),
    (
        "server:\n  prot: 1",
        "serve.yaml:2: server.prot: `prot` is not a setting of server",
        "`port`",
    ),
    ("sever: {}", "serve.yaml:1: sever: `sever` is not a setting", "did you mean `server`?"),
    ("server: 3", "serve.yaml:1: server: `3` is not a mapping of settings", "interfaces"),
    ("server:\n\n  port: true", "serve.yaml:3: server.port: `true` is not a whole number", "Port"),
    ("server: {port: 65536}", "server.port: `65536` must be less than or equal to 65535", "Port"),
    ("server: {grace: 5}", "server.grace: `5` is not a duration such as", "SIGTERM"),
    ("server: {body_max: 5 apples}", "server.body_max: `5 apples` is not a size", "413"),
    ("server: {body_max: 0}", "server.body_max: `0` must be greater than 0", "413"),
    ("models:\n- {name: a}", "serve.yaml:2: models.0.path: `path` is missing", "add it: The model"),
    ("models: {a: b}", 'models: `{"a": "b"}` is not a list', "served"),
    (f"models: [{{{A}, version: 1.10}}]", "models.0.version: `1.1` is not text", "version"),
    (f"models: [{{{A}, devices: cpu:0}}]", "models.0.devices: `cpu:0` is not a list", "[cpu:0]"),
    (f"models: [{{{A}, options: {{k: [1]}}}}]", "models.0.options.k: `[1]` is not text, a", ""),
    ("models: [{name: a b, path: a.onnx}]", "models.0.name: `a b` cannot be a name", "letter"),
    ("models: [{name: a, path: ''}]", "models.0.path: `` is empty", "model"),
    ("models: [{name: a, path: /a.bin}]", "`/a.bin` does not show which back end", "set backend"),
    ("models: [{name: a, path: /a.py}]", "models.0.path: `/a.py` does not show", "`file.py:Class`"),
    ("models: [{name: a, path: /a.py, backend: python}]", "`/a.py` names no class", "Class"),
    (
        f"models: [{{{A}, inputs: [{{name: x, datatype: FP31, shape: [1]}}]}}]",
        "models.0.inputs.0.datatype: `FP31` is not a choice",
        "did you mean `FP32`?",
    ),
    (f"models: [{{{A}, tier: standrad}}]", "there is no tier `standrad`", "`standard`"),
    (f"models: [{{{A}, devices: ['cpu:1']}}]", "models.0.devices.0: there is no device", "`cpu:0`"),
    (f"models:\n- {{{A}}}\n- {{{A}}}", "serve.yaml:3: models.1.name: `a` is the name of", "own"),
    (f"models: [{{{A}, warmup: {{rows: [9]}}}}]", "models.0.warmup.rows.0: `9` rows are more", ""),
    ("tiers: {x: {priority: -1}}", "tiers.x.priority: `-1` must be greater than", "Lower"),
    ("tiers:\n  x:", "serve.yaml:2: tiers.x: `null` is not a mapping of settings", ""),
    ("tiers: {}", "tiers: `{}` is empty", "Classes"),
    ("devices: [{kind: cuda}]", "`cuda` is not a kind of devices.0", "`cpu`, `emulated`"),
    (
        "devices: [{cores: [0, 0]}]",
        "devices.0.cores: `[0, 0]` names a core twice",
        "slots_per_core",
    ),
    (
        f"devices: [{G}, {{name: c, kind: cpu}}]",
        "devices.1.kind: `cpu` beside a device of kind `emulated`",
        "start a server for each",
    ),
    (
        f"devices: [{G}, {{name: h, kind: emulated, accelerator: small}}]",
        "devices.1.accelerator: `small` is not that of devices.0, `a100-pcie4`",
        "cards of one machine",
    ),
    (
        f"devices: [{G}, {{name: h, kind: emulated, seed: 2}}]",
        "devices.1.seed: `2` is not that of devices.0, `1`",
        "cards of one machine",
    ),
    (
        "devices: [{kind: emulated, accelerator: a100-pcie3}]",
        "devices.0.accelerator: there is no emulated accelerator `a100-pcie3`",
        "did you mean `a100-pcie4`?",
    ),
    (
        f"devices: [{', '.join(f'{{name: g{i}, kind: emulated}}' for i in range(5))}]",
        "devices.4: `a100-pcie4` has 4 devices, not 5",
        "leave some out",
    ),
    (
        "devices: [{kind: emulated, cores: [0]}]",
        "devices.0.cores: `cores` is not a setting of devices.0",
        "`accelerator`",
    ),
    ("devices: [3]", "devices.0: `3` is not a mapping of settings", ""),
    (
        f"devices: [{G}]\nmodels: [{{{A}, backend: onnx}}]",
        "models.0.backend: `onnx` does not run on an emulated device",
        "leave it out",
    ),
    (f"devices: [{G}]\nmodels: [{{name: a}}]", "an emulated model needs `inputs`", "declare"),
    (
        f"devices: [{G}]\nmodels: [{{{E}, {F}}}]",
        "models.0.options: model `a` cannot be emulated",
        "it needs `solo:",
    ),
    (
        f"devices: [{G}]\nmodels: [{{{E}, {F}, options: {{solo: 2ms, occupancy: 2}}}}]",
        "models.0.options: model `a` cannot be emulated",
        "occupancy",
    ),
    (
        f"devices: [{G}]\nmodels: [{{{E}, {F}, options: {{solo: 2ms, in_bytes: 5}}}}]",
        "models.0.options.in_bytes: `in_bytes` is not an option",
        "inputs and outputs",
    ),
    (
        f"models: [{{{A}, backend: emulated}}]",
        "models.0.backend: `emulated` does not run on a device of kind `cpu`",
        "devices of kind `emulated`",
    ),
    ("devices: [{}, {}]", "devices.1.name: `cpu:0` is the name of devices.0", "own"),
    ("policy: edf", "serve.yaml:1: policy: `edf` is not a mapping", "write `{kind: edf}`"),
    ("policy: {kind: edff}", "policy.kind: `edff` is not a kind of policy", "did you mean `edf`?"),
    ("policy: {class_slots: true}", "policy.kind: `kind` is missing", "`fifo`"),
    ("policy: {kind: edf, x: 1}", "policy.x: `x` is not a setting of policy", "`class_slots`"),
    ("log: {format: jsn}", "log.format: `jsn` is not a choice", "did you mean `json`?"),
    ("limits: {retry_after_min: 1m}", "`60s` is above retry_after_max, `30s`", "lower it"),
    ("limits:\n  restart_delay_max: 1ms", "serve.yaml:1: limits.restart_delay_min", "raise"),
    ("log: {}\nlog: {}", "serve.yaml:2: `log` stands twice, first on line 1", "delete"),
    ("server: [", "serve.yaml:1: this is not YAML", "indentation"),
    ("server: \0", "serve.yaml: this is not YAML", ""),
    ("[1]", "serve.yaml:1: `[1]` is not a mapping of settings", "key: value"),
    ("? [a]\n: 1", "serve.yaml:1: a key must be one word", "key: value"),
    ("log: &log\n  format: *log", "serve.yaml:1: an alias here contains itself", "write"),
]


@pytest.mark.parametrize(("text", "message", "hint"), REFUSALS)
def test_wrong_setting_is_refused_with_a_way_out(
    refused: Any, text: str, message: str, hint: str
) -> None:
    """A wrong key or value says file and line, path, the value in backticks, and how to mend it."""
    error = refused(text)
    assert message in error.message
    assert hint in (error.hint or "")


def test_error_carries_path_and_value(refused: Any) -> None:
    """Programs need not read the message."""
    error = refused("log:\n  level: loud\n")
    assert (error.path, error.value, error.code) == ("log.level", "loud", "bad_config")


def test_further_problems_are_notes(refused: Any) -> None:
    """All that is wrong is said at once."""
    error = refused("log: {level: loud}\nserver: {port: x}\n")
    assert "server.port" in error.message
    assert ["log.level" in note for note in error.__notes__] == [True]


def test_long_value_is_cut(refused: Any) -> None:
    """A message stays readable whatever was written."""
    assert "x..." in refused(f"log: {{level: {'x' * 500}}}").message


@pytest.mark.parametrize("name", ["missing.yaml", "folder.yaml", "latin.yaml"])
def test_unreadable_file_is_a_config_error(tmp_path: Path, name: str) -> None:
    """A file that is not there, is a folder or is no UTF-8 is named."""
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"host: \xe9\n")
    with pytest.raises(ConfigError, match=name):
        load_config(tmp_path / name, environ={})


def test_nothing_can_be_changed_later() -> None:
    """A configuration is frozen."""
    with pytest.raises(ValueError, match="frozen"):
        Config().server.port = 1


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("{}", "no models are configured"),
        ("{policy: {kind: fifo}, tiers: {a: {priority: 0}, b: {}}}", "policy `fifo` ignores"),
        (
            "{tiers: {a: {priority: 0, slot_class: low}, b: {}}}",
            "tier `a` starts before `b`, yet gives way to it",
        ),
    ],
)
def test_doubtful_settings_are_warned_of(text: str, warning: str) -> None:
    """What is allowed and probably not meant is said."""
    assert any(warning in sentence for sentence in warnings_of(config_of(text)))


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("{devices: [{name: d, pin: false}]}", "device `d`: with pin: false"),
        (
            "{devices: [{isolation: per_model}], models: [{name: a, path: a, backend: onnx},"
            " {name: b, path: b, backend: onnx}]}",
            "device `cpu:0`: with isolation: per_model",
        ),
        (
            "{models: [{name: a, path: a, backend: onnx, options: {intra_op_threads: 2}}]}",
            "model `a`: with intra_op_threads: 2",
        ),
        (
            "{models: [{name: a, path: a, backend: onnx, options: {allow_spinning: true}}]}",
            "model `a`: with allow_spinning: true",
        ),
    ],
)
def test_settings_that_spoil_predictions_are_warned_of(text: str, warning: str) -> None:
    """What makes times hard to predict is said once, in a line that ends with the remedy."""
    (found,) = [sentence for sentence in warnings_of(config_of(text)) if warning in sentence]
    assert "\n" not in found
    assert "; set " in found


@pytest.mark.parametrize(
    "text",
    [
        # One batch at a time has no neighbours that it could be in the way of.
        "{devices: [{cores: [0], slots_per_core: 1, pin: false, isolation: per_model}], models:"
        " [{name: a, path: a, backend: onnx,"
        " options: {intra_op_threads: 2, allow_spinning: true}},"
        " {name: b, path: b, backend: onnx}]}",
        "{devices: [{isolation: per_model}], models: [{name: a, path: a, backend: onnx}]}",
        "{models: [{name: a, path: a, backend: onnx,"
        " options: {intra_op_threads: 1, allow_spinning: false}}]}",
        # Another back end may call something else by that name.
        "{models: [{name: a, path: 'm:A', backend: python,"
        " options: {intra_op_threads: 2, allow_spinning: true}}]}",
        # The device that it warns of is not the one that the model runs on.
        "{devices: [{name: d}, {name: e, cores: [0], slots_per_core: 1}], models:"
        " [{name: a, path: a, backend: onnx, devices: [e],"
        " options: {intra_op_threads: 2}}]}",
    ],
)
def test_settings_that_disturb_nobody_are_not_warned_of(text: str) -> None:
    """A warning that is of no consequence would hide one that is."""
    assert warnings_of(config_of(text)) == ()


def test_emulated_devices_are_not_warned_of() -> None:
    """Pins, isolation and threads are settings of cores."""
    text = f"{{devices: [{G}], models: [{{{E}, {F}, options: {{solo: 2ms}}}}]}}"
    assert warnings_of(config_of(text)) == ()


# --- one model file -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "name", "path", "backend"),
    [
        ("/srv/res net.onnx", "res-net", "/srv/res net.onnx", Backend.ONNX),
        ("/srv/echo.py:Echo", "echo", "/srv/echo.py:Echo", Backend.PYTHON),
        ("pkg.mod:Echo", "mod", "pkg.mod:Echo", Backend.PYTHON),
        ("/srv/---.onnx", "model", "/srv/---.onnx", Backend.ONNX),
    ],
)
def test_model_file_is_served_as_it_is(target: str, name: str, path: str, backend: Backend) -> None:
    """`headway serve model.onnx` needs no configuration: the file's stem is the model's name."""
    loaded = config_for_model_file(target, environ={})
    (model,) = loaded.config.models
    assert (model.name, model.path, model.backend) == (name, path, backend)
    assert model.batch.rows_max == 8
    assert load_target(target, environ={}) == loaded


def test_model_file_obeys_flags_and_environment() -> None:
    """Flags and variables work without a file too."""
    environ = {"HEADWAY_MODELS__0__BATCH__ROWS_MAX": "2"}
    loaded = config_for_model_file("a.onnx", flags={"server.port": 0}, environ=environ)
    assert loaded.config.server.port == 0
    assert loaded.config.models[0].batch.rows_max == 2
    assert loaded.config.models[0].path == f"{Path.cwd()}/a.onnx"


def test_target_is_a_configuration_or_a_model(written: Any, tmp_path: Path) -> None:
    """What `headway serve` is given is told apart by its name."""
    written("server: {port: 1}")
    assert load_target(str(tmp_path / "serve.yaml"), environ={}).config.server.port == 1
    with pytest.raises(ConfigError, match="neither a configuration nor a model"):
        load_target("weights.bin", environ={})


# --- what is built --------------------------------------------------------------------------------


def test_kernel_gets_slots_that_alternate_between_cores() -> None:
    """Neighbouring slots lie on different lanes, so that the first free ones spread the work."""
    config = config_of("{devices: [{cores: [2, 3], slots_per_core: 2}], limits: {bytes_max: 1KiB}}")
    assert kernel_params(config) == KernelParams(
        devices=(
            DeviceParams(name="cpu:0", slot_lanes=(0, 1, 0, 1), weight_high=336, weight_low=15),
        ),
        bytes_max=1024,
    )


def test_kernel_knows_how_unpinned_threads_share() -> None:
    """Threads that are not pinned roam, and equal niceness is an equal share."""
    config = config_of("{devices: [{cores: [1], pin: false, niceness: {high: 0, low: 0}}]}")
    (device,) = kernel_params(config).devices
    assert (device.is_pinned, device.weight_high, device.weight_low) == (False, 1024, 1024)


def test_predictor_files_start_at_the_configuration(written: Any, tmp_path: Path) -> None:
    """Profiles and state of a file lie beside it, whatever folder the command is run in."""
    written("predictor: {kind: rls, state: s.json, profiles: [a.json, /b.json]}")
    predictor = load_target(str(tmp_path / "serve.yaml"), environ={}).config.predictor
    assert predictor.state == str(tmp_path / "s.json")
    assert predictor.profiles == (str(tmp_path / "a.json"), "/b.json")


def test_predictor_is_named_by_a_flag(written: Any, tmp_path: Path) -> None:
    """A flag names the kind alone, as it does for the policy."""
    written("{}")
    flags = {"predictor": "fixed"}
    loaded = load_target(str(tmp_path / "serve.yaml"), flags=flags, environ={})
    assert loaded.config.predictor.kind == "fixed"


def test_kernel_defaults_are_the_configurations() -> None:
    """Two sets of defaults would drift apart."""
    params = kernel_params(Config(), cores=[0])
    assert params == KernelParams(devices=params.devices)
    assert kernel_params(Config()).devices[0].slot_lanes[: len(usable_cores())] == tuple(
        range(len(usable_cores()))
    )


def test_model_params_take_limits_and_devices() -> None:
    """A model without devices goes to the first."""
    text = """
    models:
      - name: a
        path: a.onnx
        backend: onnx
        version: 7
        batch: {rows_max: 4, linger: 2ms}
        queue: {requests_max: 5, bytes_max: 6B}
        batch_max: 3s
      - {name: b, path: b.onnx, backend: onnx, devices: [two]}
    devices: [{name: one}, {name: two}]
    """
    config = config_of(text)
    assert model_params(config, config.models[0]) == ModelParams(
        name="a",
        version="7",
        devices=("one",),
        batch_rows_max=4,
        linger_ns=2_000_000,
        queue_requests_max=5,
        queue_bytes_max=6,
        batch_ns_max=3 * 10**9,
    )
    assert model_params(config, config.models[1]).devices == ("two",)


def test_model_spec_is_what_a_worker_needs() -> None:
    """Path, options, overridden signature and warm-up reach the worker."""
    text = """
    models:
      - name: a
        path: "m:A"
        backend: python
        options: {threads: 2, fast: true, rate: 0.5, mode: x}
        inputs: [{name: x, datatype: FP32, shape: [-1, 16]}]
        warmup: {rows: [1, 8], shapes: {x: [16]}}
    """
    config = config_of(text)
    assert model_spec(config, config.models[0]) == ModelSpec(
        name="a",
        backend="python",
        path="m:A",
        options={"threads": 2, "fast": True, "rate": 0.5, "mode": "x"},
        inputs=(TensorSpec(name="x", datatype="FP32", shape=(-1, 16)),),
        warmup_rows=(1, 8),
        warmup_shapes={"x": (16,)},
    )


def test_worker_groups_pin_and_nice_their_slots() -> None:
    """Slot i runs on core i modulo the cores, below the dispatcher."""
    (group,) = worker_groups(config_of("{devices: [{isolation: per_model}]}"), cores=[4, 6])
    assert [slot.cores for slot in group.slots] == [(4,), (6,), (4,), (6,)]
    assert (group.slots[0].niceness_high, group.slots[0].niceness_low) == (5, 19)
    assert group.is_isolated
    (group,) = worker_groups(config_of("{devices: [{pin: false, cores: [0, 99]}]}"), cores=[0])
    assert group.slots == (LaneSpec(niceness_high=5, niceness_low=19),) * 4


EMULATED = f"""
devices: [{{name: g, kind: emulated, seed: 3}}, {{name: h, kind: emulated, seed: 3}}]
models: [{{{E}, {F}, path: a.onnx, devices: [h], options: {{solo: 2ms}}}}]
"""


def test_emulated_devices_have_the_accelerators_slots_and_no_workers() -> None:
    """A lane a slot, shares equal; the machine knows both cards and no model yet."""
    config = config_of(EMULATED)
    first, second = kernel_params(config).devices
    assert (first.name, second.name) == ("g", "h")
    assert first.slot_lanes == (0, 1, 2, 3)
    assert first.weight_high == first.weight_low
    assert worker_groups(config) == ()
    machine = emulated_machine(config)
    assert machine is not None
    assert (machine.devices, machine.machine.name) == (("g", "h"), "a100-pcie4")
    assert emulated_machine(Config()) is None


def test_a_model_on_an_emulated_device_needs_no_path_and_no_back_end(written: Any) -> None:
    """The device shows what runs it, whatever the path; nothing of it is looked at."""
    config = written(EMULATED).config
    assert config.models[0].backend is Backend.EMULATED
    assert model_spec(config, config.models[0]).backend == "emulated"
    config = written(EMULATED.replace("path: a.onnx, ", "")).config
    assert config.models[0].backend is Backend.EMULATED
    assert model_spec(config, config.models[0]).path == ""
    changed = with_model(config, "a", {"options": {"solo": "3ms"}})
    assert changed.models[0].options == {"solo": "3ms"}


def test_example_of_an_emulated_server_is_valid() -> None:
    """The file among the examples says what it takes, and nothing doubtful."""
    config = load_config(ROOT / "examples/emulated.yaml", environ={}).config
    assert warnings_of(config) == ()
    assert {model.backend for model in config.models} == {Backend.EMULATED}


def test_service_tiers_are_ours_or_the_two_ends() -> None:
    """OpenAI's names mean what is written, else a tier of that name, else one of the two ends."""
    text = "{tiers: {slow: {priority: 9}, fast: {priority: 0}, usual: {priority: 3}}%s}"
    usual = service_tiers(config_of(text % ""))
    own = {name: name for name in ("slow", "fast", "usual")}
    assert usual == {**own, "priority": "fast", "flex": "slow"}
    written = service_tiers(
        config_of(text % ", server: {openai: {service_tiers: {flex: usual, auto: fast}}}")
    )
    assert written == {**own, "priority": "fast", "flex": "usual", "auto": "fast"}
    named = service_tiers(config_of("{tiers: {flex: {priority: 1}, night: {priority: 8}}}"))
    assert named["flex"] == "flex"


def test_a_service_tier_needs_its_tier(refused: Any) -> None:
    """A tier that is not there is found before the server starts."""
    text = "{server: {openai: {service_tiers: {flex: bulk}}}}"
    assert "no tier `bulk`" in str(refused(text))
    assert refused(text).path == "server.openai.service_tiers.flex"


def test_example_for_openai_is_valid() -> None:
    """The file among the examples says nothing doubtful, and takes more texts than a batch has."""
    config = load_config(ROOT / "examples/openai.yaml", environ={}).config
    assert warnings_of(config) == ()
    assert config.models[0].batch.oversize is Oversize.SPLIT


def test_pinning_to_a_core_that_is_not_ours_is_refused() -> None:
    """A core outside the process's set is a wrong setting, not a crash of a worker."""
    with pytest.raises(ConfigError, match="may not use core `99`") as caught:
        worker_groups(config_of("{devices: [{cores: [0, 99]}]}"), cores=[0, 1])
    assert caught.value.path == "devices.0.cores"


def test_tier_is_the_requests_then_the_models_then_the_default() -> None:
    """The tier called `default` stands in before the first one."""
    text = """
    models:
      - {name: a, path: a.onnx, backend: onnx, tier: low}
      - {name: b, path: b.onnx, backend: onnx}
    tiers: {low: {priority: 9, budget: 1m, slot_class: low}, default: {budget: 1s}}
    """
    config = config_of(text)
    low = tier_of(config, config.models[0])
    assert (low.name, low.priority, low.budget_ns, low.slot_class) == (
        "low",
        9,
        60 * 10**9,
        SlotClass.LOW,
    )
    assert tier_of(config, config.models[1]).name == "default"
    assert tier_of(config, config.models[1], TierName("low")) == low
    assert list(tiers(config)) == ["low", "default"]
    with pytest.raises(ConfigError, match="there is no tier `lwo`"):
        tier_of(config, config.models[1], TierName("lwo"))


@pytest.mark.parametrize(
    ("tier", "late_ns"),
    [
        ("{}", 0),
        ("{late: drop, late_max: 5s}", 0),
        ("{late: serve}", 30 * 10**9),
        ("{late: serve, late_max: 250ms}", 250 * 10**6),
    ],
)
def test_tier_says_how_late_its_requests_are_served(tier: str, late_ns: int) -> None:
    """Not at all, unless it is written; then for half a minute, unless a time is written too."""
    config = config_of(f"tiers: {{t: {tier}}}")
    assert tiers(config)[TierName("t")].late_ns == late_ns


@pytest.mark.parametrize(("tier", "ratio"), [("{}", 0.99), ("{attainment: 0.9}", 0.9)])
def test_tier_says_what_part_of_its_requests_is_to_be_met(tier: str, ratio: float) -> None:
    """Ninety-nine of a hundred, unless another part is written."""
    config = config_of(f"tiers: {{t: {tier}}}")
    assert tiers(config)[TierName("t")].attainment_ratio == ratio


@pytest.mark.parametrize("ratio", ["0", "1", "99"])
def test_attainment_leaves_room_for_an_error(refused: Any, ratio: str) -> None:
    """A target of all requests has no error budget, and one in per cent is a mistake."""
    assert refused(f"tiers: {{t: {{attainment: {ratio}}}}}").path == "tiers.t.attainment"


def test_override_replaces_settings_of_one_model() -> None:
    """A reload may bring settings; they are checked like all others, and a new name is added."""
    config = config_for_model_file("/srv/a.onnx", environ={}).config
    changed = with_model(config, "a", {"batch": {"rows_max": 2}, "version": "2"})
    assert (changed.models[0].batch.rows_max, changed.models[0].version) == (2, "2")
    assert config.models[0].batch.rows_max == 8
    swapped = with_model(config, "a", {"path": "m:A"})
    assert swapped.models[0].backend is Backend.PYTHON
    assert [m.name for m in with_model(config, "b", {"path": "/srv/b.onnx"}).models] == ["a", "b"]
    with pytest.raises(ConfigError, match=r"models\.1\.path: `path` is missing"):
        with_model(config, "b", {})


# --- the environment's other words ----------------------------------------------------------------


def test_cache_is_where_the_user_says() -> None:
    """HEADWAY_CACHE first, then the user's cache folder."""
    assert cache_folder({"HEADWAY_CACHE": "/c"}) == Path("/c")
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/headway")
    assert cache_folder({}) == Path("~/.cache/headway").expanduser()
    assert cache_folder().name


@pytest.mark.parametrize(
    ("is_terminal", "environ", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_asked_for(is_terminal: bool, environ: dict[str, str], expected: bool) -> None:
    """Colour needs a terminal, and NO_COLOR forbids it."""
    assert wants_colour(is_terminal=is_terminal, environ=environ) is expected


def test_policies_of_the_command_line_are_the_configurations() -> None:
    """`--policy` offers each kind that the file may name."""
    kinds = config_schema()["properties"]["policy"]["discriminator"]["mapping"]
    assert sorted(POLICY_PREDICTORS) == sorted(kinds)


@pytest.mark.parametrize("kind", POLICY_PREDICTORS)
def test_policy_brings_its_own_predictor(kind: str) -> None:
    """A policy made for a predictor has it by default, and another one when that is written."""
    policy = {"policy": {"kind": kind}}
    assert Config.model_validate(policy).predictor.kind == (POLICY_PREDICTORS[kind] or "headway")
    told = Config.model_validate(policy | {"predictor": {"kind": "rls"}})
    assert (told.policy.kind, told.predictor.kind) == (kind, "rls")


def test_own_predictor_is_a_default(tmp_path: Path) -> None:
    """`config show` says that nobody wrote it, also where a flag chose the policy."""
    path = tmp_path / "serve.yaml"
    path.write_text("policy: {kind: fifo}\n")
    loaded = load_config(path, flags={"policy": {"kind": "clockwork", "at_once": 2}}, environ={})
    (row,) = [row for row in config_rows(loaded) if row.path == "predictor.kind"]
    assert (row.value, row.source.kind) == ("max10", SourceKind.DEFAULT)
    (row,) = [row for row in config_rows(loaded) if row.path == "policy.at_once"]
    assert (row.value, str(row.source)) == (2, "--policy")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "static-cap", "low_max": -1}, "policy.low_max"),
        ({"kind": "batch3", "high_max": 5, "low_min": 5}, "no priority can be both"),
        ({"kind": "fifo", "low_max": 1}, "`low_max` is not a setting of policy"),
    ],
    ids=["negative", "crossed", "of another policy"],
)
def test_wrong_settings_of_a_policy_are_named(settings: dict[str, Any], words: str) -> None:
    """A setting out of range, at odds with another or of another policy is refused by name."""
    with pytest.raises(ConfigError, match=words):
        load_config(None, flags={"policy": settings}, environ={})


def test_cores_are_those_of_the_process() -> None:
    """The default device does not claim cores that the process was denied."""
    assert set(usable_cores()) == os.sched_getaffinity(0)
