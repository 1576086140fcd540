// Search for a site that is opened from a folder. Browsers refuse to start a worker from file://,
// so there the script of the worker runs in a hidden frame, behind the interface of a worker.
class FrameWorker extends EventTarget {
  constructor(address) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.appendChild(this.frame);
    const inside = this.frame.contentWindow;
    window.addEventListener("message", (event) => {
      if (event.source !== inside) return;
      this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      this.onmessage?.(event);
    });
    const setUp = `
      postMessage = (data) => parent.postMessage(data, "*");
      importScripts = (...addresses) => addresses.reduce((before, one) => before.then(() => new Promise((done) => {
        const script = document.createElement("script");
        script.src = one;
        script.onload = done;
        document.body.appendChild(script);
      })), Promise.resolve());
    `;
    inside.document.open();
    inside.document.write(`<body><script>${setUp}</` + `script><script src="${address}"></` + "script>");
    inside.document.close();
    this.ready = new Promise((done) => { inside.onload = done; });
  }

  postMessage(data) {
    const inside = this.frame.contentWindow;
    this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
