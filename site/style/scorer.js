// How the site's search weighs what it finds: as Sphinx does, but a lesson stands before what only mentions a word.
const LESSON = 8;

var Scorer = {
  score: ([page, , , , score]) => score + (page.startsWith("lessons/") ? LESSON : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
