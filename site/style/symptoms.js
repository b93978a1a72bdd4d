// Search the field guide: symptoms first, then the mistakes whose texts have most of the words that are typed.

const MOST = 30;
// Words that tell nothing of a mistake.
const EMPTY = new Set(
  ("a all always am an and are as at be but by can do does down every for gets gives has have i in is it its make makes " +
    "me much my no not of on or so that the their them there they this time times to too up was when with you your").split(" "),
);

/** @param {string} text - Its words, in small letters, without the endings of English. */
function words(text) {
  const found = text.toLowerCase().match(/[\p{L}\p{N}√∞_]+/gu) ?? [];
  return found.map((word) => (word.length > 3 ? word.replace(/(ing|ed|es|s)$/, "") : word));
}

/** What is asked for; if there is nothing but empty words, these. */
function asked(text) {
  const full = (text.toLowerCase().match(/[\p{L}\p{N}√∞_]+/gu) ?? []).filter((word) => !EMPTY.has(word));
  return words(full.length ? full.join(" ") : text);
}

/** How many of the words an entry has, and how many of them in its name. */
function fit(entry, wanted) {
  const inName = wanted.filter((word) => entry.words.name.some((each) => each.startsWith(word))).length;
  const anywhere = wanted.filter((word) => entry.words.all.some((each) => each.startsWith(word))).length;
  return { entry, anywhere, inName };
}

/** The entries with most of the words, if that is at least half of them; names count more than texts. */
function bestOf(entries, wanted) {
  const fits = entries.map((entry) => fit(entry, wanted));
  const best = Math.max(...fits.map(({ anywhere }) => anywhere));
  const found = fits
    .filter(({ anywhere }) => anywhere === best && best > 0 && best >= wanted.length / 2)
    .sort((one, other) => other.inName - one.inName)
    .map(({ entry }) => entry);
  return { found, best };
}

function item(entry) {
  const line = document.createElement("li");
  const link = document.createElement("a");
  link.href = entry.page;
  link.textContent = entry.name.replaceAll("`", "");
  const where = document.createElement("span");
  where.className = "symptoms-where";
  where.textContent = entry.exercise ?? "symptom";
  line.append(link, " ", where);
  if (entry.effect) {
    const effect = document.createElement("p");
    effect.textContent = entry.effect.replaceAll("`", "");
    line.append(effect);
  }
  return line;
}

function show(box, guide, text) {
  const wanted = asked(text);
  const symptoms = bestOf(guide.symptoms, wanted);
  const mistakes = bestOf(guide.mistakes, wanted);
  // Who names a mistake wants the mistake; who tells what is seen, the symptom.
  const groups = mistakes.best > symptoms.best ? [mistakes, symptoms] : [symptoms, mistakes];
  const count = box.querySelector(".symptoms-count");
  count.textContent = wanted.length ? told(symptoms.found, mistakes, wanted, guide.mistakes.length) : "";
  const found = groups.flatMap((group) => group.found).slice(0, MOST);
  box.querySelector(".symptoms-found").replaceChildren(...found.map(item));
}

/** What was found, in words. */
function told(symptoms, { found: mistakes, best }, wanted, all) {
  if (!symptoms.length && !mistakes.length) {
    return "Nothing has most of these words. Try fewer, or others; or ask your model itself, with the diagnostics.";
  }
  const some = mistakes.length && best < wanted.length ? ` None has all ${wanted.length} words; these have ${best}.` : "";
  const known = symptoms.length ? `${symptoms.length} of the symptoms met most, and ` : "";
  const more = symptoms.length + mistakes.length > MOST ? ` The first ${MOST} are shown.` : "";
  return `${known}${mistakes.length} of ${all} mistakes.${some}${more}`;
}

/** A guide whose entries have their words beside them. */
async function loaded(address) {
  const guide = await (await fetch(address)).json();
  for (const entry of [...guide.symptoms, ...guide.mistakes]) {
    const name = words(entry.name);
    const others = [entry.words, entry.effect, entry.cure, entry.exercise].filter(Boolean).join(" ");
    entry.words = { name, all: [...name, ...words(others)] };
  }
  return guide;
}

function begin(box) {
  const field = box.querySelector("input");
  let loading;
  const answer = async () => {
    loading ??= loaded(box.dataset.entries);
    try {
      show(box, await loading, field.value);
    } catch {
      loading = undefined;
      box.querySelector(".symptoms-count").textContent =
        "The list of mistakes could not be loaded. Are you still online? Type on to try again.";
    }
  };
  field.addEventListener("input", answer);
  field.value = new URLSearchParams(location.search).get("symptom") ?? "";
  if (field.value) answer();
}

document.querySelectorAll(".symptoms").forEach(begin);

// On the page of the site's own search: whoever looks for a mistake is better served here.
const query = new URLSearchParams(location.search).get("q");
const results = document.getElementById("search-results");
if (results && query) {
  const hint = document.createElement("p");
  const link = document.createElement("a");
  link.href = `field_guide/index.html?${new URLSearchParams({ symptom: query })}`;
  link.textContent = `Looking for a mistake? Search the field guide by symptom: ${query}`;
  hint.append(link);
  results.before(hint);
}
