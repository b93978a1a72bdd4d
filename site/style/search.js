// The site's search: sections, terms of the glossary, mistakes, symptoms and names of the reference.
import { firsts, form, words } from "./desk.js";

const WEIGHTS = { title: 3, terms: 2, page: 0.4, begins: 1.1, words: 0.8 };
// How much an entry counts beside another with the same words.
const KINDS = { lessons: 1, glossary: 1, reference: 0.4, field_guide: 0.4 };
const OTHERS = 0.8;
// How much more an entry counts if the query has all words of its title, or is its title.
const NAMED = 0.3;
const EXACT = 3;
// Words that learners use for one thing; the first stands for all. The desk's own come before these.
const ALIKE = [
  "dead dying", "tying tied tie", "similar identical alike same", "cost complexity quadratic flop expensive",
  "several multiple many multi", "wide wider width", "divide divisible division", "speed slow fast faster",
  "extrapolation extrapolate extension extend longer", "add sum added addition", "concatenate concat concatenated",
  "remove removed removing prune pruned pruning ablate ablation", "parallel distributed ddp",
  "compare versus vs comparison", "sine sin sines sinusoid sinusoidal", "cosine cos cosines",
  "time timing timed benchmark", "formula equation", "install installation setup", "count number",
];
const FIRST = firsts(ALIKE, form);

/** The words of a text; tf-idf is one. */
const tokenize = (text) => words(text.replaceAll(/tf-idf/gi, "tfidf"));

/** One form for the forms of a word and its synonyms; nothing for a word that says nothing. */
function term(word) {
  const one = form(word);
  return FIRST.get(one) ?? one;
}

/** The anchor of most titles, which isn't stored; search_index.py has the same rule. */
const slug = (title) => title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-|-$/g, "");

/** What can be found on the pages of the index: [address, title, [[title, anchor, terms, begins, words], …]]. */
function entries(pages) {
  return pages.flatMap(([address, page, units]) =>
    units.map(([title, anchor, terms, begins, words]) => {
      const kind = address.split(/[./]/)[0];
      return { href: `${address}#${anchor || slug(title)}`, page, title, terms, begins, words, kind };
    }),
  );
}

/**
 * What finds entries for a query, the best first.
 * @param {typeof import("minisearch").default} MiniSearch
 * @param {Array} pages - As search_index.py writes them.
 * @returns {(query: string) => {href: string, page: string, title: string, begins?: string}[]}
 */
export function search(MiniSearch, pages) {
  const all = entries(pages);
  const index = new MiniSearch({
    fields: Object.keys(WEIGHTS),
    tokenize,
    processTerm: term,
    searchOptions: {
      boost: WEIGHTS,
      prefix: (term) => term.length > 3,
      fuzzy: (term) => (term.length > 4 ? 1 : false),
      boostDocument: (id) => KINDS[all[id].kind] ?? OTHERS,
      bm25: { k: 2, b: 0.1, d: 0 },
    },
  });
  index.addAll(all.map((entry, id) => ({ ...entry, id })));
  const terms = (text) => new Set(tokenize(text).map(term).filter(Boolean));
  const names = all.map(({ title }) => title.split(/[,(]/).map(terms).filter(({ size }) => size));
  return (query) => {
    const asked = terms(query);
    const bonus = (name) => {
      const share = [...name].filter((word) => asked.has(word)).length / name.size;
      return share === 1 && name.size === asked.size ? EXACT : share * NAMED;
    };
    return index
      .search(query)
      .map(({ id, score }) => ({ id, score: score * (1 + Math.max(0, ...names[id].map(bonus))) }))
      .sort((one, other) => other.score - one.score)
      .map(({ id }) => all[id]);
  };
}
