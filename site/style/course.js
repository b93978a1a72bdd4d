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

// The pictures of a slider are loaded when somebody is about to move it.
for (const slider of document.querySelectorAll(".stops")) {
  const load = () => slider.querySelectorAll("img").forEach((frame) => (frame.loading = "eager"));
  for (const event of ["pointerover", "focusin"]) slider.addEventListener(event, load, { once: true });
}

// A reader who opens the result of a prediction reads the words about it, too.
const outputs = document.querySelectorAll(".cell.tag_hide-output details.hide");
for (const fold of outputs) {
  const answer = fold.closest(".cell").nextElementSibling;
  if (answer?.matches("details.answer")) fold.addEventListener("toggle", () => (answer.open = fold.open));
}

// A reader who does not predict can open all of them.
if (outputs.length) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "all-answers";
  const label = (open) => (button.textContent = open ? "Close all answers" : "Only reading? Open all answers");
  let open = false;
  label(open);
  button.addEventListener("click", () => {
    open = !open;
    for (const fold of outputs) fold.open = open;
    label(open);
  });
  document.querySelector(".run-this")?.after(button);
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
