// Remarks on a text that somebody typed.

const MOST_CHARACTERS = 4000;

/** The text as the tokenizer can take it, and what had to be done to it. */
export function tidy(text) {
  const remarks = [];
  if (text.isWellFormed && !text.isWellFormed()) {
    text = text.toWellFormed();
    remarks.push("It contained half a character, which was replaced by �.");
  }
  if (text.length > MOST_CHARACTERS) {
    const [characters, most] = [text.length, MOST_CHARACTERS].map((count) => count.toLocaleString("en"));
    remarks.push(`It has ${characters} characters; only the first ${most} are used.`);
  }
  return { text: text.slice(0, MOST_CHARACTERS), remarks };
}

/** What a piece of a word is, where the tokens have one. */
export function pieces(tokens) {
  const piece = tokens.find((token) => token.startsWith("##")), rule = "continues the word before it";
  return piece ? `${piece} ${rule}: words that aren't in the vocabulary are split into pieces.` : "";
}

/** Why there is nothing to compute, or null. */
export function missing(text) {
  return text.trim() ? null : "Type at least one word. The attention maps still show the last text.";
}

/** What the tokenizer made of a text. cut: {tokens, left} */
export function remarks({ tokens, left }) {
  const words = tokens.slice(1, -1), count = (fits) => words.filter(fits).length;
  const unknown = count((token) => token === "[UNK]"), has = unknown === 1 ? "is" : "are";
  const ideographs = count((token) => /^\p{Script=Han}$/u.test(token));
  const areMostPieces = count((token) => token.startsWith("##")) > words.length / 2;
  const all = tokens.length + left, english = "the model was trained on English texts.";
  return [
    left && `It has ${all} tokens; only the first ${words.length} are used, because a larger map is unreadable.`,
    !words.length && "The tokenizer leaves nothing of it: the model gets only [CLS] and [SEP].",
    unknown && `${unknown} of ${words.length} tokens ${has} [UNK], which stands for everything that the mostly ` +
      "English vocabulary doesn't contain. The model can't tell such tokens apart.",
    ideographs && `Chinese characters are split one by one; ${english}`,
    !ideographs && areMostPieces && `Most words are split into pieces: ${english}`,
  ].filter(Boolean);
}
