// Shows the page of `arrowwood view` in a cell of a notebook: in a frame that has nothing of the notebook's, whose requests go
// to Python as messages of the widget. So it needs no port that the browser could reach.

function render({ model, el }) {
  const view = `${Date.now()}-${Math.random()}`;
  const waiting = new Map();
  let last = 0;
  const came = (message, buffers) => message.view === view && waiting.get(message.id)?.(message, buffers);
  model.on("msg:custom", came);

  /** Asks for an address; `part` hears a status, then bytes, then the end. Returns what gives it up. */
  const ask = (address, part) => {
    const id = ++last;
    waiting.set(id, (message, buffers) => {
      if (message.end) waiting.delete(id);
      part(message, buffers);
    });
    model.send({ view, id, address });
    return () => waiting.delete(id) && model.send({ view, id });
  };

  const text = (address) =>
    new Promise((done, failed) => {
      const decoder = new TextDecoder();
      let found = "";
      ask(address, ({ status, end }, buffers) => {
        for (const bytes of buffers ?? []) found += decoder.decode(bytes, { stream: true });
        if (status !== undefined && status !== 200) failed(new Error(`${address}: ${status || "the server is gone"}`));
        if (end) done(found);
      });
    });

  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.title = "Arrowwood";
  frame.style.cssText = `width: 100%; height: ${model.get("height")}px; border: 1px solid #8884; box-sizing: border-box`;
  el.append(frame);

  const carry = (port) => {
    const going = new Map();
    port.onmessage = ({ data: { id, address } }) => {
      if (address === undefined) {
        going.get(id)?.();
        going.delete(id);
        return;
      }
      const part = ({ status, end }, buffers) => {
        if (status !== undefined) port.postMessage({ id, status });
        for (const bytes of buffers ?? []) {
          const own = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).slice().buffer;
          port.postMessage({ id, bytes: own }, [own]);
        }
        if (end) {
          going.delete(id);
          port.postMessage({ id, end });
        }
      };
      going.set(id, ask(address, part));
    };
  };
  const listen = ({ source, data }) => {
    if (source !== frame.contentWindow || data !== "arrowwood") return;
    const { port1, port2 } = new MessageChannel();
    carry(port1);
    frame.contentWindow.postMessage("", "*", [port2]);
  };
  window.addEventListener("message", listen);

  Promise.all([text("/view.css"), text("/view.js")]).then(
    ([styles, script]) => {
      const inside = script.replaceAll("</script", "<\\/script");
      frame.srcdoc = `<!doctype html><html lang="en"><meta charset="utf-8"><style>${styles}</style><body><script>${inside}</script>`;
    },
    (problem) => frame.replaceWith(`arrowwood: ${problem.message}`),
  );

  return () => {
    window.removeEventListener("message", listen);
    model.off("msg:custom", came);
    for (const id of waiting.keys()) model.send({ view, id });
    waiting.clear();
  };
}

export default { render };
