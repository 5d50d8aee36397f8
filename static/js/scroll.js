// Whatever scrolls can be reached and scrolled by keyboard: a box that holds more than it shows becomes a tab stop.

const BOXES = ".scroll, pre";

function mark(box) {
  const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
  if (scrolls) box.tabIndex = 0;
  else if (!box.matches(".log")) box.removeAttribute("tabindex");
}

const sizes = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target.closest(BOXES))));

function watch(root) {
  for (const box of root.querySelectorAll(BOXES)) {
    sizes.observe(box);
    if (box.firstElementChild) sizes.observe(box.firstElementChild);
  }
}

watch(document);
document.addEventListener("htmx:after:swap", (event) => watch(event.target));
