/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
"use strict";
/* Brings the parts together: what is given, what the network sees, what it says. */

const MODEL = blrcModel;
const COLOUR = MODEL.channels > 1;
const DIGITS = looksAtMnist(MODEL) && MODEL.classes === 10;
const COUNT = MODEL.members.length;
const FRAME = 8; // milliseconds of computing before the page may show what there is
const $ = (id) => document.getElementById(id);

const pad = makePad($("pad"), MODEL, (finished) => drawn(finished));
const show = makeVotes(document.querySelector(".votes table"), MODEL);
let network = null;
let steps = null; // what each network said of the present input
let sample = null; // the recorded one that is shown, or null
let run = 0; // which input is being computed; a newer one stops it
let waiting = false; // for the next frame, to look at a drawing

function fail(error) {
  $("problem").textContent = error.message || String(error);
  $("problem").hidden = false;
}

/* Give the network an input (bytes, or null for none) and show what it says, network by network. */
function give(raw, finished) {
  const mine = ++run;
  steps = null;
  showSeen(raw);
  if (raw === null || network === null) {
    showAnswer(true);
    return;
  }
  $("results").setAttribute("aria-busy", "true");
  network.start(raw);
  const said = [];
  const go = () => {
    if (mine !== run) {
      return;
    }
    try {
      const until = performance.now() + FRAME;
      do {
        said.push(network.add());
      } while (said.length < COUNT && !said[0].alone && performance.now() < until);
    } catch (error) {
      fail(error);
      return;
    }
    steps = said;
    const all = said.length === COUNT || said[0].alone;
    showAnswer(finished && all);
    if (all) {
      $("results").setAttribute("aria-busy", "false");
    } else {
      requestAnimationFrame(go);
    }
  };
  go();
}

function showSeen(raw) {
  const { width, height, channels } = MODEL;
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) {
      image.data[4 * i + c] = raw === null ? 0 : raw[i * channels + (channels === 1 ? 0 : c)];
    }
    image.data[4 * i + 3] = 255;
  }
  $("seen").getContext("2d").putImageData(image, 0, 0);
}

const share = (p) => (p === 1 ? "100 %" : `${(100 * p).toFixed(p > 0.9995 ? 2 : 1)} %`);

/* How many counts: what the slider says, or all that there are. */
const counted = () => Math.min(Number($("asked").value), steps.length);

function showAnswer(speak) {
  const empty = steps === null;
  const asked = empty ? 0 : counted();
  const answer = empty ? null : steps[asked - 1];
  show(steps, asked);
  $("label").textContent = empty ? "\u00b7" : answer.label;
  $("label").classList.toggle("none", empty);
  $("mean").textContent = empty ? "\u2013" : share(answer.mean / 65536);
  $("variance").textContent = empty ? "\u2013" : (answer.variance / 2 ** 32).toFixed(4);
  const same = empty ? 0 : steps.slice(0, asked).filter((step) => step.own.label === answer.label).length;
  $("agree").textContent = empty ? "\u2013" : `${same} of ${asked} for ${answer.label}`;
  const alone = !empty && steps[0].alone;
  $("asked").disabled = alone;
  $("asked-text").textContent = alone ? `Asked 1 of ${COUNT} networks` : `Ask ${$("asked").value} of ${COUNT} networks`;
  $("note").textContent = empty ? "" : noteOn(asked);
  $("integers").textContent = empty ? "" : integers(asked);
  $("recorded").textContent = empty ? "" : recorded(asked);
  if (speak) {
    $("spoken").textContent = empty
      ? ""
      : `${answer.label}, ${COUNT === 1 ? "" : "mean "}probability ${share(answer.mean / 65536)}` +
        (asked === 1 ? "." : `, ${same} of ${asked} networks agree.`);
  }
}

function noteOn(asked) {
  if (steps[0].alone) {
    return `The first network was certain enough (${share(MODEL.gate / 65536)} or more) to answer alone.`;
  }
  const settled = steps.findIndex((step) => step.settled) + 1;
  if (COUNT === 1 || settled === 0 || settled === COUNT) {
    return "";
  }
  const rest = COUNT - settled;
  return asked < settled
    ? "The networks not yet asked could still change the label."
    : `Settled after ${settled}: the other ${rest} could not change the label.`;
}

const list = (values) => `[${values.join(", ")}]`;

function integers(asked) {
  const { label, mean, variance, log_p } = steps[asked - 1];
  const own = steps.slice(0, asked).map((step) => `    {"log_p": ${list(step.own.log_p)}, "p": ${list(step.own.p)}}`);
  return [
    `{"label": ${label}, "members": ${asked}, "mean": ${mean}, "variance": ${variance},`,
    `  "log_p": ${list(log_p)},`,
    `  "by_member": [\n${own.join(",\n")}]}`,
  ].join("\n");
}

/* A recorded sample comes with what the reference said of it. */
function recorded(asked) {
  if (sample === null || asked < sample.members) {
    return "";
  }
  const { label, mean, variance, log_p } = steps[asked - 1];
  const equal =
    asked === sample.members &&
    label === sample.label &&
    mean === sample.mean &&
    variance === sample.variance &&
    log_p.every((value, c) => value === sample.log_p[c]);
  if (!equal) {
    fail(new Error("This is not what the reference recorded for this sample: please report it."));
  }
  return equal ? "Equal, bit for bit, to what the reference recorded for this sample." : "";
}

/* How what is shown becomes what the network sees. `exact`: a picture of the network's own size. */
function preparation(kind, exact) {
  const size = `${MODEL.width}\u00a0\u00d7\u00a0${MODEL.height}`;
  if (kind === "sample") {
    return `As it was recorded, ${size} pixels.`;
  }
  if (exact) {
    return `The image as it is: it has ${size} pixels.`;
  }
  if (looksAtMnist(MODEL)) {
    return (
      `As MNIST was made: scaled to fit ${BOX}\u00a0\u00d7\u00a0${BOX} pixels, ` +
      `then placed in ${size} with its centre of mass in the middle.`
    );
  }
  return kind === "picture" || COLOUR
    ? `The middle of the image, scaled to ${size} pixels.`
    : `The sheet, ink white on black, scaled to ${size} pixels.`;
}

/* The sheet shows something else from now on: a drawing, a picture, a recorded sample, or nothing. */
function turn(kind, exact = false) {
  $("seen-how").textContent = preparation(kind, exact);
  $("sheet").dataset.shows = kind;
  $("problem").hidden = true;
  $("undo").disabled = kind !== "drawing";
  $("clear").disabled = kind === "nothing";
  if (kind !== "sample") {
    sample = null;
    document.querySelectorAll(".samples button").forEach((button) => button.setAttribute("aria-pressed", "false"));
  }
}

function drawn(finished) {
  const kind = $("sheet").dataset.shows;
  if (kind !== "drawing") {
    turn("drawing");
  }
  const look = () => {
    waiting = false;
    if ($("sheet").dataset.shows === "drawing") {
      give(fromDrawing(pad.ink(), pad.canvas.width, pad.canvas.height, MODEL), finished);
    }
  };
  if (finished) {
    look();
  } else if (!waiting) {
    waiting = true;
    requestAnimationFrame(look);
  }
}

function clear() {
  pad.clear();
  turn("nothing");
  give(null, true);
}

function undo() {
  pad.undo();
  if (pad.strokes() === 0) {
    clear();
  } else {
    drawn(true);
  }
}

/* Bytes of the network's input as a picture; grey ones as ink, so that they look drawn. */
function picture(raw) {
  const { width, height, channels } = MODEL;
  const canvas = element("canvas");
  canvas.width = width;
  canvas.height = height;
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    if (COLOUR) {
      image.data.set([raw[channels * i], raw[channels * i + 1], raw[channels * i + 2], 255], 4 * i);
    } else {
      image.data[4 * i + 3] = raw[i];
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function showSample(recordedSample, button) {
  const raw = bytesOf(recordedSample.input);
  pad.clear();
  turn("sample");
  pad.context.drawImage(picture(raw), 0, 0, pad.canvas.width, pad.canvas.height);
  document.querySelectorAll(".samples button").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
  sample = recordedSample;
  give(raw, true);
}

async function openImage(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    fail(new Error(`${file.name || "That"} is no image that this browser can read.`));
    return;
  }
  const shrink = Math.min(1, LONG_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = element("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * shrink));
  canvas.height = Math.max(1, Math.round(bitmap.height * shrink));
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  pad.clear();
  turn("picture", isExact(data, canvas.width, canvas.height, MODEL));
  const fit = Math.min(pad.canvas.width / canvas.width, pad.canvas.height / canvas.height);
  const [width, height] = [canvas.width * fit, canvas.height * fit];
  pad.context.drawImage(bitmap, (pad.canvas.width - width) / 2, (pad.canvas.height - height) / 2, width, height);
  give(fromPicture(data, canvas.width, canvas.height, MODEL), true);
}

function takeFile(list) {
  const file = [...list].find((each) => each.type.startsWith("image/")) || list[0];
  if (file) {
    openImage(file);
  }
}

function write() {
  const what = DIGITS ? "a digit" : "something";
  const networks = COUNT === 1 ? "A binary neural network looks" : `${COUNT} binary neural networks look`;
  document.title = `${MODEL.name}: ${COLOUR ? "open an image" : `draw ${what}`}`;
  $("title").textContent = COLOUR ? "Open an image" : `Draw ${what}`;
  $("intro").textContent = `${networks} at it, here in your browser.`;
  $("hint").textContent = COLOUR ? "drop an image here" : "draw here";
  $("pad").setAttribute("aria-label", COLOUR ? "The image" : `Sheet to draw ${what} on; or open an image, or choose a sample`);
  $("about").textContent =
    `${MODEL.name}, program ${MODEL.digest.slice(0, 16)}. Computed by the C that blrc ${MODEL.version} generated, ` +
    `compiled to WebAssembly by ${MODEL.compiler}. Nothing that you draw or open leaves this page.`;
  $("sheet").classList.toggle("colour", COLOUR);
  $("samples").classList.toggle("colour", COLOUR);
  $("undo").hidden = COLOUR;
  $("mean-name").textContent = COUNT === 1 ? "Probability" : "Mean probability";
  $("variance-row").hidden = $("agree-row").hidden = COUNT === 1;
  $("seen").width = MODEL.width;
  $("seen").height = MODEL.height;
  $("sheet").style.aspectRatio = `${MODEL.width} / ${MODEL.height}`;
  $("asked").max = $("asked").value = COUNT;
  $("anytime").hidden = COUNT === 1;
  MODEL.samples.forEach((each, i) => {
    const button = element("button", "", { type: "button", "aria-label": `Sample ${i + 1}`, "aria-pressed": "false" });
    button.append(picture(bytesOf(each.input)));
    button.addEventListener("click", () => showSample(each, button));
    $("samples").append(button);
  });
  $("samples-title").hidden = MODEL.samples.length === 0;
}

function listen() {
  if (!COLOUR) {
    pad.listen();
  }
  // A stroke begins on an empty sheet. Capturing: before the pad's own listener.
  $("sheet").addEventListener("pointerdown", (event) => {
    if (!COLOUR && event.button === 0 && !["drawing", "nothing"].includes($("sheet").dataset.shows)) {
      clear();
    }
  }, true);
  $("clear").addEventListener("click", clear);
  $("undo").addEventListener("click", undo);
  $("open").addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", () => {
    takeFile($("file").files);
    $("file").value = ""; // the same file may be chosen again
  });
  $("asked").addEventListener("input", () => showAnswer(true));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    takeFile(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => takeFile(event.clipboardData.files));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      clear();
    } else if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !$("undo").disabled) {
      event.preventDefault();
      undo();
    }
  });
}

write();
turn("nothing");
showSeen(null);
showAnswer(false);
loadNetwork(MODEL).then((loaded) => {
  network = loaded;
  listen();
  document.documentElement.dataset.ready = "true";
}, () => fail(new Error("This browser cannot run the network: it has no WebAssembly.")));
