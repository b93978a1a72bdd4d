// Search the field guide by symptom: of the mistakes those whose texts have most of the words that are typed.

const MOST = 30;
// Words that tell nothing of a mistake.
const EMPTY = new Set("a an and are as at be but by do does for i in is it its my no not of on or that the to with".split(" "));

/** @param {string} text - Its words, in small letters, without the endings of English. */
function words(text) {
  const found = text.toLowerCase().match(/[\p{L}\p{N}√∞_]+/gu) ?? [];
  return found.map((word) => (word.length > 3 ? word.replace(/(ing|ed|es|s)$/, "") : word));
}

/** What is asked for; if there is nothing but empty words, these. */
function asked(text) {
  const full = words(text).filter((word) => !EMPTY.has(word));
  return full.length ? full : words(text);
}

/** How many of the words a mistake has, and how many of them in its name. */
function fit(entry, wanted) {
  const inName = wanted.filter((word) => entry.words.name.some((each) => each.startsWith(word))).length;
  const anywhere = wanted.filter((word) => entry.words.all.some((each) => each.startsWith(word))).length;
  return { entry, anywhere, inName };
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
  const wanted = asked(text);
  const fits = entries.map((entry) => fit(entry, wanted));
  const best = Math.max(...fits.map(({ anywhere }) => anywhere));
  const found = fits
    .filter(({ anywhere }) => anywhere && anywhere === best)
    .sort((one, other) => other.inName - one.inName)
    .map(({ entry }) => entry);
  box.querySelector(".symptoms-count").textContent = wanted.length ? told(found, entries, best, wanted) : "";
  box.querySelector(".symptoms-found").replaceChildren(...found.slice(0, MOST).map(item));
}

/** What was found, in words. */
function told(found, entries, best, wanted) {
  if (!found.length) return "No mistake has any of these words. Try others.";
  const some = best < wanted.length ? ` None has all ${wanted.length} words; these have ${best}.` : "";
  const more = found.length > MOST ? ` The first ${MOST} are shown.` : "";
  return `${found.length} of ${entries.length} mistakes.${some}${more}`;
}

async function begin(box) {
  const field = box.querySelector("input");
  let loading;
  const load = async () => {
    const entries = await (await fetch(box.dataset.entries)).json();
    for (const entry of entries) {
      const name = words(entry.name);
      entry.words = { name, all: [...name, ...words(`${entry.effect} ${entry.cure} ${entry.exercise}`)] };
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
