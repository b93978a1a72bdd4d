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

// On a phone a picture is small: the one that a slider shows can be opened alone, as other pictures can.
for (const slider of document.querySelectorAll("figure.drawn .stops")) {
  const link = Object.assign(document.createElement("a"), { textContent: "Open this picture alone" });
  const point = () => (link.href = slider.querySelector("img").src);
  point();
  slider.addEventListener("input", point);
  slider.append(document.createElement("br"), link);
}

// The glossary can be filtered: by beginnings of words, and by a whole word if that is an abbreviation, such as LN.
const glossary = document.querySelector("dl.glossary");
if (glossary) {
  const terms = [...glossary.querySelectorAll(":scope > dt")].map((term) => [term, term.nextElementSibling]);
  const field = Object.assign(document.createElement("p"), { className: "filter" });
  field.innerHTML = '<label>Filter: <input type="search"></label> <output role="status"></output>';
  const [input, count] = [field.querySelector("input"), field.querySelector("output")];
  input.addEventListener("input", () => {
    const typed = input.value.trim().replace(/[^\p{L}\d]+/gu, "\\W+");
    const having = (end) => {
      const pattern = new RegExp(`(?<![\\p{L}\\d])${typed}${end}`, "iu");
      return terms.filter((entry) => pattern.test(entry.map((part) => part.textContent).join(" ")));
    };
    const whole = typed.length < 4 ? having("(?![\\p{L}\\d])") : [];
    const kept = new Set(whole.length ? whole : having(""));
    for (const entry of terms) for (const part of entry) part.hidden = !kept.has(entry);
    count.textContent = typed ? `${kept.size} of ${terms.length} terms` : "";
  });
  glossary.before(field);
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
