// What to look for first: texts, a head, and what is taken away.

const BOY = "The boy saw the bear before the bear saw the boy.";

export const TRIES = [
  { name: "A word looks at its twin", texts: [BOY], layer: 2, head: 9 },
  { name: "A head looks at the token before", texts: [BOY], layer: 0, head: 2 },
  { name: "Take the positions away: the diagonal is lost", texts: [BOY], layer: 0, head: 2, positions: false },
  {
    name: "Without positions, who bit whom?",
    texts: ["The dog bit the man.", "The man bit the dog."],
    layer: 0,
    head: 2,
    positions: false,
  },
  {
    name: "Without the mask, words look at padding",
    texts: ["Snow fell.", "Snow fell on the quiet town all night."],
    layer: 3,
    head: 11,
    mask: false,
  },
];
