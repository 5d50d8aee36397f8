// The compare page: draws its chart, and sends the form when a choice changes, so that the address says it all.

import { drawStatic } from "./charts.js";

drawStatic();
document.querySelector("#choices")?.addEventListener("change", (event) => event.currentTarget.requestSubmit());
