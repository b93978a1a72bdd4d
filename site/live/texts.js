// What there is to say about a text, in words.

const MOST_CHARACTERS = 4000;

/** The text as the tokenizer can take it, and what had to be done to it. */
export function tidy(text) {
  const remarks = [];
  if (text.isWellFormed && !text.isWellFormed()) {
    text = text.toWellFormed();
    remarks.push("It held half a character, which is replaced by �.");
  }
  if (text.length > MOST_CHARACTERS) {
    const characters = text.length.toLocaleString("en");
    remarks.push(`It has ${characters} characters; the first ${MOST_CHARACTERS} are read.`);
  }
  return { text: text.slice(0, MOST_CHARACTERS), remarks };
}

/** What a piece of a word is, where the tokens have one. */
export function pieces(tokens) {
  const piece = tokens.find((token) => token.startsWith("##")), rule = "continues the word before it";
  return piece ? `${piece} ${rule}: a word that the vocabulary lacks is cut into pieces.` : "";
}

/** Why there is nothing to compute, or null. */
export function missing(text) {
  return text.trim() ? null : "Type at least one word. The maps are still those of the last text.";
}

/** What the tokenizer made of a text. cut: {tokens, left} */
export function remarks({ tokens, left }) {
  const words = tokens.slice(1, -1), count = (fits) => words.filter(fits).length;
  const unknown = count((token) => token === "[UNK]"), has = unknown === 1 ? "is" : "are";
  const ideographs = count((token) => /^\p{Script=Han}$/u.test(token));
  const areMostPieces = count((token) => token.startsWith("##")) > words.length / 2;
  const all = tokens.length + left, english = "the model learnt from English texts.";
  return [
    left && `It has ${all} tokens; only the first ${words.length} are used: a larger map cannot be read.`,
    !words.length && "Nothing of it is left for the model but [CLS] and [SEP].",
    unknown && `${unknown} of ${words.length} tokens ${has} [UNK]: the model's vocabulary, mostly English, ` +
      "does not have them, so all of them look the same to it.",
    ideographs && `Chinese characters are cut one by one; ${english}`,
    !ideographs && areMostPieces && `Most words are cut into pieces: ${english}`,
  ].filter(Boolean);
}
