// What to look for first: texts, a head, a token, and what is taken away. The first is the stored example.

const CAT = "The old cat met the young cat.";
const BOY = "The boy saw the bear before the bear saw the boy.";
const DOGS = ["The dog bit the man.", "The man bit the dog."];
const SNOW = ["Snow fell.", "Snow fell on the quiet town all night."];

export const TRIES = [
  { name: "An adjective finds its noun", texts: [CAT], layer: 2, head: 8, token: 2, step: 5 },
  { name: "A word looks at its twin", texts: [BOY], layer: 2, head: 9, token: 3, step: 5 },
  { name: "The token before, without positions", texts: [BOY], layer: 0, head: 2, token: 3, step: 5, positions: false },
  { name: "Who bit whom, without positions?", texts: DOGS, layer: 0, head: 2, token: 2, step: 5, positions: false },
  { name: "Without the mask, words look at padding", texts: SNOW, layer: 3, head: 11, token: 1, step: 5, mask: false },
];
