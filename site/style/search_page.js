// The page of the site's search: a field, and what is found.

const MOST = 20;
const field = document.querySelector(".bd-search-container input[type=search]");
const status = document.getElementById("search-status");
const list = document.getElementById("search-results");
const atDesk = document.getElementById("search-desk");

function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, properties);
}

function item({ href, page, title, begins }) {
  const line = document.createElement("li");
  line.append(element("a", title, { href }));
  if (page !== title) line.append(" ", element("span", page, { className: "symptoms-where" }));
  if (begins) line.append(element("p", begins));
  return line;
}

async function begin() {
  const [{ search }, { default: MiniSearch }, pages] = await Promise.all([
    import("./search.js"),
    import("./minisearch.js"),
    fetch(new URL("search.json", import.meta.url)).then((answer) => answer.json()),
  ]);
  const find = search(MiniSearch, pages);
  const show = () => {
    const query = field.value.trim();
    const found = find(query);
    list.replaceChildren(...found.slice(0, MOST).map(item));
    const shown = found.length > MOST ? `The ${MOST} best of ${found.length} matches.` : `${found.length} found, best match first.`;
    status.textContent = !query ? "" : found.length ? shown : "Nothing contains these words. Try others.";
    atDesk.hidden = !query;
    atDesk.querySelector("a").href = `field_guide/index.html?${new URLSearchParams({ symptom: query })}`;
    history.replaceState(null, "", query ? `?${new URLSearchParams({ q: query })}` : location.pathname);
  };
  field.addEventListener("input", show);
  field.form.addEventListener("submit", (event) => event.preventDefault());
  show();
}

field.value = new URLSearchParams(location.search).get("q") ?? "";
field.focus();
begin().catch(() => (status.textContent = "The search couldn’t be loaded. Are you online? Reload the page to try again."));
