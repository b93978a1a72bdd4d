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

// The still picture of a slider is replaced at once, and not first when it has been loaded.
for (const still of document.querySelectorAll("img[data-slider], img[data-explorer]")) still.onload?.();

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

// What the site's search shows of a page is its text, without the theme's buttons.
if (typeof Search === "object") {
  const { htmlToText } = Search;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const article = page.querySelector("article.bd-article");
    if (article) page.querySelector("[role=main]").replaceChildren(article);
    return htmlToText(page.documentElement.outerHTML, anchor);
  };
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
