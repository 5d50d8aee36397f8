// Draws the figures of a page whose script has nothing else to do.

import { drawStatic } from "./charts.js";

drawStatic();
