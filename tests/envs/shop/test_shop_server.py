"""The served site: separate sessions, one purchase each, clear error pages, and its use in a browser."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shop_reading import BAD, HOSTILE, MUG, Reader, goal_of, shop_of
from toys.chromium import need_chromium

from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.session import Page, ShopSession
from turncredit.envs.shop.site import render
from turncredit.envs.shop.site.addresses import SiteError, href
from turncredit.envs.shop.site.app import create_app
from turncredit.envs.shop.site.session_store import SessionStore
from turncredit.envs.shop.sources import GeneratedProducts
from turncredit.installation import installation_command
from turncredit.processes.serving import PortInUse, listen, serve_in_thread
from turncredit.tools.browser import find_browser

pytestmark = pytest.mark.waits

httpx = pytest.importorskip("httpx")
for package in ("fastapi", "jinja2", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra `serve`")

CUPS = tuple(Product(f"C{number}", f"cup {number}", query="cups") for number in range(30))
SHOP = shop_of(MUG, BAD, *CUPS)


class Numbered:
    """Goals "0", "1", ... and "train/x/1", one for each product."""

    goals = tuple(goal_of(product, {"color": "red"} if product is MUG else None) for product in SHOP.catalogue)

    def draw(self, rng: Any) -> str:
        return str(rng.integers(len(self.goals)))

    def get(self, id: str) -> Goal:
        number = id.removeprefix("train/x/")
        if not number.isdecimal() or int(number) >= len(self.goals):
            raise UnknownTask(f"no task {id!r}")
        return self.goals[int(number)]


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, SessionStore]]:
    app = create_app(SHOP, Numbered(), capacity=400)
    with serve_in_thread(app) as address:
        yield address, app.state.sessions


@pytest.fixture
def visitor(site: tuple[str, SessionStore]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site[0], follow_redirects=True, timeout=60) as client:
        yield client


def instruction(answer: httpx.Response) -> str:
    texts = [text for text, _ in Reader(answer.text).strings]
    return texts[next(place for place, text in enumerate(texts) if text.strip() == "Instruction:") + 1]


def test_a_visitor_shops_by_forms_and_links_alone(visitor: httpx.Client, site: tuple[str, SessionStore]) -> None:
    """What a browser without JavaScript sends, and the same actions as text: the same purchase, the same reward."""
    found = visitor.post("/0", data={"search_query": "Blue MUG"})
    assert found.url.path == "/search_results/0/blue+mug/1"
    links = [node.attributes["href"] for node in Reader(found.text).nodes if "product-link" in node.classes]
    item = visitor.get(links[0] or "")
    form = next(node for node in Reader(item.text).nodes if "options" in node.classes)
    item = visitor.post(form.attributes["action"] or "", data={"color": "red", "size": 'large "xl"'})
    checked = [node.attributes["value"] for node in Reader(item.text).nodes if "checked" in node.attributes]
    assert checked == ["red", 'large "xl"']
    actions = [node.attributes["action"] or "" for node in Reader(item.text).nodes if node.name == "form"]
    sub = visitor.post(next(action for action in actions if "/Features/" in action))
    assert "dishwasher safe" in sub.text
    end = visitor.post(next(action for action in actions if action.startswith("/done/")))
    assert end.status_code == 200

    same = ShopSession(SHOP, Numbered().get("0"), "0")
    for action in ("search[blue mug]", "click[mug1]", "click[red]", 'click[large "xl"]', "click[buy now]"):
        assert same.act(action)
    bought = site[1].get("0")
    assert bought.reward == same.reward
    assert bought.reward is not None
    assert bought.reward.total == 1.0
    assert bought.page == same.page
    assert "Exactly what was asked for." in end.text


def test_the_first_purchase_counts_until_the_visitor_starts_again(
    visitor: httpx.Client, site: tuple[str, SessionStore]
) -> None:
    first = visitor.get("/done/1/MUG1/{}")
    reward = site[1].get("1").reward
    assert reward is not None
    for address in ("/1", "/search_results/1/cup/1", "/done/1/BAD1/{}", "/item_page/1/BAD1/x/1/{}"):
        again = visitor.get(address)
        assert (again.url, again.text) == (first.url, first.text)
    assert site[1].get("1").reward is reward
    anew = visitor.post("/again/1")
    assert anew.url.path == "/1"
    assert instruction(anew) == Numbered.goals[1].instruction
    assert site[1].get("1").reward is None


def test_a_name_decides_its_goal(visitor: httpx.Client, site: tuple[str, SessionStore]) -> None:
    told = {
        name: instruction(visitor.get(f"/{name}")) for name in ("3", "train-x-4", "train%2Fx%2F5", "ann", "bob", "77")
    }
    assert told["3"] == Numbered.goals[3].instruction
    assert told["train-x-4"] == Numbered.goals[4].instruction
    assert told["train%2Fx%2F5"] == Numbered.goals[5].instruction
    for name in ("ann", "bob", "77"):
        site[1].drop(name)
        assert instruction(visitor.get(f"/{name}")) == told[name]
    others = {instruction(visitor.get(f"/visitor{letter}")) for letter in "abcdefghijkl"}
    assert len(others) > 3


def test_the_root_redirects_to_a_new_session(visitor: httpx.Client) -> None:
    names = {visitor.get("/").url.path for _ in range(3)}
    assert len(names) == 3
    assert all(len(name) == 11 for name in names)


def test_sessions_are_bounded_and_started_ones_stay() -> None:
    sessions = SessionStore(SHOP, Numbered(), capacity=3)
    mine = sessions.start("mine", Numbered().get("2"), {"MUG1": 5.0})
    kept = sessions.get("a")
    for name in ("b", "c", "a", "d"):
        sessions.get(name)
    assert len(sessions) == 4
    assert sessions.get("a") is kept
    assert sessions.get("mine") is mine
    assert mine.price("MUG1") == 5.0
    sessions.restart("mine")
    assert sessions.get("mine") is mine
    assert sessions.get("b") is not None
    sessions.drop("mine")
    sessions.drop("mine")
    assert sessions.get("mine") is not mine
    with pytest.raises(SiteError, match="printable"):
        sessions.start("no\nname", goal_of(MUG))


def test_two_hundred_concurrent_sessions_are_separate(site: tuple[str, SessionStore]) -> None:
    address, sessions = site

    async def shop(number: int) -> tuple[int, str, float, bool]:
        # A client each, as visitors have: one pool of two hundred connections spends its time looking through them.
        async with httpx.AsyncClient(base_url=address, follow_redirects=True, verify=False, timeout=300) as client:
            return await buy(client, number)

    async def buy(client: httpx.AsyncClient, number: int) -> tuple[int, str, float, bool]:
        name, asin = f"crowd{number}", f"C{number % 30}"
        sessions.start(name, goal_of(CUPS[number % 30]))
        pages = [await client.post(f"/{name}", data={"search_query": f"cup {number % 30}"})]
        pages.append(await client.get(href(name, Page("item", ("cup",), 1, asin))))
        results = await client.get(f"/search_results/{name}/cup/1")
        seen = [node.text for node in Reader(results.text).nodes if "seen" in node.classes]
        pages += [results, await client.post(href(name, Page("done", asin=asin)))]
        reward = sessions.get(name).reward
        sessions.drop(name)
        told = instruction(pages[0]) == goal_of(CUPS[number % 30]).instruction
        only = len(seen) <= 1 and all(asin in text.split() for text in seen)
        return max(page.status_code for page in pages), asin, reward.total if reward else -1.0, told and only

    async def crowd() -> list[tuple[int, str, float, bool]]:
        return await asyncio.gather(*map(shop, range(200)))

    ends = asyncio.run(crowd())
    assert [(status, alone) for status, _, _, alone in ends] == [(200, True)] * 200
    for number, (_, asin, total, _) in enumerate(ends):
        alone = SHOP.reward_function(CUPS[number % 30], goal_of(CUPS[number % 30]), SHOP.prices[asin], {})
        assert total == alone.total


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/item_page/s/NONE/x/1/{}", 404),
        ("GET", "/item_page/s/mug1/x/1/{}", 404),
        ("GET", '/item_page/s/MUG1/x/1/{"color": "green"}', 404),
        ("GET", '/done/s/MUG1/{"colour": "red"}', 404),
        ("GET", "/item_sub_page/s/MUG1/x/1/Attributes/{}", 404),
        ("GET", "/search_results/s/x/0", 404),
        ("GET", "/%00", 404),
        ("GET", "/static/none.css", 404),
        ("GET", "/static/..%2fapp.py", 404),
        ("GET", "/static/%2e%2e/app.py", 404),
        ("GET", "/static/..%5capp.py", 404),
        ("GET", "/static//etc/passwd", 404),
        ("GET", "/picture/NONE.svg", 404),
        ("GET", "/picture/..%2f..%2fapp.py", 404),
        ("GET", "/picture/MUG1/zzzzzz.svg", 404),
        ("GET", "/picture/MUG1/ff0000%22.svg", 404),
        ("GET", "/docs/x", 404),
        ("GET", "/docs", 404),
        ("GET", "/openapi.json", 404),
        ("GET", "/sitemap.xml", 404),
        ("GET", "/.env", 404),
        ("GET", "/done", 404),
        ("GET", "/train-x-9999", 404),
        ("GET", "/train%2Fx%2F9999", 404),
        ("GET", "/train-small+values=2-3-000001", 404),
        ("GET", "/held_out-x-1", 404),
        ("GET", "/Held-Out-x-1", 404),
        ("GET", "/item_page/train-x-9999/MUG1/x/1/{}", 404),
        ("POST", "/train-x-9999", 404),
        ("POST", "/robots.txt", 405),
        ("HEAD", "/again/s", 405),
        ("PUT", "/s", 405),
        ("GET", "/again/s", 405),
        ("POST", "/static/shop.css", 405),
        ("GET", "/search_results/s/" + "q" * 5000 + "/1", 414),
    ],
)
def test_errors_have_a_clear_page(visitor: httpx.Client, method: str, address: str, status: int) -> None:
    answer = visitor.request(method, address)
    assert answer.status_code == status
    assert method == "HEAD" or str(status) in [text for text, _ in Reader(answer.text).strings]
    assert "Traceback" not in answer.text
    assert "passwd" not in answer.text


def test_a_mistyped_task_is_an_error(site: tuple[str, SessionStore]) -> None:
    from turncredit.envs.shop.env import WebShopEnv

    source = WebShopEnv(GeneratedProducts(level="tiny", split="held_out")).source
    sessions = SessionStore(source.shop, source)
    goal = source.get("held_out/tiny/000003")
    assert sessions.get("held_out-tiny-000003").goal == sessions.get("held_out/tiny/000003").goal == goal
    for name in ("held_out-tiny-9999", "train-tiny-000000", "held_out-tinny-000001", "held-out-tiny-000001"):
        with pytest.raises(UnknownTask, match=r"ids look like 'held_out/tiny/000012'"):
            sessions.get(name)
    with pytest.raises(UnknownTask, match=r"unknown task 'held_out/tiny\+a=2-3/000001'"):
        sessions.get("held_out-tiny+a=2-3-000001")
    for name in ("train", "train-tiny", "training-run-1", "my-held_out-tiny-1"):
        assert sessions.get(name).goal
    assert len(sessions) == 6


def test_requests_of_crawlers_open_no_session(visitor: httpx.Client, site: tuple[str, SessionStore]) -> None:
    before = len(site[1])
    robots = visitor.get("/robots.txt")
    assert (robots.text, robots.headers["content-type"]) == (
        "User-agent: *\nDisallow: /\n",
        "text/plain; charset=utf-8",
    )
    for path in ("docs", "redoc", "favicon.ico", "apple-touch-icon.png", "ads.txt", ".well-known", "wp-login.php"):
        assert visitor.get(f"/{path}").status_code == (200 if path == "favicon.ico" else 404)
    assert len(site[1]) == before


def test_head_is_answered_as_get_without_the_body(visitor: httpx.Client) -> None:
    for address in (
        "/",
        "/s",
        "/search_results/s/cup/1",
        "/static/shop.css",
        "/robots.txt",
        "/picture/MUG1.svg",
        "/%00",
    ):
        got = visitor.get(address, follow_redirects=False)
        head = visitor.head(address, follow_redirects=False)
        assert (head.status_code, head.content) == (got.status_code, b"")
        for name in ("content-type", "content-length", "content-security-policy"):
            assert head.headers.get(name) == got.headers.get(name)


def test_products_named_as_folders_can_be_visited(visitor: httpx.Client, site: tuple[str, SessionStore]) -> None:
    odd = [Product(asin, "mug", pricing=(1.0,), options={"color": ("red",)}) for asin in (".", "..", "a/b")]
    with (
        serve_in_thread(create_app(shop_of(*odd), Numbered())) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        results = Reader(client.get("/search_results/s/mug/1").text).nodes
        links = [node.attributes["href"] or "" for node in results if "product-link" in node.classes]
        pages = [client.get(link) for link in links]
        pictures = [node.attributes["src"] or "" for node in results if node.name == "img"]
        pictures += [address.replace(".svg", "/cc3430.svg") for address in pictures]
        statuses = [client.get(picture).status_code for picture in pictures]
        end = client.get(href("s", Page("done", asin="..")), follow_redirects=True)
    assert [page.status_code for page in pages] == [200] * 3
    assert statuses == [200] * 6
    assert "Thank you for shopping" in end.text


def test_a_site_has_one_shop() -> None:
    class Many(Numbered):
        count = 3

    with pytest.raises(UnknownOption, match="a site has one shop, but these goals belong to 3"):
        create_app(SHOP, Many())
    Many.count = 1
    create_app(SHOP, Many())


def test_pictures_and_files_are_served_by_name(visitor: httpx.Client) -> None:
    for address, kind in (
        ("/static/shop.css", "text/css"),
        ("/static/shop.js", "text/javascript"),
        ("/favicon.ico", "image/svg+xml"),
        ("/picture/MUG1.svg", "image/svg+xml"),
        ("/picture/MUG1/cc3430.svg", "image/svg+xml"),
    ):
        answer = visitor.get(address)
        assert (answer.status_code, answer.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
        assert answer.content


def test_queries_of_any_kind_are_answered(visitor: httpx.Client) -> None:
    for query in (
        HOSTILE,
        "a/b",
        "..",
        ".",
        "+",
        "%2e%2e",
        "\x00\x1b[31m",
        "\r\nSet-Cookie: a=b",
        "<r>",
        "(((.*",
        "é" * 900,
    ):
        answer = visitor.post("/hostile", data={"search_query": query})
        assert answer.status_code == 200, query
        assert "Page 1 (Total results:" in answer.text
        assert "set-cookie" not in answer.headers
    assert visitor.post("/hostile", data={"search_query": ""}).url.path == "/hostile"
    assert visitor.post("/hostile", data={"search_query": "x" * 3000}).status_code == 413
    assert visitor.post("/hostile", data={"search_query": "x" * 1_000_000}).status_code == 413
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert visitor.post("/hostile", content=b"&".join([b"a=b"] * 5000), headers=form).status_code == 413
    assert visitor.post("/hostile", content=b"\xff\xfe=%ff", headers=form).status_code == 200
    assert visitor.post("/hostile", content=b"a=b").status_code == 415


def test_every_answer_forbids_what_pages_do_not_need(visitor: httpx.Client) -> None:
    for address in ("/s", "/static/shop.css", "/picture/MUG1.svg", "/nothing/here", "/"):
        headers = visitor.get(address).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_taken_port_is_one_sentence() -> None:
    with listen() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port}.*choose another"):
            listen(port=port)
    with pytest.raises(PortInUse, match="must be an address of this machine"):
        listen("no.such.host.invalid")
    with pytest.raises(PortInUse, match="to 65535"):
        listen(port=70_000)


def test_a_server_leaves_nothing_behind() -> None:
    with serve_in_thread(create_app(SHOP, Numbered())) as address:
        host, port = address.removeprefix("http://").split(":")
        assert httpx.get(f"{address}/s", timeout=60).status_code == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=60)


def test_without_the_extra_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("fastapi", "jinja2", "uvicorn"):
        monkeypatch.setitem(sys.modules, package, None)
    render._templates.cache_clear()
    with pytest.raises(ImportError, match=re.escape(installation_command("serve"))):
        render.html(ShopSession(SHOP, goal_of(MUG), "s"))
    with pytest.raises(ImportError, match=re.escape(installation_command("serve"))):
        create_app(SHOP, Numbered())


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "turncredit.cli.main", "serve", "shop", "--level", "tiny", *arguments]


def test_the_command_serves_until_it_is_interrupted() -> None:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": Path(__file__).parent}
    with subprocess.Popen(command("--port", "0"), text=True, **pipes) as process:
        assert process.stdout is not None
        try:
            address = next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
            answer = httpx.get(f"{address}/held_out-tiny-000001", timeout=300)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=300)
        finally:
            process.kill()
    assert answer.status_code == 200
    assert "Instruction:" in answer.text
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "{port}"], "choose another port"),
        (["--host", "no.such.host.invalid"], "must be an address of this machine"),
        (["--port", "0", "--level", "tinny"], "'tiny'"),
        (["--port", "0", "--level", "tiny", "--split", "tran"], "'train'"),
        (["--port", "0", "no-such-file.json"], "no-such-file.json"),
        (["--port", "70000"], "65535"),
        (["--port", "0", "--level", "tiny", "--reward", "mended"], "'mended'"),
    ],
)
def test_mistakes_in_the_command_are_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from turncredit.cli.main import app

    with listen() as taken:
        port = str(taken.getsockname()[1])
        given = [argument.replace("{port}", port) for argument in arguments]
        code = app(["serve", "shop", *given], standalone_mode=False)
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert sentence in said.err
    assert len(said.err.strip().splitlines()) == 1


@pytest.fixture
def browser() -> Iterator[Any]:
    need_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        launched = play.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        yield launched
        launched.close()


MUG_PAGE = Page("item", ("mug",), 1, "MUG1", (("color", "red"),))
FOCUSED = """() => {
    const box = (element => element.closest('.choice') || element)(document.activeElement).getBoundingClientRect();
    const name = document.activeElement.value || document.activeElement.textContent;
    return [name, box.top + window.scrollY, box.bottom + window.scrollY, box.left];
}"""


@pytest.mark.parametrize("width", [390, 1200])
def test_tab_goes_through_the_page_as_it_is_seen(site: tuple[str, SessionStore], browser: Any, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.goto(site[0] + href("1", MUG_PAGE))
    page.keyboard.press("Tab")  # the link that skips the header
    reached = []
    while not reached or reached[-1][0] != "Buy Now":
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
    values = [value for values in MUG.options.values() for value in values]
    named = ["Back to Search", "< Prev", *values, "Description", "Features", "Reviews", "Buy Now"]
    assert [name for name, *_ in reached] == named
    for (_, top, bottom, left), (_, next_top, _, next_left) in itertools.pairwise(reached):
        assert next_top >= bottom or (next_top == top and next_left > left)


def test_options_can_be_selected_by_their_text_and_by_keys(site: tuple[str, SessionStore], browser: Any) -> None:
    page = browser.new_page()
    page.goto(site[0] + href("1", MUG_PAGE))
    page.get_by_text("navy blue", exact=True).click()
    page.wait_for_url("**/item_page/1/MUG1/**navy**")
    page.wait_for_selector("input[value='navy blue']:focus", state="attached")
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.value") == "12 oz"
    assert page.locator(":checked").evaluate_all("found => found.map(radio => radio.value)") == ["navy blue"]
    page.keyboard.press("Enter")
    page.wait_for_url("**/item_page/1/MUG1/**12**")
    assert page.locator(":checked").evaluate_all("found => found.map(radio => radio.value)") == ["navy blue", "12 oz"]


def test_nothing_covers_the_options_on_a_phone(site: tuple[str, SessionStore], browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(site[0] + href("1", MUG_PAGE))
    boxes = "found => found.map(e => e.getBoundingClientRect()).map(b => [b.left, b.top, b.right, b.bottom])"
    for scrolled in (0, 100, 10_000):
        page.evaluate(f"window.scrollTo(0, {scrolled})")
        found = page.locator(".photo, .facts, .choice, .more .btn, .purchase, .bar").evaluate_all(boxes)
        assert len(found) == 11
        for (left, top, right, bottom), (x, y, end, low) in itertools.combinations(found, 2):
            assert right <= x or end <= left or bottom <= y or low <= top


def test_the_keyboard_alone_is_enough(site: tuple[str, SessionStore], browser: Any) -> None:
    address, sessions = site
    sessions.start("keys", goal_of(MUG, {"color": "red"}))
    page = browser.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(f"{address}/keys")
    page.wait_for_selector("#search_input:focus")
    page.keyboard.type("cup")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search_results/keys/cup/1")
    page.keyboard.press("n")
    page.wait_for_url("**/search_results/keys/cup/2")
    page.keyboard.press("p")
    page.wait_for_url("**/search_results/keys/cup/1")
    page.keyboard.press("/")
    page.wait_for_url("**/keys")
    page.wait_for_selector("#search_input:focus")
    page.keyboard.type("blue mug")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search_results/keys/blue+mug/1")
    page.keyboard.press("2")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.textContent") == "MUG1"
    page.keyboard.press("1")
    page.wait_for_url("**/item_page/keys/MUG1/**")
    page.click("input[value=red]")
    page.wait_for_url("**/item_page/keys/MUG1/**red**")
    page.wait_for_selector("input[value=red]:focus", state="attached")
    page.keyboard.press("f")
    page.wait_for_url("**/Features/**")
    page.keyboard.press("p")
    page.wait_for_url("**/item_page/keys/MUG1/**red**")
    page.focus(".purchase")
    page.keyboard.press("Enter")
    page.wait_for_selector("#reward")
    width = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    reward = sessions.get("keys").reward
    sessions.drop("keys")
    assert wrong == []
    assert width <= 0
    assert reward is not None
    assert reward.total == 1.0


def test_the_score_stays_inside_its_ring(site: tuple[str, SessionStore], browser: Any) -> None:
    address, sessions = site
    goal = replace(goal_of(MUG, {"size": "12 oz"}), attributes=("steel",))
    measured = """() => {
        const words = document.createRange();
        words.selectNodeContents(document.querySelector('#reward pre'));
        const text = words.getBoundingClientRect(), ring = document.querySelector('.ring').getBoundingClientRect();
        const inside = (104 - 11) / 120 * ring.width;  // of the circle's stroke, see bars.html and shop.css
        return [Math.hypot(text.width, text.height), inside,
            text.left + text.right - ring.left - ring.right, text.top + text.bottom - ring.top - ring.bottom];
    }"""
    for width in (320, 390, 760, 1200):
        sessions.start(f"ring{width}", goal)
        page = browser.new_page(viewport={"width": width, "height": 700})
        page.goto(f"{address}/done/ring{width}/MUG1/{{}}")
        assert page.inner_text("#reward pre") == "0.67"
        assert page.inner_text(".sum").endswith("= 0.6667")
        diagonal, inside, across, down = page.evaluate(measured)
        assert diagonal < inside
        assert (abs(across) < 2, abs(down) < 4) == (True, True)
        sessions.drop(f"ring{width}")


def test_pages_fit_a_phone_whatever_they_hold(site: tuple[str, SessionStore], browser: Any) -> None:
    address, _ = site
    long = Page("item", ("mug",), 1, "BAD1", ((HOSTILE.lower(), "a/b"),))
    page = browser.new_page(viewport={"width": 320, "height": 640})
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    for path in (
        "/1",
        "/search_results/1/mug/1",
        href("1", long),
        "/item_sub_page/1/BAD1/x/1/Description/{}",
        "/done/fit/BAD1/{}",
    ):
        page.goto(address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
    assert dialogs == []
