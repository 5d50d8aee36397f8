// The experiment page: shows how far each run is, and asks the server for the table again when a run has ended.

import { drawStatic } from "./charts.js";
import { askAgain } from "./part.js";
import { keepPicks } from "./picks.js";
import { follow } from "./socket.js";

const page = document.querySelector("[data-experiment]");
// A refused edit is shown at the address of the edit, which answers no GET: parts and filters need the page's own.
const { address } = page.dataset;
if (location.pathname !== address) history.replaceState(null, "", address);
// How many ends and verdicts the table shows: more of them is what makes it worth asking for again.
let shown = Number(page.dataset.shown);

function showRun(run) {
  const dot = page.querySelector(`[data-run-dot="${run.id}"]`);
  if (dot) {
    dot.className = `dot ${run.state}${run.state === "succeeded" && run.valid === false ? " invalid" : ""}`;
    dot.title = `repeat ${dot.dataset.repeat}: ${run.state}${run.phase ? `, ${run.phase.replace("_", " ")}` : ""}`;
  }
}

function showProgress(runs) {
  const under = runs.filter((run) => run.state === "running");
  const now = page.querySelector("#now");
  now.replaceChildren(
    ...under.map((run) => {
      const line = document.createElement("a");
      line.href = `/runs/${run.id}/`;
      const sample = run.sample;
      const speed = sample ? `, ${(sample.output_tokens / sample.interval_s).toFixed(0)} tok/s, ${sample.in_flight} in flight` : "";
      const phase = run.phase === "fetching" && run.phase_detail ? run.phase_detail : run.phase || "starting";
      line.textContent = `Run ${run.id} on ${run.node}: ${phase.replace("_", " ")}${speed}`;
      return line;
    }),
  );
}

function onMessage(message) {
  if (message.type !== "progress") return message.type !== "end";
  const counts = message.experiment.counts;
  const done = (counts.succeeded ?? 0) + (counts.failed ?? 0) + (counts.cancelled ?? 0);
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  message.runs.forEach(showRun);
  showProgress(message.runs);
  page.querySelector("#progress-text").textContent = `${done} of ${total} runs ended`;
  page.querySelector("#progress-bar").style.width = total ? `${(100 * done) / total}%` : "0";
  const told = message.runs.filter((run) => run.valid !== null).length + done;
  if (told !== shown) {
    shown = told;
    askAgain("#results", `${address}results${location.search}`);
  }
  page.querySelector("#experiment-state").className = `tag ${message.experiment.state}`;
  page.querySelector("#experiment-state").textContent = message.experiment.state;
  if (!["active", "paused"].includes(message.experiment.state)) page.querySelector("#plans")?.remove();
  // Runs of a cancelled experiment may still be ending: the server says when all is told.
  return true;
}

function onState(state) {
  const element = document.getElementById("connection");
  element.dataset.state = state;
  element.textContent = { live: "live", lost: "connection lost, trying again", ended: "complete" }[state];
}

drawStatic();
keepPicks(page);
follow(() => `/ws/experiments/${page.dataset.experiment}`, onMessage, onState);
