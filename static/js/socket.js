// A WebSocket that comes back: after a drop it opens again from where it was, with growing pauses.

const FIRST_PAUSE_MS = 300;
const LONGEST_PAUSE_MS = 5000;

// `address()` gives the path to open each time, so that it can say what has been seen; `onMessage` gets each parsed
// message and returns false when nothing more is to come. `onState` hears "live", "lost" and "ended".
export function follow(address, onMessage, onState) {
  let pause = FIRST_PAUSE_MS;
  let over = false;

  function open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}${address()}`);
    socket.addEventListener("open", () => {
      pause = FIRST_PAUSE_MS;
      onState("live");
    });
    socket.addEventListener("message", (event) => {
      if (onMessage(JSON.parse(event.data)) === false) {
        over = true;
        onState("ended");
        socket.close();
      }
    });
    socket.addEventListener("close", (event) => {
      if (over) return;
      onState("lost");
      if (event.code >= 4400 && event.code < 4500) return;
      setTimeout(open, pause);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    });
  }

  open();
}
