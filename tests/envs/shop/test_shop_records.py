"""WebShop's files: every rule by hand, damaged files, random records, and the real products."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_shop import real_catalogue

from turncredit.envs.errors import EnvError, UnknownOption
from turncredit.envs.shop import json_stream
from turncredit.envs.shop.catalogue import Catalogue, CatalogueError, contents
from turncredit.envs.shop.product import HumanInstruction, Product

ITEM: dict[str, Any] = {
    "asin": "B000000001",
    "name": "Red Shoe",
    "full_description": "A shoe.",
    "pricing": "$10.00",
    "images": ["https://example.org/1.jpg", "https://example.org/2.jpg"],
    "product_category": "Clothing › Shoes",
    "small_description": ["Soft ", "Red"],
    "customization_options": "",
    "category": "fashion",
    "query": " Red Shoes ",
    "page": 3,
}


def item(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {**ITEM, "asin": f"B{number:09}", **changes}


def written(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def opened(folder: Path, items: Any, attributes: Any = None, human: Any = None, **options: Any) -> Catalogue:
    """The catalogue of some values, without a cache."""
    paths = [
        None if value is None else written(folder / f"{name}.json", value)
        for name, value in (("products", items), ("attributes", attributes), ("human", human))
    ]
    assert paths[0] is not None
    return Catalogue.open(paths[0], *paths[1:], **{"cache": False, **options})


def said(folder: Path, *values: Any, **options: Any) -> str:
    """The message about invalid values."""
    with pytest.raises(CatalogueError) as caught:
        opened(folder, *values, **options)
    return str(caught.value)


def test_a_product(tmp_path: Path) -> None:
    attributes = {
        ITEM["asin"]: {"attributes": ["soft"], "instruction": "Find shoes", "instruction_attributes": ["soft"]}
    }
    person = {
        "instruction": "i want it",
        "instruction_attributes": ["soft"],
        "instruction_options": ["red"],
        "asin": "x",
    }
    catalogue = opened(tmp_path, [ITEM], attributes, {ITEM["asin"]: [person], "B999999999": []})
    wanted = Product(
        asin="B000000001",
        name="Red Shoe",
        description="A shoe.",
        bullets=("Soft ", "Red"),
        category="fashion",
        query="red shoes",
        product_category="Clothing › Shoes",
        pricing=(10.0,),
        price_tag="$10.0",
        options={},
        attributes=("soft",),
        image="https://example.org/1.jpg",
        instruction="Find shoes",
        instruction_attributes=("soft",),
        human=(HumanInstruction("i want it", ("soft",), ("red",)),),
    )
    assert list(catalogue) == [wanted]
    assert catalogue.get("B000000001") == wanted
    assert catalogue.get("B000000002") is None
    assert wanted in catalogue
    assert replace(wanted, name="Other") not in catalogue
    assert contents(wanted) == "red shoe a shoe. soft  "


@pytest.mark.parametrize(
    ("pricing", "dollars", "tag"),
    [
        ("$1.00", (1.0,), "$1.0"),
        ("$1.00 - $2.50", (1.0, 2.5), "$1.0 to $2.5"),
        ("$1,847.00", (1847.0,), "$1847.0"),
        ("$1 - $2 - $3", (1.0, 2.0), "$1.0 to $2.0"),
        ("from $5. only $4", (5.0, 4.0), "$5.0 to $4.0"),
        ("", (100.0,), "$100.0"),
        (None, (100.0,), "$100.0"),
    ],
)
def test_prices(tmp_path: Path, pricing: str | None, dollars: tuple[float, ...], tag: str) -> None:
    product = opened(tmp_path, [item(pricing=pricing)])[0]
    assert (product.pricing, product.price_tag) == (dollars, tag)


def test_optional_fields(tmp_path: Path) -> None:
    bare = {
        key: value for key, value in ITEM.items() if key not in ("pricing", "images", "customization_options", "page")
    }
    product = opened(tmp_path, [{**bare, "small_description": "One line"}])[0]
    assert (product.pricing, product.image, product.options) == ((100.0,), "", {})
    assert (product.bullets, product.attributes, product.human) == (("One line",), ("DUMMY_ATTR",), ())
    assert product.instruction is None
    assert opened(tmp_path, [item(small_description=[])])[0].bullets == ()


def test_options(tmp_path: Path) -> None:
    options = {
        "Size": [{"value": " 5/6 US", "image": None}, {"value": "XL"}],
        "Style": None,
        "Color": [],
        "SIZE": [{"value": "S"}],
    }
    product = opened(tmp_path, [item(customization_options=options)])[0]
    assert list(product.options.items()) == [
        ("size", ("s",)),
        ("color", ()),
    ]  # the later value in the earlier place
    product = opened(tmp_path, [item(customization_options={"Size": options["Size"]})])[0]
    assert product.options == {"size": ("5 | 6 us", "xl")}
    assert contents(product).endswith("soft  size: 5 | 6 us, xl")


def test_records_that_webshop_skips(tmp_path: Path) -> None:
    items = [
        item(1),
        item(1, name="twice"),
        item(asin="nan"),
        item(asin="B" * 11),
        item(asin="b2"),
        item(asin="B2"),
        item(3),
    ]
    catalogue = opened(tmp_path, items)
    assert [product.asin for product in catalogue] == ["B000000001", "B2", "B000000003"]
    assert catalogue[0].name == "Red Shoe"
    assert catalogue.skipped == 0
    assert len(opened(tmp_path, items, num_products=3)) == 1  # the list is cut before records are skipped
    assert len(opened(tmp_path, items, num_products=99)) == 3


def test_an_empty_list_of_attributes_is_kept(tmp_path: Path) -> None:
    catalogue = opened(tmp_path, [item(1), item(2)], {"B000000001": {"attributes": []}, "B000000002": {}})
    assert [product.attributes for product in catalogue] == [(), ("DUMMY_ATTR",)]


WRONG = [
    ("asin", 7, "'asin' must be a string, got 7"),
    ("asin", "", "'asin' must not be empty"),
    ("name", None, "'name' must be a string, got None"),
    ("full_description", ["x"], "'full_description' must be a string, got ['x']"),
    ("small_description", [1], "'small_description' must be a list of strings, got [1]"),
    ("query", 1.5, "'query' must be a string, got 1.5"),
    ("pricing", "ten dollars", "'pricing' must have a number after every $, got 'ten dollars'"),
    ("pricing", "$1.2.3", "'pricing' must have a number after every $, got '$1.2.3'"),
    ("pricing", "$", "'pricing' must have a number after every $, got '$'"),
    ("pricing", 12, "'pricing' must be a string such as '$1.00 - $2.00' or empty, got 12"),
    ("images", "x", "'images' must be a list of addresses, got 'x'"),
    ("customization_options", [1], "'customization_options' must be an object or empty, got [1]"),
    ("customization_options", {"Size": "S"}, "option 'Size' must be a list or null, got 'S'"),
    ("customization_options", {"Size": [{}]}, "option 'Size' must contain objects with a string 'value', got {}"),
]


@pytest.mark.parametrize(("key", "value", "what"), WRONG)
def test_wrong_records_are_named_or_skipped(tmp_path: Path, key: str, value: Any, what: str) -> None:
    items = [item(1), item(2) | {key: value}, item(3)]
    place = "record 1" if key == "asin" and value == 7 else f"record 1 ({items[1]['asin']})"
    assert said(tmp_path, items) == f"{tmp_path / 'products.json'}, {place}: {what}"
    catalogue = opened(tmp_path, items, strict=False)
    assert ([product.asin for product in catalogue], catalogue.skipped) == (["B000000001", "B000000003"], 1)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    torso = {key: value for key, value in ITEM.items() if key != "full_description"}
    assert said(tmp_path, [torso]).endswith("record 0 (B000000001): 'full_description' is missing")
    assert said(tmp_path, [1]).endswith("record 0: expected an object with the keys of a product, got 1")


@pytest.mark.parametrize(
    ("attributes", "human", "what"),
    [
        ({"B000000001": []}, None, "record B000000001: expected an object with 'attributes', got []"),
        ({"B000000001": {"attributes": None}}, None, "'attributes' must be a list of strings, got None"),
        ({"B000000001": {"instruction": 1}}, None, "record B000000001: 'instruction' must be a string, got 1"),
        (None, {"B000000001": {}}, "record B000000001: expected a list of objects with 'instruction', got {}"),
        (None, {"B000000001": [{"instruction": "x"}]}, "'instruction_attributes' must be a list of strings, got None"),
    ],
)
def test_broken_records_of_the_other_files(tmp_path: Path, attributes: Any, human: Any, what: str) -> None:
    assert what in said(tmp_path, [ITEM], attributes, human)
    catalogue = opened(tmp_path, [ITEM], attributes, human, strict=False)
    assert (len(catalogue), catalogue.skipped) == (1, 1)  # the product is kept without the broken record
    assert (catalogue[0].attributes, catalogue[0].human) == (("DUMMY_ATTR",), ())


def test_invalid_files(tmp_path: Path) -> None:
    for strict in (True, False):
        with pytest.raises(CatalogueError, match=r"gone\.json: does not exist"):
            Catalogue.open(tmp_path / "gone.json", strict=strict)
        with pytest.raises(CatalogueError, match="cannot be read"):
            Catalogue.open(tmp_path, strict=strict)
        assert said(tmp_path, "", strict=strict).endswith("the file is empty")
        assert said(tmp_path, " \n ", strict=strict).endswith("the file is empty")
        assert "expected a JSON list of products" in said(tmp_path, '"text"', strict=strict)
        assert "expected a JSON list of products" in said(tmp_path, "<html>", strict=strict)
        assert "expected a JSON object" in said(tmp_path, [ITEM], "[]", strict=strict)
        assert said(tmp_path, "[]", strict=strict).endswith("contains no usable product")
    with pytest.raises(UnknownOption, match="num_products"):
        opened(tmp_path, [ITEM], num_products=0)


def test_truncated_files(tmp_path: Path) -> None:
    whole = json.dumps([item(number) for number in range(1, 6)])
    for cut in range(1, len(whole), 7):
        assert re.search(r"record \d: the file is truncated (here|within it)$", said(tmp_path, whole[:cut]))
    at = whole.index("B000000004")
    assert "record 3: the file is truncated within it" in said(tmp_path, whole[:at])
    catalogue = opened(tmp_path, whole[:at], strict=False)
    assert (len(catalogue), catalogue.skipped) == (3, 1)
    assert "record 5: the file continues after the list" in said(tmp_path, whole + "]")


def test_invalid_json(tmp_path: Path) -> None:
    first = json.dumps(ITEM)
    for rest, what in [
        ('{"asin": }', "record 1: is not JSON (Expecting value at '}, "),
        ("[" * 100_000, "record 1: "),
        ("1" * 5000, "record 1: is not readable JSON"),
        ('{"asin": "x\ty"}', "record 1: is not JSON (Invalid control character"),
    ]:
        text = f"[{first}, {rest}, {json.dumps(item(2))}]"
        assert what in said(tmp_path, text)
        catalogue = opened(tmp_path, text, strict=False)
        assert (len(catalogue), catalogue.skipped) == (1, 1)
    assert "record 1: expected ',' or ']', got '{'" in said(tmp_path, f"[{first} {first}]")
    assert "expected a name in quotes" in said(tmp_path, [ITEM], "{1: 2}")
    assert "expected ':'" in said(tmp_path, [ITEM], '{"a" 2}')


def test_one_record_a_line(tmp_path: Path) -> None:
    lines = [json.dumps(item(1)), "", json.dumps(item(2)), '{"asin": }', json.dumps(item(3))]
    assert "record 2: is not JSON" in said(tmp_path, "\n".join(lines))
    catalogue = opened(tmp_path, "\n".join(lines), strict=False)
    assert ([one.asin[-1] for one in catalogue], catalogue.skipped) == (["1", "2", "3"], 1)
    assert len(opened(tmp_path, "\n".join(lines), num_products=2)) == 2  # records that are not read are not checked


def test_packed_marked_and_foreign_bytes(tmp_path: Path) -> None:
    raw = json.dumps([item(1, name="Schöner Schuh ™"), item(2)], ensure_ascii=False).encode()
    packed = tmp_path / "products.json.gz"
    packed.write_bytes(gzip.compress(raw))
    assert Catalogue.open(packed, cache=False)[0].name == "Schöner Schuh ™"
    packed.write_bytes(gzip.compress(raw)[:-40])
    with pytest.raises(CatalogueError, match="record 0: the file cannot be read further"):
        Catalogue.open(packed, cache=False)
    plain = tmp_path / "products.json"
    plain.write_bytes(b"\xef\xbb\xbf" + raw)
    assert len(Catalogue.open(plain, cache=False)) == 2
    plain.write_bytes(raw.replace("ö".encode(), b"\xf6"))
    with pytest.raises(CatalogueError, match="record 0: contains invalid UTF-8"):
        Catalogue.open(plain, cache=False)


@pytest.fixture
def chunk(request: pytest.FixtureRequest) -> Iterator[int]:
    before = json_stream.CHUNK
    json_stream.CHUNK = request.param  # type: ignore[misc]
    yield request.param
    json_stream.CHUNK = before  # type: ignore[misc]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64], indirect=True)
def test_the_size_of_chunks_changes_nothing(tmp_path: Path, chunk: int) -> None:
    odd = ["é™\U0001f600\\u12\"'", {"a": [1.5e3, -2, True, None, "\ud83d"]}, 12345, [], {}, "", -0.5, "x" * 3 * chunk]
    for indent in (None, 1):
        for ascii in (True, False):
            values = odd if ascii else [value for value in odd if not isinstance(value, dict)]
            path = written(tmp_path / "list.json", json.dumps(values, indent=indent, ensure_ascii=ascii))
            assert list(json_stream.elements(path)) == values
            named = {f"n{number}é": value for number, value in enumerate(values)}
            path = written(tmp_path / "object.json", json.dumps(named, indent=indent, ensure_ascii=ascii))
            texts = [member for member in json_stream.members(path) if isinstance(member, tuple)]
            assert {name: json.loads(text) for name, text in texts} == named


def test_a_record_that_is_too_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", 1000)
    monkeypatch.setattr(json_stream, "LONGEST", 10_000)
    text = f'[{json.dumps(ITEM)}, "{"x" * 100_000}"]'
    assert "record 1: is longer than 10,000 characters" in said(tmp_path, text)


def test_the_error_survives_pickling() -> None:
    error = CatalogueError("a.json", "record 3", "is odd")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.path, again.record) == ("a.json, record 3: is odd", "a.json", "record 3")
    assert isinstance(again, EnvError)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["$1", "$2 - $3", "nan"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from([*ITEM, "other"])
options = st.dictionaries(
    st.text(max_size=4), st.none() | st.lists(st.fixed_dictionaries({"value": values}), max_size=3)
)
records = st.builds(
    lambda number, changes, chosen: item(number, customization_options=chosen) | changes,
    st.integers(1, 4),
    st.dictionaries(keys, values, max_size=2),
    options,
)


@settings(deadline=None, max_examples=150)
@given(
    items=st.lists(records | values, max_size=5), beside=st.dictionaries(st.sampled_from(["B000000001", "x"]), values)
)
def test_any_records(items: list[Any], beside: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    try:
        lenient = opened(folder, items, beside, beside, strict=False)
    except CatalogueError as error:
        assert "contains no usable product" in str(error)  # noqa: PT017
        return
    assert len({product.asin for product in lenient}) == len(lenient) > 0
    for product in lenient:
        assert product.pricing
        lenient.search(contents(product) or "x")
    cached = opened(folder, items, beside, beside, strict=False, cache=folder / "cache")
    assert (list(cached), cached.skipped) == (list(lenient), lenient.skipped)
    if lenient.skipped:
        said(folder, items, beside, beside)
    else:
        assert list(opened(folder, items, beside, beside)) == list(lenient)


@settings(deadline=None, max_examples=100)
@given(raw=st.binary(max_size=60), cut=st.integers(0, 900))
def test_any_bytes(raw: bytes, cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("bytes") / "products.json"
    path.write_bytes(json.dumps([item(1), item(2)]).encode()[:cut] + raw)
    try:
        Catalogue.open(path, cache=False, strict=False)
    except CatalogueError as error:
        assert str(error).startswith(str(path))  # noqa: PT017
        with pytest.raises(CatalogueError):
            Catalogue.open(path, cache=False)


def test_the_real_set(data_dir: Path) -> None:
    catalogue = real_catalogue(data_dir)
    assert (len(catalogue), catalogue.skipped) == (1000, 0)
    assert sum(len(product.pricing) == 2 for product in catalogue) == 93
    assert sum(product.price_tag == "$100.0" for product in catalogue) >= 89
    assert sum(bool(product.options) for product in catalogue) > 400
    assert len(list(catalogue.instructed(human=False))) == 415
    rankings = json.loads((data_dir / "webshop" / "bm25_rankings.json").read_text(encoding="utf-8"))
    assert len(rankings) == 150
    for ranking in rankings:
        assert [asin for asin, _ in catalogue.search(ranking["query"], 50)] == [asin for asin, _ in ranking["hits"]]
