// The new-experiment page: the form and the text follow each other. Every change goes to the server with the text, and
// the parts that come back are swapped in. One request is under way at a time; changes made meanwhile wait for it.

const PAUSE_MS = 250;
const editor = document.querySelector("#editor");
const waiting = [];
let busy = false;
let timer = 0;
let submitWhenIdle = false;
let tabLeaves = false;
let edited = false;

const text = () => editor.querySelector("#document");

function ask(change) {
  if (change) waiting.push(change);
  clearTimeout(timer);
  timer = setTimeout(send, waiting.length ? 0 : PAUSE_MS);
}

const isIdle = () => !busy && !waiting.length && !timer;

async function send() {
  timer = 0;
  if (busy) return;
  busy = true;
  const sent = text().value;
  const change = waiting[0];
  const body = new FormData();
  for (const name of ["csrfmiddlewaretoken", "project", "from"]) {
    if (editor.elements[name]) body.set(name, editor.elements[name].value);
  }
  body.set("document", sent);
  if (change) {
    body.set("set", change.name);
    body.set("value", change.value);
  }
  try {
    const answer = await fetch(editor.dataset.check, { method: "POST", body });
    if (!answer.ok) throw new Error(`the lab answered ${answer.status}`);
    take(new DOMParser().parseFromString(await answer.text(), "text/html"), sent, change);
  } catch (error) {
    waiting.length = 0;
    submitWhenIdle = false;
    editor.dataset.checked = text().value;
    say(`This was not checked: ${error.message}. Change anything to try again; nothing you typed is lost.`);
  }
  busy = false;
  if (waiting.length || text().value !== (editor.dataset.checked ?? sent)) ask();
  else if (submitWhenIdle) editor.requestSubmit();
}

function take(parts, sent, change) {
  // Typed in the text meanwhile: the answer is about an older one, so the same change is asked for again.
  if (text().value !== sent) return;
  if (change) {
    waiting.shift();
    const next = parts.querySelector("#document").value;
    if (next !== sent) text().value = next;
    edited = true;
  }
  editor.dataset.checked = text().value;
  swap(parts, "check");
  swap(parts, "verdict");
  const form = parts.querySelector("#form");
  if ("unreadable" in form.dataset) editor.querySelector("#controls")?.setAttribute("disabled", "");
  else if (!waiting.length) swapForm(form);
}

function swap(parts, id) {
  document.getElementById(id).replaceChildren(...parts.getElementById(id).childNodes);
}

// The focus stays on the control that had it, with what is being typed there.
function swapForm(form) {
  const old = document.getElementById("form");
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const typing = focused?.matches("input") && focused.value !== focused.defaultValue && !wasSent(focused);
  const kept = focused && { id: focused.id, value: focused.value, selection: typing ? [focused.selectionStart, focused.selectionEnd] : null };
  const open = new Set([...old.querySelectorAll("details[open]")].map((group) => group.id));
  old.replaceChildren(...form.childNodes);
  // What was unfolded by hand stays so.
  for (const group of old.querySelectorAll("details")) group.open ||= open.has(group.id);
  const again = kept?.id && document.getElementById(kept.id);
  if (!again) return;
  again.focus({ preventScroll: true });
  if (typing) {
    again.value = kept.value;
    again.setSelectionRange(...kept.selection);
  }
}

const sentValues = new WeakMap();
const wasSent = (control) => sentValues.get(control) === control.value;

function say(message) {
  const line = document.createElement("span");
  line.className = "error";
  line.textContent = message;
  document.getElementById("verdict").replaceChildren(line);
}

function write(value) {
  text().value = value;
  ask();
}

editor.addEventListener("input", (event) => {
  if (event.target !== text()) return;
  edited ||= event.isTrusted;
  ask();
});
editor.addEventListener("change", (event) => {
  const control = event.target;
  if (control.id === "project") ask();
  else if (control.closest("#form") && control.name) {
    sentValues.set(control, control.value);
    ask({ name: control.name, value: control.value });
  }
});
editor.addEventListener("click", (event) => {
  const name = event.target.dataset.set;
  if (name) ask({ name, value: "" });
});
// What was just typed in the form is to be in the text that is submitted.
editor.addEventListener("submit", (event) => {
  submitWhenIdle = !isIdle();
  if (submitWhenIdle) event.preventDefault();
});
// Enter in a field takes its value into the text; it does not submit an experiment.
editor.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("#form input")) {
    event.preventDefault();
    event.target.dispatchEvent(new Event("change", { bubbles: true }));
  }
});

// Tab indents in the text, Escape gives Tab back.
text().addEventListener("keydown", (event) => {
  if (event.key === "Escape") tabLeaves = true;
  else if (event.key === "Tab" && !tabLeaves && !event.shiftKey) {
    event.preventDefault();
    text().setRangeText("  ", text().selectionStart, text().selectionEnd, "end");
    text().dispatchEvent(new Event("input", { bubbles: true }));
  }
});
text().addEventListener("blur", () => (tabLeaves = false));

document.querySelector("#example").addEventListener("change", (event) => {
  const source = document.getElementById(`example-${event.target.value}`);
  if (!source) return;
  if (edited && !confirm("Replace what you have written with this example?")) {
    event.target.value = "";
    return;
  }
  edited = false;
  write(JSON.parse(source.textContent));
});
