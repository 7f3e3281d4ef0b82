/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
"use strict";
/* node ask.js PAGE INPUTS ANSWERS: what an exported page says of inputs, with its own scripts but without a browser.
 *
 * PAGE is the folder of index.html, INPUTS a file of inputs one after the other. Of each input ANSWERS gets int32,
 * little-endian: label, number of networks asked, mean, variance, and the sums of log_p. */
const { readFileSync, writeFileSync } = require("fs");
const { join } = require("path");

const [page, inputs, answers] = process.argv.slice(2);
const scripts = ["model.js", "network.js"].map((file) => readFileSync(join(page, file), "utf-8"));
const [model, load] = new Function(`${scripts.join("\n")}\nreturn [blrcModel, loadNetwork];`)();

load(model).then((network) => {
  const raw = readFileSync(inputs);
  const size = model.height * model.width * model.channels;
  const count = raw.length / size;
  const out = Buffer.alloc(count * 4 * (4 + model.classes));
  let at = 0;
  for (let i = 0; i < count; i++) {
    network.start(raw.subarray(i * size, (i + 1) * size));
    let said;
    let asked = 0;
    do {
      said = network.add();
      asked++;
    } while (asked < model.members.length && !said.alone);
    for (const value of [said.label, asked, said.mean, said.variance, ...said.log_p]) {
      at = out.writeInt32LE(value, at);
    }
  }
  writeFileSync(answers, out);
});
