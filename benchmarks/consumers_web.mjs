// Run an ONNX file in onnxruntime-web (WebAssembly): node consumers_web.mjs MODULES MODEL IN.json OUT.json
//
// MODULES is the folder node_modules that holds onnxruntime-web. IN.json: {"inputs": {NAME: {"type", "dims", "file"}},
// "outputs": [NAME], "batch"}, whose files hold the raw elements. OUT.json gets the outputs in the same form.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, modelFile, source, target] = process.argv.slice(2);
const require = createRequire(pathToFileURL(join(resolve(modules), "package.json")));
const ort = require("onnxruntime-web");
const version = JSON.parse(readFileSync(join(modules, "onnxruntime-web", "package.json"))).version;
const ARRAYS = { uint8: Uint8Array, int8: Int8Array, int32: Int32Array, float32: Float32Array, int64: BigInt64Array };
const REFUSED = 3;

function fail(error) {
  console.error(String(error.message ?? error).replace(/\s+/g, " "));
  process.exit(REFUSED);
}

ort.env.wasm.numThreads = 1;
ort.env.logLevel = "fatal";
const wanted = JSON.parse(readFileSync(source));
const inputs = Object.entries(wanted.inputs).map(([name, { type, dims, file }]) => {
  const bytes = readFileSync(file);
  return { name, type, dims, data: new ARRAYS[type](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)) };
});
const session = await ort.InferenceSession.create(new Uint8Array(readFileSync(modelFile)), {
  executionProviders: ["wasm"],
}).catch(fail);
const parts = Object.fromEntries(wanted.outputs.map((name) => [name, []]));
const count = inputs[0].dims[0];
for (let start = 0; start < count; start += wanted.batch) {
  const end = Math.min(start + wanted.batch, count);
  const feeds = {};
  for (const { name, type, dims, data } of inputs) {
    const size = dims.slice(1).reduce((a, b) => a * b, 1);
    feeds[name] = new ort.Tensor(type, data.slice(start * size, end * size), [end - start, ...dims.slice(1)]);
  }
  const found = await session.run(feeds, wanted.outputs).catch(fail);
  for (const name of wanted.outputs) parts[name].push(found[name]);
}
const outputs = {};
for (const [name, tensors] of Object.entries(parts)) {
  const file = join(dirname(target), `${name}.bin`);
  writeFileSync(file, Buffer.concat(tensors.map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength))));
  outputs[name] = { type: tensors[0].type, dims: [count, ...tensors[0].dims.slice(1)], file };
}
writeFileSync(target, JSON.stringify({ version, outputs }));
