// The admin's boxes that search as one types: each is named by the label of the field that it stands for.

function nameBoxes() {
  for (const select of document.querySelectorAll("select.admin-autocomplete")) {
    const label = document.querySelector(`label[for="${select.id}"]`)?.textContent.trim().replace(/:$/, "") ?? select.name;
    const box = select.parentElement.querySelector(".select2-selection");
    for (const part of box ? [box, ...box.querySelectorAll("[role]")] : []) {
      part.removeAttribute("aria-labelledby");
      part.setAttribute("aria-label", label);
    }
  }
}

// They are made once the document is ready, by scripts that ran before this one; pages without a form load none.
globalThis.django?.jQuery(nameBoxes);
