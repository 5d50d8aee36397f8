// The new-experiment page: Tab indents in the editor, Escape gives Tab back; an example can replace the text.

const editor = document.querySelector("#document");
let tabLeaves = false;

editor.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tabLeaves = true;
  else if (event.key === "Tab" && !tabLeaves && !event.shiftKey) {
    event.preventDefault();
    editor.setRangeText("  ", editor.selectionStart, editor.selectionEnd, "end");
    editor.dispatchEvent(new Event("input", { bubbles: true }));
  }
});
editor.addEventListener("blur", () => (tabLeaves = false));

document.querySelector("#example").addEventListener("change", (event) => {
  const source = document.getElementById(`example-${event.target.value}`);
  if (!source) return;
  editor.value = JSON.parse(source.textContent);
  editor.dispatchEvent(new Event("input", { bubbles: true }));
});
