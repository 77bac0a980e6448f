// Answers requests with the module, text for text. It runs in a worker, where it may take its time;
// where a worker cannot be had, it runs on the page.
"use strict";
function answerer(compiled) {
  let exports = null;
  const read = (length) =>
    new TextDecoder().decode(
      new Uint8Array(exports.memory.buffer, exports.output() >>> 0, length >>> 0),
    );
  return async (request) => {
    try {
      exports ??= (await WebAssembly.instantiate(compiled, {})).exports;
      const bytes = new TextEncoder().encode(request);
      const place = exports.input(bytes.length) >>> 0;
      new Uint8Array(exports.memory.buffer, place, bytes.length).set(bytes);
      return read(exports.call());
    } catch (trap) {
      // A panic has left its message; an instance that trapped is in no state to answer again.
      let message = String(trap);
      try {
        const length = exports.panicked();
        if (length > 0) message = read(length);
      } catch {
        // There is no instance, or nothing can be read from it: what trapped must do.
      }
      exports = null;
      return JSON.stringify({ error: `the module stopped: ${message}` });
    }
  };
}
