/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
"use strict";
/* From a drawing or a picture to the bytes that the network takes. Plain arithmetic on arrays: no canvas, no page. */

const BOX = 20; // MNIST: a digit is scaled to fit 20 x 20 ...
const SIDE = 28; // ... and put into 28 x 28 with its centre of mass in the middle

/* Part of a map of `width` columns, averaged over areas to `columns` x `rows` cells. */
function averaged(map, width, part, columns, rows) {
  const across = spans(part.left, part.width, columns);
  const down = spans(part.top, part.height, rows);
  const narrow = new Float64Array(part.height * columns); // first along rows, then along columns: sums, exact for bytes
  for (let y = 0; y < part.height; y++) {
    for (let c = 0; c < columns; c++) {
      narrow[y * columns + c] = weighted(map, (part.top + y) * width, 1, across[c]);
    }
  }
  const out = new Float64Array(columns * rows);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      // A cell weighs part.width x part.height, a pixel columns x rows.
      out[r * columns + c] = weighted(narrow, c - part.top * columns, columns, down[r]) / (part.width * part.height);
    }
  }
  return out;
}

function weighted(map, start, step, span) {
  let sum = 0;
  for (let i = 0; i < span.weights.length; i++) {
    sum += map[start + (span.first + i) * step] * span.weights[i];
  }
  return sum;
}

/* For each of `cells` equal parts of a line of pixels: the first that it covers, and how much it covers of each, in
 * units of 1 / cells of a pixel (which makes it a whole number). */
function spans(first, length, cells) {
  return Array.from({ length: cells }, (_, i) => {
    const from = i * length;
    const to = from + length;
    const weights = [];
    for (let pixel = Math.floor(from / cells); pixel * cells < to; pixel++) {
      weights.push(Math.min(to, (pixel + 1) * cells) - Math.max(from, pixel * cells));
    }
    return { first: first + Math.floor(from / cells), weights };
  });
}

/* The smallest rectangle that holds all ink, or null. */
function inkBox(ink, width, height) {
  let left = width;
  let right = -1;
  let top = height;
  let bottom = -1;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (ink[y * width + x] > 0) {
        left = Math.min(left, x);
        right = Math.max(right, x);
        top = Math.min(top, y);
        bottom = y;
      }
    }
  }
  return right < 0 ? null : { left, top, width: right - left + 1, height: bottom - top + 1 };
}

/* Ink (0 to 255) as MNIST was made: 28 x 28 bytes, or null where there is no ink. */
function asMnist(ink, width, height) {
  const box = inkBox(ink, width, height);
  if (box === null) {
    return null;
  }
  const longer = Math.max(box.width, box.height);
  const columns = Math.max(1, Math.round((box.width * BOX) / longer));
  const rows = Math.max(1, Math.round((box.height * BOX) / longer));
  const digit = averaged(ink, width, box, columns, rows);
  let mass = 0;
  let x = 0;
  let y = 0;
  digit.forEach((value, i) => {
    mass += value;
    x += value * ((i % columns) + 0.5);
    y += value * (Math.floor(i / columns) + 0.5);
  });
  const left = placed(x / mass, columns);
  const top = placed(y / mass, rows);
  const out = new Uint8Array(SIDE * SIDE);
  digit.forEach((value, i) => {
    out[(top + Math.floor(i / columns)) * SIDE + left + (i % columns)] = Math.round(value);
  });
  return out;
}

/* Where a digit of this length begins. In MNIST's images the mean index of a digit's pixels (centre - 1/2) lies in
 * [13.5, 14.5); nothing is cut off here. */
function placed(centre, length) {
  return Math.max(0, Math.min(SIDE - length, Math.ceil(SIDE / 2 - centre)));
}

/* Three planes (red, green, blue; 0 to 255) of RGBA pixels over white. */
function planes(rgba) {
  const pixels = rgba.length / 4;
  return [0, 1, 2].map((c) => {
    const plane = new Float64Array(pixels);
    for (let i = 0; i < pixels; i++) {
      const alpha = rgba[4 * i + 3] / 255;
      plane[i] = rgba[4 * i + c] * alpha + 255 * (1 - alpha);
    }
    return plane;
  });
}

/* Brightness, as television weighs the colours (ITU-R BT.601). */
function grey(rgba) {
  const [red, green, blue] = planes(rgba);
  return red.map((value, i) => 0.299 * value + 0.587 * green[i] + 0.114 * blue[i]);
}

/* What differs from the paper in a grey picture: 0 on paper, 255 where it differs most. Its edge shows the paper. */
function inkOf(brightness, width, height) {
  const edge = [];
  brightness.forEach((value, i) => {
    const x = i % width;
    const y = Math.floor(i / width);
    if (x === 0 || y === 0 || x === width - 1 || y === height - 1) {
      edge.push(value);
    }
  });
  const paper = edge.sort((a, b) => a - b)[edge.length >> 1];
  const sign = paper > 127 ? -1 : 1;
  const ink = brightness.map((value) => Math.max(0, sign * (value - paper)));
  const most = ink.reduce((a, b) => Math.max(a, b), 0);
  if (most < 24) {
    return ink.fill(0); // an empty sheet
  }
  // Shadows and grain are not ink.
  return ink.map((value) => Math.max(0, (value / most - 0.3) / 0.7) * 255);
}

/* The middle of a width x height picture that has the shape of the network's input. */
function middle(width, height, model) {
  const scale = Math.min(width / model.width, height / model.height);
  const part = { width: Math.max(1, Math.round(model.width * scale)), height: Math.max(1, Math.round(model.height * scale)) };
  return { left: (width - part.width) >> 1, top: (height - part.height) >> 1, ...part };
}

const looksAtMnist = (model) => model.channels === 1 && model.width === SIDE && model.height === SIDE;

/* Bytes for the network of a drawing's ink (0 to 255), or null where there is none. */
function fromDrawing(ink, width, height, model) {
  if (looksAtMnist(model)) {
    return asMnist(ink, width, height);
  }
  const whole = { left: 0, top: 0, width, height };
  return inkBox(ink, width, height) && Uint8Array.from(averaged(ink, width, whole, model.width, model.height), Math.round);
}

/* Whether a picture (RGBA) can be given to the network as it is: it has the size, and not dark ink on light paper. */
function isExact(rgba, width, height, model) {
  const same = width === model.width && height === model.height;
  return same && !(looksAtMnist(model) && cornersAreBright(grey(rgba), width));
}

function cornersAreBright(brightness, width) {
  const last = brightness.length - 1;
  return brightness[0] + brightness[width - 1] + brightness[last] + brightness[last - width + 1] > 4 * 127;
}

/* Bytes for the network of a picture (RGBA), or null where it shows nothing. */
function fromPicture(rgba, width, height, model) {
  if (looksAtMnist(model) && !isExact(rgba, width, height, model)) {
    return asMnist(inkOf(grey(rgba), width, height), width, height);
  }
  const part = middle(width, height, model);
  const maps = model.channels === 1 ? [grey(rgba)] : planes(rgba);
  const scaled = maps.map((map) => averaged(map, width, part, model.width, model.height));
  return Uint8Array.from({ length: model.width * model.height * model.channels }, (_, i) =>
    Math.round(scaled[i % model.channels][Math.floor(i / model.channels)]),
  );
}
