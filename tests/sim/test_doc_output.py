"""What the guides show is what their commands print."""

import pytest

import doc_output


@pytest.mark.parametrize("name", doc_output.PAGES)
def test_page_shows_what_its_commands_print(name):
    """To the letter; `python tools/doc_output.py` rewrites it."""
    page = (doc_output.ROOT / name).read_text("utf-8")
    assert doc_output.MARK in page
    assert doc_output.page_as_run(name) == page


def test_only_marked_blocks_are_run():
    """Another block stays as it is, and old output goes."""
    mark = doc_output.MARK
    page = f"a\n```console\n$ no\nold\n```\n{mark}\n```console\n$ yes 1\nold\n$ yes 2\n```\nb\n"
    done = doc_output.filled(page, lambda command: f"<{command}>  \n")
    assert done == (
        f"a\n```console\n$ no\nold\n```\n{mark}\n"
        "```console\n$ yes 1\n<yes 1>\n$ yes 2\n<yes 2>\n```\nb\n"
    )


def test_command_that_fails_is_no_output():
    """A page never shows an error by accident."""
    with pytest.raises(RuntimeError, match="`headway explain` failed with 2"):
        doc_output.run_here("headway explain")
