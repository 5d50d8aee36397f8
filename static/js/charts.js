// Draws Plotly figures in the page's colours and redraws them when the system's theme changes. Charts with data-clock
// share one zoom.

import { joinZoom, zoomed } from "./zoom.js";

const drawn = new Map();

function theme() {
  const style = getComputedStyle(document.documentElement);
  const probe = document.createElement("span");
  document.body.append(probe);
  const color = (name) => {
    probe.style.color = `var(${name})`;
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.fillStyle = getComputedStyle(probe).color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
    return `rgb(${r},${g},${b})`;
  };
  const found = { ink: color("--ink-2"), line: color("--line"), surface: color("--surface"), sans: style.getPropertyValue("--sans") };
  probe.remove();
  return found;
}

let colors = null;

function themed(layout) {
  colors ??= theme();
  const axis = (given) => ({ gridcolor: colors.line, zerolinecolor: colors.line, linecolor: colors.line, automargin: true, ...given, title: { standoff: 8, ...given?.title } });
  const result = {
    ...layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colors.ink, family: colors.sans, size: 11 },
    hoverlabel: { bgcolor: colors.surface, bordercolor: colors.line, font: { color: colors.ink, family: colors.sans } },
    autosize: true,
  };
  for (const key of Object.keys(layout)) if (/^[xy]axis\d*$/.test(key)) result[key] = axis(layout[key]);
  return result;
}

const CONFIG = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

export function draw(element, figure) {
  drawn.set(element, figure);
  const onClock = "clock" in element.dataset;
  const layout = themed(figure.layout);
  const done = Plotly.react(element, figure.data, onClock ? zoomed(layout) : layout, CONFIG);
  if (onClock) joinZoom(element, (other) => draw(other, drawn.get(other)));
  return done;
}

export function figuresOf(id) {
  const source = document.getElementById(id);
  return source ? JSON.parse(source.textContent) : null;
}

// Every element with data-figure="id" shows the figure in the JSON script of that id.
export function drawStatic(root = document) {
  for (const element of root.querySelectorAll("[data-figure]")) {
    const figure = figuresOf(element.dataset.figure);
    if (figure) draw(element, figure);
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colors = null;
  for (const [element, figure] of drawn) if (element.isConnected) draw(element, figure);
  else drawn.delete(element);
});
