// The widget of `aw.view`: shows the page of `arrowwood view` in a cell of a notebook.
//
// The page is in a sandboxed frame, which can't access the notebook. It sends its requests through a port to the widget,
// which sends them to Python as messages. So the browser needs no access to the server's port.

/** Sends requests to Python, for one output of the widget. */
class KernelClient {
  constructor(model) {
    this.model = model;
    // The outputs of a widget share its messages.
    this.view = `${Date.now()}-${Math.random()}`;
    this.lastId = 0;
    this.listeners = new Map();
    this.onMessage = (message, buffers) => {
      if (message.view === this.view) this.listeners.get(message.id)?.(message, buffers ?? []);
    };
    model.on("msg:custom", this.onMessage);
  }

  /**
   * Requests an address; returns a function that cancels the request.
   *
   * `onPart` receives the parts of the response: a status, then buffers of bytes, then the end.
   */
  request(address, onPart) {
    const id = ++this.lastId;
    this.listeners.set(id, (part, buffers) => {
      if (part.end) this.listeners.delete(id);
      onPart(part, buffers);
    });
    this.model.send({ view: this.view, id, address });
    return () => {
      if (this.listeners.delete(id)) this.model.send({ view: this.view, id });
    };
  }

  /** Fetches text; fails unless the status is 200. */
  fetchText(address) {
    return new Promise((resolve, reject) => {
      const decoder = new TextDecoder();
      let text = "";
      this.request(address, ({ status, end }, buffers) => {
        for (const bytes of buffers) text += decoder.decode(bytes, { stream: true });
        if (status !== undefined && status !== 200) {
          reject(new Error(`${address}: ${status || "the server is gone"}`));
        }
        if (end) resolve(text);
      });
    });
  }

  /** Cancels all requests. */
  close() {
    this.model.off("msg:custom", this.onMessage);
    for (const id of this.listeners.keys()) this.model.send({ view: this.view, id });
    this.listeners.clear();
  }
}

/** Returns a copy of bytes that can be transferred to the frame, as the kernel's message may share its buffer. */
function copyBytes({ buffer, byteOffset, byteLength }) {
  return new Uint8Array(buffer, byteOffset, byteLength).slice().buffer;
}

/** Answers requests of the page that arrive through a port. A message without an address cancels a request. */
function serveRequests(port, client) {
  const cancelFunctions = new Map();
  port.onmessage = ({ data: { id, address } }) => {
    if (address === undefined) {
      cancelFunctions.get(id)?.();
      cancelFunctions.delete(id);
      return;
    }
    const cancel = client.request(address, ({ status, end }, buffers) => {
      if (status !== undefined) port.postMessage({ id, status });
      for (const buffer of buffers) {
        const bytes = copyBytes(buffer);
        port.postMessage({ id, bytes }, [bytes]);
      }
      if (end) {
        cancelFunctions.delete(id);
        port.postMessage({ id, end });
      }
    });
    cancelFunctions.set(id, cancel);
  };
}

function createFrame(height) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.title = "Arrowwood";
  frame.style.cssText = `width: 100%; height: ${height}px; border: 1px solid #8884; box-sizing: border-box`;
  return frame;
}

/** Returns the page as one document, as the frame can't load files. */
function pageHtml(styles, script) {
  const escapedScript = script.replaceAll("</script", "<\\/script");
  return `<!doctype html><html lang="en"><meta charset="utf-8"><style>${styles}</style><body><script>${escapedScript}</script>`;
}

function render({ model, el }) {
  const client = new KernelClient(model);
  const frame = createFrame(model.get("height"));
  el.append(frame);

  // The page asks for a port when it starts.
  const onWindowMessage = ({ source, data }) => {
    if (source !== frame.contentWindow || data !== "arrowwood") return;
    const { port1, port2 } = new MessageChannel();
    serveRequests(port1, client);
    frame.contentWindow.postMessage("", "*", [port2]);
  };
  window.addEventListener("message", onWindowMessage);

  Promise.all([client.fetchText("/view.css"), client.fetchText("/view.js")]).then(
    ([styles, script]) => {
      frame.srcdoc = pageHtml(styles, script);
    },
    (error) => frame.replaceWith(`arrowwood: ${error.message}`),
  );

  return () => {
    window.removeEventListener("message", onWindowMessage);
    client.close();
  };
}

export default { render };
