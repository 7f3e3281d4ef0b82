// Run ONNX files in onnxruntime-web (WebAssembly): node consumers_web.mjs MODULES FOLDER OUT
//
// MODULES is the folder node_modules that holds onnxruntime-web; FOLDER and OUT are those of consumers_worker.py.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, folder, out] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(resolve(modules), "index.js")));
const ort = require("onnxruntime-web");
const version = JSON.parse(readFileSync(join(modules, "onnxruntime-web", "package.json"))).version;
const ARRAYS = { uint8: Uint8Array, int8: Int8Array, int32: Int32Array, float32: Float32Array };
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";

async function run(model, wanted) {
  const session = await ort.InferenceSession.create(new Uint8Array(readFileSync(model)), { executionProviders: ["wasm"] });
  const inputs = Object.entries(wanted.inputs).map(([name, { type, dims, file }]) => {
    const bytes = readFileSync(file);
    const data = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    return { name, type, dims, data: new ARRAYS[type](data) };
  });
  const parts = Object.fromEntries(wanted.outputs.map((name) => [name, []]));
  const count = inputs[0].dims[0];
  for (let start = 0; start < count; start += wanted.batch) {
    const end = Math.min(start + wanted.batch, count);
    const feeds = {};
    for (const { name, type, dims, data } of inputs) {
      const size = dims.slice(1).reduce((a, b) => a * b, 1);
      const part = data.slice(start * size, end * size);
      feeds[name] = new ort.Tensor(type, part, [end - start, ...dims.slice(1)]);
    }
    const found = await session.run(feeds, wanted.outputs);
    for (const name of wanted.outputs) parts[name].push(found[name]);
  }
  await session.release();
  const outputs = {};
  for (const [name, tensors] of Object.entries(parts)) {
    const bytes = tensors.map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    const dims = [count, ...tensors[0].dims.slice(1)];
    outputs[name] = { type: tensors[0].type, dims, bytes: Buffer.concat(bytes) };
  }
  return outputs;
}

for (const file of readdirSync(folder).filter((name) => name.endsWith(".onnx")).sort()) {
  const name = file.slice(0, -".onnx".length);
  const said = { version };
  try {
    const outputs = await run(join(folder, file), JSON.parse(readFileSync(join(folder, `${name}.json`))));
    said.outputs = {};
    for (const [output, { type, dims, bytes }] of Object.entries(outputs)) {
      const target = join(out, `${name}.${output}.bin`);
      writeFileSync(target, bytes);
      said.outputs[output] = { type, dims, file: target };
    }
  } catch (error) {
    said.refused = String(error.message ?? error).replace(/\s+/g, " ");
  }
  writeFileSync(join(out, `${name}.json`), JSON.stringify(said));
}
