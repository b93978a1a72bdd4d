// Search the field guide: the symptoms and the mistakes that have most of the words that are typed.

const MOST = 30;
// Words that tell nothing of a mistake.
const EMPTY = new Set(
  ("a after all always am an and are as at be but by can do does down every few for gets gives has have i in is it its make makes " +
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

/** Whether an entry has a word, or one that begins so. */
const has = (list, word) => list.some((each) => each.startsWith(word));

/** How much a word tells: the fewer entries have it, the more; little if none has it. */
function weigh(wanted, entries) {
  return wanted.map((word) => {
    const count = entries.filter((entry) => has(entry.words.all, word)).length;
    return { word, weight: count ? Math.log((entries.length + 1) / count) : 1 };
  });
}

/** How much of what the words tell each entry has, in all and in its name. */
function fits(entries, weighed) {
  const sum = (list) => weighed.reduce((total, { word, weight }) => total + (has(list, word) ? weight : 0), 0);
  return entries.map((entry) => ({ entry, all: sum(entry.words.all), name: sum(entry.words.name) }));
}

const wholeOf = (weighed) => weighed.reduce((total, { weight }) => total + weight, 0);

/** The mistakes that fit best, if that is half of what the words tell or more; names count more than texts. */
function mistakesFor(mistakes, weighed) {
  const found = fits(mistakes, weighed);
  const best = Math.max(...found.map(({ all }) => all)), whole = wholeOf(weighed);
  const fitting = found.filter(({ all }) => all > best - 1e-9 && best > 0 && best >= whole / 2);
  fitting.sort((one, other) => other.name - one.name);
  return { found: fitting.map(({ entry }) => entry), share: best / whole };
}

/** The symptoms that fit half, and those one of whose phrases is in what is typed; the best first. */
function symptomsFor(symptoms, wanted, weighed) {
  const isTyped = (phrase) => phrase.length > 0 && phrase.every((word) => wanted.includes(word));
  const whole = wholeOf(weighed);
  const found = fits(symptoms, weighed)
    .map((fit) => ({ ...fit, said: fit.entry.phrases.some(isTyped) }))
    .filter(({ all, said }) => said || (all > 0 && all >= whole / 2))
    .sort((one, other) => other.all - one.all);
  const share = found.length ? Math.max(found[0].all / whole, found[0].said ? 0.8 : 0) : 0;
  return { found: found.map(({ entry }) => entry), share };
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
  const beneath = document.createElement("p");
  beneath.textContent = (entry.effect ?? `Perhaps: ${entry.likely}.`).replaceAll("`", "");
  line.append(beneath);
  return line;
}

function show(box, guide, text) {
  const wanted = asked(text);
  const weighed = weigh(wanted, [...guide.symptoms, ...guide.mistakes]);
  const symptoms = symptomsFor(guide.symptoms, wanted, weighed);
  const mistakes = mistakesFor(guide.mistakes, weighed);
  // Who names a mistake wants the mistake; who tells what is seen, the symptom.
  const groups = mistakes.share > symptoms.share ? [mistakes, symptoms] : [symptoms, mistakes];
  const found = groups.flatMap((group) => group.found);
  box.querySelector(".symptoms-count").textContent = wanted.length ? told(symptoms, mistakes) : "";
  box.querySelector(".symptoms-found").replaceChildren(...found.slice(0, MOST).map(item));
}

/** What was found, in words. */
function told({ found: symptoms }, { found: mistakes, share }) {
  if (!symptoms.length && !mistakes.length) {
    return "Nothing has most of these words. Try fewer, or others; or ask your model itself, with the diagnostics.";
  }
  const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
  const some = mistakes.length && share < 1 ? " No mistake has all your words; these have most." : "";
  const more = symptoms.length + mistakes.length > MOST ? ` The first ${MOST} are shown.` : "";
  return `${count(symptoms.length, "symptom")} and ${count(mistakes.length, "mistake")}.${some}${more}`;
}

/** A guide whose entries have their words beside them. */
async function loaded(address) {
  const guide = await (await fetch(address)).json();
  for (const entry of [...guide.symptoms, ...guide.mistakes]) {
    const name = words(entry.name);
    const others = [entry.words, entry.effect, entry.cure, entry.exercise].filter(Boolean).join(" ");
    if (entry.words) entry.phrases = [entry.name, ...entry.words.split(",")].map(asked);
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
