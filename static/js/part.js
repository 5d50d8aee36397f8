// Parts of a page that the server draws again. A part has one request under way at a time; of those asked for
// meanwhile the last one is sent (its data-hx-sync says so), so that it ends up as the server had it last.

import { drawStatic } from "./charts.js";

export function askAgain(part, path) {
  htmx.ajax("GET", path, { source: part, target: part, swap: "innerHTML" });
}

document.addEventListener("htmx:after:swap", (event) => drawStatic(event.target));
