// The step timeline of a run: asks the server for the steps of the span that the charts show, again when the zoom
// changes and, while the run goes on, every few seconds. The server keeps the peaks of what it has to leave out. Of
// several engines it shows a lane each, or the one that is chosen, and the KV blocks of all.

import { draw } from "./charts.js";

const LIVE_MS = 3000;

export function showSteps(element, address) {
  const engine = document.getElementById("steps-engine");
  const kv = document.getElementById("chart-kv-engines");
  let span = null;
  let live = false;
  let asked = 0;

  async function ask() {
    const number = ++asked;
    const query = new URLSearchParams(span ? { from: span[0], to: span[1] } : {});
    if (engine?.value) query.set("engine", engine.value);
    const answer = await fetch(`${address}?${query}`).catch(() => null);
    if (!answer?.ok || number !== asked) return;
    const { figure, steps, shown, kv: ofEngines } = await answer.json();
    element.dataset.steps = String(steps);
    element.parentElement.querySelector("[data-steps-note]").textContent = shown < steps ? `${shown} of ${steps} steps, the largest of each place; zoom in for single steps` : `${steps} steps`;
    if (steps) await draw(element, figure);
    if (kv && ofEngines) await draw(kv, ofEngines);
  }

  document.addEventListener("lab:zoom", (event) => {
    span = event.detail;
    ask();
  });
  engine?.addEventListener("change", ask);
  setInterval(() => live && !document.hidden && ask(), LIVE_MS);
  ask();
  return {
    setLive(value) {
      if (live && !value) ask();
      live = value;
    },
  };
}
