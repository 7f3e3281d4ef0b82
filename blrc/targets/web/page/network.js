/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
"use strict";
/* The generated C, compiled to WebAssembly, one member at a time. All numbers are the C's integers. */

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    bytes[i] = text.charCodeAt(i);
  }
  return bytes;
}

function firstLargest(values) {
  return values.indexOf(Math.max(...values));
}

async function loadNetwork(model) {
  const { instance } = await WebAssembly.instantiate(bytesOf(model.wasm));
  const wasm = instance.exports;
  const size = model.height * model.width * model.channels;
  let logP = [];
  let p = [];

  /* Begin with another input: `size` bytes, rows of pixels of channels. */
  function start(raw) {
    if (raw.length !== size) {
      throw new Error(`the network takes ${size} bytes, not ${raw.length}`);
    }
    new Uint8Array(wasm.memory.buffer, wasm.input(), size).set(raw);
    check(wasm.start());
    logP = new Array(model.classes).fill(0);
    p = new Array(model.classes).fill(0);
  }

  /* Run the next member: what it says itself, and what all members so far say together. */
  function add() {
    check(wasm.add());
    const sums = [...new Int32Array(wasm.memory.buffer, wasm.log_p(), model.classes)];
    const sumsOfP = [...new Uint32Array(wasm.memory.buffer, wasm.p(), model.classes)];
    const own = { log_p: sums.map((sum, c) => sum - logP[c]), p: sumsOfP.map((sum, c) => sum - p[c]) };
    logP = sums;
    p = sumsOfP;
    const label = check(wasm.ask());
    return {
      own: { label: firstLargest(own.log_p), ...own },
      label,
      mean: wasm.mean(),
      variance: wasm.variance(), // at most 2^30: not taken for a negative number
      log_p: sums,
      p: sumsOfP,
      settled: check(wasm.settled()) === 1,
      alone: check(wasm.gated()) === 1,
    };
  }

  function check(status) {
    if (status < 0) {
      throw new Error(`the network returned ${status}`);
    }
    return status;
  }

  return { start, add };
}
