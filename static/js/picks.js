// Trials picked for a comparison: in the table, or by a click on a point of a chart. Kept when the server draws the
// table again.

export function keepPicks(page) {
  const picked = new Set();
  const boxes = () => page.querySelectorAll("input[name=trials]");

  function show() {
    for (const box of boxes()) box.checked = picked.has(box.value);
    const button = page.querySelector("#compare-picked");
    if (button) button.disabled = picked.size < 2;
  }

  function hearCharts() {
    for (const chart of page.querySelectorAll("[data-figure]")) {
      if (!chart.on || chart.dataset.picks) continue;
      chart.dataset.picks = "yes";
      chart.on("plotly_click", ({ points }) => toggle(points[0].customdata));
    }
  }

  function toggle(trial) {
    if (trial === null || trial === undefined) return;
    const key = String(trial);
    if (!picked.delete(key)) picked.add(key);
    show();
  }

  page.addEventListener("change", (event) => {
    if (event.target.name === "trials") toggle(event.target.value);
  });
  // Browsers keep ticked boxes over a reload.
  for (const box of boxes()) if (box.checked) picked.add(box.value);
  // After the script that draws the charts of a part anew.
  document.addEventListener("htmx:after:swap", () => queueMicrotask(() => (show(), hearCharts())));
  show();
  hearCharts();
}
