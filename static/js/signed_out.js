// A part of the page that is answered by a redirect is answered by the page for signing in: go there as a whole.

document.addEventListener("htmx:before:response", (event) => {
  if (!event.detail.ctx.response.raw.redirected) return;
  event.preventDefault();
  window.location.reload();
});
