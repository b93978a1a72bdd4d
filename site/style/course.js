// On every page: names, folds, paper.

// Names for screen readers that the theme leaves out, or that differ from what one sees.
for (const fold of document.querySelectorAll('summary[aria-label="Toggle hidden content"]')) {
  fold.removeAttribute("aria-label"); // it says what it hides
}
for (const button of document.querySelectorAll(".search-button-field")) button.removeAttribute("aria-label");
for (const expander of document.querySelectorAll(".bd-sidenav summary")) {
  const pages = expander.closest("li").querySelector("a").textContent.trim();
  expander.setAttribute("aria-label", `Pages of: ${pages}`);
}

// Whoever opens what came out behind a prediction reads the words about it, too.
for (const fold of document.querySelectorAll(".cell.tag_hide-output details.hide")) {
  const answer = fold.closest(".cell").nextElementSibling;
  if (answer?.matches("details.answer")) fold.addEventListener("toggle", () => (answer.open = fold.open));
}

// On paper nobody can open a fold: all are open there, but for hints and solutions.
let opened = [];
addEventListener("beforeprint", () => {
  const closed = [...document.querySelectorAll(".bd-article details:not([open])")];
  opened = closed.filter((fold) => !/hint|solution/i.test(fold.querySelector("summary").textContent));
  for (const fold of opened) fold.open = true;
});
addEventListener("afterprint", () => {
  for (const fold of opened) fold.open = false;
});
