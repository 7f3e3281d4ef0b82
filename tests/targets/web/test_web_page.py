"""The page in headless Chromium, used as a person uses it; every number it shows is the reference's."""

from __future__ import annotations

import functools
import gzip
import json
import struct
import threading
import zlib
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import Chromium
from numpy.typing import NDArray
from random_programs import gated, random_program, top_probability

import blrc
from blrc.program import head, program_file, reference
from blrc.program.program import Program
from blrc.program.vectors import record
from blrc.targets.options import EmitOptions
from blrc.targets.web.emit import emit
from blrc.verification.inputs.stimuli import random_inputs

MNIST = Path(__file__).parents[3] / "examples" / "mnist"
SEVEN = [(0.3, 0.25), (0.45, 0.25), (0.68, 0.25), (0.6, 0.45), (0.5, 0.65), (0.45, 0.8)]

pytestmark = pytest.mark.needs("chromium", "clang-19", "wasm-ld-19")


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped network with three members, as a page."""
    folder = tmp_path_factory.mktemp("page") / "out"
    blrc.export(MNIST / "mnist.pt", folder=folder, targets=["web"], members="3")
    return folder


@pytest.fixture(scope="module")
def program(mnist: Path) -> Program:
    return program_file.load(mnist / "mnist.program.npz")


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as chromium:
        yield chromium


@pytest.fixture
def page(browser: Chromium, mnist: Path) -> Iterator[Chromium]:
    """The page, opened from the disk; whatever a test does, it complains of nothing and loads nothing else."""
    browser.problems.clear()
    browser.requests.clear()
    browser.load((mnist / "web" / "index.html").as_uri())
    yield browser
    browser.settle()
    assert not browser.problems
    assert {Path(url.removeprefix("file://")).parent for url in browser.requests} == {mnist / "web"}


def expected(program: Program, raw: NDArray[Any], asked: int | None = None) -> dict[str, Any]:
    """What the page is to show of one input (H, W, C) after so many members (all, or one where the gate lets it)."""
    scale = head.scale_of(program.score_scale)
    scores = [reference.scores(program, raw[None], member) for member in range(len(program.members))]
    answer = head.ensemble(scores[:asked], scale, 0 if asked else program.gate)
    members = int(answer.members[0])
    own = [head.log_probabilities(s, scale) for s in scores[:members]]
    return {
        "label": int(answer.label[0]),
        "members": members,
        "mean": int(answer.mean[0]),
        "variance": int(answer.variance[0]),
        "log_p": answer.log_p[0].tolist(),
        "by_member": [{"log_p": o[0].tolist(), "p": head.probabilities(o)[0].tolist()} for o in own],
    }


def text(page: Chromium, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))


def shown(page: Chromium) -> Any:
    """The integers that the page shows; None where it shows none."""
    found = text(page, "#integers")
    return json.loads(found) if found else None


def seen(page: Chromium) -> NDArray[np.uint8]:
    """What the page says the network sees: (H, W, 1)."""
    pixels = page.evaluate("""(() => {
      const c = document.querySelector("#seen");
      const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", {willReadFrequently: true});
      copy.drawImage(c, 0, 0);
      return [c.height, c.width, [...copy.getImageData(0, 0, c.width, c.height).data]];
    })()""")
    return np.array(pixels[2], np.uint8).reshape(pixels[0], pixels[1], 4)[..., :1]


def draw(page: Chromium, points: list[tuple[float, float]]) -> None:
    x, y, width, height = page.box("#pad")
    page.drag([(x + px * width, y + py * height) for px, py in points])


def png(image: NDArray[np.uint8]) -> bytes:
    """A grey image as a file."""
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    size = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", size), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


@pytest.fixture(scope="module")
def digits() -> NDArray[np.uint8]:
    data = gzip.decompress((MNIST / "data" / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    return np.frombuffer(data, np.uint8).reshape(-1, 28, 28)


@pytest.mark.nightly
def test_recorded_digits_give_the_references_answer(page: Chromium, program: Program, mnist: Path) -> None:
    recorded = np.load(mnist / "mnist.vectors.npz")["inputs"]
    samples = recorded[np.ptp(recorded, axis=(1, 2, 3)) > 0]
    assert page.evaluate("document.querySelectorAll('.samples button').length") == len(samples) == 6
    assert shown(page) is None
    for i, raw in enumerate(samples):
        page.click(f".samples button:nth-child({i + 1})")
        page.wait_for("document.querySelector('#recorded').textContent.startsWith('Equal, bit for bit')")
        assert shown(page) == expected(program, raw)
        assert np.array_equal(seen(page), raw)
        assert text(page, "#label") == str(expected(program, raw)["label"])
        assert page.evaluate("document.querySelectorAll('.samples [aria-pressed=true]').length") == 1


def test_an_answer_that_is_not_the_recorded_one_is_reported(page: Chromium) -> None:
    page.evaluate("blrcModel.samples[0].log_p[3] += 1")
    page.click(".samples button:nth-child(1)")
    page.wait_for("!document.querySelector('#problem').hidden")
    assert "not what the reference recorded" in text(page, "#problem")
    page.click("#clear")
    assert page.evaluate("document.querySelector('#problem').hidden")


def test_a_drawn_stroke_gives_a_label_of_what_the_page_shows(page: Chromium, program: Program) -> None:
    draw(page, SEVEN)
    page.wait_for("document.querySelector('#spoken').textContent !== ''")
    image = seen(page)
    assert shown(page) == expected(program, image)
    assert text(page, "#label") == "7"
    assert text(page, "#spoken").startswith("7, mean probability ")
    rows, columns = np.flatnonzero(image.any((1, 2))), np.flatnonzero(image.any((0, 2)))
    assert max(np.ptp(rows), np.ptp(columns)) + 1 == 20
    draw(page, [(0.35, 0.5), (0.65, 0.5)])  # a bar through the seven
    assert not np.array_equal(seen(page), image)
    page.click("#undo")
    assert np.array_equal(seen(page), image)
    page.click("#undo")
    assert shown(page) is None
    assert not seen(page).any()


def test_fingers_draw_too(page: Chromium, program: Program) -> None:
    x, y, width, height = page.box("#pad")
    points = [{"x": x + px * width, "y": y + py * height} for px, py in SEVEN]
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=points[:1])
    for point in points[1:]:
        page.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[point])
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    page.wait_for("document.querySelector('#spoken').textContent !== ''")
    assert shown(page) == expected(program, seen(page))
    assert text(page, "#label") == "7"


def test_a_stroke_begins_on_an_empty_sheet(page: Chromium) -> None:
    draw(page, SEVEN)
    alone = seen(page)
    page.click(".samples button:nth-child(2)")
    draw(page, SEVEN)
    assert np.array_equal(seen(page), alone)
    assert text(page, "#recorded") == ""
    assert page.evaluate("document.querySelectorAll('.samples [aria-pressed=true]').length") == 0


def test_an_image_is_chosen_dropped_or_pasted(
    page: Chromium, program: Program, digits: NDArray[np.uint8], tmp_path: Path
) -> None:
    for i, image in enumerate(digits[:3]):
        file = tmp_path / "digit.png"
        file.write_bytes(png(image))
        if i == 0:
            page.give_file("#file", file)
        else:
            event = "new DragEvent('drop', {dataTransfer: files, bubbles: true})"
            if i == 2:
                event = "new ClipboardEvent('paste', {clipboardData: files, bubbles: true})"
            page.evaluate(f"""(() => {{
              const files = new DataTransfer();
              const bytes = Uint8Array.from({list(png(image))});
              files.items.add(new File([bytes], "digit.png", {{type: "image/png"}}));
              document.body.dispatchEvent({event});
            }})()""")
        wanted = expected(program, image[..., None])
        page.wait_for(f"document.querySelector('#integers').textContent.includes({json.dumps(str(wanted['log_p']))})")
        assert shown(page) == wanted
        assert "as it is" in text(page, "#seen-how")


def test_a_photo_is_prepared_as_mnist_was(
    page: Chromium, program: Program, digits: NDArray[np.uint8], tmp_path: Path
) -> None:
    """Dark ink on light paper, larger, not in the middle."""
    digit = (digits[0] > 127) * np.uint8(255)
    photo = np.full((280, 210), 230, np.uint8)
    photo[60:200, 40:180] -= np.kron(digit, np.ones((5, 5), np.uint8)) // 255 * 200
    (tmp_path / "photo.png").write_bytes(png(photo))
    page.give_file("#file", tmp_path / "photo.png")
    page.wait_for("document.querySelector('#label').textContent === '7'")
    assert shown(page) == expected(program, seen(page))
    assert "As MNIST was made" in text(page, "#seen-how")


def test_a_file_that_is_no_image_is_refused_in_words(page: Chromium, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("seven")
    page.give_file("#file", tmp_path / "notes.txt")
    page.wait_for("!document.querySelector('#problem').hidden")
    assert text(page, "#problem") == "notes.txt is no image that this browser can read."


def test_the_slider_shows_what_fewer_networks_say(page: Chromium, program: Program, mnist: Path) -> None:
    raw = np.load(mnist / "mnist.vectors.npz")["inputs"][0]
    page.click(".samples button:nth-child(1)")
    for asked in (1, 2, 3):
        page.evaluate(f"""(() => {{
          const slider = document.querySelector("#asked");
          slider.value = {asked};
          slider.dispatchEvent(new Event("input"));
        }})()""")
        assert shown(page) == expected(program, raw, asked)
        assert text(page, "#asked-text") == f"Ask {asked} of 3 networks"
        assert page.evaluate("document.querySelectorAll('.unasked').length") == 3 - asked


def test_everything_but_drawing_works_from_the_keyboard(page: Chromium, program: Program, mnist: Path) -> None:
    def press(key: str, code: int, sent: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            extra = {"text": sent} if sent and kind == "keyDown" else {}
            page.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **extra)

    visited = []
    for _ in range(8):
        press("Tab", 9)
        visited.append(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('aria-label')"))
        if visited[-1] == "Sample 2":
            press("Enter", 13, "\r")
    assert visited == ["open", *(f"Sample {i}" for i in range(1, 7)), "asked"]
    press("ArrowLeft", 37)
    assert text(page, "#asked-text") == "Ask 2 of 3 networks"
    assert shown(page) == expected(program, np.load(mnist / "mnist.vectors.npz")["inputs"][1], 2)
    press("Escape", 27)
    assert shown(page) is None


@pytest.mark.nightly
def test_a_static_server_serves_it(browser: Chromium, mnist: Path) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=mnist / "web")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.problems.clear()
        browser.requests.clear()
        address = f"http://127.0.0.1:{server.server_port}/"
        browser.load(address)
        browser.click(".samples button:nth-child(1)")
        browser.wait_for("document.querySelector('#recorded').textContent.startsWith('Equal, bit for bit')")
        server.shutdown()
    assert not browser.problems
    assert {url.rpartition("/")[0] + "/" for url in browser.requests} == {address}


def write(program: Program, inputs: NDArray[Any], folder: Path) -> str:
    for file, content in emit(program, EmitOptions("net", record(program, inputs), "0.0")).files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(content)
    return (folder / "web" / "index.html").as_uri()


@pytest.mark.nightly
def test_a_colour_network_takes_images_and_no_strokes(browser: Chromium, tmp_path: Path) -> None:
    program = random_program(1, "uint8", (9, 7, 3))
    inputs = random_inputs(program.input, 2, 0)
    browser.load(write(program, inputs, tmp_path))
    draw(browser, SEVEN)
    assert shown(browser) is None
    assert text(browser, "#title") == "Open an image"
    browser.click(".samples button:nth-child(2)")
    assert shown(browser) == expected(program, inputs[1])
    grey = random_inputs(program.input, 1, 1)[0, ..., 0]
    (tmp_path / "grey.png").write_bytes(png(grey))
    browser.give_file("#file", tmp_path / "grey.png")
    wanted = expected(program, np.repeat(grey[..., None], 3, 2))
    browser.wait_for(f"document.querySelector('#integers').textContent.includes({json.dumps(str(wanted['log_p']))})")
    assert shown(browser) == wanted


@pytest.mark.nightly
def test_where_the_gate_lets_it_the_first_network_answers_alone(browser: Chromium, tmp_path: Path) -> None:
    program = random_program(3, "uint8", (12, 9, 1), members=3)
    inputs = random_inputs(program.input, 40, 0)
    sure = top_probability(program, inputs)
    program = gated(program, int(sure.max()))
    inputs = inputs[[sure.argmax(), sure.argmin()]]
    browser.load(write(program, inputs, tmp_path))
    for i, members in enumerate((1, 3)):
        browser.click(f".samples button:nth-child({i + 1})")
        browser.wait_for("document.querySelector('#recorded').textContent.startsWith('Equal, bit for bit')")
        assert shown(browser) == expected(program, inputs[i])
        assert shown(browser)["members"] == members
        assert text(browser, "#note").startswith("The first network was certain enough") == (members == 1)
