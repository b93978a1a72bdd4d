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
    remarks.push(`It has ${text.length.toLocaleString("en")} characters; the first ${MOST_CHARACTERS} are read.`);
    text = text.slice(0, MOST_CHARACTERS);
  }
  return { text, remarks };
}

/** What a piece of a word is, where the tokens have one. */
export function pieces(tokens) {
  const piece = tokens.find((token) => token.startsWith("##"));
  return piece ? `${piece} continues the word before it: a word that the vocabulary lacks is cut into pieces.` : "";
}

/** Why there is nothing to compute, or null. */
export function missing(text) {
  return text.trim() ? null : "Type at least one word. The maps are still those of the last text.";
}

/** What the tokenizer made of a text. cut: {tokens, left} */
export function remarks({ tokens, left }) {
  const said = [];
  const words = tokens.slice(1, -1);
  const unknown = words.filter((token) => token === "[UNK]").length;
  const ideographs = words.filter((token) => /^\p{Script=Han}$/u.test(token)).length;
  const pieces = words.filter((token) => token.startsWith("##")).length;
  if (left) {
    said.push(
      `It has ${tokens.length + left} tokens; only the first ${words.length} words and pieces are used, ` +
        "since a larger map cannot be read.",
    );
  }
  if (!words.length) said.push("Nothing of it is left for the model but [CLS] and [SEP].");
  if (unknown) {
    said.push(
      `${unknown} of ${words.length} tokens ${unknown === 1 ? "is" : "are"} [UNK]: the model's vocabulary, mostly ` +
        "English, does not have them, so all of them look the same to it.",
    );
  }
  if (ideographs) said.push("Chinese characters are cut one by one; the model learnt from English texts.");
  else if (pieces > words.length / 2) {
    said.push("Most words are cut into pieces: the model learnt from English texts.");
  }
  return said;
}
