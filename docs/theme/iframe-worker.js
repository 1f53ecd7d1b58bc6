// A page that is opened from the disk may not start a worker: there, the worker of the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.loaded = new Promise(resolve => {
        const script = frame.contentDocument.createElement("script")
        script.src = url
        script.onload = resolve
        frame.contentDocument.documentElement.append(script)
      })
    }
    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
