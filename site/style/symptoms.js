// Search the field guide by symptom: every word that is typed must occur in a mistake's texts.

const MOST = 30;

/** @param {string} text - Its words, in small letters, without the endings of English. */
function words(text) {
  const found = text.toLowerCase().match(/[\p{L}\p{N}√∞_]+/gu) ?? [];
  return found.map((word) => (word.length > 4 ? word.replace(/(ing|ed|es|s)$/, "") : word));
}

/** How well a mistake fits: a word in its name counts four times as much as one in its texts; 0 if one is missing. */
function score(entry, wanted) {
  let sum = 0;
  for (const word of wanted) {
    const inName = entry.words.name.some((each) => each.startsWith(word));
    const inText = entry.words.text.some((each) => each.startsWith(word));
    if (!inName && !inText) return 0;
    sum += inName ? 4 : 1;
  }
  return sum;
}

function item(entry) {
  const line = document.createElement("li");
  const link = document.createElement("a");
  link.href = entry.page;
  link.textContent = entry.name.replaceAll("`", "");
  const where = document.createElement("span");
  where.className = "symptoms-where";
  where.textContent = entry.exercise;
  const effect = document.createElement("p");
  effect.textContent = entry.effect.replaceAll("`", "");
  line.append(link, " ", where, effect);
  return line;
}

function show(box, entries, text) {
  const wanted = words(text);
  const fitting = wanted.length
    ? entries
        .map((entry) => [score(entry, wanted), entry])
        .filter(([points]) => points > 0)
        .sort((one, other) => other[0] - one[0])
    : [];
  const count = box.querySelector(".symptoms-count");
  const more = fitting.length > MOST ? `, the first ${MOST} are shown` : "";
  count.textContent = wanted.length
    ? fitting.length
      ? `${fitting.length} of ${entries.length} mistakes fit${more}.`
      : "No mistake has all these words. Try fewer, or others."
    : "";
  box.querySelector(".symptoms-found").replaceChildren(...fitting.slice(0, MOST).map(([, entry]) => item(entry)));
}

async function begin(box) {
  const field = box.querySelector("input");
  let loading;
  const load = async () => {
    const entries = await (await fetch(box.dataset.entries)).json();
    for (const entry of entries) {
      entry.words = { name: words(entry.name), text: words(`${entry.effect} ${entry.cure} ${entry.exercise}`) };
    }
    return entries;
  };
  field.addEventListener("input", async () => {
    loading ??= load();
    try {
      show(box, await loading, field.value);
    } catch {
      loading = undefined;
      box.querySelector(".symptoms-count").textContent =
        "The list of mistakes could not be loaded. Are you still online? Type on to try again.";
    }
  });
}

document.querySelectorAll(".symptoms").forEach(begin);
