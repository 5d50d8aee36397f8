// The step timeline of a run: asks the server for the steps of the span that the charts show, again when the zoom
// changes and, while the run goes on, every few seconds. The server keeps the peaks of what it has to leave out.

import { draw } from "./charts.js";

const LIVE_MS = 3000;

export function showSteps(element, address) {
  let span = null;
  let live = false;
  let asked = 0;

  async function ask() {
    const number = ++asked;
    const query = span ? `?from=${span[0]}&to=${span[1]}` : "";
    const answer = await fetch(address + query).catch(() => null);
    if (!answer?.ok || number !== asked) return;
    const { figure, steps, shown } = await answer.json();
    element.dataset.steps = String(steps);
    element.parentElement.querySelector("[data-steps-note]").textContent = shown < steps ? `${shown} of ${steps} steps, the largest of each place; zoom in for single steps` : `${steps} steps`;
    if (steps) await draw(element, figure);
  }

  document.addEventListener("lab:zoom", (event) => {
    span = event.detail;
    ask();
  });
  setInterval(() => live && !document.hidden && ask(), LIVE_MS);
  ask();
  return {
    setLive(value) {
      if (live && !value) ask();
      live = value;
    },
  };
}
