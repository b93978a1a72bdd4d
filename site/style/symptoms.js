// The bug desk of the field guide: a field, and what is found; what searches is loaded when it is used.

const MOST = 30;

function element(name, text, properties = {}) {
  const textContent = text.replaceAll("`", "");
  return Object.assign(document.createElement(name), { textContent, ...properties });
}

/** A mistake's exercises, or that it is a symptom. */
function where(entry) {
  if (!entry.exercise) return [element("span", "symptom")];
  const others = entry.others.map(({ exercise, page }) => element("a", exercise.split(" ")[0], { href: page }));
  return [element("span", entry.exercise), ...others];
}

function item(entry) {
  const line = document.createElement("li");
  const places = element("span", "", { className: "symptoms-where" });
  places.append(...where(entry).flatMap((place, number) => (number ? [", ", place] : [place])));
  line.append(element("a", entry.name, { href: entry.page }), " ", places, element("p", entry.effect));
  return line;
}

/** The search; a failed import is asked for under a new name, since browsers remember it. */
async function loaded(address, failures) {
  const again = failures ? `?${failures}` : "";
  const [{ desk }, { default: MiniSearch }, { entries }] = await Promise.all([
    import(`./desk.js${again}`),
    import(`./minisearch.js${again}`),
    fetch(address).then((answer) => answer.json()),
  ]);
  return desk(MiniSearch, entries);
}

/**
 * A button that adds the search by meaning, with its size. `data-meaning` on the box is the address of a module with
 * `rankByMeaning(text) → Promise<{index, cosine}[]>`, best first, and `megabytes()`, of what that loads.
 */
async function offerMeaning(box, answer) {
  const { rankByMeaning, megabytes } = await import(new URL(box.dataset.meaning, document.baseURI));
  const button = element("button", `Also search by meaning (${await megabytes()} MB, once)`, { type: "button" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await rankByMeaning("ready?");
      button.remove();
      answer(rankByMeaning);
    } catch {
      button.disabled = false;
      button.textContent = "The model could not be loaded. Try again";
    }
  });
  box.querySelector("textarea").after(button);
}

function begin(box) {
  const field = box.querySelector("textarea"), count = box.querySelector(".symptoms-count");
  let search, rankByMeaning;
  let failures = 0;
  const show = (found) => {
    box.querySelector(".symptoms-found").replaceChildren(...found.slice(0, MOST).map(item));
    const nothing = "Nothing contains these words. Try other words, or examine your model with the diagnostics.";
    const some = `${Math.min(found.length, MOST)} found, best match first.`;
    count.textContent = !field.value.trim() ? "" : found.length ? some : nothing;
  };
  const answer = async () => {
    const text = field.value;
    try {
      const find = await (search ??= loaded(box.dataset.entries, failures));
      if (text === field.value) show(find(text));
      const near = text.trim() && (await rankByMeaning?.(text));
      if (near && text === field.value) show(find(text, near));
    } catch {
      search = undefined;
      failures += 1;
      count.textContent = "The search could not be loaded. Are you online? Keep typing to try again.";
    }
  };
  field.addEventListener("input", answer);
  const offer = () => offerMeaning(box, (rank) => ((rankByMeaning = rank), answer())).catch(() => {});
  field.addEventListener("focus", offer, { once: true });
  field.value = new URLSearchParams(location.search).get("symptom") ?? "";
  box.hidden = false; // without a script there is no field
  if (field.value) answer();
}

document.querySelectorAll(".symptoms").forEach(begin);
