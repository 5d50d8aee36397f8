// The run page: follows the run's events and fills its charts, figures and log. Keeps every point by its sequence
// number, so a dropped connection or a reload neither loses nor doubles one.

import { draw, drawStatic, figuresOf } from "./charts.js";
import { ownerTraces, totalBlocks } from "./kv_owners.js";
import { askAgain } from "./part.js";
import { follow } from "./socket.js";
import { showSteps } from "./steps.js";

const page = document.querySelector("[data-run]");
const figures = figuresOf("live-figures");
const seen = { attempt: 0, seq: 0 };
const samples = [];
let logLines = 0;
let redraw = 0;

const percent = (share) => (share === null ? null : 100 * share);
const ms = (seconds) => (seconds === null ? null : seconds * 1000);
const PARTS = {
  throughput: [(s) => s.output_tokens / s.interval_s, (s) => s.input_tokens / s.interval_s],
  ttft: [(s) => ms(s.ttft_p50_s), (s) => ms(s.ttft_p95_s)],
  itl: [(s) => ms(s.itl_p50_s), (s) => ms(s.itl_p95_s)],
  queue: [(s) => s.waiting_mean, (s) => s.running_mean],
  kv: [(s) => percent(s.kv_used_mean), (s) => percent(s.kv_used_max)],
};

function plot() {
  redraw = 0;
  if (!page.querySelector("#chart-throughput")) return; // ended without a sample
  const times = samples.map((sample) => sample.t_s);
  for (const [name, parts] of Object.entries(PARTS)) {
    const figure = figures[name];
    const data = figure.data.map((trace, i) => ({ ...trace, x: times, y: samples.map(parts[i]) }));
    draw(document.getElementById(`chart-${name}`), { ...figure, data });
  }
  plotOwners();
  page.dataset.points = String(samples.length);
  const last = samples.at(-1);
  if (last) showLatest(last);
}

function plotOwners() {
  const { layout } = figures.owners;
  const total = totalBlocks(samples);
  // A pool is often far larger than what is held: the axis ends with what is held, and its title says the pool.
  const yaxis = total ? { ...layout.yaxis, title: { text: `KV blocks of ${total}` } } : layout.yaxis;
  draw(document.getElementById("chart-owners"), { data: ownerTraces(samples), layout: { ...layout, yaxis } });
}

function showLatest(sample) {
  const put = (name, value, digits = 0) => {
    const element = page.querySelector(`[data-live="${name}"]`);
    if (element) element.textContent = value === null ? "–" : value.toFixed(digits);
  };
  put("throughput", sample.output_tokens / sample.interval_s);
  put("in_flight", sample.in_flight);
  put("waiting", sample.waiting_mean, 1);
  put("running", sample.running_mean, 1);
  put("clock", sample.t_s, 1);
  put("finished", samples.reduce((sum, one) => sum + (one.phase === "measured" ? one.finished : 0), 0));
}

function schedulePlot() {
  redraw ||= setTimeout(plot, 200);
}

function appendLog(event) {
  const log = document.getElementById("log");
  if (!logLines++) log.replaceChildren();
  const line = document.createElement("div");
  line.className = event.level;
  const time = document.createElement("time");
  time.textContent = new Date(event.wall_s * 1000).toISOString().slice(11, 19);
  line.append(time, `${event.source}: ${event.message}`);
  const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  log.append(line);
  if (atEnd) log.scrollTop = log.scrollHeight;
}

// How far a fetch of the model is says its detail.
function showPhase({ phase, detail }) {
  const element = document.getElementById("phase");
  if (element) element.textContent = phase === "fetching" && detail ? detail : phase.replace("_", " ");
}

function startAttempt(number) {
  seen.attempt = number;
  seen.seq = 0;
  samples.length = 0;
  logLines = 0;
  schedulePlot();
}

function take(id, event) {
  const [attempt, seq] = id.split("-").map(Number);
  if (attempt < seen.attempt || (attempt === seen.attempt && seq <= seen.seq)) return;
  if (attempt > seen.attempt) startAttempt(attempt);
  seen.seq = seq;
  if (event.kind === "sample") samples.push(event);
  else if (event.kind === "log") appendLog(event);
  else if (event.kind === "status") showPhase(event);
}

function onMessage(message) {
  if (message.type === "events") {
    for (const [id, event] of message.events) take(id, event);
    schedulePlot();
  } else if (message.type === "attempt") {
    if (message.attempt !== seen.attempt) startAttempt(message.attempt);
  } else if (message.type === "dropped") {
    document.getElementById("dropped").hidden = false;
  } else if (message.type === "state") {
    if (page.dataset.state !== message.run.state) refresh(message.run.state);
  } else if (message.type === "end") {
    if (!logLines) document.getElementById("log").textContent = "Nothing was logged.";
    refresh("end");
    return false;
  }
  return true;
}

// What the server computes (figures, validity, timeline) is drawn by the server again when the run's state changes.
function refresh(state) {
  page.dataset.state = state;
  steps?.setLive(state === "running");
  askAgain("#results", `${location.pathname}results`);
  askAgain("#state", `${location.pathname}state`);
}

function onState(state) {
  const element = document.getElementById("connection");
  element.dataset.state = state;
  element.textContent = { live: "live", lost: "connection lost, trying again", ended: "complete" }[state];
}

drawStatic();
const stepsChart = document.getElementById("chart-steps");
const steps = stepsChart && showSteps(stepsChart, `${location.pathname}steps`);
steps?.setLive(page.dataset.state === "running");
if (figures && page.dataset.follow === "yes") {
  follow(() => `/ws/runs/${page.dataset.run}?after=${seen.attempt}-${seen.seq}`, onMessage, onState);
}
