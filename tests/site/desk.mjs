// Runs the bug desk without a browser: takes {entries, texts} as JSON, gives for each text what is found.
import { readFileSync } from "node:fs";
import MiniSearch from "../../site/node_modules/minisearch/dist/es/index.js";
import { desk, message, stripped, words } from "../../site/style/desk.js";

const { entries, texts } = JSON.parse(readFileSync(0, "utf8"));
const find = await desk(MiniSearch, entries);
const answers = texts.map(({ text, near = [] }) => ({
  found: find(text, near).map(({ name }) => name),
  message: message(text),
  stripped: stripped(message(text)).trim(),
  words: words(text),
}));
console.log(JSON.stringify(answers));
