// The new-experiment page: Tab indents in the editor, Escape gives Tab back; an example can replace the text, and asks first when it was edited.

const editor = document.querySelector("#document");
let tabLeaves = false;
let edited = false;

editor.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tabLeaves = true;
  else if (event.key === "Tab" && !tabLeaves && !event.shiftKey) {
    event.preventDefault();
    editor.setRangeText("  ", editor.selectionStart, editor.selectionEnd, "end");
    editor.dispatchEvent(new Event("input", { bubbles: true }));
  }
});
editor.addEventListener("input", (event) => (edited ||= event.isTrusted));
editor.addEventListener("blur", () => (tabLeaves = false));

document.querySelector("#example").addEventListener("change", (event) => {
  const source = document.getElementById(`example-${event.target.value}`);
  if (!source) return;
  if (edited && !confirm("Replace what you have written with this example?")) {
    event.target.value = "";
    return;
  }
  edited = false;
  editor.value = JSON.parse(source.textContent);
  editor.dispatchEvent(new Event("input", { bubbles: true }));
});
