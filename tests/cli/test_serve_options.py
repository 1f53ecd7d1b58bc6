"""`turnwise serve shop`: an option that what is served has no use for is refused in one sentence."""

import pytest

from turnwise.cli.main import app

for package in ("fastapi", "jinja2", "uvicorn"):
    pytest.importorskip(package, reason="needs turnwise[serve]")

FILES = "products.json", "attributes.json"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*FILES, "--level", "tiny"), "--level applies to a generated catalogue, but product files are given"),
        ((*FILES, "--split", "train"), "--split applies to a generated catalogue, but product files are given"),
        (("--goals", "human"), "--goals applies to product files, but product files are not given"),
        (FILES, "products.json"),
    ],
)
def test_options_without_a_use_are_refused(arguments, sentence, capsys):
    assert app(["serve", "shop", *arguments, "--port", "0"], standalone_mode=False) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
