/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
"use strict";
/* A sheet to draw on with mouse, finger or pen. Strokes are kept as points; ink is what is opaque on the canvas. */

const LONG_SIDE = 420; // pixels of the canvas
const PEN = 0.08; // of it; MNIST's strokes are about a tenth of a digit

function makePad(canvas, shape, onChange) {
  const scale = LONG_SIDE / Math.max(shape.width, shape.height);
  canvas.width = Math.round(shape.width * scale);
  canvas.height = Math.round(shape.height * scale);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  let strokes = [];
  let active = null; // the pointer that draws

  function redraw() {
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.lineWidth = PEN * LONG_SIDE;
    context.lineCap = context.lineJoin = "round";
    context.strokeStyle = "#000";
    for (const stroke of strokes) {
      context.beginPath();
      context.moveTo(...stroke[0]);
      for (let i = 1; i < stroke.length - 1; i++) {
        const [x, y] = stroke[i];
        const [nextX, nextY] = stroke[i + 1];
        context.quadraticCurveTo(x, y, (x + nextX) / 2, (y + nextY) / 2);
      }
      context.lineTo(...stroke[stroke.length - 1]); // a dot where there is only one point
      context.stroke();
    }
  }

  function at(event) {
    const box = canvas.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * canvas.width,
      ((event.clientY - box.top) / box.height) * canvas.height,
    ];
  }

  function begin(event) {
    if (active !== null || event.button !== 0) {
      return;
    }
    event.preventDefault();
    active = event.pointerId;
    canvas.setPointerCapture(active);
    strokes.push([at(event)]);
    redraw();
    onChange(false);
  }

  function go(event) {
    if (event.pointerId !== active) {
      return;
    }
    const moves = event.getCoalescedEvents ? event.getCoalescedEvents() : [];
    strokes[strokes.length - 1].push(...(moves.length ? moves : [event]).map(at));
    redraw();
    onChange(false);
  }

  function end(event) {
    if (event.pointerId === active) {
      active = null;
      onChange(true);
    }
  }

  function listen() {
    canvas.addEventListener("pointerdown", begin);
    canvas.addEventListener("pointermove", go);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
  }

  /* Ink of every pixel, 0 to 255. */
  function ink() {
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const alpha = new Uint8Array(data.length / 4);
    for (let i = 0; i < alpha.length; i++) {
      alpha[i] = data[4 * i + 3];
    }
    return alpha;
  }

  function clear() {
    strokes = [];
    active = null;
    redraw();
  }

  function undo() {
    strokes.pop();
    active = null;
    redraw();
  }

  return { canvas, context, listen, ink, clear, undo, strokes: () => strokes.length };
}
