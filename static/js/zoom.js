// One zoom for all charts on the run's clock (data-clock): a span chosen in one is shown in each, and kept while live
// data are drawn anew. Others hear of it by the event "lab:zoom", whose detail is the span [from, to] or null for all.

const members = new Set();
let span = null;
let spreading = false;

export function zoomed(layout) {
  if (!span) return layout;
  return { ...layout, xaxis: { ...layout.xaxis, range: [...span], autorange: false } };
}

export function joinZoom(element, redraw) {
  if (members.has(element)) return;
  members.add(element);
  element.on("plotly_relayout", (change) => {
    const found = spanOf(change);
    if (spreading || found === undefined) return;
    span = found;
    spread(element, redraw);
  });
}

function spanOf(change) {
  if (change["xaxis.autorange"]) return null;
  if (change["xaxis.range[0]"] !== undefined) return [change["xaxis.range[0]"], change["xaxis.range[1]"]].map(Number);
  if (Array.isArray(change["xaxis.range"])) return change["xaxis.range"].map(Number);
  return undefined;
}

function spread(source, redraw) {
  spreading = true;
  try {
    for (const element of members) {
      if (!element.isConnected) members.delete(element);
      else if (element !== source) redraw(element);
    }
  } finally {
    spreading = false;
  }
  document.dispatchEvent(new CustomEvent("lab:zoom", { detail: span }));
}
