// The bug desk: from an error message or a description of a symptom to the entries of the field guide.

const GAP = "…"; // in PyTorch's messages: what differs from case to case
const LONGEST = 800; // letters that are searched for; what PyTorch says is looked for in all
const LEAST = 20; // so many are kept, however much better the first is
const ERROR = /^(?:E\s+|\[rank\d+\]:\s*)?(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Warning)\b(?!\s+Traceback)/;
// Words that say nothing about a mistake.
const EMPTY = new Set(
  `a after again all also although always am an and any are as at be because been being but by can code
    could did do does doing done each error even every exactly for from get gets getting give given
    gives giving got had has have having he hello help her here hi his how however i if in instead into
    is it its itself just let ll make makes making maybe me model models much must my need of often on
    or our own perhaps please quite rather re really runtimeerror seem seems she should simply so some
    somehow something still strange such than thank thanks that the their them then there these they
    thing things think this those though time to too transformer transformers try trying tried
    understand us use using ve very want was we weird were what when where whether which while who whole
    why will with would you your`.split(/\s+/),
);
// Synonyms; the first stands for all.
const ALIKE = [
  "√ sqrt root", "∞ inf infinity infinite", "−∞ neginf", "axis axes dim dims dimension", "type dtype",
  "exchanged swapped swap switched", "inverted flipped upside opposite",
  "forgotten forgot forget forgetting missing omitted", "wrong incorrect bad", "rotary rope",
  "√ scaling scale scaled unscaled", "causal autoregressive", "future ahead",
  "gradient gradients grad grads backprop", "buffer register_buffer", "softmax softmaxed", "nan nans",
  "norm layernorm normalisation normalization normalise normalize", "different differ differs differently",
  "number count", "parameter param params parameters", "text texts sentence sentences sequence sequences",
  "gpu gpus cuda", "gqa grouped", "lora adapter adapters", "query q", "key k", "value v",
  "order shuffle shuffled permuted permutation", "uniform flat", "skip residual",
  "learn learns learning", "over along across", "validation val", "training train trains trained",
  "padding pad pads padded filler", "layer layers block blocks", "batch batches minibatch",
  "nonsense gibberish garbage rubbish babble babbles salad", "huggingface hf hugging", "accuracy acc",
  "quantised quantized quantisation quantization", "change changes changed changing alters varies vary",
  "feedforward ffn mlp", "memory ram vram", "weight weights", "word words",
  "not don doesn didn isn aren hasn won", // what is left of “don't”
];
const FIRST = firsts(ALIKE);

/** From lines of words for one thing, what stands for each: the first of its line. */
export function firsts(lines, form = (word) => word) {
  return new Map(lines.flatMap((line) => line.split(" ").map((word, _, [first]) => [form(word), form(first)])));
}

/** Of a traceback, what its last error says; any other text as it is. */
export function message(text) {
  const lines = text.replace(/\x1b\[[\d;]*m/g, "").split("\n");
  const last = lines.findLastIndex((line) => ERROR.test(line.trim()));
  return (last < 0 ? lines : lines.slice(last)).join("\n").trim();
}

/** A message without what is the writer's own: numbers, shapes, addresses, paths, names in quotes. */
export function stripped(text) {
  const bare = text
    .replace(/torch\.Size\(\[[^\]]*\]\)|[[(][\d\s,x×*-]*[\])]/g, " ")
    .replace(/0x[\da-f]+|(?:[A-Za-z]:)?(?:[\\/][\w.~-]+){2,}/gi, " ");
  if (!ERROR.test(bare)) return bare;
  return bare.replace(/(["'`])[\w.]*[._\d][\w.]*\1/g, " ").replace(/\b\d+(?:x\d+|\.\d+)*\b/g, " ");
}

// Words that some write in two.
const PAIR = /\b(drop|feed|soft|multi|warm|fine|check|auto)[-\s]?(out|forward|max|head|up|tun|point|cast)/gi;

/** The words of a text: identifiers whole and in parts, −∞ as one. */
export function words(text) {
  const plain = text
    .replace(/[-−–]\s?(?:∞|inf(?:inity)?\b)/gi, " neginf ")
    .replace(/[√∞]/g, " $& ")
    .replace(PAIR, (_, one, two) => `${one}${two.toLowerCase()}`);
  const found = plain.match(/[\p{L}\p{N}_.√∞]+/gu) ?? [];
  return found.flatMap((word) => {
    if (/^[\d.]+$/.test(word)) return word;
    const parts = word.split(/[_.]+|(?<=[a-z])(?=[A-Z][a-z])/).filter(Boolean);
    return parts.length > 1 ? [word.replace(/^\.+|\.+$/g, ""), ...parts] : parts;
  });
}

/** One form for the forms of a word; nothing for an empty one. */
export function form(word) {
  const small = word.toLowerCase();
  if (EMPTY.has(small) || (/^[a-z]$/.test(small) && !FIRST.has(small))) return null;
  if (FIRST.has(small)) return FIRST.get(small);
  const long = small.length > 4;
  const stem = long ? small.replace(/([^su])s$/, "$1").replace(/(?<=.{4})(?:ing|ed)$/, "") : small;
  return FIRST.get(stem) ?? stem;
}

/** Whether a message contains what PyTorch says, whatever is in the gaps. */
function says(message, template) {
  let from = 0;
  return template.split(GAP).every((piece) => {
    const at = message.indexOf(piece, from);
    from = at + piece.length;
    return at >= 0;
  });
}

const flat = (text) => text.toLowerCase().replaceAll(/\s+/g, " ").replaceAll(/[’‘]/g, "'");

/**
 * What finds entries for a text, the best first.
 * @param {typeof import("minisearch").default} MiniSearch
 * @param {object[]} entries - Of the field guide, symptoms first.
 * @returns {Promise<(text: string, byMeaning?: {index: number, cosine: number}[]) => object[]>}
 */
export async function desk(MiniSearch, entries) {
  const index = new MiniSearch({
    fields: ["name", "words", "errors", "effect", "cure", "exercise"],
    tokenize: words,
    processTerm: form,
    extractField: (entry, field) => (Array.isArray(entry[field]) ? entry[field].join("\n") : entry[field]),
    searchOptions: {
      boost: { name: 4, words: 2, errors: 2, effect: 1, cure: 0.5, exercise: 0.5 },
      prefix: (term) => term.length > 3,
      fuzzy: (term) => term.length > 4 && (term.length > 6 ? 2 : 1),
      boostTerm: (term) => (/^\d/.test(term) ? 0.3 : 1),
      boostDocument: (id) => (entries[id].exercise || entries[id].errors.length ? 1 : 1.25),
      bm25: { k: 1.2, b: 0.7, d: 0 }, // d 0: a word in a long list of words counts no more than elsewhere
    },
  });
  await index.addAllAsync(entries.map((entry, id) => ({ ...entry, id })));
  return (text, byMeaning = []) => {
    const said = message(text);
    const byName = new Map(); // mistakes of one name in several exercises are told once
    const add = (id, points) => {
      const { score, all } = byName.get(entries[id].name) ?? { score: 0, all: new Set() };
      byName.set(entries[id].name, { score: score + points, all: all.add(id) });
    };
    const fuse = (ids, weight) => {
      const names = new Set();
      for (const id of ids) {
        const { name } = entries[id];
        add(id, names.has(name) ? 0 : weight / (2 + names.add(name).size));
      }
    };
    // Two orders become one by their places (reciprocal rank fusion): what is near by meaning alone comes
    // after the first three by words, and lifts what both find. PyTorch's own words go before all.
    const found = index.search(stripped(said).slice(0, LONGEST));
    const good = found.filter(({ score }, place) => place < LEAST || score > found[0].score / 4);
    fuse(good.map(({ id }) => id), 1);
    fuse(byMeaning.map((each) => each.index), 0.49);
    const plain = flat(said);
    entries.forEach(({ name, errors = [] }, id) => {
      const fitting = errors.filter((each) => says(plain, flat(each)));
      if (plain === flat(name)) fitting.push(name);
      if (fitting.length) add(id, Math.max(...fitting.map((each) => each.length)));
    });
    return [...byName.values()]
      .sort((one, other) => other.score - one.score)
      .map(({ all }) => [...all].sort((one, other) => one - other).map((id) => entries[id]))
      .map(([first, ...others]) => ({ ...first, others }));
  };
}
